"""The plan of a real, small audit: it costs no work twice, and it promises what comes about."""

import json
from dataclasses import replace

import numpy as np
import pytest
from model_audits import QUICK, TRAINED, audited
from sklearn.linear_model import LogisticRegression

from lethe.data.dataset import subset
from lethe.data.shipped import digits
from lethe.errors import InputError
from lethe.evidence.estimate import Refusal
from lethe.membership.audit import audit_model
from lethe.membership.planning import Cost, plan
from lethe.membership.settings import AuditSettings
from lethe.training.recipe import SklearnRecipe

RECIPE = SklearnRecipe(LogisticRegression(max_iter=300, C=30.0, tol=0.01))
DATA = subset(digits(), 240, 0)
PLAIN = AuditSettings(models=32, mitigations=("none",), attack=QUICK)


pytestmark = pytest.mark.usefixtures("unplanted", "measured_here", "trained_here")


def in_folder(path, do, data=DATA, settings=PLAIN, **options):
    return audited(path, data, RECIPE, settings, do, **options)


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan")
    found = in_folder(path, plan, pilot=8, precision=["tpr@0.1 within 40%", "auc within 0.2"])
    return path, found, sum(TRAINED)


def test_what_a_plan_holds(planned):
    path, found, trained = planned
    assert trained == found.pilot == 8
    assert [row.models for row in found.rows] == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert found.cost.seconds is not None and found.cost.seconds > 0
    assert found.cost.worker_bytes is not None and found.cost.worker_bytes > 10**7
    assert found.answers[1].models is not None and found.answers[1].models <= 8
    costs = [(row.seconds, row.all_seconds, row.disk, row.memory) for row in found.rows]
    assert costs == sorted(costs)
    document = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert document["pilot_models"] == 8 and len(document["by_models"]) == 8


def test_bytes_on_disk_are_exact(planned):
    path, found, _ = planned
    files = list((path / "shadows").glob("*/*.safetensors"))
    # Headers hold numbers, which may have a digit more.
    assert sum(file.stat().st_size for file in files) == pytest.approx(
        found.cost.disk(8), abs=16 * len(files)
    )


def test_one_in_a_thousand_is_refused_for_lack_of_records(planned):
    _, found, _ = planned
    for row in found.rows:
        assert isinstance(row.widths[0.001], Refusal)
    assert "No number of models helps" in found.rows[-1].widths[0.001].reason


def test_planning_again_trains_nothing(planned):
    path, found, _ = planned
    again = in_folder(path, plan, pilot=8)
    assert sum(TRAINED) == 0
    assert again.rows[3].widths == found.rows[3].widths
    assert again.cost.seconds == found.cost.seconds


def test_the_audit_goes_on_from_the_pilot(planned):
    path, _, _ = planned
    findings = in_folder(path, audit_model)
    assert sum(TRAINED) == 32 - 8
    assert [one["name"] for one in findings.candidates] == ["baseline"]
    later = in_folder(path, plan, pilot=8)
    assert later.pilot == 32 and sum(TRAINED) == 0


def test_models_that_nobody_timed_have_no_time(tmp_path):
    in_folder(tmp_path, audit_model, settings=replace(PLAIN, models=8))
    found = in_folder(tmp_path, plan, pilot=8)
    assert found.rows[0].seconds is None and found.rows[0].memory is None
    assert any("had not been timed" in note for note in found.notes)


def test_a_pilot_is_rounded_up_to_whole_chunks(tmp_path):
    found = in_folder(tmp_path, plan, pilot=9)
    assert found.pilot % found.cost.width == 0 and found.pilot >= 10


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pilot": 4}, "pilot=4 must be at least 8"),
        ({"precision": ["tpr@0.1<=0.2"]}, "is a verdict, not a width"),
        ({"precision": ["width(top-t)<=1"]}, "a plan foresees the widths of tpr, tau and auc"),
    ],
)
def test_what_cannot_be_planned(tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        in_folder(tmp_path, plan, **options)
    assert sum(TRAINED) == 0


def test_wall_time_by_hand():
    """5 chunks of 4 models for 2 workers are 3 rounds of 4 models, 2 seconds each."""
    cost = Cost(2.0, 1, 1, 100, 10, 4, 2, 1.0)
    assert cost.train(20) == 24.0
    assert cost.disk(20) == 20 * 100 + 5 * 10
    assert replace(cost, seconds=None).train(20) is None


def by_person(path, **options):
    owner = np.repeat(np.arange(80), 3).astype(str)
    return in_folder(path, data=replace(DATA, groups=owner), **options)


def test_an_audit_by_person_and_until(tmp_path):
    settings = replace(PLAIN, models=24, until=("width(auc)<=0.5",))
    findings = by_person(tmp_path, do=audit_model, settings=settings)
    assert findings.reproduction["stopped"]["reached"] == 16
    assert findings.reproduction["stopped"]["met"] and sum(TRAINED) == 16
    assert findings.data["people"] == 80 and findings.data["records"] == 240
    assert findings.threat_model["unit"].startswith("one person")
    assert "16 shadow models" in findings.threat_model["budget"]
    again = by_person(tmp_path, do=audit_model, settings=settings)
    assert sum(TRAINED) == 0 and again.to_bytes() == findings.to_bytes()
    finer = replace(settings, until=("width(auc)<=0.0001",))
    more = by_person(tmp_path, do=audit_model, settings=finer)
    assert sum(TRAINED) == 8 and not more.reproduction["stopped"]["met"]
    assert more.reproduction["models"] == more.reproduction["stopped"]["reached"] == 24


@pytest.mark.slow
def test_mitigations_take_as_many_models_as_the_baseline_took(tmp_path):
    until = ("width(auc)<=0.5",)
    settings = AuditSettings(models=40, mitigations=("removal",), until=until, attack=QUICK)
    findings = in_folder(tmp_path, audit_model, settings=settings)
    assert [one["models"] for one in findings.candidates] == [16, 16]


def test_none_stands_alone():
    with pytest.raises(InputError, match="'none' stands alone"):
        AuditSettings(mitigations=("none", "removal"))
    assert AuditSettings(mitigations=("none",)).mitigations == ()
