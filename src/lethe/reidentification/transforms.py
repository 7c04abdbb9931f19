"""Further ways to release a vector: fewer dimensions, fewer bits, averages, erasure, shaped noise.

Each is fitted on the vectors that it then releases, gives released rows and what a consumer makes
of them (`decode`), and says what it proves. All but k-same averaging and shaped noise prove
nothing: they are as safe as the attacks on them find, no more.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.errors import InputError, NotMeasurable, check_at_least, check_between, check_choice
from lethe.evidence.guarantee import Guarantee, empirical_only, from_seeded_noise, noise_seed
from lethe.reidentification.certificates import Known, Limit, exact_limit, identification_bound
from lethe.reidentification.gallery import Index, covariance_within, inverse_root, means
from lethe.reidentification.vectors import Float, check_sigma, check_vectors

KINDS = ("pca", "random-projection", "quantised", "k-same", "leace", "shaped-noise")
USUAL = ("pca", "random-projection", "quantised-1", "quantised-4", "k-same-5", "shaped-noise")
FITTED = "fitted on the very rows that are released; later rows pass through the same map"
_EXACT = "no noise: one who holds a vector of the same person can pass it through the same map"
_FEW = 2048  # people among whom k-same looks for the nearest at once


class Transform:
    """A fitted way to release vectors; the usual answers, which a method may replace."""

    kind = ""  # as an option names it
    says = ""  # the same in words, with its fields
    counted = ""  # field that is its number, called so in the document; "" where it has none
    noisy = False  # whether chance is in it
    keeps_clean = False  # whether an adversary with unchanged vectors knows more than the release

    @property
    def name(self) -> str:
        """Such as pca-8."""
        numbers = (f"{number:.12g}" for number in [*self.settings.values()][:1])
        return "-".join((self.kind, *numbers))

    @property
    def words(self) -> str:
        """What is done."""
        return self.says.format(self=self)

    @property
    def settings(self) -> dict[str, float]:
        """Its numbers."""
        return {self.counted: float(getattr(self, self.counted))} if self.counted else {}

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        """(n, c) released rows."""
        raise NotImplementedError

    def decode(self, released: Float) -> Float:
        """(n, d) what a consumer hands to the head."""
        return released

    def guarantee(self) -> Guarantee:
        """What is proven: nothing."""
        return empirical_only(FITTED, voided_by=(_EXACT,))


@dataclass(frozen=True, eq=False)
class Projection(Transform):
    """k coordinates in an orthonormal basis: principal components (Pearson 1901), or at random.

    Attributes:
        basis: (d, k) orthonormal columns.
        centre: (d,) mean, which is released with the basis.
    """

    basis: Float
    centre: Float
    kind: str = "pca"
    counted = "dimensions"

    @staticmethod
    def fitted(vectors: ArrayLike, k: int, kind: str = "pca", seed: int = 0) -> Projection:
        """The k directions of most variance of these rows, or k at random from the seed.

        Raises InputError: k outside 1 to d - 1.
        """
        check_choice("kind", kind, ("pca", "random-projection"))
        r = check_vectors("vectors", vectors)
        check_between("dimensions kept", k, 1, r.shape[1] - 1)
        centre = r.mean(axis=0)
        if kind == "pca":
            turned = np.linalg.eigh((r - centre).T @ (r - centre))[1]
            return Projection(np.ascontiguousarray(turned[:, ::-1][:, :k]), centre)
        drawn = np.random.default_rng([seed, 95]).standard_normal((r.shape[1], k))
        return Projection(np.linalg.qr(drawn)[0], centre, kind)

    @property
    def dimensions(self) -> int:
        """k."""
        return int(self.basis.shape[1])

    @property
    def words(self) -> str:
        what = "principal components" if self.kind == "pca" else "random directions"
        return f"only {self.dimensions} {what} are released"

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        r = check_vectors("vectors", vectors, len(self.basis))
        return np.asarray((r - self.centre) @ self.basis)

    def decode(self, released: Float) -> Float:
        return np.asarray(released @ self.basis.T + self.centre)


@dataclass(frozen=True, eq=False)
class Quantised(Transform):
    """b bits a coordinate: the middle of one of 2^b cells of equal width.

    Attributes:
        low, width: (d,) where cells begin, and how wide they are.
    """

    low: Float
    width: Float
    bits: int

    @staticmethod
    def fitted(vectors: ArrayLike, bits: int) -> Quantised:
        """Cells between the 0.5 and 99.5 % quantiles of each coordinate of these rows."""
        check_between("bits", bits, 1, 16)
        r = check_vectors("vectors", vectors)
        low, high = np.quantile(r, [0.005, 0.995], axis=0)
        return Quantised(low, np.where(high > low, high - low, 1.0) / 2**bits, bits)

    kind, counted = "quantised", "bits"

    @property
    def words(self) -> str:
        return f"each coordinate is rounded to {self.bits} bit{'s' if self.bits > 1 else ''}"

    keeps_clean = True

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        r = check_vectors("vectors", vectors, len(self.low))
        cell = np.clip(np.floor((r - self.low) / self.width), 0, 2**self.bits - 1)
        return np.asarray(self.low + (cell + 0.5) * self.width)


@dataclass(frozen=True, eq=False)
class KSame(Transform):
    """Every row of k or more people is replaced by the mean of these people (k-same).

    Newton, Sweeney and Malin 2005, with groups of people instead of pictures, so that a person is
    in one group; groups by maximum distance to average (Domingo-Ferrer and Mateo-Sanz 2002).

    Attributes:
        people: (G,) sorted ids.
        group: (G,) group of each.
        means: (C, d) of the means of the people of each.
        owner: (n,) person 0..G-1 of each row that is released, in their order.
    """

    people: NDArray[Any]
    group: Index
    means: Float
    owner: Index
    k: int

    @staticmethod
    def fitted(vectors: ArrayLike, user_ids: NDArray[Any], k: int) -> KSame:
        """Groups of the people of these rows, by the mean of all rows of each.

        Raises InputError: k below 2 or above the number of people.
        """
        r = check_vectors("vectors", vectors)
        people, owner = np.unique(user_ids, return_inverse=True)
        check_between("k", k, 2, len(people))
        centres = means(r, owner, len(people))
        group = np.empty(len(people), np.intp)
        groups = 0
        # Far apart in the first component: no group of a large release reaches across blocks.
        direction = np.linalg.svd(centres - centres.mean(axis=0), full_matrices=False)[2][0]
        blocks = max(1, len(people) // max(_FEW, k))
        for block in np.array_split(np.argsort(centres @ direction, kind="stable"), blocks):
            for members in _groups(centres[block], k):
                group[block[members]] = groups
                groups += 1
        return KSame(people, group, means(centres, group, groups), owner, k)

    kind, keeps_clean = "k-same", True
    says = "all rows of groups of {self.k} or more people become the mean of the group"

    @property
    def settings(self) -> dict[str, float]:
        return {"k": float(self.k), "groups": float(len(self.means))}

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        """(n, d) for the rows that it was fitted on; the vectors themselves are not looked at.

        Raises InputError: another number of rows.
        """
        r = check_vectors("vectors", vectors, self.means.shape[1])
        if len(r) != len(self.owner):
            raise InputError(
                f"k-same was fitted on {len(self.owner)} rows and releases these alone, got "
                f"{len(r)}: fit it on all rows of one release."
            )
        return np.asarray(self.means[self.group[self.owner]])

    def guarantee(self) -> Guarantee:
        """Top-1 <= groups / people <= 1 / k, for each group's people release the same rows.

        Guarantee: who sees the vector of one row, whatever it knows of every clean vector,
            names its person with at most C / G, C groups of G equally likely people: of each output
            it names one. Every person shares each released vector with k - 1 others.
        Assumes: this is the only release about these people, the vectors are all that is released,
            and the row's person is drawn evenly from everybody in the release.
        """
        people, groups = len(self.people), len(self.means)
        bound = identification_bound(
            groups / people,
            people,
            (
                "the people of the release are equally likely",
                f"each vector is that of {int(np.bincount(self.group).min())} or more people",
            ),
            k=float(np.bincount(self.group).min()),
        )
        voided = (
            "a second release about the same people: groups of both are intersected",
            "other columns of the row (label, time, number of rows) that differ within a group",
            "an attacker who knows that the other people of a group are not meant",
            "what a group has in common, such as an attribute: it is learnt of all its people",
        )
        return replace(bound, voided_by=(*bound.voided_by, *voided))

    def exposed(self, game: Known, users: NDArray[Any]) -> Limit:
        """What the groups identify among the people of a game, whose ids are `users` (G,)."""
        place = np.searchsorted(self.people, users)
        return exact_limit(game, self.group[place][game.owner])


def _groups(points: Float, k: int) -> Sequence[Index]:
    """Groups of k to 2 k - 1 points: around the one furthest from the mean, then its opposite."""
    left = np.arange(len(points))
    groups: list[Index] = []

    def take(start: int) -> None:
        nonlocal left
        near = np.argsort(((points[left] - points[start]) ** 2).sum(axis=1), kind="stable")[:k]
        groups.append(left[near])
        left = np.delete(left, near)

    while len(left) >= 3 * k:
        mean = points[left].mean(axis=0)
        far = left[int(((points[left] - mean) ** 2).sum(axis=1).argmax())]
        take(far)
        take(left[int(((points[left] - points[far]) ** 2).sum(axis=1).argmax())])
    if len(left) >= 2 * k:
        mean = points[left].mean(axis=0)
        take(left[int(((points[left] - mean) ** 2).sum(axis=1).argmax())])
    groups.append(left)
    return groups


@dataclass(frozen=True, eq=False)
class Erased(Transform):
    """LEACE: the least change after which no linear function of a row predicts an attribute.

    Belrose et al. 2023, theorem 4.3: r - W^+ P W (r - mean), W the inverse root of the covariance,
    P the projection on W Cov(r, z).

    Attributes:
        erasing: (d, d) what is taken off, of (r - centre).
    """

    erasing: Float
    centre: Float
    attribute: str

    @staticmethod
    def fitted(vectors: ArrayLike, values: NDArray[Any], attribute: str) -> Erased:
        """From all rows whose value (n,) is not empty.

        Raises NotMeasurable: fewer than 2 values.
        """
        r = check_vectors("vectors", vectors)
        column = np.asarray(values).astype(str)
        known = column != ""
        kinds, place = np.unique(column[known], return_inverse=True)
        if len(kinds) < 2:
            raise NotMeasurable(f"attribute {attribute!r} has one value; nothing is to be erased.")
        centre = r[known].mean(axis=0)
        x = r[known] - centre
        z = np.eye(len(kinds))[place]
        cross = x.T @ (z - z.mean(axis=0)) / len(x)
        size, turn = np.linalg.eigh(x.T @ x / len(x))
        kept = size > 1e-10 * size.max()
        root = (turn[:, kept] * np.sqrt(size[kept])) @ turn[:, kept].T
        white = (turn[:, kept] / np.sqrt(size[kept])) @ turn[:, kept].T
        left, strength, _ = np.linalg.svd(white @ cross, full_matrices=False)
        some = strength > 1e-10 * max(float(strength.max()), 1e-300)
        projection = left[:, some] @ left[:, some].T
        return Erased(root @ projection @ white, centre, attribute)

    kind = "leace"
    says = "what a linear function reads of {self.attribute!r} is erased (LEACE)"

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        r = check_vectors("vectors", vectors, len(self.centre))
        return np.asarray(r - (r - self.centre) @ self.erasing.T)

    def guarantee(self) -> Guarantee:
        """Nothing: it concerns linear functions of these very rows, and not who they are of."""
        return empirical_only(
            f"{FITTED}: of these no linear function predicts the attribute",
            voided_by=(
                "functions that are not linear, which a network learns",
                "an attacker who knows most values of these rows: that they and the others balance "
                "out gives the others away",
                "rows of other people, on which the map was not fitted",
            ),
        )


@dataclass(frozen=True, eq=False)
class ShapedNoise(Transform):
    """Gaussian noise with the shape of the scatter within persons, and the power of isotropic.

    Attributes:
        white: (d, d) M with M M' the inverse of the shape, whose trace is d.
    """

    white: Float
    sigma: float

    @staticmethod
    def fitted(vectors: ArrayLike, user_ids: NDArray[Any], sigma: float) -> ShapedNoise:
        """The covariance within persons of these rows, shrunk (Ledoit and Wolf 2004).

        Raises NotMeasurable: the rows of no person differ.
        """
        check_sigma(sigma, positive=True)
        r = check_vectors("vectors", vectors)
        owner = np.unique(user_ids, return_inverse=True)[1]
        people = int(owner.max()) + 1
        within = r - means(r, owner, people)[owner]
        within = covariance_within(within, max(len(r) - people, 1))
        within *= len(within) / float(np.trace(within))
        return ShapedNoise(inverse_root(within), sigma)

    kind, counted, noisy = "shaped-noise", "sigma", True
    says = "Gaussian noise shaped like the scatter within persons"

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.sigma:.3g}"

    def release(self, vectors: ArrayLike, seed: int | None = None) -> Float:
        r = check_vectors("vectors", vectors, len(self.white))
        drawn = np.random.default_rng([noise_seed(seed), 11]).standard_normal(r.shape)
        return np.asarray(r + self.sigma * np.linalg.solve(self.white.T, drawn.T).T)

    def along(self, direction: Float) -> float:
        """Standard deviation of the noise along a direction (d,), times its length."""
        return float(self.sigma * np.linalg.norm(np.linalg.solve(self.white, direction)))

    def whitened(self, rows: Float) -> Float:
        """(n, d) rows in coordinates in which the noise is isotropic, of `sigma` in each.

        An attacker may pass to them and back, so limits for isotropic noise on these rows are
        limits for this release.
        """
        return np.asarray(rows @ self.white)

    def guarantee(self) -> Guarantee:
        """No differential privacy: the shape is read off the vectors themselves."""
        check_at_least("sigma", self.sigma, 0)
        reason = (
            "the shape of the noise is a function of the vectors, so it differs between "
            "neighbouring inputs: no mu is claimed. Limits on identification hold for this shape"
        )
        return from_seeded_noise(empirical_only(FITTED, voided_by=(reason,)))


_NAME = re.compile(r"^(?P<kind>[a-z-]*[a-z])(?:-(?P<number>\d+(?:\.\d+)?))?$")


def parse_name(text: str) -> tuple[str, float | None]:
    """Kind and number of a mitigation as an option names it.

    Raises InputError: an unknown kind, or a number where none belongs, or none where one does.

    >>> parse_name("quantised-4"), parse_name("pca")
    (('quantised', 4.0), ('pca', None))
    """
    match = _NAME.match(text)
    kind = match["kind"] if match else text
    check_choice("mitigations", kind, KINDS)
    number = None if match is None or match["number"] is None else float(match["number"])
    if kind in ("quantised", "k-same") and number is None:
        raise InputError(f"mitigations={text!r} needs a number, such as {kind}-4.")
    if kind == "leace" and number is not None:
        raise InputError(f"mitigations={text!r} takes no number; write 'leace'.")
    if number is not None and kind != "shaped-noise" and number != int(number):
        raise InputError(f"mitigations={text!r} needs a whole number.")
    return kind, number


def fitted(
    text: str,
    vectors: Float,
    user_ids: NDArray[Any],
    attributes: Sequence[tuple[str, NDArray[Any]]],
    sigma: float,
    seed: int = 0,
) -> Transform:
    """The mitigation of a name, fitted on the vectors that are released.

    Args:
        text: see `parse_name`; without a number a quarter of the dimensions, or `sigma`.
        attributes: names and values (n,) of attributes; the first is erased by leace.

    Raises:
        InputError: a number out of range, or leace without an attribute.
        NotMeasurable: nothing differs within persons, or an attribute has one value.
    """
    kind, number = parse_name(text)
    if kind in ("pca", "random-projection"):
        k = max(1, vectors.shape[1] // 4) if number is None else int(number)
        return Projection.fitted(vectors, k, kind, seed)
    if kind == "quantised":
        return Quantised.fitted(vectors, int(number or 1))
    if kind == "k-same":
        return KSame.fitted(vectors, user_ids, int(number or 2))
    if kind == "shaped-noise":
        return ShapedNoise.fitted(vectors, user_ids, sigma if number is None else number)
    if not attributes:
        raise InputError("leace erases an attribute; name its column with attribute.")
    name, values = attributes[0]
    return Erased.fitted(vectors, values, name)
