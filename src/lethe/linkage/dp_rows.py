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

from lethe.columns import as_text
from lethe.errors import require
from lethe.evidence.guarantee import Guarantee
from lethe.linkage.codes import Int
from lethe.linkage.domains import Domain, declared
from lethe.linkage.noisy_marginals import NoisyCounts, measure, promise, rho_of
from lethe.training.seeding import seeded

_STEPS = 1000  # of mirror descent


@dataclass(frozen=True, eq=False)
class DpRows:
    """Differentially private synthetic rows.

    Attributes:
        columns: (rows,) by name, of the same types as the original's.
        cells: (rows,) of each column.
        domains: what the cells mean.
        pairs: names of the columns that were counted together.
        guarantee: what the rows prove.
    """

    columns: Mapping[str, NDArray[Any]]
    cells: tuple[Int, ...]
    domains: tuple[Domain, ...]
    pairs: tuple[tuple[str, str], ...]
    guarantee: Guarantee

    def to_csv(self) -> bytes:
        """The rows as a file."""
        lines = io.StringIO()
        writer = csv.writer(lines, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(
            zip(*(as_text(one).tolist() for one in self.columns.values()), strict=True)
        )
        return lines.getvalue().encode()


def dp_rows(
    columns: Mapping[str, NDArray[Any]],
    epsilon: float,
    delta: float = 1e-6,
    *,
    domains: Mapping[str, Any] | None = None,
    seed: int = 0,
) -> DpRows:
    """Count with noise, fit a model to the counts, and draw rows from it.

    Args:
        columns: (rows,) by name, one row a person.
        epsilon: above 0.
        delta: in (0, 1).
        domains: see `declared`.
        seed: of what is drawn from the model. The noise of the counts has none, so two runs
            differ, and both cost.

    Guarantee:
        (epsilon, delta)-differential privacy of the rows where one row is added or removed.

    Assumes:
        One row a person, and cells that do not depend on the rows; see `DpRows.guarantee`.

    Raises:
        InputError: epsilon, delta or domains out of range.
        NotMeasurable: a column with too many different values.
        MissingExtra: opendp or mbi is missing.
    """
    check_installed()  # before anything is spent
    cells = declared(columns, domains)
    places = [one.place(columns[one.name]) for one in cells]
    found = measure(places, [one.cells for one in cells], rho_of(epsilon, delta))
    drawn = draw_cells(found, [one.cells for one in cells], seed)
    rng = np.random.default_rng([seed, 80])
    names = [one.name for one in cells]
    return DpRows(
        {one.name: one.draw(codes, rng) for one, codes in zip(cells, drawn, strict=True)},
        tuple(drawn),
        cells,
        tuple(
            (names[one.columns[0]], names[one.columns[1]])
            for one in found.marginals
            if len(one.columns) == 2
        ),
        promise(found, epsilon, delta, cells),
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
