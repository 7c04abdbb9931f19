"""The clipped sum: a case worked by hand, shapes, weights, steps that differ, bad input."""

from typing import Any

import clipping_models as models
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.mitigations.clipping import plan as plans
from lethe.mitigations.clipping.plan import WAYS, plan_clipping


def output(module: nn.Module, x: Tensor) -> Tensor:
    return module(x)[:, 0]


def one_line() -> nn.Module:
    module = nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[0.5, -1.0]]))
        module.bias.zero_()
    return module


# The gradient of w x + b is (x, 1): norms sqrt(2^2 + 2^2 + 1) = 3 and sqrt(1) = 1.
TWO = torch.tensor([[2.0, 2.0], [0.0, 0.0]])


@pytest.mark.parametrize("way", WAYS)
def test_two_examples_by_hand(way: str) -> None:
    plan = plan_clipping(one_line(), output, TWO, way=way)
    total, norms = plan.clipped_sum(TWO, clip=1.5)
    assert norms.tolist() == [3.0, 1.0]
    torch.testing.assert_close(total["weight"], torch.tensor([[1.0, 1.0]]))
    torch.testing.assert_close(total["bias"], torch.tensor([1.5]))
    assert plan.way == way and plan.reasons == ()


def test_book_keeping_uses_one_backward_pass_and_no_parameter_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(plans, "rarely", lambda *_: False)  # no look at single examples
    torch.manual_seed(0)
    module, batch = models.mlp(), models.numbers(6, 4)
    passes: list[int] = []
    module[1].register_full_backward_hook(lambda part, given, out: passes.append(1))
    plan = plan_clipping(module, models.loss, batch)
    passes.clear()
    touched: list[int] = []
    for value in module.parameters():
        value.register_hook(lambda g: touched.append(1))
    plan.clipped_sum(batch, 1.0)
    assert passes == [1]
    assert touched == []
    assert all(value.grad is None for value in module.parameters())


@settings(max_examples=5)
@given(
    count=st.integers(1, 5),
    middle=st.lists(st.integers(1, 5), max_size=2),
    wide=st.sampled_from([1, 3, 24]),
    bias=st.booleans(),
    seed=st.integers(0, 99),
)
def test_linear_of_any_shape(
    count: int, middle: list[int], wide: int, bias: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(wide, wide, bias=bias), nn.Tanh(), nn.Linear(wide, 3))
    _agrees(module, lambda n: torch.randn(n, *middle, wide), count)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even")
@settings(max_examples=5)
@given(
    count=st.integers(1, 4),
    groups=st.sampled_from([1, 2]),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    stride=st.integers(1, 3),
    padding=st.sampled_from([0, 1, "same", "valid"]),
    dilation=st.integers(1, 2),
    flat=st.booleans(),
    grown=st.sampled_from([2, 16]),
    seed=st.integers(0, 99),
)
def test_convolutions_of_any_shape(
    count: int,
    groups: int,
    kernel: Any,
    stride: int,
    padding: Any,
    dilation: int,
    flat: bool,
    grown: int,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    how = {"stride": 1 if padding == "same" else stride, "padding": padding, "groups": groups}
    how["dilation"] = dilation
    module: nn.Module = nn.Conv2d(4, grown, kernel, **how)
    shape = (4, 6, 7)
    if flat:
        module, shape = nn.Conv1d(4, grown, kernel[0], **how), (4, 6)
    _agrees(module, lambda n: torch.randn(n, *shape), count)


@settings(max_examples=6)
@given(
    count=st.integers(1, 5),
    middle=st.lists(st.integers(1, 4), max_size=2),
    padding=st.sampled_from([None, 0, 2]),
    seed=st.integers(0, 99),
)
def test_embeddings_of_any_shape(count: int, middle: list[int], padding: Any, seed: int) -> None:
    torch.manual_seed(seed)
    module = nn.Sequential(
        nn.Embedding(5, 4, padding_idx=padding), nn.LayerNorm(4), nn.Linear(4, 2)
    )
    _agrees(module, lambda n: torch.randint(0, 5, (n, *middle)), count)


@pytest.mark.parametrize(
    "norm",
    [
        nn.LayerNorm(4),
        nn.LayerNorm((3, 4), bias=False),
        nn.RMSNorm((3, 4)),
        nn.RMSNorm(4, eps=0.1),
        nn.GroupNorm(3, 6),
    ],
)
def test_norms(norm: nn.Module) -> None:
    torch.manual_seed(3)
    _agrees(nn.Sequential(norm, nn.Linear(4, 2)), lambda n: 5 * torch.randn(n, 6, 3, 4), 5)


def _agrees(module: nn.Module, draw: Any, count: int) -> None:
    """Book-keeping equals the loop at a clip in the middle of the norms, with weights."""

    def power(part: nn.Module, batch: tuple[Tensor]) -> Tensor:
        return (part(batch[0]) + 0.3).square().flatten(1).sum(1)

    def examples(n: int) -> tuple[Tensor]:
        return (draw(n),)

    fitted = examples(6)
    if len(torch.unique(fitted[0], dim=0)) < 2:
        return
    plan = plan_clipping(module, power, fitted, way="book-keeping")
    batch, weights = examples(count), torch.rand(count)
    _, norms = models.by_hand(module, power, batch, 1.0)
    clip = max(float(norms.median()), 1e-3)
    total, own = plan.clipped_sum(batch, clip, weights)
    right, _ = models.by_hand(module, power, batch, clip, weights)
    torch.testing.assert_close(own.double(), norms.double(), rtol=1e-5, atol=1e-5)
    assert models.gap(total, right) <= 1e-5 * max(models.length(right), 1e-3 * clip)
    assert plan.reasons == ()


def test_norms_that_cancel_are_not_lost_to_rounding() -> None:
    """Two positions of nearly opposite gradient: the Gram form would lose most digits."""
    torch.manual_seed(0)
    module = nn.Linear(64, 64, bias=False)
    x = torch.randn(4, 1, 64).repeat(1, 2, 1)
    x[:, 1] += 1e-3 * torch.randn(4, 64)
    sign = torch.randn(64)

    def opposite(part: nn.Module, batch: tuple[Tensor]) -> Tensor:
        out = part(batch[0])
        return ((out[:, 0] - out[:, 1]) * sign).sum(1)

    plan = plan_clipping(module, opposite, (x,), way="book-keeping")
    _, norms = plan.clipped_sum((x,), 1.0)
    exact = (x[:, 0].double() - x[:, 1].double()).norm(dim=1) * sign.double().norm()
    torch.testing.assert_close(norms.double(), exact, rtol=2e-5, atol=0)


@pytest.mark.parametrize("name", ["Bert", "GPT2", pytest.param("Llama LM", marks=pytest.mark.slow)])
def test_stock_transformers_work_as_they_are(name: str) -> None:
    import transformers

    torch.manual_seed(0)
    kind, _, task = name.partition(" ")
    heads = {"num_hidden_layers": 1, "num_attention_heads": 2}
    small = {
        "Bert": {"hidden_size": 8, "intermediate_size": 8, **heads},
        "GPT2": {"n_embd": 8, "n_layer": 1, "n_head": 2, "bos_token_id": 1, "eos_token_id": 1},
    }
    small["Llama"] = {**small["Bert"], "num_key_value_heads": 2}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=20, pad_token_id=0, num_labels=3, **small[kind]
    )
    ending = {"": "ForSequenceClassification", "LM": "ForCausalLM"}
    module = getattr(transformers, kind + ending[task])(config).train()

    def classified(part: nn.Module, batch: Any) -> Tensor:
        logits = part(input_ids=batch[0], attention_mask=batch[2]).logits
        return F.cross_entropy(logits, batch[1], reduction="none")

    def spoken(part: nn.Module, batch: Any) -> Tensor:
        logits = part(input_ids=batch[0]).logits[:, :-1]
        return F.cross_entropy(logits.transpose(1, 2), batch[0][:, 1:], reduction="none").mean(1)

    loss = spoken if task else classified
    words = torch.randint(2, 20, (6, 5))
    batch = (
        words,
        torch.randint(0, 3, (6,)),
        (torch.arange(5) < torch.arange(6)[:, None] + 1).long(),
    )
    plan = plan_clipping(module, loss, batch)
    assert plan.way == "book-keeping", plan.reasons
    assert plan.check.mode == ("as given" if kind == "Llama" else "evaluation")
    plan = plan_clipping(module.train(False), loss, batch)
    _, norms = models.by_hand(module, loss, batch, 1.0)
    clip = float(norms.median())
    total, own = plan.clipped_sum(batch, clip)
    right, _ = models.by_hand(module, loss, batch, clip)
    assert models.gap(total, right) <= 1e-5 * models.length(right)
    torch.testing.assert_close(own, norms.float(), rtol=1e-5, atol=1e-7)


def test_a_step_that_differs_is_done_by_the_loop_and_recorded() -> None:
    """After the plan was made the model begins to use a weight a second time."""
    torch.manual_seed(0)
    again = False

    def forward(m: Any, x: Tensor) -> Tensor:
        h = m.fc(x)
        return m.head(torch.tanh(F.linear(h, m.fc.weight) if again else h))

    module = models.Model(forward, fc=nn.Linear(4, 4), head=nn.Linear(4, 3))
    batch = models.numbers(6, 4)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.way == "book-keeping" and plan.reasons == ()
    again = True
    total, _ = plan.clipped_sum(batch, 0.1)
    right, _ = models.by_hand(module, models.loss, batch, 0.1)
    assert models.gap(total, right) <= 1e-5 * models.length(right)
    assert plan.reasons == (
        "a step was done by the loop: fc.weight is also used outside the layer that holds it",
    )
    plan.clipped_sum(batch, 0.1)
    assert len(plan.reasons) == 1


def test_dropout_is_drawn_anew_for_every_example_and_step() -> None:
    torch.manual_seed(0)
    module, batch = models.dropped(), models.numbers(6, 4)
    plan = plan_clipping(module, models.loss, batch)
    assert plan.check.mode == "evaluation"
    assert all(part.training for part in module.modules())
    first, second = (plan.clipped_sum(batch, 1.0)[0] for _ in range(2))
    assert models.gap(first, second) > 1e-3 * models.length(first)


def test_empty_batches_and_unused_parameters_give_zeros() -> None:
    torch.manual_seed(0)
    module, batch = models.mlp(), models.numbers(6, 4)
    module.add_module("aside", nn.Linear(2, 2))
    plan = plan_clipping(module, lambda m, b: models.loss(m[:3], b), batch)
    total, _ = plan.clipped_sum(batch, 1.0)
    assert not total["aside.weight"].any() and total["2.weight"].any()
    total, norms = plan.clipped_sum(tuple(part[:0] for part in batch), 1.0)
    assert norms.shape == (0,)
    assert {name: value.shape for name, value in total.items()} == {
        name: value.shape for name, value in module.named_parameters()
    }
    assert not any(value.any() for value in total.values())


def test_mappings_and_values_that_are_no_tensors() -> None:
    torch.manual_seed(0)
    x, y = models.numbers(6, 4)
    batch = {"x": x, "more": {"y": y, "scale": 2.0}}

    def loss(module: nn.Module, given: Any) -> Tensor:
        return given["more"]["scale"] * models.loss(module, (given["x"], given["more"]["y"]))

    for way in WAYS:
        plan = plan_clipping(models.mlp(), loss, batch, way=way)
        assert plan.check.relative_error <= 1e-5
        assert 0.9999 <= plan.check.change_over_clip <= 1.0001


def _plan(**changed: Any) -> Any:
    torch.manual_seed(0)
    asked = {"module": models.mlp(), "loss": models.loss, "example_batch": models.numbers(6, 4)}
    return plan_clipping(**{**asked, **changed})


def test_bad_input_is_refused_by_name() -> None:
    frozen = models.mlp().requires_grad_(False)
    same = (torch.ones(6, 4), torch.zeros(6, dtype=torch.long))
    for word, changed in {
        "way='ghost'": {"way": "ghost"},
        "tolerance=0": {"tolerance": 0},
        "requires_grad=True": {"module": frozen},
        "of which 1 differ": {"example_batch": same},
        "first dimension": {"example_batch": (torch.ones(6, 4), torch.zeros(5))},
        "reduction='none'": {"loss": lambda m, b: models.loss(m, b).mean()},
        "not finite on the example": {"loss": lambda m, b: models.loss(m, b) / 0},
        "no trained parameter": {"loss": lambda m, b: (m(b[0]) * 0).sum(1)},
        "in evaluation mode": {"loss": lambda m, b: models.loss(m, b) * torch.rand(len(b[0]))},
        "EmbeddingBag has no rule": {
            "module": models.bag(),
            "example_batch": models.words(6),
            "way": "book-keeping",
        },
    }.items():
        with pytest.raises(InputError, match=word):
            _plan(**changed)


def test_bad_steps_are_refused_by_name() -> None:
    plan, batch = _plan(), models.numbers(6, 4)
    for clip in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InputError, match="clip="):
            plan.clipped_sum(batch, clip)
    for word, weights in {
        "shape": torch.ones(5),
        "negative": -torch.ones(6),
        "finite": torch.full((6,), float("nan")),
    }.items():
        with pytest.raises(InputError, match=word):
            plan.clipped_sum(batch, 1.0, weights)
    plan.module.train(False)
    with pytest.raises(InputError, match="another mode"):
        plan.clipped_sum(batch, 1.0)
    plan.module.train()
    plan.module[0].weight.requires_grad_(False)
    with pytest.raises(InputError, match="other trained parameters"):
        plan.clipped_sum(batch, 1.0)


@pytest.mark.parametrize("value", [torch.inf, 1e20])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["norm", "cnn", "gram"])
def test_an_example_without_a_finite_gradient_counts_nothing(
    name: str, way: str, value: float
) -> None:
    """The sum is that of the others, bit by bit; finite but huge ones are clipped or count 0."""
    torch.manual_seed(0)
    build: Any = {
        "norm": lambda: models.small(nn.LayerNorm(models.WIDTH)),
        "cnn": lambda: models.convolutions(nn.GroupNorm(2, 8), stride=2, padding=1),
        "gram": lambda: models.Model(
            lambda m, x: m.head(torch.tanh(m.fc(x)).mean(1)),
            fc=nn.Linear(models.WIDTH, models.WIDTH),
            head=models.head(),
        ),
    }[name]
    shape = {"norm": (4,), "cnn": (4, 9, 9)}.get(name, (2, models.WIDTH))
    module, batch = build(), models.numbers(6, *shape)
    plan = plan_clipping(module, models.loss, batch, way=way)
    odd = batch[0].clone()
    odd[2].flatten()[0] = value
    total, norms = plan.clipped_sum((odd, batch[1]), 0.1)
    others = [0, 1, 3, 4, 5]
    rest, right = plan.clipped_sum((batch[0][others], batch[1][others]), 0.1)
    torch.testing.assert_close(norms[others], right)
    if bool(torch.isfinite(norms[2])):
        assert models.gap(total, rest) <= 0.1 * 1.0001
    else:
        assert models.gap(total, rest) <= 1e-6
