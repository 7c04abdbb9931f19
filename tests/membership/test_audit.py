"""The whole audit on a few hundred real records: findings, resume, more models, odd data."""

import json
from dataclasses import replace

import jsonschema
import numpy as np
import pytest
from safetensors.numpy import load
from sklearn.linear_model import LogisticRegression

from lethe.data.dataset import Dataset, subset
from lethe.data.shipped import digits
from lethe.evidence.findings import schema
from lethe.membership import audit as module
from lethe.membership.audit import audit_model, baseline_spec
from lethe.membership.settings import AuditSettings
from lethe.training.folder import RunFolder
from lethe.training.recipe import Layout, SklearnRecipe, TorchRecipe

NAMES = [
    "baseline",
    "uniform-noise",
    "weighted",
    "weighted-noise",
    "removal",
    "equal-mean-weight",
    "early-stopping",
]


def network():
    import torch

    return torch.nn.Sequential(torch.nn.Linear(64, 16), torch.nn.ReLU(), torch.nn.Linear(16, 10))


def small(rows=241, seed=0):
    return subset(digits(), rows, seed)


TINY = TorchRecipe(network, epochs=12, batch_size=32, learning_rate=0.02)
LINEAR = SklearnRecipe(LogisticRegression(max_iter=300, C=30.0, tol=0.01))
QUICK = ("lira-online", "loss-threshold")
"""Where something else than the attacks is tested: they take most of the time."""


def run(path, data, recipe, settings, show=None):
    name = baseline_spec(data, recipe, settings).hash()
    with RunFolder(path, name) as folder:
        folder.settle("layout", Layout("chain").to_json())  # not tried out in another process
        return audit_model(data, recipe, settings, folder, show, workers=1)


def checked(findings):
    document = json.loads(findings.to_bytes(), parse_constant=lambda name: pytest.fail(name))
    jsonschema.Draft202012Validator(schema()).validate(document)
    return document


class Heard:
    def __init__(self):
        self.lines, self.steps = [], []

    def models(self, done, total, what):
        self.steps.append((done, total, what))

    def say(self, text):
        self.lines.append(text)


COUNTS: list[int] = []


@pytest.fixture(scope="module", autouse=True)
def in_this_process(unplanted, few_draws_here, measured_here):
    """Chunks are trained and candidates measured here, not in other processes; trained counted."""

    def here(jobs, work, workers):
        for job in jobs:
            COUNTS.append(work(job))
            yield COUNTS[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "train_in_processes", here)
        yield


@pytest.fixture
def trained():
    """How many models were trained, chunk by chunk."""
    COUNTS.clear()
    return COUNTS


@pytest.fixture(scope="module")
def finished(tmp_path_factory, in_this_process):
    """One torch audit of 8 models with all candidates, in its folder."""
    import torch

    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("runs") / "one"
    heard = Heard()
    findings = run(path, small(), TINY, AuditSettings(models=8, attack=QUICK), heard)
    return path, findings, heard


def test_torch_audit_end_to_end(finished):
    path, findings, heard = finished
    document = checked(findings)
    assert [one["name"] for one in document["candidates"]] == NAMES
    assert document["frontier"]["skipped"] == []
    assert document["frontier"]["risk"] == "tpr@0.1 of the strongest attack"  # 190 records
    plain = document["candidates"][0]
    assert plain["attacks"]["lira-online"]["auc"]["low"] > 0.5
    assert plain["utility"]["value"] > 0.6 and plain["train_utility"]["value"] > 0.8
    assert plain["utility_loss"] is None and plain["risk_change"] is None
    for one in document["candidates"][1:]:
        assert one["utility_loss"]["low"] <= one["utility_loss"]["value"]
        assert one["guarantee"]["kind"] == "empirical-only"
        assert one["models"] == 8 and len(one["per_class"]) == 10
        assert [entry["column"] for entry in one["slices"]] == ["class"]
        assert one["moved"]["records"] > 0 and one["equivalent"] in ("yes", "no", "unclear")
    weighted = document["candidates"][2]
    assert 0 < weighted["settings"]["mean_weight"] < 1
    assert document["reproduction"]["weights_from_models"] == 8
    assert document["subject"]["parameters"] == 64 * 16 + 16 + 16 * 10 + 10
    assert document["data"]["pool_people"] == document["data"]["pool"]
    assert heard.lines[0] == "6 of 7 options (early-stopping costs none) x 8 models = 48 trainings"
    assert heard.lines[1].startswith("baseline: TPR at 0.1 FPR")
    assert heard.steps[-1][:2] == (48, 48)
    assert not any(check["status"] == "fail" for check in document["checks"])


def test_every_candidate_is_attacked_with_its_own_shadow_models(finished):
    path, findings, _ = finished
    folders = sorted(p.name.rsplit("-", 1)[0] for p in (path / "shadows").iterdir())
    assert folders == sorted(set(NAMES) - {"early-stopping"})  # it lies in the baseline's shards
    shards = [load(p.read_bytes()) for p in (path / "shadows").glob("*/00000.safetensors")]
    assert len({shard["signals"].tobytes() for shard in shards}) == len(NAMES) - 1
    assert len({shard["members"].tobytes() for shard in shards}) == 1  # the same splits


def linear(path, models=8, seed=0, data=None, **settings):
    chosen = AuditSettings(models=models, seed=seed, **{"attack": QUICK, **settings})
    return run(path, small() if data is None else data, LINEAR, chosen)


def test_sklearn_audit_end_to_end(tmp_path):
    document = checked(linear(tmp_path / "run", rule=("auc<=0.999",), release="weighted"))
    assert [one["name"] for one in document["candidates"]] == [
        "baseline",
        "weighted",
        "removal",
        "equal-mean-weight",
    ]
    skipped = document["frontier"]["skipped"]
    assert [one["name"] for one in skipped] == ["uniform-noise", "weighted-noise", "early-stopping"]
    assert all("torch recipe" in one["why"] for one in skipped)
    assert document["rules"][0]["candidate"] == "weighted"
    assert document["verdict"]["candidate"] == "weighted"
    assert "parameters" not in document["subject"]


def test_same_seed_same_bytes_and_another_seed_other_numbers(tmp_path):
    """LeakPro's random_seed has no effect."""
    one, same, other = (
        linear(tmp_path / name, 4, seed, small(120), mitigations=("weighted",))
        for name, seed in (("a", 3), ("b", 3), ("c", 4))
    )
    assert one.to_bytes() == same.to_bytes()
    assert checked(one)["candidates"] != checked(other)["candidates"]


def test_more_models_keep_the_shards_and_the_weights(tmp_path, trained):
    path = tmp_path / "run"
    first = checked(linear(path, 8, data=small(120), mitigations=("weighted",)))
    assert sum(trained) == 2 * 8
    shards = {p: p.read_bytes() for p in (path / "shadows").rglob("*.safetensors")}
    settled = (path / "exposure.safetensors").read_bytes()
    trained.clear()
    more = checked(linear(path, 16, data=small(120), mitigations=("weighted",)))
    assert sum(trained) == 2 * 8
    assert all(p.read_bytes() == before for p, before in shards.items())
    assert (path / "exposure.safetensors").read_bytes() == settled
    assert more["reproduction"]["weights_from_models"] == 8
    assert more["reproduction"]["models"] == 16
    for old, new in zip(first["candidates"], more["candidates"], strict=True):
        assert old["settings"] == new["settings"]
        assert new["models"] == 16
    assert more["candidates"][1]["vulnerability"]["baseline_records_t"]["value"] is not None


def test_a_damaged_shard_is_trained_again_and_lost_exposures_cost_nothing(tmp_path, trained):
    path = tmp_path / "run"

    def audited():
        return linear(path, 4, data=small(120), mitigations=("weighted",)).to_bytes()

    first = audited()
    trained.clear()
    shard = next((path / "shadows").glob("weighted-*/00000.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    assert audited() == first
    assert sum(trained) == load(shard.read_bytes())["members"].shape[0]
    trained.clear()
    (path / "exposure.safetensors").unlink()
    assert audited() == first
    (path / "exposure.safetensors").write_bytes(b"not a file")
    assert audited() == first
    assert sum(trained) == 0


def test_a_class_that_some_splits_lack(tmp_path):
    """Peers crash or shift columns; here the class has probability 0 where it was not seen."""
    data = small(200)
    labels = data.labels.copy()
    rare = np.flatnonzero(labels == 9)
    keep = np.setdiff1d(np.arange(200), rare[3:])
    lean = Dataset(
        "lean",
        data.features[keep],
        labels[keep],
        data.classes,
        data.ids[keep],
        data.feature_names,
        data.source,
    )
    document = checked(linear(tmp_path / "run", data=lean, mitigations=()))
    assert document["data"]["class_counts"][9] == 3
    per_class = document["candidates"][0]["per_class"][9]
    assert per_class["utility"]["refused"] == "1 held-out records; at least 2 are needed"
    assert document["candidates"][0]["risk"]["value"] > 0.1


def test_an_odd_and_small_number_of_records(tmp_path):
    assert checked(linear(tmp_path / "run", models=4, data=small(61), mitigations=()))
    for name in ("records.*", "explorer.html"):  # on request only
        assert not list((tmp_path / "run").glob(name))


def test_string_classes_come_by_name(tmp_path):
    data = small(150)
    named = replace(data, name="named", classes=tuple(f"digit {name}" for name in data.classes))
    document = checked(
        linear(tmp_path / "run", 4, data=named, mitigations=("removal",), keep_records=True)
    )
    assert document["data"]["classes"][3] == "digit 3"
    assert document["candidates"][0]["per_class"][3]["class"] == "digit 3"
    assert document["records"]["exposed"][0]["label"].startswith("digit ")
    assert document["records"]["exposed"][0]["id"] == "record 1"
    for name in ("records.parquet", "explorer.html"):
        assert (tmp_path / "run" / name).stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_torch_audit_with_the_default_number_of_models(tmp_path):
    """16 models report the exposed; weights lower their t."""
    recipe = replace(TINY, epochs=60)
    settings = AuditSettings(models=32, mitigations=("weighted", "removal"), attack=QUICK)
    document = checked(run(tmp_path / "run", small(400), recipe, settings))
    plain, weighted, removal = document["candidates"]
    assert plain["vulnerability"]["top_t"]["low"] > 0
    for one in (weighted, removal):
        assert one["risk_change"]["value"] < 0
        assert (
            one["vulnerability"]["baseline_records_t"]["value"]
            < plain["vulnerability"]["top_t"]["value"]
        )


def test_a_forest_whose_votes_saturate_is_audited_and_warned_about(tmp_path):
    from sklearn.ensemble import RandomForestClassifier

    data = subset(digits(), 160, 0)
    recipe = SklearnRecipe(RandomForestClassifier(10))
    settings = AuditSettings(models=16, mitigations=("none",), attack=QUICK)
    name = baseline_spec(data, recipe, settings).hash()
    with RunFolder(tmp_path / "run", name) as run:
        document = audit_model(data, recipe, settings, run, workers=1).to_json()
    jsonschema.validate(document, schema())
    ties = [check for check in document["checks"] if check["name"] == "tied or saturated signals"]
    assert {check["status"] for check in ties} == {"warn"}
    found = document["candidates"][0]["vulnerability"]
    for one in (found["top_t"], found["max_t"]):
        assert "refused" in one or one["high"] - one["low"] < 1000
