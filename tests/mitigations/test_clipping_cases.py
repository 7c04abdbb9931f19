"""Models on which other clipping libraries give a wrong sum or stop: right here, or refused."""

from typing import Any

import clipping_models as models
import pytest
import torch
from torch import nn

from lethe.errors import InputError
from lethe.mitigations.clipping.plan import plan_clipping

VECTOR, FOUR, IMAGE, SIGNAL, WORDS = (4,), (2, 3, 4), (4, 7, 6), (4, 9), None
BOOK, VMAP, LOOP = "book-keeping", "vmap", "loop"

# name: model, shape of one example (None: words), way that is taken, word of the reason
CASES: dict[str, tuple[Any, Any, str, str]] = {
    "mlp": (models.mlp, VECTOR, BOOK, ""),
    "attention": (models.attention, WORDS, VMAP, "MultiheadAttention has no rule"),
    "norm on data": (models.norm_on_data, VECTOR, BOOK, ""),
    "norm aside": (models.norm_aside, VECTOR, BOOK, ""),
    "encoder layer": (models.encoder, WORDS, VMAP, "MultiheadAttention"),
    "lstm": (lambda: models.recurrent(nn.LSTM), WORDS, VMAP, "LSTM has no rule"),
    "gru": (lambda: models.recurrent(nn.GRU), WORDS, LOOP, "GRU has no rule"),
    "shared parameter": (models.shared_parameter, VECTOR, BOOK, ""),
    "tied module": (models.tied_module, WORDS, BOOK, ""),
    "functional reuse": (models.functional_reuse, WORDS, VMAP, "emb.weight is also used"),
    "functional, adverse": (models.functional_reuse_that_cancels, WORDS, VMAP, "also used"),
    "called twice": (models.called_twice, VECTOR, BOOK, ""),
    "positions (1, T)": (lambda: models.positions(True), WORDS, BOOK, ""),
    "positions (T,)": (lambda: models.positions(False), WORDS, BOOK, ""),
    "linear on four": (models.linear_on_four, FOUR, BOOK, ""),
    "keyword": (models.by_keyword, VECTOR, BOOK, ""),
    "padding_idx": (models.padded, WORDS, BOOK, ""),
    "checkpoint": (lambda: models.checkpointed(False), VECTOR, BOOK, ""),
    "in-place relu": (models.in_place, VECTOR, BOOK, ""),
    "in-place on a view": (models.in_place_on_view, VECTOR, BOOK, ""),
    "in-place on rows": (models.in_place_on_rows, FOUR, VMAP, "through a view"),
    "rewritten view": (models.rewritten_view, VECTOR, VMAP, "changed in place through a view"),
    "EmbeddingBag": (models.bag, WORDS, VMAP, "EmbeddingBag"),
    "InstanceNorm": (
        lambda: models.convolutions(nn.InstanceNorm2d(8, affine=True)),
        IMAGE,
        VMAP,
        "InstanceNorm2d",
    ),
    "RMSNorm": (lambda: models.small(nn.RMSNorm(models.WIDTH)), VECTOR, BOOK, ""),
    "RMSNorm, own": (lambda: models.small(models.OwnRMSNorm()), VECTOR, BOOK, ""),
    "RMSNorm, wrong": (lambda: models.small(models.SquaredRMSNorm()), VECTOR, VMAP, "error"),
    "LayerNorm": (lambda: models.small(nn.LayerNorm(models.WIDTH)), VECTOR, BOOK, ""),
    "PReLU": (lambda: models.small(nn.PReLU()), VECTOR, VMAP, "PReLU"),
    "weight_norm": (
        lambda: models.small(
            nn.utils.parametrizations.weight_norm(nn.Linear(models.WIDTH, models.WIDTH))
        ),
        VECTOR,
        VMAP,
        "ParametrizedLinear",
    ),
    "raw parameter": (models.raw, VECTOR, VMAP, "the module itself"),
    "ConvTranspose": (models.transposed, IMAGE, VMAP, "ConvTranspose2d"),
    "groups, same, dilation": (
        lambda: models.convolutions(nn.Identity(), groups=2, padding="same", dilation=2),
        IMAGE,
        BOOK,
        "",
    ),
    "cnn": (lambda: models.convolutions(nn.GroupNorm(2, 8), stride=2, padding=1), IMAGE, BOOK, ""),
    "circular": (
        lambda: models.convolutions(nn.Identity(), padding=1, padding_mode="circular"),
        IMAGE,
        VMAP,
        "circular",
    ),
    "Conv1d": (models.signal, SIGNAL, BOOK, ""),
    "transformer": (models.lower, WORDS, BOOK, ""),
    "frozen parts": (models.half_frozen, VECTOR, BOOK, ""),
    "user's hook": (models.hooked, VECTOR, VMAP, "relative error"),
    "batch norm, frozen": (lambda: models.batch_norm().train(False), VECTOR, VMAP, "BatchNorm1d"),
}


def _case(name: str) -> tuple[nn.Module, Any, str, str]:
    torch.manual_seed(0)
    build, shape, way, word = CASES[name]
    batch = models.words(6) if shape is None else models.numbers(6, *shape)
    return build(), batch, way, word


@pytest.mark.parametrize("name", CASES)
def test_sum_equals_the_loop_and_the_bound_holds(name: str) -> None:
    module, batch, way, word = _case(name)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == way, plan.reasons
    assert word in " ".join(plan.reasons)
    assert bool(plan.reasons) == (way != "book-keeping")
    fresh = models.words(5) if CASES[name][1] is None else models.numbers(5, *CASES[name][1])
    if any(getattr(one, "dropout", 0) or isinstance(one, nn.Dropout) for one in module.modules()):
        module.train(False)  # no dropout, so that two passes can be compared
        plan = plan_clipping(module, models.loss, batch, way=plan.way)
    _, norms = models.by_hand(module, models.loss, fresh, 1.0)
    for clip in (0.5 * float(norms.min()), float(norms.median())):
        total, own = plan.clipped_sum(fresh, clip)
        right, _ = models.by_hand(module, models.loss, fresh, clip)
        assert set(total) == set(right)
        assert models.gap(total, right) <= 1e-5 * models.length(right)
        torch.testing.assert_close(own, norms.float(), rtol=1e-5, atol=1e-7)
        rest = tuple(torch.cat([part[:4], part[5:]]) for part in fresh)
        change = models.gap(total, plan.clipped_sum(rest, clip)[0]) / clip
        assert change <= 1.0001
        assert change >= 0.9999 or clip > float(norms[4])


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (models.batch_norm, ("1 (BatchNorm1d)", "running_mean", "GroupNorm")),
        (models.batch_norm_without_statistics, ("1 (BatchNorm1d)", "one example changes")),
        (models.in_place_later, ("fc was changed in place later", "inplace operation")),
        (models.mean_subtraction, ("Model", "one example changes")),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_reason(
    build: Any, words: tuple[str, ...]
) -> None:
    torch.manual_seed(0)
    module = build()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with pytest.raises(InputError) as refused:
        plan_clipping(module, models.loss, models.numbers(6, 4))
    assert all(word in str(refused.value) for word in words)
    for name, value in module.state_dict().items():
        assert torch.equal(value, before[name])


def test_reentrant_checkpoint_is_done_by_the_loop() -> None:
    torch.manual_seed(0)
    module, batch = models.checkpointed(True), models.numbers(6, 4)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == "loop"
    assert "fc ran without recording gradients" in plan.reasons[0]
    total, _ = plan.clipped_sum(batch, 0.1)
    same = models.checkpointed(False)
    same.load_state_dict(module.state_dict())
    right, _ = models.by_hand(same, models.loss, batch, 0.1)
    assert models.gap(total, right) <= 1e-5 * models.length(right)


def test_a_compiled_model_is_right() -> None:
    torch.manual_seed(0)
    module, batch = models.mlp(), models.numbers(6, 4)
    plan = plan_clipping(torch.compile(module, backend="eager"), models.loss, batch)
    total, _ = plan.clipped_sum(batch, 0.1)
    right, _ = models.by_hand(module, models.loss, batch, 0.1)
    stripped = {name.removeprefix("_orig_mod."): value for name, value in total.items()}
    assert models.gap(stripped, right) <= 1e-5 * models.length(right)


def test_a_model_that_sorts_is_found_out_on_a_sorted_batch() -> None:
    torch.manual_seed(0)
    x, y = models.numbers(6, 4)
    x = x[x[:, 0].argsort()]
    plan = plan_clipping(models.sorting(), models.loss, (x, y))
    assert plan.way == "vmap"
    assert "relative error" in plan.reasons[0]


@pytest.mark.parametrize("part", ["rules", "bookkeeping", "per_example"])
def test_a_batch_in_parts_gives_the_same(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of memory so low that no more than two of seven examples are held at once."""
    torch.manual_seed(0)
    module, batch = models.called_twice(), models.numbers(7, 4)
    cells, way = 2 * 2 * 16, BOOK
    if part == "rules":
        module, batch = models.convolutions(nn.GroupNorm(2, 8)), models.numbers(7, *IMAGE)
        cells = 2 * 5 * 4 * 36
    elif part == "per_example":
        cells, way = 2 * sum(value.numel() for value in module.parameters()), VMAP
    weights = torch.rand(7)
    plan = plan_clipping(module, models.loss, batch, way=way)
    monkeypatch.setattr(f"lethe.mitigations.clipping.{part}._CELLS", cells)
    total, norms = plan.clipped_sum(batch, 0.2, weights)
    right, right_norms = models.by_hand(module, models.loss, batch, 0.2, weights)
    assert models.gap(total, right) <= 1e-5 * models.length(right)
    torch.testing.assert_close(norms, right_norms.float(), rtol=1e-5, atol=1e-7)


def test_a_leak_in_the_loss_is_refused() -> None:
    torch.manual_seed(0)

    def mixed(module: nn.Module, batch: Any) -> torch.Tensor:
        losses = models.loss(module, batch)
        return losses / losses.sum()

    with pytest.raises(InputError, match="the loss function one example"):
        plan_clipping(models.mlp(), mixed, models.numbers(6, 4))
