"""Scores from a file with targets of their own: one model to attack, others as references."""

import jsonschema
import numpy as np
import pytest
from simulated import gaps, paired, signals

from lethe.errors import InputError
from lethe.evidence.findings import schema
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.membership.audit import audit_scores
from lethe.membership.scoring import score
from lethe.membership.settings import AuditSettings
from lethe.training.shadows import Shadows, read_models

pytestmark = pytest.mark.usefixtures("no_page")

FEW = AuditSettings(attack=("lira-online", "loss-threshold"))
MODELS, RECORDS, HELD = 24, 600, 60


@pytest.fixture(scope="module")
def tables():
    """24 models on 600 records and 60 that none was trained on."""
    members = paired(MODELS, RECORDS, 3)
    phi = signals(members, 3, gaps(RECORDS, 3, 1.5))
    outside = np.random.default_rng(3).normal(size=(MODELS, HELD))
    return (
        np.concatenate([phi, outside], axis=1).astype(np.float32),
        np.concatenate([members, np.zeros((MODELS, HELD), bool)], axis=1),
    )


def wide(tmp_path, tables, targets):
    path = tmp_path / "scores.npz"
    np.savez(path, signals=tables[0], members=tables[1], targets=targets)
    return path


def test_one_target_and_its_references(tmp_path, tables):
    targets = np.zeros(MODELS, np.uint8)
    targets[5] = 1
    references, attacked = read_models(wide(tmp_path, tables, targets))
    assert (references.models, attacked.models, references.records) == (23, 1, RECORDS)
    assert references.population.shape == (23, HELD)
    assert "60 records are OUT of every model" in references.notes[0]
    document = audit_scores("mine", references, FEW, targets=attacked).to_json()
    jsonschema.validate(document, schema())
    found = document["candidates"][0]["attacks"]["lira-online"]
    table = score(references, ("lira-online",), targets=attacked)["lira-online"]
    assert found["auc"]["value"] == pytest.approx(auc(attacked.members, table))
    assert "of this one target" in found["auc"]["method"]
    assert found["tpr"]["0.1"]["value"] == pytest.approx(
        tpr_at_fpr(attacked.members, table, 0.1).tpr
    )
    assert "1 of the 24 models is the target" in " ".join(document["data"]["notes"])
    # Of one model and 300 non-members a rate of 1 % cannot be told.
    assert "refused" in found["tpr"]["0.01"]


def test_the_interval_of_one_target_covers_its_own_rate():
    """60 draws of one target's records: its AUC is covered by 95 % intervals."""
    from lethe.membership.measure import measure_scores

    rng, hit = np.random.default_rng(0), 0
    truth = 0.7602  # Phi(1/sqrt 2), scores N(1, 1) against N(0, 1)
    repetitions = 40
    for _ in range(repetitions):
        members = rng.random((1, 400)) < 0.5
        score = rng.normal(size=(1, 400)) + members
        target = Shadows(score.astype(np.float32), members, np.arange(400))
        found = measure_scores(
            target, ["x"], {"x": score}.__getitem__, np.ones((1, 400), bool), (0.1,)
        )["x"].auc
        hit += found.low <= truth <= found.high
    # Standard error of a share of 40 at 95 %: 3.4 points.
    assert hit / repetitions > 0.95 - 3 * 0.034


def test_many_targets_from_a_long_file(tmp_path, tables):
    signal, member = tables[0][:, :100], tables[1][:, :100]
    lines = ["model,record,signal,member,target"]
    for k in range(MODELS):
        for n in range(100):
            lines.append(f"m{k:02d},r{n},{signal[k, n]!r},{int(member[k, n])},{int(k >= 20)}")
    path = tmp_path / "long.csv"
    path.write_text("\n".join(lines).replace("np.float32(", "").replace(")", ""))
    references, attacked = read_models(path)
    assert (references.models, attacked.models, attacked.records) == (20, 4, 100)
    assert (attacked.members == member[20:]).all()


def test_unmarked_models_are_targets_in_turn(tmp_path, tables):
    references, attacked = read_models(wide(tmp_path, tables, np.zeros(MODELS, np.uint8)))
    assert attacked is None and references.models == MODELS


@pytest.mark.parametrize(
    ("targets", "says"),
    [
        (np.ones(MODELS), "24 models are targets, which leaves 0 as references; at least 4"),
        (np.arange(MODELS) >= 3, "21 models are targets, which leaves 3"),
        (np.full(MODELS, 2), "members are neither 0 nor 1"),
        (np.zeros(MODELS - 1), "targets must say 0 or 1 once for each of the 24 models"),
    ],
)
def test_odd_targets_are_refused(tmp_path, tables, targets, says):
    with pytest.raises(InputError, match=says):
        read_models(wide(tmp_path, tables, targets))


def test_a_model_cannot_be_a_target_on_some_records_only(tmp_path, tables):
    path = tmp_path / "long.csv"
    lines = ["model,record,signal,member,target"]
    lines += [f"m{k},r{n},0.{k}{n},{(k + n) % 2},{int(n == 1)}" for k in range(6) for n in range(4)]
    path.write_text("\n".join(lines))
    with pytest.raises(InputError, match="the same in all of its rows"):
        read_models(path)
