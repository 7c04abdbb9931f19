"""The two networks of the reader-engagement study: an MLP, and a BiLSTM with attention.

`make(name, shape)` builds one. With the study's inputs (27 aggregates, 5 numbers of the article, 3
of the context, 2 channels) they have 209,665 and 1,025,089 parameters, as published. The 64 numbers
before the last layer are the representation; LayerNorm is the last thing that is done to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

REPRESENTATION = 64
_EMBEDDED = 16


@dataclass(frozen=True)
class Shape:
    """Widths of the inputs.

    Attributes:
        aggregates: numbers that sum up a person's past.
        article: numbers of the article.
        context: numbers of the impression.
        channels: numbers of a step of the sequence.
        categories: rows of the first embedding table.
        kinds: rows of the second.
    """

    aggregates: int = 27
    article: int = 5
    context: int = 3
    channels: int = 2
    categories: int = 32
    kinds: int = 16

    @property
    def flat(self) -> int:
        """Width of everything but the sequence."""
        return self.aggregates + 2 * _EMBEDDED + self.article + self.context


@dataclass(frozen=True)
class Inputs:
    """One batch as tensors, see `readers.store.Batch`."""

    aggregates: Tensor
    sequence: Tensor
    length: Tensor
    category: Tensor
    kind: Tensor
    article: Tensor
    context: Tensor


def block(inputs: int, outputs: int, dropout: float) -> nn.Sequential:
    """Linear, LayerNorm, SiLU, Dropout."""
    return nn.Sequential(
        nn.Linear(inputs, outputs), nn.LayerNorm(outputs), nn.SiLU(), nn.Dropout(dropout)
    )


class Residual(nn.Module):
    """A block and a way around it."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.inner = block(width, width, dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(n, width) to the same."""
        return x + self.inner(x)


class Network(nn.Module):
    """Embedding tables, an encoder to 64 numbers, and a linear head with one logit.

    Args:
        shape: widths of the inputs.
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.category = nn.Embedding(shape.categories, _EMBEDDED)
        self.kind = nn.Embedding(shape.kinds, _EMBEDDED)
        self.head = nn.Linear(REPRESENTATION, 1)

    def flat(self, given: Inputs) -> Tensor:
        """(n, 67) everything but the sequence."""
        embedded = [self.category(given.category), self.kind(given.kind)]
        return torch.cat([given.aggregates, *embedded, given.article, given.context], dim=1)

    def represent(self, given: Inputs) -> Tensor:
        """(n, 64) what is released, stored or attacked."""
        raise NotImplementedError

    def forward(self, given: Inputs) -> Tensor:
        """(n,) logits; above 0 means engaged."""
        logits: Tensor = self.head(self.represent(given))
        return logits[:, 0]

    def _start(self) -> None:
        """Kaiming-normal weights, zero bias, small embeddings."""
        for part in self.modules():
            if isinstance(part, nn.Linear):
                nn.init.kaiming_normal_(part.weight)
                nn.init.zeros_(part.bias)
            elif isinstance(part, nn.Embedding):
                nn.init.normal_(part.weight, 0, 0.02)


class Mlp(Network):
    """Reads the aggregates and not the sequence."""

    def __init__(self, shape: Shape, dropout: float = 0.2) -> None:
        super().__init__(shape)
        self.encoder = nn.Sequential(
            block(shape.flat, 256, dropout),
            Residual(256, dropout),
            block(256, 256, dropout),
            block(256, 128, dropout),
            Residual(128, dropout),
            nn.Linear(128, REPRESENTATION),
            nn.LayerNorm(REPRESENTATION),
        )
        self._start()

    def represent(self, given: Inputs) -> Tensor:
        """(n, 64)."""
        out: Tensor = self.encoder(self.flat(given))
        return out


class Lstm(Network):
    """Reads the sequence and the aggregates."""

    def __init__(self, shape: Shape, dropout: float = 0.2, hidden: int = 128) -> None:
        super().__init__(shape)
        self.step = nn.Sequential(nn.Linear(shape.channels, 64), nn.LayerNorm(64), nn.SiLU())
        self.recurrent = nn.LSTM(
            64, hidden, num_layers=2, batch_first=True, bidirectional=True, dropout=0.15
        )
        self.attention = nn.MultiheadAttention(2 * hidden, 4, dropout=0.1, batch_first=True)
        self.after = nn.LayerNorm(2 * hidden)
        self.encoder = nn.Sequential(
            block(2 * hidden + shape.flat, 256, dropout),
            Residual(256, dropout),
            nn.Linear(256, REPRESENTATION),
            nn.LayerNorm(REPRESENTATION),
        )
        self._start()
        for name, weight in self.recurrent.named_parameters():
            if "weight_hh" in name:
                nn.init.orthogonal_(weight)
            elif "bias" in name:
                nn.init.zeros_(weight)
                if "bias_ih" in name:  # the second of four gates: forget nothing at first
                    nn.init.ones_(weight[hidden : 2 * hidden])

    def represent(self, given: Inputs) -> Tensor:
        """(n, 64)."""
        steps = given.sequence.shape[1]
        real = torch.arange(steps, device=given.length.device) < given.length[:, None]
        found, _ = self.recurrent(self.step(given.sequence))
        looked, _ = self.attention(found, found, found, key_padding_mask=~real, need_weights=False)
        found = self.after(found + looked)
        weight = real[..., None].to(found.dtype)
        past = (found * weight).sum(dim=1) / weight.sum(dim=1)
        out: Tensor = self.encoder(torch.cat([past, self.flat(given)], dim=1))
        return out


NETWORKS: dict[str, type[Mlp] | type[Lstm]] = {"mlp": Mlp, "lstm": Lstm}


def make(name: str, shape: Shape, seed: int = 0) -> Network:
    """A new network by name, "mlp" or "lstm", with weights that depend on the seed alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return NETWORKS[name](shape)


def shape_words(shape: Shape) -> dict[str, int]:
    """The widths as plain numbers, for a checkpoint."""
    return asdict(shape)


def parameters(networks: Sequence[nn.Module]) -> list[int]:
    """Number of trained numbers of each."""
    return [sum(p.numel() for p in one.parameters()) for one in networks]
