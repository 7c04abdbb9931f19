"""The per-record table: who is exposed, and how much. It is personal data.

Findings name at most the 100 most exposed, by rank; the table in the run folder says which
record has which rank. It is written only on request.
"""

from __future__ import annotations

import csv
import io
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lethe.membership.document import Measurement, exposed_records
from lethe.training.folder import RunFolder


def write_records(folder: RunFolder, measured: Measurement, classes: tuple[str, ...] | None) -> str:
    """Write `records.parquet`, or `records.csv` where pyarrow is missing; returns the name.

    Columns: rank (1 = most exposed), id, label, t, se, low, high (95 % limits of t), auc,
    tpr_at_0.001.
    """
    rows = [
        {"rank": rank, **row}
        for rank, row in enumerate(exposed_records(measured, classes, pseudonyms=False), start=1)
    ]
    if find_spec("pyarrow") is None:
        return _for_the_owner(folder.write("records.csv", _csv(rows)))
    import pyarrow
    import pyarrow.parquet

    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), buffer)
    return _for_the_owner(folder.write("records.parquet", buffer.getvalue()))


def _for_the_owner(path: Path) -> str:
    """Nobody else on the machine needs to read who is exposed."""
    path.chmod(0o600)
    return path.name


def _csv(rows: list[dict[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["rank"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
