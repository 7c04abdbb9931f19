"""A failed self-check voids what it checks: headline, rule, frontier, `lethe check`."""

import dataclasses
import json

import numpy as np
import pytest
from simulated import audit, gaps, paired, shadows, signals

from lethe.cli import run as lethe
from lethe.errors import NotMeasurable
from lethe.evidence.estimate import Estimate, Refusal
from lethe.evidence.risk import risk_of
from lethe.membership import checks
from lethe.membership.audit import audit_scores
from lethe.membership.candidates import measure
from lethe.membership.document import evidence
from lethe.membership.measure import judged, run_attacks, strongest_metric
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import BASELINE

pytestmark = pytest.mark.usefixtures("no_page")

BOTH = AuditSettings(models=8, attack=("lira-online", "loss-threshold"), rule=("auc<=0.95",))


def failing(*names):
    """A null audit that fails for some attacks."""
    real = checks.null_audit

    def null_audit(made, attack, seed):
        found = real(made, attack, seed)
        return dataclasses.replace(found, status=checks.FAIL) if attack in names else found

    return null_audit


@pytest.fixture
def made():
    members = paired(8, 200, 1)
    return shadows(members, signals(members, 1, gaps(200, 1, 1.0)))


def test_an_attack_that_failed_its_null_audit_is_out_of_headline_gate_and_frontier(
    made, monkeypatch
):
    before = measure(made, BASELINE, None, BOTH)
    assert before.best == "lira-online"
    monkeypatch.setattr(checks, "null_audit", failing("lira-online"))
    after = measure(made, BASELINE, None, BOTH)
    assert after.best == "loss-threshold"
    assert "null audit" in after.results["lira-online"].failed
    alone = run_attacks(made, BOTH.attack)["loss-threshold"]
    for fpr in (None, 0.1):
        assert strongest_metric(after.results, fpr).low == alone.metric(fpr).low
    (rule,) = BOTH.rules()
    assert evidence(after, rule).high < evidence(before, rule).high
    document = audit_scores("x", made, BOTH).to_json()
    assert document["verdict"]["outcome"] == "not-enough-evidence"
    assert "leave lira-online out by name" in document["rules"][0]["reason"]
    candidate = document["candidates"][0]
    assert candidate["risk_from"]["attack"] == candidate["strongest_attack"] == "loss-threshold"
    assert [one["valid"] for one in candidate["risk_from"]["results"]] == [False, True]
    assert candidate["risk"]["high"] == pytest.approx(after.risk.high, abs=1e-8)


def test_with_no_attack_left_there_is_not_enough_evidence(made, monkeypatch, tmp_path, capsys):
    """Null audit failed, yet "meets every criterion", `--rule` and `lethe check` exit 0."""
    path = tmp_path / "scores.npz"
    np.savez(path, signals=made.signals, members=made.members)
    asked = ["audit", "scores", str(path), "--attack", "lira-online", "--quiet", "--out"]
    assert lethe([*asked, str(tmp_path / "fine"), "--rule", "auc<=0.9"]) == 0
    monkeypatch.setattr(checks, "null_audit", failing("lira-online"))
    for name, gate in (("ruled", ["--rule", "auc<=0.9"]), ("bare", [])):
        assert lethe([*asked, str(tmp_path / name), *gate]) == 3
        document = json.loads((tmp_path / name / "findings.json").read_text())
        assert document["verdict"]["outcome"] == "not-enough-evidence"
        assert "null audit" in document["candidates"][0]["risk"]["refused"]
        assert document["frontier"]["pareto"] == []
    assert lethe(["check", str(tmp_path / "fine")]) == 0
    for name in ("ruled", "bare"):
        capsys.readouterr()
        assert lethe(["check", str(tmp_path / name)]) == 3
        assert "no attack on baseline passed its self-checks" in capsys.readouterr().out
        # A rule that no attack bears on does not turn it into a pass.
        assert lethe(["check", str(tmp_path / name), "--rule", "auc<=1"]) == 3


def test_models_that_were_trained_otherwise_void_every_attack(made):
    right = np.random.default_rng(0).random((8, 400)) < 0.9
    right[3] = False
    odd = dataclasses.replace(
        made,
        population=signals(np.zeros((8, 400), bool)).astype(np.float32),
        population_correct=right,
    )
    found = measure(odd, BASELINE, None, BOTH)
    assert all("models 3 stand out" in result.failed for result in found.results.values())
    assert isinstance(found.risk, Refusal)
    document = audit_scores("x", odd, BOTH).to_json()
    assert document["verdict"]["outcome"] == "not-enough-evidence"


@pytest.mark.parametrize("records", [2, 19])
def test_two_records_give_no_rate(records, tmp_path):
    """They gave "AUC 100 % (100 to 100)"."""
    members = paired(16, records, 1)
    few = shadows(members, signals(members, 1, 9.0))
    with pytest.raises(NotMeasurable, match=f"records={records} is too few.*at least 20"):
        audit_scores("x", few, AuditSettings(attack=("lira-online",)))
    path = tmp_path / "scores.npz"
    np.savez(path, signals=few.signals, members=few.members)
    assert lethe(["audit", "scores", str(path), "--out", str(tmp_path / "run")]) == 3


def test_no_valid_attack_lies_above_the_risk():
    """The contract over the document of an audit: limits of all attacks hold at once."""
    document = audit_scores("x", audit(8, 150), AuditSettings(attack=("auto",))).to_json()
    for candidate in document["candidates"]:
        risk = candidate["risk"]
        for result in candidate["risk_from"]["results"]:
            assert result["valid"] and result["estimate"]["low"] <= risk["low"]
            assert result["estimate"]["high"] <= risk["high"]
        for shown in candidate["attacks"].values():
            assert shown["auc"]["low"] <= candidate["measures"]["auc"]["low"]
            assert shown["auc"]["high"] <= candidate["measures"]["auc"]["high"]
    results = run_attacks(audit(8, 150), ("lira-online", "loss-threshold"))
    wide = dataclasses.replace(
        results["loss-threshold"], auc=Estimate(0.5, 0.1, 1.0, 0.95, "made up", 9)
    )
    risk = risk_of(judged({**results, "loss-threshold": wide}, None))
    assert (risk.attack, risk.estimate.high, risk.doubt) == ("lira-online", 1.0, "loss-threshold")
