"""Rows made of noisy counts alone: whatever is done here costs no more privacy."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.schema import Schema
from lethe.data.source import TypedColumn
from lethe.errors import require
from lethe.evidence.guarantee import Guarantee
from lethe.linkage.codes import Int
from lethe.linkage.table.domains import (
    BINS,
    Domain,
    columns_of,
    domains_of,
    plain,
    written,
)
from lethe.linkage.table.noisy_marginals import NoisyCounts, measure, promise, rho_of
from lethe.training.users_code import seeded

_STEPS = 1000  # of mirror descent


@dataclass(frozen=True, eq=False)
class DpRows:
    """Differentially private synthetic rows.

    Attributes:
        columns: (rows,) by name, of the types that the schema declares.
        cells: (rows,) of each column.
        domains: what the cells mean.
        pairs: names of the columns that were counted together.
        guarantee: what the rows prove.
    """

    columns: Mapping[str, TypedColumn]
    cells: tuple[Int, ...]
    domains: tuple[Domain, ...]
    pairs: tuple[tuple[str, str], ...]
    guarantee: Guarantee

    @property
    def rows(self) -> int:
        """How many, as the noisy counts tell it."""
        return len(self.cells[0])

    def plain(self) -> dict[str, NDArray[Any]]:
        """By name, arrays for measurements; see `lethe.linkage.table.domains.plain`."""
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
        bins: see `domains_of`.
        seed: of what is drawn from the model. The noise of the counts has none, so two runs
            differ, and both cost.

    Guarantee:
        (epsilon, delta)-differential privacy of the rows, their number, types and spelling where
        one row is added or removed.

    Assumes:
        One row a person; `schema` and `bins` do not depend on the rows, see `DpRows.guarantee`. Of
        arrays: another row does not change what a cell holds (a whole number beyond 2**53 is
        rounded where a gap elsewhere makes its array one of floats; files have no such flaw).

    Raises:
        InputError: epsilon, delta or bins out of range, or a column without a domain.
        NotMeasurable: a column with too many cells.
        MissingExtra: opendp or mbi is missing.
    """
    check_installed()  # before anything is spent
    domains = domains_of(schema, bins)
    typed = columns_of(schema, columns)
    places = [domain.place(typed[domain.name]) for domain in domains]
    found = measure(places, [domain.cells for domain in domains], rho_of(epsilon, delta))
    drawn = draw_cells(found, [domain.cells for domain in domains], seed)
    rng = np.random.default_rng([seed, 80])
    names = list(schema)
    return DpRows(
        {domain.name: domain.draw(at, rng) for domain, at in zip(domains, drawn, strict=True)},
        tuple(drawn),
        domains,
        tuple(
            (names[marginal.columns[0]], names[marginal.columns[1]])
            for marginal in found.marginals
            if len(marginal.columns) == 2
        ),
        promise(found, epsilon, delta, schema),
    )


def draw_cells(found: NoisyCounts, sizes: Sequence[int], seed: int = 0) -> list[Int]:
    """Fit a graphical model to noisy counts (Private-PGM) and draw rows from it.

    McKenna, Sheldon and Miklau, ICML 2019: the distribution whose counts are nearest to all noisy
    ones at once, each weighted by its noise.

    Args:
        found: the noisy counts; nothing else is looked at.
        sizes: cells of each column.
        seed: of the draw.

    Returns:
        (rows,) of each column, as many rows as the noisy counts tell.
    """
    from joblib.externals.loky import ProcessPoolExecutor

    # In a process of its own, which then ends: JAX keeps threads, and who forks beside them hangs.
    with ProcessPoolExecutor(max_workers=1) as apart:
        drawn: list[Int] = apart.submit(_fitted, found, list(sizes), seed).result()
    return drawn


def _fitted(found: NoisyCounts, sizes: list[int], seed: int) -> list[Int]:
    mbi, jax = _library(), require("jax", "synthetic")
    names = [str(at) for at in range(len(sizes))]
    # In single precision the fit stalls on large tables; the setting ends with this block.
    with jax.enable_x64(True), seeded(seed):
        domain = mbi.Domain(names, sizes)
        counts = [
            mbi.LinearMeasurement(
                one.counts.ravel(), tuple(names[at] for at in one.columns), one.scale
            )
            for one in found.marginals
        ]
        model = mbi.estimation.MirrorDescent().estimate(
            domain, counts, known_total=float(found.rows), iters=_STEPS, tol=1e-6
        )
        made = model.synthetic_data(rows=found.rows).to_dict()
    return [np.asarray(made[name], dtype=np.int64) for name in names]


def check_installed() -> None:
    """Refuse to start without the libraries.

    Raises:
        MissingExtra: opendp or mbi is missing.
    """
    require("opendp.prelude", "synthetic")
    if find_spec("mbi") is None:  # looked for, not imported: JAX stays out of this process
        require("mbi", "synthetic")


def _library() -> Any:
    """Private-PGM; on import it gives advice on settings of JAX, one of which is made above."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return require("mbi", "synthetic")
