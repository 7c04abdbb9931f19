"""Synthetic rows with differential privacy, made of noisy counts of one and two columns (MST).

McKenna, Miklau and Sheldon, "Winning the NIST Contest", 2021, section 4: count each column, choose
pairs that hang all columns together, count those. Noise and choice are OpenDP's, on whole numbers.
Rows are made of these counts alone, which costs no more privacy.
"""

from __future__ import annotations

import csv
import io
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import Schema
from lethe.data.source import TypedColumn
from lethe.errors import InputError, NotMeasurable, check_between, require
from lethe.evidence.gdp import last_true
from lethe.evidence.guarantee import Guarantee
from lethe.linkage.codes import Int
from lethe.linkage.records.facts import Float
from lethe.linkage.table.domains import (
    BINS,
    Domain,
    columns_of,
    domains_of,
    plain,
    written,
)
from lethe.training.users_code import seeded

MOST_CELLS = 200_000  # of a pair that may be counted
_SLACK = 1 - 1e-9  # of each part of the budget: what is spent is rounded up, never down


@dataclass(frozen=True, eq=False)
class Marginal:
    """Counts of the joint values of one or two columns."""

    columns: tuple[int, ...]  # places
    counts: Float  # cells of each column along an axis; whole numbers, may be negative
    scale: float  # standard deviation of the noise


@dataclass(frozen=True, eq=False)
class NoisyCounts:
    """What the noisy counts are, and what they cost."""

    marginals: tuple[Marginal, ...]  # of all columns, then of the pairs that were chosen
    rho: float  # zero-concentrated DP of all of them and of the choice, together
    rows: int  # their number as the noisy counts tell it, at least 1


def rho_of(epsilon: float, delta: float) -> float:
    """The largest rho whose rho-zCDP is within (epsilon, delta), by OpenDP's conversion.

    >>> round(rho_of(1.0, 1e-6), 4)
    0.0244
    """
    check_between("epsilon", epsilon, 0, math.inf, open_low=True)
    check_between("delta", delta, 0, 1, open_low=True, open_high=True)
    return last_true(lambda rho: rho == 0 or epsilon_of(rho, delta) <= epsilon)


def epsilon_of(rho: float, delta: float) -> float:
    """An epsilon with which every rho-zCDP release is (epsilon, delta)-DP."""
    dp = _opendp()
    curve = dp.c.make_zCDP_to_approxDP(_gaussian(math.sqrt(1 / (2 * rho)))).map(1.0)
    return float(curve.epsilon(delta=delta))


def measure(cells: Sequence[Int], sizes: Sequence[int], rho: float) -> NoisyCounts:
    """Count every column and a tree of pairs.

    A third of rho goes to the columns, a third to the choice of pairs, a third to the pairs.

    Args:
        cells: (rows,) of each column, 0 to size - 1.
        sizes: cells of each column, fixed without a look at the rows.
        rho: that all may cost, above 0.

    Guarantee: rho-zCDP where one row is added or removed (`NoisyCounts.rho`, at most the one asked
        for).
    Assumes: `sizes` and the meaning of the cells do not depend on the rows. Noise comes from the
        operating system, not from a seed: who knew the seed could take it off again.

    Raises:
        NotMeasurable: a column has too many cells.
        MissingExtra: opendp is missing.
    """
    check_between("rho", rho, 0, math.inf, open_low=True, open_high=True)
    if large := [size for size in sizes if size > MOST_CELLS]:
        raise NotMeasurable(f"a column has {large[0]} cells, more than {MOST_CELLS}.")
    part = rho * _SLACK / (3 if len(cells) > 1 else 1)
    spent = 0.0
    alone = []
    for at in range(len(cells)):
        marginal, cost = _count(cells, sizes, (at,), part / len(cells))
        alone.append(marginal)
        spent += cost
    # The mean of the columns' totals, each with its noise: nothing but noisy counts goes in.
    weight = np.array([1 / one.counts.size for one in alone])
    totals = np.array([one.counts.sum() for one in alone])
    total = max(1, round(float((totals * weight).sum() / weight.sum())))
    pairs = []
    if len(cells) > 1:
        rounds = len(cells) - 1
        chosen, cost = _tree(cells, alone, total, part / rounds, part / rounds)
        spent += cost
        for pair in chosen:
            marginal, cost = _count(cells, sizes, pair, part / rounds)
            pairs.append(marginal)
            spent += cost
    assert spent <= rho
    return NoisyCounts((*alone, *pairs), spent, total)


def promise(measured: NoisyCounts, epsilon: float, delta: float, schema: Schema) -> Guarantee:
    """Return the guarantee of rows made of noisy counts."""
    return Guarantee(
        "approx-dp",
        {"epsilon": epsilon, "delta": delta, "rho": measured.rho},
        "add/remove",
        "record",
        (
            "one row a person; several rows of a person add up",
            "the schema (types, bounds, values) and the number of bins are public; types, cells "
            "and spelling of the rows follow from them alone",
            *schema.assumptions(),
            "the number of rows is not public: that of the synthetic rows is a noisy count; an "
            "audit, which needs 2 rows, tells that there are 2",
            "noise and choice are drawn by OpenDP from the operating system's random numbers; the "
            "seed only draws rows from the noisy counts and may be known",
            "counts, scores and noise are whole numbers; no floating-point number made of the rows "
            "is given out",
            "the time that making the rows takes is not covered",
        ),
        (
            "handing out the measured numbers of this audit too: they are counted without noise, "
            "and a choice between candidates that follows them tells a little of them",
            "a further release about the same people, another set of these rows included: the "
            "costs add up",
        ),
    )


def _count(
    cells: Sequence[Int], sizes: Sequence[int], columns: tuple[int, ...], rho: float
) -> tuple[Marginal, float]:
    """One row changes one count by 1, so the distance is 1."""
    scale = math.sqrt(1 / (2 * rho))
    noisy = _gaussian(scale)
    exact = _table(cells, [sizes[at] for at in columns], columns)
    drawn = np.array(noisy(exact.ravel().tolist()), dtype=np.float64).reshape(exact.shape)
    return Marginal(columns, drawn, scale), float(noisy.map(1.0))


def _tree(
    cells: Sequence[Int], alone: Sequence[Marginal], total: int, rho: float, later: float
) -> tuple[list[tuple[int, int]], float]:
    """Pairs that join all columns, each drawn by how far it is from what the columns alone tell.

    Less the noise that the pair will be counted with. One row changes a score by 1 at most.
    """
    noise = math.sqrt(1 / (2 * later)) * math.sqrt(2 / math.pi)
    sizes = [marginal.counts.size for marginal in alone]
    scores = {}
    for a in range(len(cells)):
        for b in range(a + 1, len(cells)):
            if sizes[a] * sizes[b] <= MOST_CELLS:
                guess = np.outer(*(np.maximum(alone[at].counts, 0) / total for at in (a, b)))
                apart = np.abs(_table(cells, [sizes[a], sizes[b]], (a, b)) - np.rint(guess * total))
                scores[a, b] = int(apart.sum()) - round(noise * guess.size)
    group, chosen, spent = list(range(len(cells))), [], 0.0
    choose = _noisy_max(math.sqrt(1 / (2 * rho)))
    while open_pairs := [pair for pair in scores if group[pair[0]] != group[pair[1]]]:
        a, b = open_pairs[choose([scores[pair] for pair in open_pairs])]
        spent += float(choose.map(1))
        chosen.append((a, b))
        group = [group[a] if one == group[b] else one for one in group]
    return chosen, spent


def _table(cells: Sequence[Int], sizes: Sequence[int], columns: Sequence[int]) -> Int:
    """Exact counts; they leave this file with noise only."""
    joint = np.zeros(len(cells[0]), np.int64)
    for at, size in zip(columns, sizes, strict=True):
        if len(cells[at]) and not 0 <= cells[at].min() <= cells[at].max() < size:
            raise InputError(f"cells of column {at} must be in 0..{size - 1}.")
        joint = joint * size + cells[at]
    return np.bincount(joint, minlength=math.prod(sizes)).reshape(tuple(sizes))


def _gaussian(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64")
    return dp.m.make_gaussian(*space, scale=scale)


def _noisy_max(scale: float) -> Any:
    dp = _opendp()
    space = dp.vector_domain(dp.atom_domain(T="i64")), dp.linf_distance(T="i64")
    return dp.m.make_noisy_max(*space, dp.zero_concentrated_divergence(), scale=scale)


def _opendp() -> Any:
    dp = require("opendp.prelude", "synthetic")
    dp.enable_features("contrib")
    return dp


_STEPS = 1000  # of mirror descent


@dataclass(frozen=True, eq=False)
class DpRows:
    """Differentially private synthetic rows."""

    columns: Mapping[str, TypedColumn]  # (rows,) by name, of the types that the schema declares
    cells: tuple[Int, ...]  # (rows,) of each column
    domains: tuple[Domain, ...]  # what the cells mean
    pairs: tuple[tuple[str, str], ...]  # names of the columns that were counted together
    guarantee: Guarantee  # what the rows prove

    @property
    def rows(self) -> int:
        """How many, as the noisy counts tell it."""
        return len(self.cells[0])

    def plain(self) -> dict[str, NDArray[Any]]:
        """Return arrays for measurements by name; see `lethe.linkage.table.domains.plain`."""
        return {
            domain.name: plain(self.columns[domain.name], domain.column, gaps=domain.column.missing)
            for domain in self.domains
        }

    def to_csv(self) -> bytes:
        """The rows as a file, spelled by the declared types alone; blank where missing."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.columns)
        cells = (written(self.columns[domain.name], domain.column) for domain in self.domains)
        writer.writerows(zip(*cells, strict=True))
        return lines.getvalue().encode()


def dp_rows(
    columns: Mapping[str, NDArray[Any] | TypedColumn],
    schema: Schema,
    epsilon: float,
    delta: float = 1e-6,
    *,
    bins: int = BINS,
    seed: int = 0,
) -> DpRows:
    """Count with noise, fit a model to the counts, and draw rows from it.

    Args:
        columns: (rows,) by name, one row a person; arrays are cast to the declared types, and
            those that are not in the schema are left alone.
        schema: of the rows; see `domains_of` for what it has to declare.
        epsilon: above 0.
        delta: in (0, 1).
        seed: of what is drawn from the model. The noise of the counts has none, so two runs
            differ, and both cost.

    Guarantee: (epsilon, delta)-differential privacy of the rows, their number, types and spelling
        where one row is added or removed.
    Assumes: One row a person; `schema` and `bins` do not depend on the rows, see
        `DpRows.guarantee`. Of arrays: another row does not change what a cell holds (a whole number
        beyond 2**53 is rounded where a gap elsewhere makes its array one of floats; files have no
        such flaw).

    Raises:
        InputError: epsilon, delta or bins out of range, or a column without a domain.
        NotMeasurable: a column with too many cells.
        MissingExtra: opendp or mbi is missing.
    """
    check_installed()  # before anything is spent
    domains = domains_of(schema, bins)
    typed = columns_of(schema, columns)
    places = [domain.place(typed[domain.name]) for domain in domains]
    measured = measure(places, [domain.cells for domain in domains], rho_of(epsilon, delta))
    drawn = draw_cells(measured, [domain.cells for domain in domains], seed)
    rng = np.random.default_rng([seed, 80])
    names = list(schema)
    return DpRows(
        {domain.name: domain.draw(at, rng) for domain, at in zip(domains, drawn, strict=True)},
        tuple(drawn),
        domains,
        tuple(
            (names[marginal.columns[0]], names[marginal.columns[1]])
            for marginal in measured.marginals
            if len(marginal.columns) == 2
        ),
        promise(measured, epsilon, delta, schema),
    )


def draw_cells(counts: NoisyCounts, sizes: Sequence[int], seed: int = 0) -> list[Int]:
    """Fit a graphical model to noisy counts (Private-PGM) and draw rows from it.

    McKenna, Sheldon and Miklau, ICML 2019: the distribution whose counts are nearest to all noisy
    ones, weighted by their noise.

    Args:
        counts: the noisy counts; nothing else is looked at.
        sizes: cells of each column.

    Returns: (rows,) of each column, as many rows as the noisy counts tell.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    # In a process of its own, which then ends: JAX keeps threads, and who forks beside them hangs.
    with ProcessPoolExecutor(max_workers=1) as apart:
        drawn: list[Int] = apart.submit(_fitted, counts, list(sizes), seed).result()
    return drawn


def _fitted(noisy: NoisyCounts, sizes: list[int], seed: int) -> list[Int]:
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        # On import Private-PGM gives advice on settings of JAX, one of which is made below.
        mbi, jax = require("mbi", "synthetic"), require("jax", "synthetic")
    names = [str(index) for index in range(len(sizes))]
    # In single precision the fit stalls on large tables; the setting ends with this block.
    with jax.enable_x64(True), seeded(seed):
        domain = mbi.Domain(names, sizes)
        counts = [
            mbi.LinearMeasurement(
                marginal.counts.ravel(), tuple(names[at] for at in marginal.columns), marginal.scale
            )
            for marginal in noisy.marginals
        ]
        model = mbi.estimation.MirrorDescent().estimate(
            domain, counts, known_total=float(noisy.rows), iters=_STEPS, tol=1e-6
        )
        drawn = model.synthetic_data(rows=noisy.rows).to_dict()
    return [np.asarray(drawn[name], dtype=np.int64) for name in names]


def check_installed() -> None:
    """Refuse to start without the libraries.

    Raises MissingExtra: opendp or mbi is missing.
    """
    require("opendp.prelude", "synthetic")
    if find_spec("mbi") is None:  # looked for, not imported: JAX stays out of this process
        require("mbi", "synthetic")
