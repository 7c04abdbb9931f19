"""Attention and recurrent layers: what is noted gives what their own forward would give."""

from typing import Any

import clipping_models as models
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lethe.mitigations.clipping.plan import plan_clipping

WIDTH = models.WIDTH


def agrees(module: nn.Module, batch: tuple[Tensor, ...]) -> None:
    """Book-keeping equals the loop through the layers' own forwards, with weights."""

    def squared(part: nn.Module, given: tuple[Tensor, ...]) -> Tensor:
        return (part(given) + 0.3).square().flatten(1).sum(1)

    plan = plan_clipping(module, squared, batch, way="book-keeping")
    _, norms = models.by_hand(module, squared, batch, 1.0)
    clip, weights = float(norms.median()), torch.rand(len(norms))
    total, own = plan.clipped_sum(batch, clip, weights)
    right, _ = models.by_hand(module, squared, batch, clip, weights)
    torch.testing.assert_close(own.double(), norms.double(), rtol=1e-5, atol=1e-6)
    assert models.gap(total, right) <= 1e-5 * max(models.length(right), 1e-3 * clip)
    assert plan.reasons == ()
    assert all("forward" not in part.__dict__ for part in module.modules())


def turned(x: Tensor, first: bool) -> Tensor:
    return x if first else x.transpose(0, 1)


@settings(max_examples=12)
@given(
    kind=st.sampled_from([nn.LSTM, nn.GRU, nn.RNN]),
    layers=st.integers(1, 2),
    ways=st.sampled_from([1, 2]),
    bias=st.booleans(),
    batch_first=st.booleans(),
    started=st.booleans(),
    ends=st.booleans(),
    time=st.integers(1, 4),
    seed=st.integers(0, 99),
)
def test_recurrent_layers_of_any_kind(
    kind: Any,
    layers: int,
    ways: int,
    bias: bool,
    batch_first: bool,
    started: bool,
    ends: bool,
    time: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    inner = kind(3, WIDTH, layers, bias=bias, batch_first=batch_first, bidirectional=ways == 2)

    def forward(m: Any, given: tuple[Tensor, ...]) -> Tensor:
        x, states = given
        # The first states depend on a trained layer, so that gradients must pass through them.
        first = m.first(states).view(len(x), layers * ways, WIDTH).transpose(0, 1).contiguous()
        hx = (first, first) if kind is nn.LSTM else first
        out, last = m.inner(turned(x, batch_first), hx if started else None)
        last = last[1] if isinstance(last, tuple) else last
        return m.head(last[0] if ends else turned(out, batch_first)[:, -1, -WIDTH:])

    module = models.Model(
        forward,
        inner=inner,
        first=nn.Linear(2, layers * ways * WIDTH),
        head=models.head(),
    )
    agrees(module, (torch.randn(5, time, 3), torch.randn(5, 2)))


def masks(kind: str, count: int, queries: int, keys: int, heads: int) -> dict[str, Tensor]:
    """One key at least stays in sight of every query."""
    hidden = torch.rand(count, keys) < 0.4
    hidden[:, 0] = False
    after = torch.ones(queries, keys).triu(1).bool()
    pairs = torch.rand(count * heads, queries, keys) < 0.3
    pairs[..., 0] = False
    return {
        "": {},
        "keys": {"key_padding_mask": hidden},
        "causal": {"attn_mask": after, "is_causal": torch.tensor(True)},
        "added": {"attn_mask": torch.randn(queries, keys)},
        "both": {"attn_mask": after, "key_padding_mask": hidden},
        "pairs": {"attn_mask": pairs},
    }[kind]


@settings(max_examples=15)
@given(
    shape=st.sampled_from(["self", "cross", "apart"]),
    mask=st.sampled_from(["", "keys", "causal", "added", "both", "pairs"]),
    bias=st.booleans(),
    batch_first=st.booleans(),
    weights=st.sampled_from(["none", "mean", "heads"]),
    seed=st.integers(0, 99),
)
def test_attention_of_any_kind(
    shape: str, mask: str, bias: bool, batch_first: bool, weights: str, seed: int
) -> None:
    torch.manual_seed(seed)
    queries, keys, wide = (4, 4, WIDTH) if shape == "self" else (3, 4, WIDTH)
    apart = {"kdim": 5, "vdim": 7} if shape == "apart" else {}
    inner = nn.MultiheadAttention(wide, 2, bias=bias, batch_first=batch_first, **apart)
    if bias:
        torch.nn.init.normal_(inner.in_proj_bias)

    def forward(m: Any, given: tuple[Tensor, ...]) -> Tensor:
        q, k, v = (turned(part, batch_first) for part in (m.first(given[0]), given[1], given[2]))
        k, v = (q, q) if shape == "self" else (k, v)
        torch.manual_seed(seed)
        count = len(given[0])
        extra = masks(mask, 8, queries, keys, 2)
        if "key_padding_mask" in extra:
            extra["key_padding_mask"] = extra["key_padding_mask"][:1].expand(count, -1)
        if mask == "pairs":
            extra["attn_mask"] = extra["attn_mask"][:2].repeat(count, 1, 1)
        out, seen = m.att(
            q,
            k,
            v,
            need_weights=weights != "none",
            average_attn_weights=weights == "mean",
            **{name: bool(one) if name == "is_causal" else one for name, one in extra.items()},
        )
        total = turned(out, batch_first).mean(1)
        return total if seen is None else total + seen.flatten(1).square().sum(1)[:, None]

    module = models.Model(forward, att=inner, first=nn.Linear(WIDTH, wide))
    batch = tuple(torch.randn(5, n, w) for n, w in ((queries, WIDTH), (keys, wide), (keys, wide)))
    if apart:
        batch = (batch[0], torch.randn(5, keys, 5), torch.randn(5, keys, 7))
    agrees(module, batch)


@pytest.mark.parametrize(
    ("build", "word"),
    [
        (lambda: nn.MultiheadAttention(3, 1, batch_first=True), "without a batch dimension"),
        (lambda: nn.LSTM(3, 3, batch_first=True), "without a batch dimension"),
    ],
)
def test_calls_that_are_not_noted_are_done_otherwise(build: Any, word: str) -> None:
    torch.manual_seed(0)

    def forward(m: Any, given: tuple[Tensor, ...]) -> Tensor:
        one_each = [m.inner(*[x] * (1 if isinstance(m.inner, nn.LSTM) else 3)) for x in given[0]]
        return torch.stack([out[0] for out in one_each]).mean(1)

    module, batch = models.Model(forward, inner=build()), (torch.randn(5, 4, 3),)
    plan = plan_clipping(module, lambda m, b: m(b).square().sum(1), batch)
    assert plan.way in ("vmap", "loop")
    assert word in plan.reasons[0]


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_projected_states_are_done_otherwise() -> None:
    torch.manual_seed(0)
    module, batch = models.recurrent(nn.LSTM, proj_size=2), models.words(6)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == "loop" and plan.check.relative_error <= 1e-5
    assert plan.reasons[0] == "no book-keeping: inner: LSTM uses proj_size"


def test_packed_sequences_are_done_otherwise() -> None:
    torch.manual_seed(0)

    def forward(m: Any, given: tuple[Tensor, ...]) -> Tensor:
        lengths = [given[0].shape[1]] * len(given[0])
        packed = nn.utils.rnn.pack_padded_sequence(given[0], lengths, batch_first=True)
        return m.inner(packed)[1][0]

    module = models.Model(forward, inner=nn.GRU(3, 3, batch_first=True))
    plan = plan_clipping(module, lambda m, b: m(b).square().sum(1), (torch.randn(5, 4, 3),))
    assert plan.way == "loop"
    assert "packed sequence" in plan.reasons[0]


def test_dropout_inside_is_drawn_and_half_frozen_layers_are_summed_in_part() -> None:
    torch.manual_seed(0)
    module, batch = models.recurrent(nn.LSTM, num_layers=2, dropout=0.5), models.words(6)
    module.inner.weight_hh_l0.requires_grad_(False)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == "book-keeping" and plan.check.mode == "evaluation"
    first, second = (plan.clipped_sum(batch, 1.0)[0] for _ in range(2))
    assert "inner.weight_hh_l0" not in first and "inner.weight_hh_l1" in first
    assert models.gap(first, second) > 1e-3 * models.length(first)


def test_own_forwards_come_back_after_an_error() -> None:
    torch.manual_seed(0)
    module, batch = models.attention(), models.words(6)
    module.att.forward = module.att.forward
    own, broken = module.att.__dict__["forward"], False
    module.head.register_forward_hook(lambda *_: 1 / 0 if broken else None)
    plan = plan_clipping(module, models.loss, batch)
    broken = True
    total, norms = plan.clipped_sum(batch, 1.0)  # an error is no example's to tell
    assert bool(norms.isnan().all()) and not any(value.any() for value in total.values())
    assert module.att.__dict__["forward"] is own
