"""The whole audit on a few hundred real records: findings, resume, more models, odd data."""

from dataclasses import replace

import pytest
from model_audits import QUICK, TRAINED, audited, valid
from safetensors.numpy import load
from sklearn.linear_model import LogisticRegression

from lethe.data.dataset import subset
from lethe.data.shipped import digits
from lethe.membership.settings import AuditSettings
from lethe.training.recipe import SklearnRecipe, TorchRecipe

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


class Heard:
    def __init__(self):
        self.lines, self.steps = [], []

    def models(self, done, total, what):
        self.steps.append((done, total, what))

    def say(self, text):
        self.lines.append(text)


@pytest.fixture(scope="module", autouse=True)
def in_this_process(unplanted, measured_here, trained_here):
    """No other process, and little of what is tested elsewhere."""


@pytest.fixture(scope="module")
def finished(tmp_path_factory, in_this_process):
    """One torch audit of 8 models with all candidates, in its folder."""
    import torch

    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("runs") / "one"
    heard = Heard()
    settings = AuditSettings(models=8, attack=QUICK)
    findings = audited(path, small(), TINY, settings, show=heard)
    return path, findings, heard


def test_torch_audit_end_to_end(finished):
    path, findings, heard = finished
    document = valid(findings)
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
    return audited(path, small() if data is None else data, LINEAR, chosen)


def test_sklearn_audit_end_to_end(tmp_path):
    document = valid(
        linear(tmp_path / "run", data=small(120), rule=("auc<=0.999",), release="weighted")
    )
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
    assert valid(one)["candidates"] != valid(other)["candidates"]


@pytest.mark.slow
def test_more_models_keep_the_shards_and_the_weights(tmp_path):
    path = tmp_path / "run"
    first = valid(linear(path, 8, data=small(120), mitigations=("weighted",)))
    assert sum(TRAINED) == 2 * 8
    shards = {p: p.read_bytes() for p in (path / "shadows").rglob("*.safetensors")}
    settled = (path / "exposure.safetensors").read_bytes()
    more = valid(linear(path, 16, data=small(120), mitigations=("weighted",)))
    assert sum(TRAINED) == 2 * 8
    assert all(p.read_bytes() == before for p, before in shards.items())
    assert (path / "exposure.safetensors").read_bytes() == settled
    assert more["reproduction"]["weights_from_models"] == 8
    assert more["reproduction"]["models"] == 16
    for old, new in zip(first["candidates"], more["candidates"], strict=True):
        assert old["settings"] == new["settings"]
        assert new["models"] == 16
    assert more["candidates"][1]["vulnerability"]["baseline_records_t"]["value"] is not None


@pytest.mark.slow
def test_a_damaged_shard_is_trained_again_and_lost_exposures_cost_nothing(tmp_path):
    path = tmp_path / "run"

    def audit():
        return linear(path, 4, data=small(120), mitigations=("weighted",)).to_bytes()

    first = audit()
    shard = next((path / "shadows").glob("weighted-*/00000.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    assert audit() == first
    assert sum(TRAINED) == load(shard.read_bytes())["members"].shape[0]
    (path / "exposure.safetensors").unlink()
    assert audit() == first
    (path / "exposure.safetensors").write_bytes(b"not a file")
    assert audit() == first
    assert sum(TRAINED) == 0


def test_string_classes_come_by_name(tmp_path):
    data = small(150)
    named = replace(data, name="named", classes=tuple(f"digit {name}" for name in data.classes))
    document = valid(
        linear(tmp_path / "run", 4, data=named, mitigations=("removal",), keep_records=True)
    )
    assert document["data"]["classes"][3] == "digit 3"
    assert document["candidates"][0]["per_class"][3]["class"] == "digit 3"
    assert document["records"]["exposed"][0]["label"].startswith("digit ")
    assert document["records"]["exposed"][0]["id"] == "record 1"
    for name in ("records.parquet", "explorer.html"):
        assert (tmp_path / "run" / name).stat().st_mode & 0o077 == 0
