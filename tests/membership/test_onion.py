"""The onion: who is removed, what that does to the others, and what the audit tells of it."""

import numpy as np
import pyarrow.parquet as pq
import pytest
from model_audits import audited, valid
from simulated import paired, shadows, signals
from sklearn.linear_model import LogisticRegression

from lethe.data.dataset import subset
from lethe.data.shipped import digits
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.membership.by_hand import chunks_of
from lethe.membership.candidates import measure
from lethe.membership.onion import compared, onion, to_remove
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE
from lethe.training.folder import SettledRun
from lethe.training.recipe import SklearnRecipe

pytestmark = pytest.mark.usefixtures("unplanted", "measured_here")

LINEAR = SklearnRecipe(LogisticRegression(max_iter=300, C=30.0, tol=0.01))


def test_removing_the_top_brings_others_to_the_surface() -> None:
    members = paired(64, 400, 5)
    gap = np.where(np.arange(400) < 4, 6.0, 0.0)
    before = shadows(members, signals(members, 5, gap))
    gone = to_remove(before)
    assert gone.tolist() == [0, 1, 2, 3]
    risen = np.where(np.isin(np.arange(400), range(4, 24)), 4.0, 0.0)
    stayed, change, newly = compared(before, shadows(members, signals(members, 6, risen)), gone)
    assert stayed.records == 396 and 15 <= newly <= 24
    assert isinstance(change, Estimate) and change.low > 0
    again = to_remove(shadows(members, signals(members, 6, risen)), gone=gone)
    assert set(gone) < set(again) and len(again) == 8 and again.max() < 24


def test_where_removal_does_nothing_nobody_is_said_to_rise() -> None:
    """The removed are those that chance made look exposed; the others must not seem to follow."""
    claimed, named = [], 0
    for seed in range(40):
        members = paired(16, 80, seed)
        before = shadows(members, signals(members, 2 * seed, 0.5))
        after = shadows(members, signals(members, 2 * seed + 1, 0.5))
        _, change, newly = compared(before, after, to_remove(before, 0.2))
        claimed.append(change.low > 0)
        named += newly > 0
    assert np.mean(claimed) <= 0.1 and named <= 6  # 2.5 % and 5 % are meant


def test_whole_persons_are_removed_and_too_little_is_refused() -> None:
    people = np.repeat(np.arange(40), 5)
    members = paired(16, 40, 1)[:, people]
    gap = np.where(np.arange(200) == 17, 9.0, 0.0)
    made = shadows(members, signals(members, 1, gap), groups=people)
    assert to_remove(made, 0.005).tolist() == [15, 16, 17, 18, 19]
    with pytest.raises(InputError, match="at least 8"):
        to_remove(made.first(4))
    with pytest.raises(InputError, match="ask less"):
        to_remove(made, 0.99)
    with pytest.raises(InputError, match="same splits"):
        compared(made, made.first(8), np.array([1]))
    with pytest.raises(InputError, match="onion=1 needs at least 16 models"):
        AuditSettings(models=8, onion=1)
    with pytest.raises(InputError, match="onion=11 must be in"):
        AuditSettings(onion=11)


def test_rounds_go_on_from_where_the_last_one_ended() -> None:
    members = paired(32, 300, 2)
    gaps = [np.where(np.arange(300) // 3 == layer, 6.0, 0.0) for layer in range(3)]
    plain = shadows(members, signals(members, 0, gaps[0]))
    asked, pool = [], np.arange(400) >= 100

    def train(mitigation, weights):
        treatment = mitigation.treatment(weights, pool)
        assert treatment.remove and (treatment.weights == weights).all()
        asked.append((np.flatnonzero(weights == 0) - 100).tolist())
        return shadows(members, signals(members, len(asked), gaps[len(asked)]))

    settings = AuditSettings(models=32, onion=2, attack=("lira-online",))
    first, said = measure(plain, BASELINE, None, settings), []
    rounds, exposed = onion(first, settings, pool, train, 32, said.append)
    assert asked == [[0, 1, 2], [0, 1, 2, 3, 4, 5]] and len(said) == 2
    assert [(layer.removed, layer.stayed) for layer in rounds] == [(3, 297), (6, 294)]
    third = {row["round"] for row in exposed if row["id"] == plain.ids[3]}
    assert 1 in third and 2 not in third


def test_an_audit_tells_who_is_next_resumes_and_trains_by_hand(tmp_path) -> None:
    data, settings = (
        subset(digits(), 200, 0),
        AuditSettings(
            models=16, mitigations=("none",), attack=("lira-online",), onion=2, keep_records=True
        ),
    )
    said = []

    class Show:
        def models(self, done, total, what):
            said.append((done, total))

        def say(self, text):
            pass

    findings = audited(tmp_path / "run", data, LINEAR, settings, show=Show())
    assert said[-1] == (48, 48) and said == sorted(said)
    rounds = valid(findings)["candidates"][0]["onion"]
    assert [one["removed"] for one in rounds] == [2, 4]
    assert all(one["removed"] + one["stayed"] == 160 for one in rounds)
    rows = pq.read_table(tmp_path / "run" / "onion.parquet").to_pylist()
    assert [row["round"] for row in rows] == [0, 0, 1, 1, 2, 2]
    assert "Who is exposed next" in findings.report(tmp_path / "page.html").read_text()
    trained = sorted((tmp_path / "run" / "shadows").rglob("*.safetensors"))
    for number in (1, 2):
        jobs = chunks_of(SettledRun(tmp_path / "run"), data, LINEAR, settings, f"onion-{number}")
        assert all(job.finished() is not None for job in jobs)
    lost = next(path for path in trained if "onion-1" in str(path))
    lost.unlink()
    again = audited(tmp_path / "run", data, LINEAR, settings)
    assert again.to_bytes() == findings.to_bytes() and lost.exists()
