"""Large batches in parts, several augmented copies of an example, and coarse numbers."""

from typing import Any

import clipping_models as models
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lethe.errors import InputError
from lethe.mitigations.clipping import plan as plans
from lethe.mitigations.clipping.plan import WAYS, ClippingPlan, plan_clipping
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.private_training import PrivateSettings, train_privately

IMAGE = (4, 7, 6)


def plain(hook: Any = None, **changed: Any) -> tuple[ClippingPlan, Any]:
    torch.manual_seed(0)
    batch, module = models.numbers(12, 4), models.mlp()
    if hook is not None:
        module.register_forward_pre_hook(hook)
    return plan_clipping(module, models.loss, batch, **changed), batch


MODELS: dict[str, tuple[Any, Any]] = {
    "mlp": (models.mlp, (4,)),
    "linear on four": (models.linear_on_four, (2, 3, 4)),
    "called twice": (models.called_twice, (4,)),
    "cnn": (lambda: models.convolutions(nn.GroupNorm(2, 8), stride=2, padding=1), IMAGE),
    "cnn, gram": (lambda: models.convolutions(nn.Identity(), stride=5, padding=1), IMAGE),
    "Conv1d": (models.signal, (4, 9)),
    "transformer": (models.lower, None),
    "positions (1, T)": (lambda: models.positions(True), None),
    "padding_idx": (models.padded, None),
    "tied": (models.tied_module, None),
    "RMSNorm, own": (lambda: models.small(models.OwnRMSNorm()), (4,)),
}


@pytest.mark.parametrize("name", MODELS)
def test_copies_are_averaged_and_then_clipped(name: str) -> None:
    torch.manual_seed(0)
    copies = 3
    build, shape = MODELS[name]
    module = build().train(False)
    batch = models.words(12) if shape is None else models.numbers(12, *shape)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == "book-keeping", plan.reasons
    weights = torch.rand(12 // copies)
    _, norms = models.by_hand(module, models.loss, batch, 1.0, weights, copies)
    clip = float(norms.median())
    total, own = plan.clipped_sum(batch, clip, weights, copies=copies)
    right, _ = models.by_hand(module, models.loss, batch, clip, weights, copies)
    torch.testing.assert_close(own.double(), norms.double(), rtol=1e-5, atol=1e-6)
    assert models.gap(total, right) <= 1e-5 * models.length(right)
    assert plan.reasons == ()


@pytest.mark.parametrize("way", WAYS)
def test_copies_in_every_way_and_each_example_changes_the_sum_by_at_most_clip(way: str) -> None:
    plan, batch = plain(way=way)
    weights = torch.ones(4)
    _, norms = models.by_hand(plan.module, models.loss, batch, 1.0, weights, 3)
    clip = 0.5 * float(norms.min())
    total, own = plan.clipped_sum(batch, clip, copies=3)
    right, _ = models.by_hand(plan.module, models.loss, batch, clip, weights, 3)
    torch.testing.assert_close(own.double(), norms.double(), rtol=1e-5, atol=1e-6)
    assert models.gap(total, right) <= 1e-5 * models.length(right)
    for example in range(4):
        kept = [row for row in range(12) if row // 3 != example]
        rest, _ = plan.clipped_sum(tuple(part[kept] for part in batch), clip, copies=3)
        assert models.gap(total, rest) / clip == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("size", [1, 4, 5, 12, 50])
def test_parts_add_up_to_the_whole(size: int, copies: int) -> None:
    plan, batch = plain()
    weights = torch.rand(12 // copies)
    whole, norms = plan.clipped_sum(batch, 0.3, weights, copies=copies)
    total, own = plan.clipped_sum(batch, 0.3, weights, part_size=size, copies=copies)
    assert models.gap(total, whole) <= 1e-6 * models.length(whole)
    torch.testing.assert_close(own, norms)
    unweighted, _ = plan.clipped_sum(batch, 0.3, part_size=size, copies=copies)
    right, _ = plan.clipped_sum(batch, 0.3, copies=copies)
    assert models.gap(unweighted, right) <= 1e-6 * models.length(right)


def test_no_more_than_a_part_is_seen_at_once_and_empty_batches_give_zeros(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "rarely", lambda *_: False)  # no look at single examples
    seen: list[int] = []
    plan, batch = plain(lambda part, args: seen.append(len(args[0])))
    seen.clear()
    plan.clipped_sum(batch, 0.3, part_size=5)
    assert seen == [5, 5, 2]
    nothing = tuple(part[:0] for part in batch)
    total, norms = plan.clipped_sum(nothing, 0.3, torch.ones(0), part_size=5)
    assert norms.shape == (0,) and not any(value.any() for value in total.values())


def test_bad_parts_and_copies_are_refused_by_name() -> None:
    plan, batch = plain()
    with pytest.raises(InputError, match="part_size=0"):
        plan.clipped_sum(batch, 1.0, part_size=0)
    for copies, word in ((0, "copies=0"), (5, "copies=5 does not divide the 12 rows")):
        with pytest.raises(InputError, match=word):
            plan.clipped_sum(batch, 1.0, copies=copies)
    with pytest.raises(InputError, match="one an example"):
        plan.clipped_sum(batch, 1.0, torch.ones(12), copies=2)


def autocast(module: nn.Module, batch: Any) -> Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return models.loss(module, batch)


class Coarse(nn.Linear):
    """Autocast within a layer, which ends before the loss is there."""

    def forward(self, inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return nn.functional.linear(self.kept(inputs), self.weight, self.bias).float()

    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.kept = nn.Identity()


@pytest.mark.parametrize("way", [None, *WAYS])
@pytest.mark.parametrize("place", ["loss", "around", "layer", "parameters"])
def test_numbers_coarser_than_float32_are_refused(place: str, way: str | None) -> None:
    """They round a record's gradient by who else is in the batch, by up to 0.4 %."""
    torch.manual_seed(0)
    module, batch = models.mlp(), models.numbers(8, 4)
    if place == "layer":
        module = nn.Sequential(Coarse(4, 4), module)
    if place == "parameters":
        module, batch = module.bfloat16(), (batch[0].bfloat16(), *batch[1:])
    around = torch.autocast("cpu", dtype=torch.bfloat16, enabled=place == "around")
    loss = autocast if place == "loss" else models.loss
    with around, pytest.raises(InputError, match="computes in bfloat16.*Take float32"):
        plan_clipping(module, loss, batch, way=way)


def test_products_are_exact_during_the_steps_whatever_was_set() -> None:
    seen = set()

    def loss(module: nn.Module, batch: Any) -> Tensor:
        seen.add((torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32))
        return models.loss(module, batch)

    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("medium")
    try:
        module, data = models.mlp(), models.numbers(8, 4)
        how = PrivateSettings(delta=1e-3, noise_multiplier=1.0, batch_size=4, epochs=1)
        train_privately(module, data, how, loss=loss, seed=0)
        assert seen == {("highest", False)}
        seen.clear()
        plan_clipping(module, loss, data).clipped_sum(data, 1.0)
        assert seen == {("highest", False)}
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


class Signed(nn.Module):
    """One table, looked up by each record in several uses that may cancel."""

    def __init__(self, uses: int) -> None:
        super().__init__()
        self.table, self.uses = nn.Embedding(6, 3), uses

    def forward(self, batch: Any) -> Tensor:
        words, weights = batch
        parts = zip(words.chunk(self.uses, 1), weights.chunk(self.uses, 1), strict=True)
        return sum((self.table(word) * weight[..., None]).sum((1, 2)) for word, weight in parts)


@pytest.mark.parametrize("uses", [1, 2])
@pytest.mark.parametrize("copies", [1, 2])
@pytest.mark.parametrize("size", [1.0, 1e5, 1e12])
def test_a_record_whose_contributions_cancel_moves_the_sum_by_the_clip(
    uses: int, copies: int, size: float
) -> None:
    """The norm of one rounding error must not scale another: it moved the sum by 6 clips."""
    torch.manual_seed(0)
    words, weights = torch.randint(0, 6, (8, 128)), torch.randn(8, 128)
    words[:copies] = 2
    weights[:copies] = torch.randn(copies, 128) * size
    weights[copies - 1, -1] -= weights[:copies].double().sum().float()
    module = Signed(uses)
    plan = plan_clipping(module, lambda m, batch: m(batch), (words[2:], weights[2:]))
    assert plan.way == "book-keeping"
    total, _ = plan.clipped_sum((words, weights), 1.0, copies=copies)
    rest, _ = plan.clipped_sum((words[copies:], weights[copies:]), 1.0, copies=copies)
    assert models.gap(total, rest) <= MOST_CHANGE


@pytest.mark.parametrize(
    "outputs, positions, clip, size",
    [*((1000, None, 1e-3, size) for size in (1.0, 1e10, 1.3e19)), (5000, 32, 0.05, 1.3e19)],
)
def test_no_record_moves_the_sum_further_by_numbers_of_extreme_size(
    outputs, positions, clip, size, monkeypatch
):
    """Squares of slopes of 1e-23 are 0 in single precision; times 1e19 they moved it by 10 C."""
    monkeypatch.setattr(plans, "rarely", lambda *_: False)  # no record is looked at by itself
    module = nn.Linear(2, outputs)
    with torch.no_grad():
        module.weight.zero_()
        module.bias.zero_()
        module.weight[0, 1] = 52.0

    def loss(model, batch):
        x, y = batch
        found = F.cross_entropy(model(x).flatten(0, -2), y.flatten(), reduction="none")
        return found.view(len(y), -1).sum(1)

    own = (2,) if positions is None else (positions, 2)
    x, y = torch.rand(2, *own), torch.zeros(2, *own[:-1], dtype=torch.long)
    plan = plan_clipping(module, loss, (x.clone(), y))
    x[0] = torch.tensor([size, 1.0])
    whole, rest = (plan.clipped_sum((x[rows], y[rows]), clip)[0] for rows in ([0, 1], [1]))
    moved = sum((whole[name].double() - rest[name].double()).square().sum() for name in whole)
    assert moved.sqrt() <= 1.0001 * clip
