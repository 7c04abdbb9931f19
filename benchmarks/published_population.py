"""A made-up population with the published geometry of a reader-engagement study.

Published: 28,361 users with 280,423 probes, 64 dimensions behind a LayerNorm, spread of all
coordinates 0.429 (MLP) and 0.813 (BiLSTM), distances to the nearest of 10,000 mean profiles, and
the clean attack. Users and rows are Gaussian with spectra that fall geometrically, users about a
common point with a log-normal size each (few far out, most close together); beside it a small trace
in all directions that the rows of a user share, as they do where their input is copied; then the
LayerNorm. The MLP's numbers were searched at random for the nearest-neighbour distances and the
clean ranks alone. The BiLSTM has the same broad shape; its trace and the spread within a user were
set by hand for the same, with the levels of noise from sigma 0 to 0.5 in view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from lethe.reidentification.ranks import ranks

SIGMAS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
DIMENSIONS, RANK = 64, 24
PUBLISHED: dict[str, dict[str, Any]] = {
    "mlp": {
        "nearest_l2": (0.0126, 0.0267, 0.0893),
        "nearest_cosine": 2.75e-5,
        "lift": (68.6, 59.4, 28.6, 21.2, 14.4, 8.9, 5.9, 4.4, 3.1, 2.5, 1.9),
        "mrr": (578, 592, 476, 426, 335, 239, 184, 150, 109, 86, 63),
        "median_rank": (3121, 3116, 3001, 2663, 2498, 3182, 4056, 4959, 6814, 8512, 10824),
    },
    "lstm": {
        "nearest_l2": (0.144, 0.208, 0.355),
        "nearest_cosine": 4.96e-4,
        "lift": (2958, 2932, 1727, 554, 65.1, 15.3, 7.8, 4.8, 2.3, 1.5, 1.2),
        "mrr": (13340, 13270, 9120, 3870, 810, 300, 190, 140, 90, 70, 50),
        "median_rank": (1126, 1123, 1095, 1264, 2101, 3302, 4348, 5288, 6884, 8172, 10051),
    },
}
"""By sigma of `SIGMAS`; MRR in units of 1e-5; distances at 5, 50 and 95 %."""


@dataclass(frozen=True)
class Shape:
    """Geometry of a population.

    Attributes:
        spread: of all coordinates after the LayerNorm.
        fall: factor from one direction to the next, between users.
        between: share of the variance about the common point that is between users.
        fall_within: factor from one direction to the next, within a user.
        common: share of the squared length that all rows have in common.
        tail: log-normal spread of how far out a user is.
        copied: sd of what all rows of a user share in every coordinate alike (a copied input).
        blurred: sd of what differs there from row to row.
    """

    spread: float
    fall: float
    between: float
    fall_within: float
    common: float
    tail: float
    copied: float
    blurred: float


SHAPES = {
    "mlp": Shape(0.429, 0.121, 0.901, 0.473, 0.663, 0.517, 0.0, 0.0),
    "lstm": Shape(0.813, 0.121, 0.97, 0.3, 0.663, 0.517, 0.0221, 0.0148),
}


@dataclass(frozen=True, eq=False)
class Readers:
    """The population.

    Attributes:
        gallery: (G, 64) means of the known rows.
        probes: (P, 64) some of the others.
        owner: (P,) whose they are.
        profiles: (G, 64) mean of all rows of each user.
        rows: (G,) rows of each user; half of them are known.
    """

    gallery: Any
    probes: Any
    owner: Any
    profiles: Any
    rows: Any

    def ranks(self, sigma: float, seed: int = 0) -> Any:
        """(P,) rank of each owner by cosine, with noise on every row."""
        rng = np.random.default_rng([seed, 6])
        own = sigma / np.sqrt(self.rows // 2)[:, None]
        gallery = self.gallery + own * rng.standard_normal(self.gallery.shape)
        probes = self.probes + sigma * rng.standard_normal(self.probes.shape)
        return ranks(probes, gallery, self.owner).rank


def impressions(users: int, rng: np.random.Generator) -> Any:
    """(users,) rows each: median 9, mean about 15, at most 214, of those who have at least 4."""
    found = np.empty(0, int)
    while len(found) < users:
        more = np.rint(np.exp(np.log(9) + 1.03 * rng.standard_normal(2 * users))).astype(int)
        found = np.append(found, np.minimum(more[more >= 4], 214))
    return found[:users]


def readers(shape: Shape, users: int, probes: int, seed: int = 0) -> Readers:
    """Users with as many rows as published; of the probes a random part."""
    rng = np.random.default_rng([seed, 5])
    rows = impressions(users, rng)
    owner = np.repeat(np.arange(users), rows)
    trace = shape.copied * rng.standard_normal((users, DIMENSIONS))
    basis = np.linalg.qr(rng.standard_normal((DIMENSIONS, RANK + 1)))[0]
    left = DIMENSIONS * (1 - shape.common)
    out = np.exp(shape.tail * rng.standard_normal(users) - shape.tail**2)
    centre = rng.standard_normal((users, RANK)) * out[:, None]
    centre *= np.sqrt(spectrum(shape.fall) * left * shape.between)
    within = np.sqrt(spectrum(shape.fall_within) * left * (1 - shape.between))
    vectors = np.empty((len(owner), DIMENSIONS), np.float32)
    for first in range(0, len(owner), 50_000):
        at = slice(first, first + 50_000)
        part = centre[owner[at]] + rng.standard_normal((len(owner[at]), RANK)) * within
        part = part @ basis[:, :RANK].T + np.sqrt(shape.common * DIMENSIONS) * basis[:, RANK]
        part += trace[owner[at]] + shape.blurred * rng.standard_normal(part.shape)
        part -= part.mean(axis=1, keepdims=True)
        vectors[at] = shape.spread * part / part.std(axis=1, keepdims=True)
    place = np.arange(len(owner)) - np.repeat(np.cumsum(rows) - rows, rows)
    known = place < rows[owner] // 2
    asked = np.flatnonzero(~known)
    chosen = np.sort(rng.choice(asked, min(probes, len(asked)), replace=False))
    gallery = means(vectors[known], owner[known])
    return Readers(gallery, vectors[chosen], owner[chosen], means(vectors, owner), rows)


def spectrum(fall: float) -> Any:
    """(RANK,) shares of a variance that sum to 1."""
    found = fall ** (2.0 * np.arange(RANK))
    return found / found.sum()


def means(vectors: Any, owner: Any) -> Any:
    """Mean of the rows of each owner; rows are sorted by owner."""
    count = np.bincount(owner)
    return np.add.reduceat(vectors.astype(np.float64), np.cumsum(count) - count) / count[:, None]
