"""`lethe audit scores` on files with core records (in every model) and public ones (in none)."""

import json

import numpy as np
import pytest

from lethe.cli import run
from lethe.membership import checks

pytestmark = pytest.mark.usefixtures("no_page")

MODELS, RECORDS, CORE, PUBLIC = 8, 300, 40, 40
SIGNALS = {
    "continuous": lambda rng, shape: rng.normal(size=shape[1]) + rng.normal(size=shape),
    "0/1": lambda rng, shape: rng.integers(0, 2, shape).astype(float),
}


def null_scores(folder, kind, seed):
    """A file of signals that know nothing of membership, core and public records among them."""
    rng = np.random.default_rng([seed, 51])
    half = rng.permuted(np.arange(RECORDS)[None].repeat(MODELS // 2, 0) % 2 == 0, axis=1)
    members = np.empty((MODELS, CORE + RECORDS + PUBLIC), bool)
    members[:, :CORE], members[:, -PUBLIC:] = True, False
    members[::2, CORE:-PUBLIC], members[1::2, CORE:-PUBLIC] = half, ~half
    path = folder / "scores.npz"
    np.savez(path, signals=SIGNALS[kind](rng, members.shape), members=members)
    return path


@pytest.mark.parametrize("kind", SIGNALS)
def test_null_signals_beside_core_and_public_records_have_auc_half(kind, tmp_path, capsys):
    """Reported with AUC .93 to 1.000 on such files; now 0.5 within 4 errors for each attack."""
    path = null_scores(tmp_path, kind, 1)
    out = tmp_path / "run"
    asked = ["audit", "scores", str(path), "--attack", "auto", "--quiet", "--out", str(out)]
    assert run(asked) == 0
    document = json.loads((out / "findings.json").read_text())
    attacks = document["candidates"][0]["attacks"]
    assert {"lira-online", "rmia-offline", "learned-ratio", "loss-threshold"} <= set(attacks)
    # Of 8 models x 300 records; learned scores of one half of the records hang on the other.
    error = np.sqrt((2 * 1200 + 1) / (12 * 1200**2))
    for name, result in attacks.items():
        assert result["valid"], result["why"]
        slack = 4 * error * (2**0.5 if name == "learned-ratio" else 1)
        assert abs(result["auc"]["value"] - 0.5) <= slack, (name, result["auc"])
        assert result["auc"]["n"] == MODELS * RECORDS  # neither core nor public records count
    # A record that is right in half of the models, whoever they are, has no level of its own.
    code = run(["check", str(out), "--rule", "auc<=0.9"])
    assert code == (3 if kind == "0/1" else 0)


def test_a_leak_beside_core_records_fails_the_null_audit_and_exits_with_3(
    tmp_path, monkeypatch, capsys
):
    """Scores that hang on membership by another road than the signals, as counts once did."""
    real = checks.score

    def leaking(shadows, names, *more, **others):
        found = real(shadows, names, *more, **others)
        return {name: table + 2 * shadows.members for name, table in found.items()}

    path = null_scores(tmp_path, "continuous", 2)
    monkeypatch.setattr(checks, "score", leaking)
    made = [str(tmp_path / name) for name in ("bare", "ruled")]
    asked = ["audit", "scores", str(path), "--attack", "lira-online", "--quiet", "--out"]
    assert run([*asked, made[0]]) == 3
    assert run([*asked, made[1], "--rule", "auc<=0.9"]) == 3
    for out in made:
        document = json.loads((tmp_path / out / "findings.json").read_text())
        (check,) = [check for check in document["checks"] if check["name"] == "null audit"]
        assert check["status"] == "fail" and check["estimate"]["low"] > 0.5
        assert document["verdict"]["outcome"] == "not-enough-evidence"
        assert run(["check", out]) == 3
        assert run(["check", out, "--rule", "auc<=1"]) == 3
