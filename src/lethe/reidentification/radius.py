"""Certified radii: how far a vector may move before the class predicted for it can change.

Cohen, Rosenfeld and Kolter (ICML 2019). For a linear binary head the radius is the distance to the
hyperplane at every noise level; other heads need draws, which have a largest radius they can
certify. A radius speaks of the predicted class alone, not of who is identified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv, ndtr, ndtri

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.estimate import Estimate
from lethe.evidence.guarantee import FLOAT_NOISE, Guarantee
from lethe.reidentification.by_user import mean_by_user
from lethe.reidentification.released import AnyHead, Head, LinearHead, Released, as_head
from lethe.reidentification.settings import EmbeddingSettings
from lethe.reidentification.task import later_rows
from lethe.reidentification.vectors import Float, check_sigma, check_vectors

# Certified radii of a model's rows: in closed form, and by draws at several noise levels.

NOT_ANONYMITY = (
    "says that the predicted class stays, not that the vector cannot be told from others: a "
    "radius above the distance to the nearest other user means that both get the same answer"
)
_CELLS = 1 << 22  # numbers of noise held at once
_CACHE = 1 << 17  # the same, small enough to stay at hand


@dataclass(frozen=True, eq=False)
class Radii:
    """Certified radii of n points."""

    predicted: NDArray[np.intp]  # (n,) the class that is certified; -1 where it abstains
    radius: Float  # (n,) L2 radius, >= 0; 0 where it abstains
    cap: float | None  # the largest radius that this many draws can give; None in closed form
    guarantee: Guarantee  # what holds for each point

    @property
    def abstained(self) -> float:
        """Share of points without a certificate, in [0, 1]."""
        return float((self.predicted < 0).mean())


def linear_radii(head: Any, representations: ArrayLike) -> Radii:
    """The exact distance to where the class changes, for a linear head; no noise, no draws.

    For a binary head this is |z| / ||w||, and is also the radius of the smoothed classifier:
    sigma Phi^-1(Phi(|z| / (sigma ||w||))) at *every* sigma. It is computed without Phi, which is
    1 in floating point above 8.3.

    Guarantee: within the radius of a point the predicted class is the same.

    Args:
        head: a linear head, see `as_head`.

    Raises InputError: the head is not linear.

    >>> linear_radii(([3.0, 4.0], -5.0), [[3.0, 4.0], [1.0, 0.0]]).radius
    array([4. , 0.4])
    """
    linear = as_head(head)
    if not isinstance(linear, LinearHead):
        raise InputError("a closed form needs a linear head; use `sampled_radii` for this one.")
    return Radii(
        linear.predict(representations),
        np.abs(linear.margins(representations)),
        None,
        Guarantee(
            "certified-radius", {}, "none", "vector", ("the head is linear",), (NOT_ANONYMITY,)
        ),
    )


def sampled_radii(
    head: Any,
    representations: ArrayLike,
    sigma: float,
    *,
    draws: int = 1000,
    selection: int = 100,
    alpha: float = 0.001,
    seed: int = 0,
) -> Radii:
    """Radii from draws with Clopper-Pearson limits, for any head and any number of classes.

    The noise of a linear head is drawn where it matters: a binary head's count is binomial with p
    in closed form, C classes need C-dimensional noise. Both are exact in distribution.

    Guarantee: with probability >= 1 - alpha over the draws, for each point by itself, the most
        likely class under N(0, sigma^2 I) is `predicted` anywhere within `radius`.

    Args:
        sigma: > 0.
        draws: draws a point for the limits, >= 1.
        selection: separate draws that pick the class, >= 1.
        alpha: chance of a wrong certificate a point, in (0, 1).

    Raises:
        InputError: sigma <= 0, alpha outside (0, 1), fewer than 1 draw, another head's dimension.
    """
    r = check_vectors("representations", representations)
    model = as_head(head, r.shape[1])
    check_sigma(sigma, positive=True)
    check_at_least("draws", draws, 1)
    check_at_least("selection", selection, 1)
    check_between("alpha", alpha, 0, 1, open_low=True, open_high=True)
    best = _counts(model, r, sigma, selection, np.random.default_rng([seed, 1])).argmax(axis=1)
    counts = _counts(model, r, sigma, draws, np.random.default_rng([seed, 2]))
    # The lower Clopper-Pearson limit on the chance of that class, for every possible count.
    count, least = np.arange(1, draws + 1), np.zeros(draws + 1)
    least[1:] = betaincinv(count, draws - count + 1, alpha)
    own = least[counts[np.arange(len(r)), best]]
    other = 1 - own
    sure = own > other
    with np.errstate(invalid="ignore"):
        reach = np.where(sure, sigma / 2 * (ndtri(own) - ndtri(other)), 0.0)
    return Radii(
        np.where(sure, best, -1),
        reach,
        radius_cap(sigma, draws, alpha),
        Guarantee(
            "certified-radius",
            {"sigma": sigma, "alpha": alpha, "draws": draws, "selection": selection},
            "none",
            "vector",
            (FLOAT_NOISE, "the head is a fixed function of the vector"),
            (NOT_ANONYMITY,),
        ),
    )


def radius_cap(sigma: float, draws: int, alpha: float = 0.001) -> float:
    """The largest radius that `draws` draws can certify, reached when all of them agree.

    sigma Phi^-1(alpha^(1/n)); 0 if even that is no majority.

    >>> round(radius_cap(1.0, 1000), 2)
    2.46
    """
    own = alpha ** (1 / draws)
    return max(0.0, float(sigma / 2 * (ndtri(own) - ndtri(1 - own))))


def certified_accuracy(
    radii: Radii,
    labels: ArrayLike,
    at: ArrayLike,
    users: ArrayLike | None = None,
    confidence: float = 0.95,
) -> list[Estimate]:
    """Share of points predicted rightly with a radius of at least each of some distances.

    Args:
        labels: (n,) true classes.
        at: radii, >= 0.
        users: (n,) owner of each point: rows of one person are not independent. None if every
            point is its own person.
        confidence: two-sided, for each distance by itself.
    """
    truth = np.asarray(labels)
    if truth.shape != radii.predicted.shape:
        raise InputError(f"labels of shape {truth.shape} must be {radii.predicted.shape}.")
    owner = np.arange(len(truth)) if users is None else np.asarray(users)
    right = radii.predicted == truth
    return [
        mean_by_user(right & (radii.radius >= distance), owner, confidence)
        for distance in np.atleast_1d(np.asarray(at, np.float64))
    ]


def _counts(
    head: Head, r: Float, sigma: float, draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """(n, C) how often each class is predicted under noise."""
    if isinstance(head, LinearHead) and head.binary:
        ones = rng.binomial(draws, ndtr(head.margins(r) / sigma))
        return np.stack([draws - ones, ones], axis=1)
    if isinstance(head, LinearHead):
        return _linear_counts(head, r, sigma, draws, rng)
    return _module_counts(head, r, sigma, draws, rng)


def _linear_counts(
    head: LinearHead, r: Float, sigma: float, draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Noise N(0, sigma^2 W W') on the logits: min(C, d) numbers a draw in place of d."""
    clean = head.logits(r).reshape(len(r), -1)
    left, size, _ = np.linalg.svd(head.rows, full_matrices=False)
    # Only gaps between logits matter: what they share would cost digits of single precision.
    clean = clean - clean.max(axis=1, keepdims=True) if len(left) > 1 else clean
    root = np.asarray(sigma * left * size, np.float32)
    width = root.shape[1]
    counts = np.zeros((len(r), head.classes), np.int64)
    step = max(1, _CACHE // (draws * clean.shape[1]))
    for at in range(0, len(r), step):
        block = np.asarray(clean[at : at + step], np.float32)
        noise = root @ rng.standard_normal((width, len(block) * draws), np.float32)
        z = noise.reshape(len(root), -1, draws) + block.T[:, :, None]
        counts[at : at + step] = _tally(_winner(z), head.classes)
    return counts


def _winner(z: NDArray[np.float32]) -> NDArray[np.intp]:
    """(n, draws) class from (C, n, draws) logits: `classes_of`, one class at a time."""
    if len(z) == 1:
        return np.asarray(z[0] > 0, np.intp)
    best, winner = z[0].copy(), np.zeros(z.shape[1:], np.intp)
    for number in range(1, len(z)):
        better = z[number] > best
        np.copyto(best, z[number], where=better)
        np.copyto(winner, number, where=better)
    return winner


def _module_counts(
    head: AnyHead, r: Float, sigma: float, draws: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    classes = 2 if (first := head.logits(r[:1])).ndim == 1 else first.shape[1]
    counts = np.zeros((len(r), classes), np.int64)
    step = max(1, _CELLS // (draws * r.shape[1]))
    for at in range(0, len(r), step):
        block = r[at : at + step, None]
        noise = sigma * rng.standard_normal((len(block), draws, r.shape[1]))
        moved = (block + noise).reshape(-1, r.shape[1])
        counts[at : at + step] = _tally(head.predict(moved).reshape(-1, draws), classes)
    return counts


def _tally(chosen: NDArray[np.intp], classes: int) -> NDArray[np.int64]:
    """(n, C) counts of the classes in (n, draws)."""
    place = chosen + classes * np.arange(len(chosen))[:, None]
    return np.bincount(place.ravel(), minlength=classes * len(chosen)).reshape(-1, classes)


_GRID = 40


@dataclass(frozen=True, eq=False)
class RadiusStudy:
    """Radii of some rows, the same rows at every level.

    Attributes:
        accuracy: certified accuracy there, ``closed form`` and by sigma; empty without labels.
    """

    rows: NDArray[np.intp]  # (points,) which rows
    closed: Radii | None  # of a linear head; the same at every sigma. None for another head.
    sampled: dict[float, Radii]  # by sigma, by draws
    at: Float  # (40,) radii at which accuracy is given
    accuracy: dict[str, list[Estimate]]


def study_radii(model: Released, settings: EmbeddingSettings) -> RadiusStudy:
    """Radii of at most `settings.radius_points` rows, drawn by the seed.

    Args:
        settings: levels, draws, points and alpha.
    """
    served = later_rows(model, settings)
    order = np.random.default_rng([settings.seed, 66]).permutation(len(served))
    rows = np.sort(served[order[: settings.radius_points]])
    vectors: NDArray[Any] = model.representations[rows]
    linear = isinstance(model.head, LinearHead)
    closed = linear_radii(model.head, vectors) if linear else None
    sampled = {
        sigma: sampled_radii(
            model.head,
            vectors,
            sigma,
            draws=settings.radius_draws,
            alpha=settings.alpha,
            seed=settings.seed,
        )
        for sigma in settings.radius_sigmas
    }
    every = ([] if closed is None else [closed]) + list(sampled.values())
    finite = [one.radius[np.isfinite(one.radius)].max(initial=0.0) for one in every]
    at = np.linspace(0, max(finite, default=0.0) or 1.0, _GRID)
    accuracy = {}
    if model.labels is not None:
        named = {} if closed is None else {"closed form": closed}
        for name, radii in {**named, **{f"{s:g}": one for s, one in sampled.items()}}.items():
            accuracy[name] = certified_accuracy(
                radii, model.labels[rows], at, model.user_ids[rows], settings.confidence
            )
    return RadiusStudy(rows, closed, sampled, at, accuracy)
