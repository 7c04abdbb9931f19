"""Blocks (B, 4) -> (B, 4) for private trainings: honest ones, and one for each way to leak."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from io import StringIO
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import parametrizations

WIDTH, WORDS, LENGTH, CLASSES = 4, 7, 3, 2
LOUD = 50.0  # numbers above are extreme
CALLS = [0]  # since the training began, of blocks that count outside of their attributes


class Block(nn.Module):
    """Does something beside the layer that it is."""

    def __init__(self, act: Callable[[Any, Tensor], Tensor | None], **attributes: Any) -> None:
        super().__init__()
        self.fc, self.act = nn.Linear(WIDTH, WIDTH), act
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        changed = self.act(self, x.detach())
        return torch.tanh(self.fc(x if changed is None else x + changed))


def row(x: Tensor) -> Tensor:
    """Something that only the private records of a batch decide."""
    return x.reshape(-1, WIDTH).sum(0)


def nothing(*_: object) -> None:
    """A hook that only holds what it was made with."""


def frozen() -> nn.Parameter:
    return nn.Parameter(torch.zeros(WIDTH), requires_grad=False)


def buffered(persistent: bool, act: Callable[[Any, Tensor], Tensor | None]) -> nn.Module:
    block = Block(act)
    block.register_buffer("seen", torch.zeros(WIDTH), persistent=persistent)
    return block


def quietly(write: Callable[[Any, Tensor], object]) -> Callable[[Any, Tensor], None]:
    """Write without a gradient."""

    def act(m: Any, x: Tensor) -> None:
        with torch.no_grad():
            write(m, x)

    return act


def beside(write: Callable[[Any, Tensor], object]) -> Callable[[Any, Tensor], None]:
    """Write as code does that forgets about gradients."""

    def act(m: Any, x: Tensor) -> None:
        write(m, x)

    return act


def when_loud(write: Callable[[Any, Tensor], object]) -> Callable[[Any, Tensor], None]:
    """Write only if a record is extreme, which the self-check need not show."""
    return quietly(lambda m, x: write(m, x) if bool((x.abs() > LOUD).any()) else None)


def later(write: Callable[[Any, Tensor], object], calls: int = 1) -> Callable[..., None]:
    """Write only after some calls, which the self-check did not make."""

    def act(m: Any, x: Tensor) -> None:
        CALLS[0] += 1
        if CALLS[0] > calls:
            write(m, x)

    return quietly(act)


def by_memory(m: Any, x: Tensor) -> Tensor:
    """Earlier records reach the gradients of later ones."""
    before, m.memory = m.memory, row(x)
    return before


def by_count(m: Any, x: Tensor) -> Tensor | None:
    m.calls += 1
    return x.mean(0) if m.calls > 20 else None


def by_loudness(m: Any, x: Tensor) -> Tensor | None:
    return x.clamp(-1, 1).mean(0) if bool((x.abs() > LOUD).any()) else None


def by_global_count(m: Any, x: Tensor) -> Tensor | None:
    CALLS[0] += 1
    return x.mean(0) if CALLS[0] > 1 else None


def raising(m: Any, x: Tensor) -> None:
    if bool((x.abs() > LOUD).any()):
        raise RuntimeError(f"record {x.abs().max()}")


class OfAll(Block):
    """Keeps records in its class."""

    shared = torch.zeros(WIDTH)


class Slow(nn.Module):
    """A frozen teacher that follows the trained layer, by `.data` as most code does."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.teacher = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.teacher.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        self.teacher.weight.data.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return torch.tanh(self.fc(x) + self.teacher(x))


class Codebook(nn.Module):
    """Nearest code of a codebook that follows the records."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.codes = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(5, WIDTH))
        self.codes.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        near = torch.cdist(x.detach(), self.codes).argmin(1)
        found = self.codes[near].clone()
        if self.training:
            with torch.no_grad():
                self.codes.index_add_(0, near, x.detach() - found, alpha=0.1)
        return torch.tanh(self.fc(x) + found)


class BackwardWriter(nn.Module):
    """Writes in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.kept = nn.Linear(WIDTH, WIDTH), frozen()

    def keep(self, g: Tensor) -> None:
        self.kept.data.copy_(row(g))

    def forward(self, x: Tensor) -> Tensor:
        h = self.fc(x)
        h.register_hook(self.keep)
        return torch.tanh(h)


class Lookup(nn.Module):
    """Words of an embedding, added up; the block of sequences."""

    def __init__(self, table: nn.Module | None = None, tied: bool = False) -> None:
        super().__init__()
        self.table, self.tied = table or nn.Embedding(WORDS, WIDTH), tied

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        h = h if h.ndim == 2 else h.mean(1)
        return h @ self.table.weight.T[:, :WIDTH] if self.tied else h


class Renormalised(nn.Module):
    """max_norm without a layer that has it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(3 * torch.randn(WORDS, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight.detach(), max_norm=1.0).mean(1) + self.weight.mean(0)


class Attention(nn.Module):
    """Attends within an example."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.inner = nn.MultiheadAttention(WIDTH, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        h = self.table(x)
        return self.inner(h, h, h, need_weights=False)[0].mean(1)


class Recurrent(nn.Module):
    """The last state of a GRU."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.inner = nn.Embedding(WORDS, WIDTH), nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(self.table(x))[0][:, -1]


@dataclass
class Box:
    """An object of a user's own class."""

    inside: Any = None


class Cached(Block):
    """Caches what depends on shapes alone, as rotary embeddings do."""

    def __init__(self) -> None:
        super().__init__(lambda m, x: None)
        self.places: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.places is None or len(self.places) < x.shape[-1]:
            self.places = torch.arange(x.shape[-1]) / 10
        return super().forward(x + self.places)


def layer() -> nn.Module:
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())


def half_frozen() -> nn.Module:
    block = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh(), nn.Linear(WIDTH, WIDTH))
    block[0].requires_grad_(False)
    return block


def steered(
    make: Callable[[], Any], write: Callable[[Any], object], read: Callable[[Any], Any]
) -> Callable[[], nn.Module]:
    """A block in which a loud record marks something, by which all records are shifted then."""

    def act(m: Any, x: Tensor) -> Tensor | None:
        if bool((x.abs() > LOUD).any()):
            write(m.kept)
        return torch.ones_like(x) if read(m.kept) else None

    return lambda: Block(act, kept=make())


class Slots:
    """An object without a table of attributes."""

    __slots__ = ("mark",)

    def __init__(self) -> None:
        self.mark = 0


def sparse() -> list[Tensor]:
    place, value = torch.zeros(1, 1).long(), torch.zeros(1)
    return [torch.sparse_coo_tensor(place, value, (1,), check_invariants=False)]


def by_gradient(m: Any, x: Tensor) -> Tensor | None:
    if bool((x.abs() > LOUD).any()):
        m.kept.grad = torch.ones(WIDTH)
    return None if m.kept.grad is None else torch.ones_like(x)


STEERED: dict[str, Callable[[], nn.Module]] = {
    "steered by a gradient": lambda: Block(by_gradient, kept=frozen()),
    "steered by a list": steered(list, lambda s: s.append(1), len),
    "steered by an object": steered(Box, lambda s: setattr(s, "inside", 1), lambda s: s.inside),
    "steered by slots": steered(Slots, lambda s: setattr(s, "mark", 1), lambda s: s.mark),
    "steered by bytes": steered(bytearray, lambda s: s.extend(b"x"), len),
    "steered by a partial": steered(
        lambda: partial(nothing, []), lambda s: s.args[0].append(1), lambda s: s.args[0]
    ),
    "steered by a text": steered(StringIO, lambda s: s.write("x"), lambda s: s.getvalue()),
    "steered by a stream": steered(
        lambda: torch.Generator().manual_seed(0),
        lambda s: s.manual_seed(1),
        lambda s: s.initial_seed(),
    ),
    "steered by a sparse tensor": steered(
        sparse, lambda s: s[0]._values().fill_(1), lambda s: float(s[0]._values())
    ),
    "steered by an array": steered(
        lambda: np.array([[0], None], dtype=object), lambda s: s[0].append(1), lambda s: s[0][1:]
    ),
    "steered by a method": steered(
        lambda: [].append,
        lambda s: s(1),
        lambda s: getattr(s, "__self__"),  # noqa: B009
    ),
}

HONEST: dict[str, Callable[[], nn.Module]] = {
    "layer": layer,
    "LayerNorm": lambda: nn.LayerNorm(WIDTH),
    "GroupNorm": lambda: nn.GroupNorm(2, WIDTH),
    "frozen": half_frozen,
    "weight norm": lambda: parametrizations.weight_norm(nn.Linear(WIDTH, WIDTH)),
    "dropout": lambda: nn.Dropout(0.3),
    "shape cache": Cached,
    "batch norm, frozen": lambda: nn.BatchNorm1d(WIDTH).train(False),
}
HONEST_WORDS: dict[str, Callable[[], nn.Module]] = {
    "embedding": Lookup,
    "bag": lambda: Lookup(nn.EmbeddingBag(WORDS, WIDTH)),
    "tied": lambda: Lookup(tied=True),
    "attention": Attention,
    "recurrent": Recurrent,
}
LEAKY_WORDS: dict[str, Callable[[], nn.Module]] = {
    "max_norm": lambda: Lookup(nn.Embedding(WORDS, WIDTH, max_norm=1.0)),
    "max_norm, rows still short": lambda: Lookup(nn.Embedding(WORDS, WIDTH, max_norm=100.0)),
    "max_norm of a bag": lambda: Lookup(nn.EmbeddingBag(WORDS, WIDTH, max_norm=1.0)),
    "max_norm by function": Renormalised,
    "frequencies": lambda: Lookup(nn.Embedding(WORDS, WIDTH, scale_grad_by_freq=True)),
}
LEAKY: dict[str, Callable[[], nn.Module]] = {
    "frozen parameter": lambda: Block(quietly(lambda m, x: m.kept.copy_(row(x))), kept=frozen()),
    "frozen parameter by data": lambda: Block(
        beside(lambda m, x: m.kept.data.copy_(row(x))), kept=frozen()
    ),
    "frozen parameter with history": lambda: Block(
        beside(lambda m, x: m.kept.add_(m.fc(x).sum(0))), kept=frozen()
    ),
    "trained parameter": lambda: Block(quietly(lambda m, x: m.fc.bias.copy_(row(x)))),
    "trained parameter by data": lambda: Block(beside(lambda m, x: m.fc.bias.data.copy_(row(x)))),
    "trained parameter by NumPy": lambda: Block(
        quietly(lambda m, x: np.copyto(m.fc.bias.numpy(force=True), row(x).numpy(force=True)))
    ),
    "parameter replaced": lambda: Block(
        quietly(lambda m, x: setattr(m, "kept", nn.Parameter(row(x), requires_grad=False))),
        kept=frozen(),
    ),
    "memory replaced": lambda: Block(
        quietly(lambda m, x: setattr(m.kept, "data", row(x))), kept=frozen()
    ),
    "buffer": lambda: buffered(True, quietly(lambda m, x: m.seen.add_(row(x)))),
    "buffer that is not saved": lambda: buffered(False, quietly(lambda m, x: m.seen.add_(row(x)))),
    "buffer assigned": lambda: buffered(True, lambda m, x: setattr(m, "seen", row(x))),
    "buffer registered": lambda: Block(lambda m, x: m.register_buffer("late", row(x))),
    "teacher": Slow,
    "codebook": Codebook,
    "in the backward pass": BackwardWriter,
    "batch norm": lambda: nn.BatchNorm1d(WIDTH),
    "batch norm without statistics": lambda: nn.BatchNorm1d(WIDTH, track_running_stats=False),
    "instance statistics": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 2)), nn.InstanceNorm1d(2, track_running_stats=True), nn.Flatten()
    ),
    "spectral norm": lambda: parametrizations.spectral_norm(nn.Linear(WIDTH, WIDTH)),
    "mean taken off": lambda: Block(lambda m, x: -x.mean(0)),
    "attribute": lambda: Block(lambda m, x: setattr(m, "last", row(x)), last=None),
    "attribute in place": lambda: Block(
        beside(lambda m, x: m.last.copy_(row(x))), last=torch.zeros(WIDTH)
    ),
    "new attribute": lambda: Block(lambda m, x: setattr(m, "late", row(x))),
    "attribute of a weight": lambda: Block(lambda m, x: setattr(m.fc.weight, "late", row(x))),
    "gradient field": lambda: Block(lambda m, x: setattr(m.kept, "grad", row(x)), kept=frozen()),
    "list": lambda: Block(lambda m, x: m.kept.append(row(x)), kept=[]),
    "tensor in a list": lambda: Block(
        beside(lambda m, x: m.kept[0].copy_(row(x))), kept=[torch.zeros(WIDTH)]
    ),
    "tensor in a tuple": lambda: Block(
        beside(lambda m, x: m.kept[0][0].copy_(row(x))), kept=((torch.zeros(WIDTH),),)
    ),
    "mapping": lambda: Block(lambda m, x: m.kept.update(last=row(x)), kept={"last": None}),
    "key of a mapping": lambda: Block(
        beside(lambda m, x: m.kept.update({float(x.sum()): m.kept.popitem()[1]})), kept={0: None}
    ),
    "set": lambda: Block(lambda m, x: m.kept.add(float(x.sum())), kept=set()),
    "queue": lambda: Block(lambda m, x: m.kept.append(row(x)), kept=deque([0], maxlen=1)),
    "namespace": lambda: Block(lambda m, x: setattr(m.kept, "a", row(x)), kept=SimpleNamespace()),
    "object": lambda: Block(lambda m, x: setattr(m.kept, "inside", [row(x)]), kept=Box()),
    "array": lambda: Block(
        lambda m, x: np.copyto(m.kept, row(x).numpy()), kept=np.zeros(WIDTH, np.float32)
    ),
    "class": lambda: OfAll(beside(lambda m, x: m.shared.copy_(row(x)))),
    "counter": lambda: Block(lambda m, x: setattr(m, "calls", m.calls + len(x)), calls=0),
    "mode": lambda: Block(when_loud(lambda m, x: m.train(False))),
    "requires_grad": lambda: Block(when_loud(lambda m, x: m.fc.requires_grad_(False))),
    "hook": lambda: Block(
        when_loud(lambda m, x: m.fc.register_forward_hook(partial(nothing, row(x))))
    ),
    "module": lambda: Block(when_loud(lambda m, x: m.add_module("late", nn.Linear(1, 1)))),
    "buffer, if extreme": lambda: buffered(True, when_loud(lambda m, x: m.seen.copy_(row(x)))),
    "data, if extreme": lambda: Block(
        when_loud(lambda m, x: m.kept.data.copy_(row(x))), kept=frozen()
    ),
    "buffer, later": lambda: buffered(True, later(lambda m, x: m.seen.add_(row(x)))),
    "data, later": lambda: Block(later(lambda m, x: m.kept.data.copy_(row(x))), kept=frozen()),
    "weights, later": lambda: Block(later(lambda m, x: m.fc.weight.data.add_(row(x)))),
    "later examples": lambda: Block(by_memory, memory=torch.zeros(WIDTH)),
    "mixes by count": lambda: Block(by_count, calls=0),
    "mixes if extreme": lambda: Block(by_loudness),
    "error if extreme": lambda: Block(raising),
    **STEERED,
}
