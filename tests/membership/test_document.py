"""The findings of score files: valid, repeatable, honest about what was not measured."""

from dataclasses import replace

import numpy as np
import pytest
from model_audits import valid
from simulated import coins, gaps, nearly_balanced, paired, shadows, signals

from lethe.evidence.findings import Findings
from lethe.membership.attacks.registry import AUTO
from lethe.membership.audit import audit_scores
from lethe.membership.settings import AuditSettings
from lethe.training.shadows import Shadows, read_models

SETTINGS = AuditSettings(models=16)
FEW = AuditSettings(models=16, attack=("lira-online", "loss-threshold"))
"""Where something else than the attacks is tested: they take most of the time."""


def checked(findings):
    """The document, after the schema and JSON itself have been satisfied."""
    document = valid(findings)
    assert Findings.from_json(document).to_bytes() == findings.to_bytes()
    return document


@pytest.fixture(scope="module")
def made():
    members = paired(16, 300, 1)
    return shadows(members, signals(members, 1, gaps(300, 1)), labels=np.arange(300) % 3)


@pytest.fixture(scope="module")
def npz(made, tmp_path_factory):
    path = tmp_path_factory.mktemp("scores") / "scores.npz"
    np.savez(path, signals=made.signals, members=made.members, ids=made.ids, labels=made.labels)
    return path


@pytest.fixture(scope="module")
def few(made):
    """What two attacks find, judged by every rule of `GATES`."""
    return checked(audit_scores("x", made, replace(FEW, rule=tuple(GATES))))


@pytest.mark.usefixtures("unplanted_here")
def test_scores_file_end_to_end(npz):
    document = checked(audit_scores("mine", read_models(npz)[0], SETTINGS))
    assert document["subject"]["name"] == "mine"
    assert [one["name"] for one in document["candidates"]] == ["baseline"]
    found = document["candidates"][0]
    assert set(found["attacks"]) == set(AUTO) - {"rmia-offline", "lira-queries"}
    rates = found["attacks"]["lira-online"]["tpr"]
    assert 0.1 < rates["0.1"]["value"] < 0.9 and rates["0.01"]["low"] <= rates["0.01"]["value"]
    assert "non-members, got 2400" in rates["0.001"]["refused"]
    assert found["utility"]["value"] is None
    assert found["vulnerability"]["top_t"]["value"] > 0
    assert document["verdict"]["outcome"] == "not-tested"
    assert document["records"] == {"kept": False, "exposed": []}
    assert document["attacks_not_run"]


@pytest.mark.usefixtures("few", "unplanted_here")
def test_groups_widen_the_intervals(made, few):
    groups = np.arange(300) // 10
    grouped = Shadows(made.signals, made.members, made.ids, made.labels, groups)
    document = checked(audit_scores("x", grouped, FEW))
    assert document["data"]["people"] == 30 and document["data"]["records"] == 300
    assert not any("counts as one person" in line for line in document["limits"])
    assert any("counts as one person" in line for line in few["limits"])
    # 30 people resolve no 1 %.
    rates = document["candidates"][0]["attacks"]["lira-online"]["tpr"]
    assert "distinct records, got 30" in rates["0.01"]["refused"]
    assert document["frontier"]["risk"] == "tpr@0.1 of the strongest attack"


@pytest.mark.usefixtures("unplanted_here")
@pytest.mark.parametrize(
    "members",
    [paired(5, 121), nearly_balanced(5, 120), coins(17, 80, 1, 0.3), paired(16, 20)],
    ids=["pairs and one", "odd", "few in", "fewest records"],
)
def test_odd_shapes_are_audited(members):
    """LeakPro crashes on an odd population."""
    made = shadows(members, signals(members, 1, 1.0))
    document = checked(audit_scores("x", made, AuditSettings(keep_records=True)))
    assert document["candidates"][0]["risk"]


@pytest.mark.usefixtures("unplanted_here")
def test_constant_and_saturated_signals_are_audited():
    members = paired(16, 40)
    saturated = np.clip(100 * signals(members, 1, 1.0), -9, 9)
    for phi, settings in (
        (np.zeros((16, 40)), FEW),
        (saturated, SETTINGS),
        (np.where(members, 9.0, -9.0), FEW),
    ):
        document = checked(audit_scores("x", shadows(members, phi), settings))
        status = {check["name"]: check["status"] for check in document["checks"]}
        assert status["tied or saturated signals"] == "warn"


GATES = {
    "auc<=0.9": "pass",
    "auc<=0.5": "fail",
    "tpr@0.1<=0.99": "pass",
    "tpr@0.05<=0.9": "pass",  # no rate of the usual ones
    "tpr@0.1<=0.12": "fail",
    "tau@0.1<=0.001": "fail",
    "tau@0.1<=0.95": "fail",  # ln, not the rate itself
    "tpr@0.001<=0.5": "not-enough-evidence",
    "tau@0.001<=9": "not-enough-evidence",
    "width(auc)<=0.5": "pass",
    "width(auc)<=0.0001": "not-enough-evidence",
    "top-t<=99": "not-enough-evidence",  # no audit sees that much
    "top-t<=0.1": "fail",
    "utility-loss<=0.01": "not-tested",
}


def test_rules(few):
    rulings = {one["rule"].replace(" ", ""): one for one in few["rules"]}
    assert {rule: one["outcome"] for rule, one in rulings.items()} == GATES
    assert {one["candidate"] for one in few["rules"]} == {"baseline"}
    assert few["verdict"]["outcome"] == "fail" and few["verdict"]["words"]
    assert rulings["tpr@0.05<=0.9"]["evidence"]["value"] is not None
    assert "0.05" in few["candidates"][0]["attacks"]["lira-online"]["tpr"]


@pytest.mark.usefixtures("unplanted_here")
def test_records_are_named_only_on_request_and_never_by_id(made):
    ids = np.array([f"patient-{row}" for row in range(300)])
    named = Shadows(made.signals, made.members, ids, made.labels)
    quiet = audit_scores("x", named, FEW).to_bytes()
    assert b"patient" not in quiet and b"record 1" not in quiet
    told = audit_scores("x", named, replace(FEW, keep_records=True))
    assert b"patient" not in told.to_bytes()
    exposed = checked(told)["records"]["exposed"]
    assert [row["id"] for row in exposed] == [f"record {rank}" for rank in range(1, 101)]
    # Ranked on one half of the models and reported from the other: the order is not that of t.
    t = [row["t"] for row in exposed]
    assert np.mean(t[:50]) > np.mean(t[50:])
    assert all(row["low"] < row["t"] < row["high"] for row in exposed)
