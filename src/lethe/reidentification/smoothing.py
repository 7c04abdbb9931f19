"""Gaussian noise on released vectors, drawn once for a whole sweep.

The gallery vector of a user with m noisy rows is its clean mean plus N(0, sigma^2/m I), drawn
directly: exact where gallery and probe rows are disjoint and the attack sees the gallery through
its means alone. M averaged draws are one draw at sigma / sqrt(M). The same unit noise serves every
sigma of a draw (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.evidence.guarantee import noise_seed
from lethe.reidentification.vectors import (
    Float,
    check_sigma,
    check_table,
    effective_sigma,
)


@dataclass(frozen=True, eq=False)
class Sample:
    """Who is to be named (probes) and against whom (gallery)."""

    gallery: Float  # (G, d) mean of each user's gallery rows
    gallery_rows: NDArray[np.integer]  # (G,) how many rows m each mean was made of, >= 1
    probes: Float  # (P, d) rows to be named; none of them is in a gallery mean
    owner: NDArray[np.integer]  # (P,) user 0..G-1 of each probe; two own one or more

    @property
    def users(self) -> int:
        """G, the number of people in the gallery."""
        return len(self.gallery)

    @property
    def tries(self) -> NDArray[np.intp]:
        """(G,) probes of each user."""
        return np.bincount(self.owner, minlength=self.users)


@dataclass(frozen=True, eq=False)
class UnitNoise:
    """Standard normal noise of one draw, for every sigma."""

    gallery: Float  # (G, d)
    probes: Float  # (P, d)

    def on(self, sample: Sample, sigma: float) -> Sample:
        """The sample as it is released with noise `sigma` >= 0 on each row."""
        scale = sigma / np.sqrt(sample.gallery_rows)[:, None]
        return Sample(
            sample.gallery + scale * self.gallery,
            sample.gallery_rows,
            sample.probes + sigma * self.probes,
            sample.owner,
        )


def unit_noise(sample: Sample, draw: int, seed: int = 0) -> UnitNoise:
    """Noise vectors of one draw, independent of those of every other draw."""
    rng = np.random.default_rng([seed, 3, draw])
    probes = rng.standard_normal(sample.probes.shape)
    return UnitNoise(rng.standard_normal(sample.gallery.shape), probes)


def smooth(
    representations: ArrayLike, sigma: float, draws: int = 1, seed: int | None = None
) -> Float:
    """(n, d) the mean of M noisy draws of each row, drawn as one at sigma / sqrt(M).

    Without a seed the noise comes from 128 secret bits, anew for every call.

    >>> smooth([[1.0, 2.0]], sigma=0.0)
    array([[1., 2.]])
    """
    r = np.asarray(representations)
    check_table("representations", r)
    check_sigma(sigma)
    noise = np.random.default_rng([noise_seed(seed), 4]).standard_normal(r.shape)
    noise *= effective_sigma(sigma, draws)  # in place: a million vectors are half a gigabyte
    noise += r
    return noise
