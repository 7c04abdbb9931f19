"""Tables of a run that are personal data: written on request, for their owner alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from lethe.files import write_for_owner
from lethe.training.folder import RunFolder


def write_personal(
    folder: RunFolder, rows: Sequence[Mapping[str, Any]], name: str = "records"
) -> str:
    """Write `NAME.parquet`, or `NAME.csv` where pyarrow is missing; returns the file's name.

    Nobody else on the machine can read it.

    Args:
        folder: of the run.
        rows: all with the same columns.
        name: of the table.
    """
    if find_spec("pyarrow") is None:
        path, content = folder.path / f"{name}.csv", _csv(rows)
    else:
        import pyarrow
        import pyarrow.parquet

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), buffer)
        path, content = folder.path / f"{name}.parquet", buffer.getvalue()
    write_for_owner(path, content)  # not readable for others even while it is written
    path.chmod(0o600)  # an earlier file may have been
    return path.name


def _csv(rows: Sequence[Mapping[str, Any]]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["rank"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()
