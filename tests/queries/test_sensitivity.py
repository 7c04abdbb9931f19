"""No neighbour moves what gets noise by more than the sensitivity that the noise was scaled by.

Every statistic hands whole numbers and a sensitivity to a mechanism. Here the mechanism is taken
away: what it was handed is kept, for every pair of neighbours of small lattices, and compared in
the norm that the sensitivity is in: l1 and l2 of sums, the largest change of a utility, and the
number of groups, the largest and the summed change of counts with private names.
"""

import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pytest
from lattice_units import noisy, noisy_quantile, noisy_regression

from lethe.errors import InputError
from lethe.queries.aggregates import Mean, Sum, Variance
from lethe.queries.aggregates import quantile as quantiles
from lethe.queries.aggregates.counts import noisy_count, noisy_counts
from lethe.queries.lattice import Lattice
from lethe.queries.mechanisms import additive, choosing, threshold
from lethe.queries.mechanisms.additive import Law, Noised
from lethe.queries.mechanisms.threshold import Found
from lethe.queries.privacy import Answer, Neighbours, Spend
from lethe.queries.release import noisy_keys

SPEND = Spend(epsilon=1.0, delta=1e-6)
COARSE = Lattice(-1, 2, 16)
OTHERS = [Lattice(0, 5, 40), Lattice(-3, 1, 24), Lattice(2, 3, 16)]
Row = tuple[int, ...]


@dataclass
class Asked:
    """What was handed to the mechanisms: the numbers, and by how much they may move."""

    calls: list[tuple[np.ndarray, dict[str, float]]] = field(default_factory=list)

    def noised(self, exact: Sequence[int], *, l1: int, l2: float, spend: Spend) -> Noised:
        self.calls.append((np.array(list(exact), dtype=object), {"l1": l1, "l2": l2}))
        return Noised(tuple(exact), Law("discrete laplace", 1.0))

    def exponential(self, candidates, utility, *, sensitivity, spend, whose) -> Answer:
        self.calls.append((np.array(list(utility), dtype=object), {"linf": sensitivity}))
        label = whose.guarantee(Spend(epsilon=1.0))
        return Answer(0, None, None, 0.95, "none", 1.0, label)

    def found_keys(self, held, *, groups, largest, total, spend) -> Found:
        moved = {"l0": groups, "l1": total, "linf": largest}
        exact = [held[name] for name in range(GROUPS)]
        self.calls.append((np.array(exact, dtype=object), moved))
        return Found({}, 0, Law("discrete laplace", 1.0))


def watched(monkeypatch: pytest.MonkeyPatch) -> Asked:
    kept = Asked()
    monkeypatch.setattr(additive, "noised", kept.noised)
    monkeypatch.setattr(choosing, "exponential", kept.exponential)
    monkeypatch.setattr(threshold, "found_keys", kept.found_keys)
    return kept


@pytest.fixture
def asked(monkeypatch) -> Asked:
    return watched(monkeypatch)


GROUPS = 4
Statistic = Callable[[list[Row], Neighbours], object]


def columns(rows: list[Row], count: int) -> list[list[int]]:
    return [[row[i] for row in rows] for i in range(count)]


def regression(lattice: Lattice) -> Statistic:
    def ask(rows: list[Row], whose: Neighbours) -> object:
        x, y = columns(rows, 2)
        products = [sum(map(operator.mul, *pair)) for pair in ((x, x), (x, y), (y, y))]
        sums = [sum(x), sum(y), *products]
        return noisy_regression(len(rows), sums, [lattice, COARSE], SPEND, whose)

    return ask


def quantile(share: float) -> Statistic:
    def ask(rows: list[Row], whose: Neighbours) -> object:
        cells = np.bincount([r for (r,) in rows], minlength=COARSE.width + 1).tolist()
        return noisy_quantile(cells, COARSE, share, Spend(epsilon=1.0), whose)

    return ask


def histogram(rows: list[Row], whose: Neighbours) -> object:
    cells = np.bincount([r for (r,) in rows], minlength=COARSE.width + 1).tolist()
    return noisy_counts(cells, SPEND, whose, [{}] * len(cells))


def keys(rows: list[Row], whose: Neighbours) -> object:
    found = {name: sum(r == name for (r,) in rows) for name in {r for (r,) in rows}}
    return noisy_keys(Padded(found), SPEND, whose)


class Padded(dict):
    """Counts by group, in which groups without rows stand too, so that places do not move."""

    def __init__(self, found: dict[int, int]) -> None:
        super().__init__({name: found.get(name, 0) for name in range(GROUPS)})


def total(rows: list[Row]) -> int:
    return sum(r for (r,) in rows)


WIDTH = COARSE.width
STATISTICS: dict[str, tuple[Statistic, list[Lattice]]] = {
    "count": (lambda rows, who: noisy_count(len(rows), SPEND, who), [COARSE]),
    "counts": (histogram, [COARSE]),
    "sum": (lambda rows, who: noisy(Sum, len(rows), [total(rows)], [COARSE], SPEND, who), [COARSE]),
    "mean": (
        lambda rows, who: noisy(Mean, len(rows), [total(rows)], [COARSE], SPEND, who),
        [COARSE],
    ),
    "variance": (
        lambda rows, who: noisy(
            *(Variance, len(rows), [total(rows), sum(r * r for (r,) in rows)]),
            *([COARSE], SPEND, who),
        ),
        [COARSE],
    ),
    "median": (quantile(0.5), [COARSE]),
    "quantile": (quantile(0.999), [COARSE]),
    "keys": (keys, [Lattice(0, GROUPS - 1, 16)]),
    **{
        f"regression {place}": (regression(lattice), [lattice, COARSE])
        for place, lattice in enumerate(OTHERS)
    },
}


def person(name: str, rows: int, corners: bool) -> list[list[Row]]:
    """Everything that one person may have: up to `rows` rows at the corners of the lattices."""
    _, lattices = STATISTICS[name]
    if name == "keys":
        ends: list[Sequence[int]] = [range(GROUPS)]
    else:
        ends = [
            (0, one.width) if corners else (0, one.width // 3, one.width // 2, one.width)
            for one in lattices
        ]
    points = list(itertools.product(*ends))
    return [
        list(own)
        for count in range(rows + 1)
        for own in itertools.combinations_with_replacement(points, count)
    ]


def moves(vectors: list[np.ndarray], relation: str) -> list[np.ndarray]:
    pairs = itertools.combinations(range(len(vectors)), 2)
    if relation == "add/remove":  # a person is there or is not: the first list is empty
        pairs = ((0, i) for i in range(1, len(vectors)))
    return [(vectors[a] - vectors[b]).astype(float) for a, b in pairs]


NORMS = {
    "l0": lambda move: np.count_nonzero(move),
    "l1": lambda move: np.abs(move).sum(),
    "l2": lambda move: np.linalg.norm(move),
    "linf": lambda move: np.abs(move).max(),
}
LOOSE = dict.fromkeys(("regression 0", "regression 1", "regression 2"), 1.35)  # few corners


@pytest.mark.parametrize("name", STATISTICS)
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("relation", ["add/remove", "replace-one"])
def test_no_neighbour_moves_more_than_the_noise_is_for(asked, name, rows, relation):
    """All that one person may have against all else, beside three rows of others."""
    ask, lattices = STATISTICS[name]
    whose = Neighbours(relation, "user", rows)
    base = [tuple(min(at + i, one.width) for i, one in enumerate(lattices)) for at in (0, 3, 3)]
    if name == "keys":
        base = [(0,), (0,), (2,)]
    own = person(name, rows, corners=len(lattices) > 2 or rows > 1)
    for one in own:
        ask(base + one, whose)
    allowed = asked.calls[0][1]
    assert all(moved == allowed for _, moved in asked.calls)  # it never follows the data
    found = moves([vector for vector, _ in asked.calls], relation)
    for norm, most in allowed.items():
        worst = max(NORMS[norm](move) for move in found)
        assert worst <= most, (norm, worst, most)
        if norm != "l2":
            assert worst * LOOSE.get(name, 1.0) >= most * 0.999, (norm, worst, most)


@pytest.mark.parametrize("share", [0.001, 0.999, 0.5, 0.125, 1 / 3, Fraction(2, 7)])
def test_a_share_is_taken_exactly(share):
    part, whole = quantiles.exact_share(share)
    assert float(Fraction(part, whole)) == float(share)


@pytest.mark.parametrize("share", [0.9995, 0.0005, 0.12345, 1 - 1e-9, Fraction(1999, 2000), 0, 1])
def test_a_share_that_would_be_rounded_is_refused(share):
    with pytest.raises(InputError, match="alpha="):
        noisy_quantile([1] * (COARSE.width + 1), COARSE, share, SPEND, Neighbours())
