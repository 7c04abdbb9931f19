"""Ways to release a vector, or less than a vector, each with what it proves or why it does not.

Each has `release` and `guarantee`. A release without a seed draws its noise from 128 secret bits; a
seed is for audits, and `guarantee` says what it voids. What is not proven is ``empirical-only``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.guarantee import (
    Guarantee,
    empirical_only,
    from_seeded_noise,
    noise_seed,
)
from lethe.reidentification.certificates import (
    Known,
    Limit,
    clip_diameter,
    exact_limit,
    identification_bound,
    noise_dp,
    optimal_attacker,
)
from lethe.reidentification.released import Head, LinearHead, classes_of
from lethe.reidentification.smoothing import smooth
from lethe.reidentification.vectors import (
    Float,
    check_sigma,
    check_vectors,
)

NO_NOISE = "no noise was added: the vector is released as it is"
NO_BOUND = (
    "nothing bounds how far two vectors differ, so mu is infinite: clip to a public norm, or read "
    "the diameter off a last LayerNorm"
)


@dataclass(frozen=True)
class IsotropicNoise:
    """r + N(0, sigma^2 I).

    Attributes:
        diameter: the most that two vectors can differ, known without the data; None if unknown.
    """

    sigma: float  # >= 0, sd of each coordinate; sigma / sqrt(M) where M draws are released
    diameter: float | None = None
    source: str = ""  # why the diameter holds

    def release(self, representations: ArrayLike, seed: int | None = None) -> Float:
        """(n, d) one draw of each row."""
        return smooth(representations, self.sigma, seed=seed)

    def guarantee(self, delta: float = 1e-5, rows: Float | None = None) -> Guarantee:
        """mu-GDP for arbitrary inputs where there is a diameter; else the reason why not.

        Limits on identification need no diameter: see `closed_form` and `optimal_attacker`.

        Args:
            rows: (n, d) vectors of the release; two that differ by more end the proof.
        """
        check_sigma(self.sigma)
        if self.sigma == 0:
            return empirical_only(voided_by=(NO_NOISE,))
        if self.diameter is None:
            return from_seeded_noise(empirical_only(voided_by=(NO_BOUND,)))
        if rows is not None and (wrong := _too_far(rows, self.diameter)):
            return from_seeded_noise(empirical_only(voided_by=(wrong,)))
        return noise_dp(self.diameter, self.sigma, delta, self.source)


@dataclass(frozen=True)
class ClippedNoise:
    """Vectors are shortened to norm C, then N(0, sigma^2 I) is added."""

    norm: float  # C > 0, fixed without looking at the data
    sigma: float  # >= 0

    def release(self, representations: ArrayLike, seed: int | None = None) -> Float:
        """(n, d) one draw of each clipped row."""
        return smooth(clip_norm(representations, self.norm), self.sigma, seed=seed)

    def guarantee(self, delta: float = 1e-5) -> Guarantee:
        """mu-GDP with D = 2C, whatever the vectors are."""
        diameter, source = clip_diameter(self.norm), f"clipped to norm {self.norm:g}"
        return IsotropicNoise(self.sigma, diameter, source).guarantee(delta)


_COMPARED = 1e10  # values of pairs of vectors that are compared at each noise level, about 3 s
_PAIRS = 10**7  # distances held at once


def _too_far(rows: Float, diameter: float) -> str:
    """Why vectors (n, d) do not all lie within a diameter of each other; empty if they do."""
    most = diameter * (1 + 1e-9)
    from_mean = np.linalg.norm(rows - rows.mean(axis=0), axis=1)
    order = np.argsort(-from_mean)
    # Two vectors are no farther apart than their distances from the mean together.
    rows, from_mean = rows[order], from_mean[order]
    outer = int((from_mean + from_mean[0] > most).sum())
    seen = float(cdist(rows[:1], rows).max())
    if seen <= most and rows.shape[1] * outer**2 / 2 > _COMPARED:
        safe = float(from_mean[:2].sum())
        return (
            f"{outer:,} vectors may differ by more than the diameter {diameter:g}, too many to "
            f"compare all pairs: declare {safe:.6g} or more, if that is true of any vectors"
        )
    step = max(1, _PAIRS // len(rows))
    for start in range(0, outer, step):
        if seen > most:
            break
        seen = max(seen, float(cdist(rows[start : start + step], rows[start:outer]).max()))
    if seen <= most:
        return ""
    return (
        f"two vectors of this release differ by {seen:.6g}, more than the diameter {diameter:g}: "
        "declare a true one"
    )


def clip_norm(representations: ArrayLike, norm: float) -> Float:
    """(n, d) rows longer than `norm` shortened to it; the others untouched.

    >>> clip_norm([[3.0, 4.0], [0.3, 0.4]], 1.0)
    array([[0.6, 0.8],
           [0.3, 0.4]])
    """
    check_between("norm", norm, 0, math.inf, open_low=True, open_high=True)
    r = check_vectors("representations", representations)
    # By the largest entry first: squares of large numbers would overflow.
    largest = np.abs(r).max(axis=1, keepdims=True)
    scaled = np.linalg.norm(r / np.where(largest > 0, largest, 1.0), axis=1, keepdims=True)
    length = scaled * largest
    return np.asarray(np.where(length > norm, r * (norm / np.maximum(length, norm)), r))


@dataclass(frozen=True)
class SubspaceNoise:
    """Noise only where a linear head does not look: every logit stays what it was.

    What the logits identify limits no attacker: the free directions, too, tell what sigma leaves.
    """

    head: LinearHead  # a linear head whose rows leave directions free
    sigma: float  # >= 0, sd along each free direction

    def release(self, representations: ArrayLike, seed: int | None = None) -> Float:
        """(n, d) one draw of each row.

        Raises InputError: the head looks in every direction.
        """
        r = check_vectors("representations", representations, self.head.dimension)
        free = free_directions(self.head)
        noise = np.random.default_rng([noise_seed(seed), 6]).standard_normal((len(r), len(free)))
        return np.asarray(r + check_sigma(self.sigma) * noise @ free)

    def guarantee(self) -> Guarantee:
        """Nothing proven: two vectors of different logits are told apart for certain."""
        check_sigma(self.sigma)
        reason = "the logits are released without noise: mu is infinite where they differ"
        if self.sigma == 0:
            return empirical_only(voided_by=(NO_NOISE,))
        return from_seeded_noise(empirical_only(voided_by=(reason,)))


def free_directions(head: LinearHead) -> Float:
    """(d - rank, d) orthonormal directions along which no logit of the head changes.

    Raises InputError: there is none.
    """
    _, size, right = np.linalg.svd(head.rows)
    rank = (
        int((size > size[0] * max(head.rows.shape) * np.finfo(float).eps).sum()) if size[0] else 0
    )
    if rank == head.dimension:
        raise InputError(
            f"the head of {head.classes} classes looks in all {rank} directions: there is no "
            "subspace for noise that costs nothing; release the logits or the label only."
        )
    return np.asarray(right[rank:])


@dataclass(frozen=True, eq=False)
class AdaptiveNoise:
    """Noise of each user's own size. Its size gives the user away, so only playing proves."""

    levels: ArrayLike  # (G,) sigma_u > 0, for users in sorted order

    def release(
        self, representations: ArrayLike, owner: NDArray[np.integer], seed: int | None = None
    ) -> Float:
        """(n, d) one draw of each row.

        Args:
            owner: (n,) user 0..G-1 of each row.
            seed: of the noise; a secret for each call where none is given.
        """
        r = check_vectors("representations", representations)
        level = self._level()
        place = np.asarray(owner)
        if place.shape != (len(r),) or place.min() < 0 or place.max() >= len(level):
            raise InputError(f"owner must be one user in [0, {len(level) - 1}] for each row.")
        noise = np.random.default_rng([noise_seed(seed), 7]).standard_normal(r.shape)
        return np.asarray(r + level[place][:, None] * noise)

    def guarantee(self) -> Guarantee:
        """Refused: neither the closed form nor differential privacy holds."""
        self._level()
        reason = (
            "the size of the noise reveals whose vector it is: the closed-form bound and "
            "Gaussian DP do not apply; `limit` plays the decoder that knows the sizes"
        )
        return from_seeded_noise(empirical_only(voided_by=(reason,)))

    def limit(self, game: Known, trials: int = 10_000, seed: int = 0) -> Limit:
        """An upper limit on every attacker who knows each user's sigma, by counting."""
        return optimal_attacker(game, self._level(), trials=trials, seed=seed)

    def _level(self) -> Float:
        level = np.asarray(self.levels, np.float64)
        if level.ndim != 1 or not (np.isfinite(level).all() and (level > 0).all() and level.size):
            raise InputError("levels must be one finite number > 0 for each user.")
        return level


@dataclass(frozen=True, eq=False)
class LogitOnly:
    """Only the logits leave the house."""

    head: Head  # any head

    def release(self, representations: ArrayLike) -> Float:
        """(n,) of a binary head or (n, C)."""
        return self.head.logits(representations)

    def guarantee(self) -> Guarantee:
        """Nothing proven: there is no noise."""
        return empirical_only(
            voided_by=(
                "the exact logit is released, which may be unlike anybody else's: "
                "`exposed` counts whom it identifies",
            )
        )

    def exposed(self, game: Known) -> Limit:
        """What the exact logits identify."""
        return exact_limit(game, self.release(game.rows))


@dataclass(frozen=True, eq=False)
class LabelOnly:
    """Only the predicted class leaves the house."""

    head: Head  # any head
    classes: int = 2  # C >= 2

    def release(self, representations: ArrayLike) -> NDArray[np.intp]:
        """(n,) class of each row."""
        label = classes_of(self.head.logits(representations))
        if label.max(initial=0) >= self.classes:
            raise InputError(f"the head gave class {label.max()}; classes={self.classes} is wrong.")
        return label

    def guarantee(self, users: int) -> Guarantee:
        """Top-1 <= C / G, for C outputs name one user each.

        Args:
            users: G >= 2, equally likely people among whom an attacker must choose.
        """
        check_at_least("classes", self.classes, 2)
        check_at_least("users", users, 2)
        return identification_bound(
            min(1.0, self.classes / users),
            users,
            ("the users are equally likely", f"the output is one of {self.classes} classes"),
        )

    def exposed(self, game: Known) -> Limit:
        """What the exact class identifies among these users; at most C / G."""
        return exact_limit(game, classes_of(self.head.logits(game.rows)))
