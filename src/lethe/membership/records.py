"""The per-record table: who is exposed, and how much. It is personal data.

Findings name at most the 100 most exposed, by rank; the table in the run folder says which
record has which rank. It is written only on request.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.document import Measurement, exposed_records
from lethe.membership.record_table import record_table
from lethe.membership.scoring import score
from lethe.membership.surroundings import surroundings
from lethe.membership.threads import on_one_thread
from lethe.training.folder import RunFolder, write_personal

_OLD = ("id", "t", "se", "low", "high", "auc", "tpr_at_0.001")


@on_one_thread
def write_records(
    folder: RunFolder,
    measured: Measurement,
    classes: tuple[str, ...] | None,
    features: NDArray[np.floating] | None = None,
    variance: str = "auto",
    seed: int = 0,
) -> str:
    """Write `records.parquet`, or `records.csv` where pyarrow is missing; returns the name.

    Columns: rank (1 = most exposed), id, label, t, se, low, high (95 % limits of t), auc,
    tpr_at_0.001, then the further ones of `record_table`.

    Args:
        folder: of the run.
        measured: the baseline's measurement.
        classes: names of the classes, if known.
        features: (N, ...) inputs of the records that can be members; without them the columns
            on neighbours and duplicates are left out.
        variance: of LiRA.
        seed: of the attacks.
    """
    rows = [
        {"rank": rank, **row, **more}
        for rank, (row, more) in enumerate(
            zip(
                exposed_records(measured, classes, pseudonyms=False),
                _more(measured, features, variance, seed),
                strict=True,
            ),
            start=1,
        )
    ]
    return write_personal(folder, rows)


def _more(
    measured: Measurement, features: NDArray[np.floating] | None, variance: str, seed: int
) -> list[dict[str, Any]]:
    """What `record_table` adds on each record that has a t, in the order of `exposed_records`."""
    shadows = measured.shadows
    attacks = [name for name in measured.results if name in ATTACKS]
    scores = score(shadows, attacks or ["loss-threshold", "lira-online"], variance, seed)
    around = None
    if features is not None and shadows.records > 1:
        around = surroundings(features, shadows.labels, seed)
    columns = record_table(shadows, scores, around)
    order = measured.exposure.ranked(0.95).order
    added = {name: column[order].tolist() for name, column in columns.items() if name not in _OLD}
    return [
        {name: _plain(column[at]) for name, column in added.items()} for at in range(len(order))
    ]


def _plain(value: Any) -> Any:
    """No NaN in a table that other programs read: an empty cell instead."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
