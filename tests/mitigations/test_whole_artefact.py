"""All that leaves a private training, compared for two inputs that differ in one record.

The record is absent from all batches of one world. Coins are equal, and so is what is released of
every step: each noisy sum is replaced by the same numbers. Then whatever is handed out must be
equal bit by bit, and the sums before noise differ by at most the clip norm, where the record was
drawn, and by nothing where it was not.
"""

import functools
import queue
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

import leaky_modules as blocks
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from lethe.errors import InputError
from lethe.evidence.dp_statement import DpSgdRun, dp_statement
from lethe.mitigations import private_training
from lethe.mitigations.clipping import plan as plans
from lethe.mitigations.clipping.selfcheck import MOST_CHANGE
from lethe.mitigations.dp_sgd import method
from lethe.mitigations.dp_sgd.method import DpSgd, PoissonSampler
from lethe.mitigations.private_training import PrivateSettings, train_privately
from lethe.training.loop import train_models
from lethe.training.networks.parameters import Noise
from lethe.training.recipe import Layout, TorchRecipe, Treatment, Work

COUNT, TARGET = 8, 0  # drawn in the first step, not in the second, and in the third
VALUES = {"plain": 0.5, "infinite": torch.inf, "missing": torch.nan, "huge": 1e30, "large": 1e3}


def bytes_of(value: Tensor) -> bytes:
    value = value.to_dense() if value.is_sparse else value
    return value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def described(value: Any, trained: set[int], seen: set[int]) -> Any:
    """Type and content of all that attributes reach; of trained parameters without their values."""
    if isinstance(value, str | int | float | bool | bytes | type(None)):
        return repr(value)
    if id(value) in seen:
        return "again"
    seen.add(id(value))
    if isinstance(value, Tensor):
        shape = (type(value), tuple(value.shape), value.dtype, value.requires_grad, value.is_leaf)
        content = b"" if id(value) in trained else bytes_of(value)
        grad = described(value.grad, trained, seen) if value.is_leaf else None
        return shape, content, grad, described(vars(value), trained, seen)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return described(value.tolist(), trained, seen)
    if isinstance(value, np.ndarray):
        return value.dtype, value.shape, value.tobytes()
    if isinstance(value, Mapping):
        return [(repr(key), described(item, trained, seen)) for key, item in value.items()]
    if isinstance(value, set):
        return sorted(repr(item) for item in value)
    if isinstance(value, list | tuple) or type(value).__name__ == "deque":
        return [described(item, trained, seen) for item in value]
    if isinstance(value, nn.Module) or type(value).__module__.endswith(("leaky_modules", "types")):
        kept = [
            described(item, trained, seen)
            for item in vars(type(value)).values()
            if isinstance(item, Tensor)
        ]
        # A copy of a recurrent layer sets the same attributes in another order.
        held = vars(value) if hasattr(value, "__dict__") else {"mark": value.mark}
        attributes = [(key, described(item, trained, seen)) for key, item in sorted(held.items())]
        return type(value).__name__, kept, attributes
    return type(value).__name__


def state_of(module: nn.Module) -> Any:
    return described(
        module, {id(value) for value in module.parameters() if value.requires_grad}, set()
    )


@dataclass
class Artefact:
    """What a training handed out, and what it added up before noise, step by step."""

    handed_out: list[Any] = field(default_factory=list)
    sums: dict[int, dict[str, Tensor]] = field(default_factory=dict)
    coins: dict[int, float] = field(default_factory=dict)
    refused: str = ""


class Coins:
    """A stream that never draws the target."""

    def __init__(self, stream: np.random.Generator, absent: bool, note: Callable[[float], None]):
        self.stream, self.absent, self.note = stream, absent, note

    def random(self, count: int) -> Any:
        coins = self.stream.random(count)
        self.note(float(coins[TARGET]))
        if self.absent:
            coins[TARGET] = 2.0
        return coins


_STREAM = private_training._stream


@contextmanager
def observed(artefact: Artefact, absent: bool, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Watch the sums, and release the same numbers in their place whatever they are."""
    now = [0]

    def stream(secret: int, step: int, purpose: int) -> Any:
        now[0] = step
        if blocks.CALLS[0] < 0:  # the training begins
            blocks.CALLS[0] = 0
        own = _STREAM(0, step, purpose)  # also where a training begins anew with another secret
        if purpose != private_training._SAMPLE:
            return own
        return Coins(own, absent, lambda coin: artefact.coins.update({step: coin}))

    def noise(sums: dict[str, Tensor], deviation: float, stream: np.random.Generator) -> None:
        artefact.sums[now[0]] = {name: value.clone() for name, value in sums.items()}
        for value in sums.values():
            value.copy_(torch.from_numpy(stream.normal(0, 0.3, tuple(value.shape))))

    with monkeypatch.context() as patch:
        patch.setattr(private_training, "_stream", stream)
        patch.setattr(private_training, "_add_noise", noise)
        patch.setattr(private_training, "dp_statement", _statement)
        patch.setattr(plans, "_EXAMPLES", 3)  # the check has tests of its own
        yield


_SAID: dict[str, Any] = {}


def _statement(run: DpSgdRun) -> Any:
    """`dp_statement`, each only once."""
    key = repr(run)
    if key not in _SAID:
        _SAID[key] = dp_statement(run)
    return _SAID[key]


def world(
    build: Callable[[], nn.Module],
    data: Any,
    asked: PrivateSettings,
    absent: bool,
    monkeypatch: pytest.MonkeyPatch,
    path: Path,
    **more: Any,
) -> Artefact:
    """One training, in which the target takes part or not."""
    torch.manual_seed(1)
    module, artefact = build(), Artefact()
    before, blocks.CALLS[0] = state_of(module), -(10**9)
    with observed(artefact, absent, monkeypatch):
        try:
            made = train_privately(module, data, asked, seed=3, **more)
        except InputError as error:
            artefact.refused = str(error)
            assert state_of(module) == before
            return artefact
    assert made.module is module
    assert state_of(module) == before, "something beside the trained parameters has changed"
    made.save(path)
    artefact.handed_out = [
        path.read_bytes(),
        described(vars(made.statement), set(), set()),
        repr(
            (made.steps, made.noise_multiplier, made.plan.way, made.plan.reasons, made.plan.check)
        ),
        [(name, bytes_of(value)) for name, value in module.named_parameters()],
        [value for value in vars(made.plan.state).values() if isinstance(value, bool)],
    ]
    assert sorted(one.name for one in path.parent.iterdir()) == [path.name]
    return artefact


def compare(first: Artefact, second: Artefact, how: PrivateSettings, bounded: bool = True) -> None:
    """The record may move a sum by the clip norm, in the steps that drew it, and nothing else."""
    assert first.refused == second.refused
    assert first.handed_out == second.handed_out
    assert first.sums.keys() == second.sums.keys()
    for step, sums in first.sums.items():
        others = second.sums[step]
        moved = sum(float((sums[n].double() - others[n].double()).square().sum()) for n in sums)
        if first.coins[step] < how.rate(COUNT):
            assert not bounded or moved**0.5 <= how.clip * MOST_CHANGE
        else:
            assert moved == 0


def net(front: Callable[[], nn.Module], *middle: Callable[[], nn.Module]) -> nn.Module:
    parts = (front(), *(make() for make in middle), nn.Linear(blocks.WIDTH, blocks.CLASSES))
    return nn.Sequential(*parts)


def examples(words: bool, kind: str, position: int = 0) -> tuple[Tensor, Tensor]:
    """Eight records, of which the target is the odd one."""
    rng = np.random.default_rng(2)
    labels = torch.from_numpy(rng.integers(0, blocks.CLASSES, COUNT))
    if words:
        x = torch.from_numpy(rng.integers(0, blocks.WORDS - 1, (COUNT, blocks.LENGTH)))
        # A word that nobody else has, or one that there is not.
        x[TARGET, position % blocks.LENGTH] = blocks.WORDS - (kind in ("plain", "large"))
    else:
        x = torch.from_numpy(rng.normal(size=(COUNT, blocks.WIDTH)).astype(np.float32))
        x[TARGET, position:] = VALUES[kind]
    return x, labels


def asked(**changes: Any) -> PrivateSettings:
    usual = {"noise_multiplier": 1.0, "delta": 1e-3, "batch_size": 5, "epochs": 1.8}
    return PrivateSettings(**{**usual, "optimizer": "sgd", "learning_rate": 0.1, **changes})


Both = Callable[..., tuple[Artefact, Artefact]]


@pytest.fixture
def neighbours(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Both:
    def both(
        build: Callable[[], nn.Module], data: Any, how: PrivateSettings, **more: Any
    ) -> tuple[Artefact, Artefact]:
        (tmp_path / "a").mkdir(exist_ok=True), (tmp_path / "b").mkdir(exist_ok=True)
        other = tuple(part.clone() for part in data)
        other[0][TARGET], other[1][TARGET] = data[0][1], 0
        return (
            world(build, data, how, False, monkeypatch, tmp_path / "a" / "model", **more),
            world(build, other, how, True, monkeypatch, tmp_path / "b" / "model", **more),
        )

    return both


@pytest.mark.parametrize("name", [*blocks.LEAKY, *blocks.LEAKY_WORDS])
def test_every_way_to_leak_is_refused_or_harmless(name: str, neighbours: Both) -> None:
    words = name in blocks.LEAKY_WORDS
    leak = (blocks.LEAKY_WORDS if words else blocks.LEAKY)[name]
    how = asked(part_size=2, clip=0.2)
    compare(*neighbours(lambda: net(leak), examples(words, "huge"), how), how)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("frozen parameter", "0 (Block) writes the parameter '0.kept'"),
        ("trained parameter by data", "0.fc (Linear) writes the parameter '0.fc.bias'"),
        ("buffer that is not saved", "writes the buffer '0.seen'"),
        ("in the backward pass", "writes the parameter '0.kept'"),
        ("tensor in a tuple", "writes the tensor '0.kept.0.0'"),
        ("class", "writes the tensor '0.shared'"),
        ("mixes if extreme", "one example changes the results of others"),
        ("max_norm, rows still short", "max_norm=100"),
    ],
)
def test_what_the_self_check_sees_is_refused_by_name(name: str, words: str) -> None:
    every = blocks.LEAKY | blocks.LEAKY_WORDS
    data = examples(name in blocks.LEAKY_WORDS, "plain")
    with pytest.raises(InputError, match=re.escape(words)):
        train_privately(net(every[name]), data, asked())


@pytest.mark.parametrize(
    "make",
    [queue.Queue, threading.Lock, lambda: functools.lru_cache(len), lambda: MappingProxyType({})],
)
def test_what_can_neither_be_watched_nor_copied_is_refused_by_name(make: Callable[[], Any]) -> None:
    block = blocks.Block(blocks.nothing, kept=[make()])
    with pytest.raises(InputError, match="'0.kept.0.* cannot be put back"):
        train_privately(net(lambda: block), examples(False, "plain"), asked())


def test_a_model_that_mixes_on_real_batches_alone_is_trained_anew_by_single_records(
    neighbours: Both, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Looks come at secret random calls; here they come at every call."""
    monkeypatch.setattr(plans, "rarely", lambda *_: True)
    how = asked(clip=0.2)
    both = neighbours(
        lambda: net(lambda: blocks.Block(blocks.by_global_count)), examples(False, "plain"), how
    )
    compare(*both, how)


def check_drawn(draw: st.DataObject, neighbours: Both) -> None:
    """One module, one odd record and one way to train, drawn at random."""
    words = draw.draw(st.booleans())
    fronts = blocks.HONEST_WORDS | blocks.LEAKY_WORDS if words else {"layer": blocks.layer}
    every = blocks.HONEST | blocks.LEAKY
    names = [draw.draw(st.sampled_from(sorted(fronts)))]
    # Mostly honest: a module that is refused at once tests little.
    some = st.sampled_from(sorted(blocks.HONEST))
    names += draw.draw(st.lists(some, max_size=2))
    leaks = draw.draw(st.lists(st.sampled_from(sorted(blocks.LEAKY)), max_size=1))
    parts = [fronts[names[0]], *(every[name] for name in [*names[1:], *leaks])]
    copies = draw.draw(st.sampled_from([1, 1, 2]))
    how = asked(
        clip=draw.draw(st.sampled_from([1e-3, 0.2, 1.0])),
        part_size=draw.draw(st.sampled_from([64, 2])),
        copies=copies,
        optimizer=draw.draw(st.sampled_from(["sgd", "adam"])),
        epochs=draw.draw(st.sampled_from([1.2, 1.8, 2.4])),
    )
    kind, place = draw.draw(st.sampled_from(sorted(VALUES))), draw.draw(st.integers(0, 3))
    data = examples(words, kind, place)
    weights = draw.draw(st.sampled_from([None, np.linspace(1, 0.3, COUNT)]))
    both = neighbours(lambda: net(*parts), data, how, weights=weights)
    if any(name.endswith("later") for name in leaks):  # a count outside the module: an assumption
        assert [world.refused for world in both].count("") != 1
        assert both[0].handed_out == both[1].handed_out
        return
    # Masks of other records depend on how many are drawn: equal in distribution only.
    compare(*both, how, bounded="dropout" not in names)


_FIXTURE = [HealthCheck.function_scoped_fixture]  # worlds share a folder and nothing else


@settings(max_examples=8, suppress_health_check=_FIXTURE)
@given(st.data())
def test_no_drawn_training_tells_two_worlds_apart(neighbours: Both, draw: st.DataObject) -> None:
    check_drawn(draw, neighbours)


@pytest.mark.slow
@settings(max_examples=2500, suppress_health_check=_FIXTURE)
@given(st.data())
def test_no_drawn_training_tells_two_worlds_apart_at_length(
    neighbours: Both, draw: st.DataObject
) -> None:
    check_drawn(draw, neighbours)


# The DP-SGD candidate of an audit, which has a loop of its own.

_SEEDS, _POOL = [11, 12], np.arange(12) < COUNT
_MODELS: dict[str, Callable[[], nn.Module]] = {
    "chain": lambda: net(blocks.layer, lambda: nn.LayerNorm(blocks.WIDTH)),
    "images": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 2, 2)),
        nn.Conv2d(1, 2, 2, padding=1),
        nn.GroupNorm(1, 2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(18, blocks.CLASSES),
    ),
}


def audited(
    build: Callable[[], nn.Module],
    features: np.ndarray,
    kind: str,
    absent: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[str, list[Tensor], list[bytes]]:
    """A refusal, the sums before noise, and the answers about all other records."""
    sums: list[Tensor] = []

    class Fixed(Noise):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            blocks.CALLS[0] = max(blocks.CALLS[0], 0)  # the training begins

        def add(self) -> None:
            slopes = [block.slope for block in self.parameters.blocks]
            sums.append(torch.cat([slope.flatten() for slope in slopes]))
            stream = torch.Generator().manual_seed(len(sums))
            for slope in slopes:
                slope.copy_(torch.empty(slope.shape).normal_(0, 0.3, generator=stream))

    class Sampler(PoissonSampler):
        def draw(self) -> Any:
            drawn = super().draw()
            return drawn[drawn != TARGET] if absent else drawn

    labels = np.arange(len(features)) % blocks.CLASSES
    members = np.ones((2, len(features)), bool) & _POOL
    how = DpSgd(1.0, 0.2, 0.6, 4, learning_rate=0.1, optimizer="sgd", microbatch=3)
    recipe = TorchRecipe(make_module=build, loss="cross-entropy")
    layout = Layout(kind, 2 if kind == "chain" else 1)
    blocks.CALLS[0] = -(10**9)
    with monkeypatch.context() as patch:
        patch.setattr(method, "Noise", Fixed)
        patch.setattr(method, "PoissonSampler", Sampler)
        treatment = Treatment(method=how)
        work = Work(recipe, features, labels, members, _POOL, treatment, _SEEDS, layout)
        try:
            outputs = list(train_models(work))
        except InputError as error:
            return str(error), [], []
    return "", sums, [np.delete(one, TARGET, axis=0).tobytes() for one in outputs]


@pytest.mark.parametrize(
    ("name", "kind"),
    [(name, kind) for name in (*_MODELS, "one by one") for kind in ("plain", "infinite")]
    # An audit asks its models about all records, so that an error in an answer ends it.
    + [(name, "huge") for name in sorted(blocks.LEAKY)[::4] if name != "error if extreme"],
)
def test_the_candidate_of_an_audit_is_bounded_alike(
    name: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = _MODELS.get(name) or (lambda: net(blocks.LEAKY.get(name, blocks.layer)))
    layout = "chain" if name == "chain" else "alone"
    features = np.random.default_rng(4).normal(size=(12, blocks.WIDTH)).astype(np.float32)
    other = features.copy()
    features[TARGET, 1:] = VALUES[kind]
    refused, sums, answers = audited(build, features, layout, False, monkeypatch)
    refused_too, others, answers_too = audited(build, other, layout, True, monkeypatch)
    assert (refused, answers) == (refused_too, answers_too)
    for first, second in zip(sums, others, strict=True):
        moved = float((first.double() - second.double()).norm())  # of two models in a chain
        assert moved <= 0.2 * MOST_CHANGE * (2**0.5 if layout == "chain" else 1)
