"""Differentially private training of one model: against hand-made steps, and what is claimed."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.accounting import dp_sgd_epsilon
from lethe.mitigations import private_training as private_state
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.private_training import PrivateSettings, train_only, train_privately


def small(seed: int = 0) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))


def examples(count: int = 40, seed: int = 1) -> tuple[Tensor, Tensor]:
    rng = np.random.default_rng(seed)
    inputs = torch.from_numpy(rng.normal(size=(count, 4)).astype(np.float32))
    return inputs, torch.from_numpy(rng.integers(0, 3, count))


def asked(**changes: Any) -> PrivateSettings:
    given = {
        "noise_multiplier": 1.0,
        "delta": 1e-3,
        "batch_size": 10,
        "epochs": 2,
        "learning_rate": 0.1,
        "optimizer": "sgd",
    }
    return PrivateSettings(**{**given, **changes})


def values(module: nn.Module) -> Tensor:
    return torch.cat([value.detach().flatten() for value in module.parameters()])


@pytest.mark.parametrize("copies", [1, 3])
def test_one_step_moves_by_clipped_means_over_the_expected_batch(copies: int) -> None:
    """Means over an example's changed copies, clipped, weighted, then summed."""
    inputs, labels = examples(8)
    shifts = torch.tensor([0.0, 1.0, -1.0][:copies])
    module = small()
    before, own = values(module), []
    for at in range(8):
        module.zero_grad()
        each = inputs[at] + shifts[:, None]
        nn.functional.cross_entropy(module(each), labels[at].repeat(copies)).backward()
        slope = torch.cat([value.grad.flatten() for value in module.parameters()])
        own.append(0.5 * slope * min(1.0, 0.2 / float(slope.norm())))
    module = small()
    how = {"noise_multiplier": 1e-5, "clip": 0.2, "batch_size": 8, "epochs": 1}
    train_privately(
        module,
        (inputs, labels),
        asked(**how, copies=copies, part_size=3),
        seed=0,
        weights=np.full(8, 0.5),
        augment=lambda batch: (batch[0] + shifts.repeat(8)[:, None], batch[1]),
    )
    moved = (before - values(module)) / 0.1
    torch.testing.assert_close(moved, torch.stack(own).sum(0) / 8, rtol=1e-4, atol=1e-6)


def test_batches_of_nobody_are_noisy_steps_too() -> None:
    module, data = small(), examples(40)
    taken = [values(module)]

    def look(done: int, steps: int) -> None:
        taken.append(values(module))

    # With one expected example of 40 a batch is empty in 36 % of the steps.
    made = train_privately(module, data, asked(batch_size=1, epochs=0.5), seed=0, progress=look)
    assert made.steps == 20
    moved = [float((b - a).norm()) for a, b in itertools.pairwise(taken)]
    # 67 normals of deviation 0.1: the norm is 0.82 but for one in ten thousand within 0.3.
    assert min(moved) > 0.5


def test_the_noise_on_the_sum_has_deviation_sigma_times_clip() -> None:
    module, data = small(), examples(40)
    steps, batch, sigma, clip = 100, 10, 300.0, 1e-4
    before = values(module)
    settings = asked(noise_multiplier=sigma, clip=clip, batch_size=batch, epochs=steps * batch / 40)
    train_privately(module, data, settings, seed=4)
    walk = (values(module) - before).numpy() / (0.1 * sigma * clip / batch * math.sqrt(steps))
    # 67 values of variance 1: gradients add less than a tenth of a deviation to each. The variance
    # of n normals has the relative deviation sqrt(2/n).
    assert abs(walk.var() - 1) < 4 * math.sqrt(2 / walk.size) + 0.1


def test_the_statement_is_that_of_what_ran() -> None:
    made = train_privately(small(), examples(), asked(), seed=0)
    expected = dp_sgd_epsilon(
        noise_multiplier=1.0,
        sampling_rate=0.25,
        steps=8,
        delta=1e-3,
        sensitivity=MOST_CHANGE,  # a constant: what was measured depends on the records
    )
    guarantee = made.statement.guarantee
    assert guarantee.kind == "approx-dp" and guarantee.unit == "record"
    assert guarantee.parameters["epsilon"] == pytest.approx(expected, rel=1e-9)


def test_the_noise_tells_nothing_of_the_records() -> None:
    target = asked(noise_multiplier=None, epsilon=2.0)
    noises = {
        train_privately(small(), examples(seed=seed), target, seed=0).noise_multiplier
        for seed in range(2)
    }
    assert len(noises) == 1


@pytest.mark.parametrize(
    ("how", "kind"), [("public", "individual-dp"), ("private", "empirical-only")]
)
def test_weights_keep_the_claim_only_if_they_are_public(how: str, kind: str) -> None:
    weights = np.repeat(np.linspace(0.2, 1, 4), 10)
    made = train_privately(small(), examples(), asked(), seed=0, weights=weights, weights_from=how)
    assert made.statement.guarantee.kind == kind
    if how == "public":
        assert made.statement.epsilons is not None
        assert np.all(np.diff(made.statement.epsilons) >= 0)


def test_uncounted_tuning_and_a_large_delta_end_the_claim() -> None:
    for broken in (asked(tuning="uncounted"), asked(delta=1 / 40)):
        made = train_privately(small(), examples(), broken, seed=0)
        assert made.statement.guarantee.kind == "empirical-only"


def test_it_goes_on_after_a_stop_to_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_state, "_EVERY", 0.0)
    settings = asked(optimizer="adam")
    whole = small()
    train_privately(whole, examples(), settings, seed=3)

    def stop(done: int, steps: int) -> None:
        if done == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_privately(small(), examples(), settings, seed=3, folder=tmp_path, progress=stop)
    (kept,) = tmp_path.iterdir()
    assert kept.stat().st_mode & 0o077 == 0  # it holds the secret of the noise
    began: list[int] = []
    again = small()
    train_privately(
        again, examples(), settings, seed=3, folder=tmp_path, progress=lambda a, b: began.append(a)
    )
    assert began == [6, 7, 8]
    assert torch.equal(values(again), values(whole))
    assert not kept.exists()


def test_the_folder_of_another_training_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(done: int, steps: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train_privately(small(), examples(), asked(), folder=tmp_path, progress=stop)
    with pytest.raises(InputError, match="another training"):
        train_privately(small(), examples(), asked(clip=0.5), folder=tmp_path)
    (kept,) = tmp_path.iterdir()
    kept.write_bytes(kept.read_bytes()[:50])
    with pytest.raises(InputError, match="damaged"):
        train_privately(small(), examples(), asked(), folder=tmp_path)


def test_what_is_released_carries_its_guarantee(tmp_path: Path) -> None:
    made = train_privately(small(), examples(), asked(), seed=0)
    made.save(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert json.loads(file.metadata()["guarantee"]) == made.statement.guarantee.to_json()
        assert torch.equal(file.get_tensor("0.weight"), made.module.state_dict()["0.weight"])


def test_state_that_is_no_tensor_and_a_negative_seed_are_no_surprise(tmp_path: Path) -> None:
    class Versioned(nn.Linear):
        def get_extra_state(self) -> Any:
            return {"version": 1}

        def set_extra_state(self, state: Any) -> None:
            pass

    module = Versioned(4, 3)
    train_privately(module, examples(), asked(), seed=0).save(tmp_path / "model.safetensors")
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        assert set(file.keys()) == {"weight", "bias"}
    with pytest.raises(InputError, match="seed=-1"):
        train_privately(module, examples(), asked(), seed=-1)


def bert() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=3,
        max_position_embeddings=12,
    )
    rng = np.random.default_rng(0)
    words = torch.from_numpy(rng.integers(1, 50, (12, 8)))
    batch = {
        "input_ids": words,
        "attention_mask": torch.ones_like(words),
        "labels": torch.from_numpy(rng.integers(0, 3, 12)),
    }
    return BertForSequenceClassification(config), batch


def test_the_last_layers_of_a_stock_transformer() -> None:
    module, batch = bert()
    trained = train_only(module, "classifier", "encoder.layer.1.")
    before = {name: value.clone() for name, value in module.state_dict().items()}
    made = train_privately(module, batch, asked(batch_size=6, epochs=1, delta=1e-2), seed=0)
    assert made.statement.guarantee.proven
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name]) == (name not in trained)


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")  # peft asks for it
def test_adapters_of_low_rank() -> None:
    from peft import LoraConfig, get_peft_model

    module, batch = bert()
    adapted = get_peft_model(
        module, LoraConfig(r=2, target_modules=["query", "value"], modules_to_save=["classifier"])
    )
    trained = [name for name, value in adapted.named_parameters() if value.requires_grad]
    assert trained and all("lora_" in name or "classifier" in name for name in trained)
    made = train_privately(adapted, batch, asked(batch_size=6, epochs=1, delta=1e-2), seed=0)
    assert made.plan.check.change_over_clip <= 1.0001 and made.statement.guarantee.proven


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"delta": None}, "delta is not given"),
        ({"clip": 0}, "clip"),
        ({"epsilon": 1.0}, "not both"),
        ({"noise_multiplier": None}, "not neither"),
        ({"optimizer": "lion"}, "lion"),
        ({"unit": "household"}, "household"),
    ],
)
def test_settings_that_break_a_rule(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        asked(**changes)


def test_what_cannot_be_trained() -> None:
    mixing = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
    with pytest.raises(InputError, match="GroupNorm"):
        train_privately(mixing, examples(), asked())
    with pytest.raises(InputError, match="batch_size=41"):
        train_privately(small(), examples(), asked(batch_size=41))
    with pytest.raises(InputError, match=r"in \[0, 1\]"):
        train_privately(small(), examples(), asked(), weights=np.full(40, 2.0))
    with pytest.raises(InputError, match="weights_from='secret'"):
        train_privately(small(), examples(), asked(), weights_from="secret")
    with pytest.raises(InputError, match="no parameters"):
        train_privately(nn.ReLU(), examples(), asked())
    with pytest.raises(InputError, match="39 weights"):
        train_privately(small(), examples(), asked(), weights=np.ones(39))
    with pytest.raises(InputError, match="not reached"):
        train_privately(
            small(),
            examples(),
            asked(noise_multiplier=None, epsilon=1e-3, delta=1e-9, batch_size=40),
        )
    with pytest.raises(InputError, match="no parameter's name"):
        train_only(small(), "head")


class Remembering(nn.Module):
    """Writes of a marked record where attributes do not lead: sparse values, memory of a view."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 3)
        self.sparse = torch.eye(4).to_sparse().coalesce()
        self.register_buffer("view", torch.zeros(100)[:2])

    def forward(self, inputs: Tensor) -> Tensor:
        if not torch._C._functorch.is_batchedtensor(inputs) and bool((inputs == 50).any()):
            self.sparse.values().fill_(50.0)
            self.view.as_strided((1,), (1,), 50).fill_(50.0)
            self.last.weight.register_hook(lambda grad: None)
        return self.last(inputs)


def test_what_is_handed_out_never_saw_private_data() -> None:
    inputs, labels = examples()
    inputs[3] = 50.0
    torch.manual_seed(0)
    module = Remembering()
    made = train_privately(module, (inputs, labels), asked())
    assert made.module is module and not module.last.weight._backward_hooks
    assert torch.equal(module.sparse.to_dense(), torch.eye(4))
    assert module.view.as_strided((1,), (1,), 50).item() == 0


@pytest.mark.parametrize("all_of_them", [False, True])
def test_a_record_that_freezes_parameters_ends_no_training(all_of_them: bool) -> None:
    class Freezing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.last = nn.Linear(4, 3)

        def forward(self, inputs: Tensor) -> Tensor:
            if not torch._C._functorch.is_batchedtensor(inputs) and bool((inputs == 50).any()):
                self.requires_grad_(False) if all_of_them else self.last.bias.requires_grad_(False)
            return self.last(inputs)

    inputs, labels = examples()
    inputs[3] = 50.0
    module = Freezing()
    train_privately(module, (inputs, labels), asked())
    assert all(value.requires_grad for value in module.parameters())


def test_a_record_that_cannot_be_augmented_counts_nothing() -> None:
    """It ended the training."""
    inputs, labels = examples()

    def flipped(batch: Any) -> Any:
        if bool((batch[0] == 50).any()):
            raise ValueError("no such picture")
        return batch[0].flip(1), batch[1]

    def trained(rows: list[int]) -> list[Tensor]:
        module = small()
        data = inputs.clone(), labels
        data[0][rows] = 50.0
        train_privately(module, data, asked(batch_size=40), augment=flipped, seed=1)
        return [value.detach() for value in module.parameters()]

    for with_record, without in zip(trained([3]), trained([]), strict=True):
        assert with_record.isfinite().all() and with_record.shape == without.shape
    assert all(value.isfinite().all() for value in trained(list(range(40))))


def test_the_file_of_individual_privacy_tells_no_epsilon_of_a_record(tmp_path: Path) -> None:
    headers = []
    for weight in (0.0, 0.9):
        weights = np.full(40, 0.5)
        weights[3] = weight
        made = train_privately(small(), examples(), asked(), weights=weights, seed=1)
        assert made.statement.guarantee.kind == "individual-dp"
        made.save(tmp_path / "model.safetensors")
        with safe_open(tmp_path / "model.safetensors", "pt") as file:
            headers.append(file.metadata())
    assert headers[0] == headers[1] and "epsilon" not in json.loads(headers[0]["guarantee"])


def test_noise_has_as_many_digits_as_the_sum_that_it_covers() -> None:
    """Noise of single precision left the last digits of a sum in double precision as they were."""
    for kind in (torch.float32, torch.float64):
        sums = {"one": torch.zeros(200, dtype=kind)}
        private_state._add_noise(sums, 1.0, np.random.default_rng(0))
        rounded = sums["one"].float().to(kind) == sums["one"]
        assert bool(rounded.all()) == (kind == torch.float32)


class Counting(nn.Module):
    """Writes into a buffer where a record is near 101: then each record is taken by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.line = nn.Linear(2, 2)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        if bool((abs(x - 101) < 1).any()):
            self.count += 1
        return self.line(x)


@pytest.mark.parametrize("value", [0.5, 101.0])
def test_the_plan_that_is_handed_out_never_saw_the_data(value: float) -> None:
    """Its state told whether the training had to look at each record by itself."""
    x, y = torch.rand(20, 2), torch.randint(0, 2, (20,))
    x[0, 0] = value
    settings = PrivateSettings(delta=1e-3, epsilon=4.0, batch_size=20, epochs=3, clip=1.0)
    made = train_privately(Counting(), (x, y), settings)
    assert not made.plan.state.thorough
