"""The exposure explorer: every record of an audit as a dot, in one page that needs no network.

The page is personal data even where it shows no row: a reader who knows a record's class or name
finds out how well it was memorised. It is written beside the report, never into it, and only where
a run was told to keep records.
"""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lethe.report.catalogue import catalogue

if TYPE_CHECKING:
    from lethe.data.dataset import Dataset

FILE = "explorer.html"
MOST_BYTES = 1_400_000
"""Of the packed records; what lies around them takes less than 100,000 more."""


@dataclass(frozen=True)
class ExploredRecords:
    """Every record of an audit: how exposed it is, why, and what is known of it.

    Guarantee: the page calls a record exposed only where `t - half` is above 0.
    Assumes: the limits hold for all records at once, so that picking the highest changes nothing.

    Attributes:
        ids: (N,) names of the records.
        t: (N,) exposure, 0 = a random guess; records without one (NaN) are counted, not drawn.
        half: (N,) half the width of its interval.
        why: (N,) what sets the record apart, in words.
        groups: name to (N,) group of each record, such as its class.
        rows: name to (N,) what the record holds; empty where it is not known.
    """

    ids: NDArray[np.str_]
    t: NDArray[np.float64]
    half: NDArray[np.float64]
    why: NDArray[np.str_]
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    rows: Mapping[str, NDArray[Any]] = field(default_factory=dict)


def explorer(name: str, records: ExploredRecords) -> str:
    """The page.

    Rows are embedded for the most exposed records, as many as `MOST_BYTES` allow; the page says
    how many.

    Args:
        name: of the subject.
        records: of the release as it is now.
    """
    from lethe.report.page import CONTENT_POLICY, templates

    return (
        templates()
        .get_template("explorer.html.j2")
        .render(
            name=name,
            content_policy=CONTENT_POLICY,
            packed=_packed(records),
            words=json.dumps(_words()).replace("<", "\\u003c"),
        )
    )


def content_of(data: Dataset, pool: NDArray[np.bool_]) -> dict[str, NDArray[Any]]:
    """What the records of an audit hold: the columns of their file, or else their features.

    Args:
        pool: (records,) True where a record can be a member; N of them are.
    """
    plain = data.table or dict(zip(data.feature_names, data.features.T, strict=True))
    numbers = {} if data.classes else {"label": data.labels}
    return {name: values[pool] for name, values in {**plain, **numbers}.items()}


def _words() -> dict[str, str]:
    """The sentences that the script puts together."""
    lead = "explorer.js."
    sentences = catalogue()["sentences"]
    return {key.removeprefix(lead): text for key, text in sentences.items() if key.startswith(lead)}


def _packed(records: ExploredRecords) -> str:
    """Base64 of the deflated records, the most exposed first."""
    known = np.flatnonzero(np.isfinite(records.t) & np.isfinite(records.half))
    order = known[np.argsort(-records.t[known], kind="stable")]
    document: dict[str, Any] = {
        "unknown": len(records.t) - len(known),
        "ids": records.ids[order].tolist(),
        # Hundredths; the interval is rounded outwards, so that no limit leaves chance by rounding.
        "t": np.rint(100 * records.t[order]).astype(int).tolist(),
        "half": (np.ceil(100 * records.half[order]).astype(int) + 1).tolist(),
        "why": _coded("", records.why[order]),
        "groups": [_coded(name, values[order]) for name, values in records.groups.items()],
        "picture": picture_shape(list(records.rows)),
    }
    kept = min(len(order), MOST_BYTES // len(records.rows)) if records.rows else 0
    while True:
        rows = [[name, _plain(values[order[:kept]])] for name, values in records.rows.items()]
        text = json.dumps({**document, "rows": rows, "kept": kept}, separators=(",", ":"))
        packed = base64.b64encode(zlib.compress(text.encode())).decode()
        if len(packed) <= MOST_BYTES or kept == 0:
            return packed
        kept //= 2


def _coded(name: str, values: NDArray[Any]) -> dict[str, Any]:
    """A column as positions in the sorted list of its different values."""
    names, codes = np.unique(values.astype(str), return_inverse=True)
    return {"name": name, "names": names.tolist(), "codes": codes.tolist()}


def _plain(values: NDArray[Any]) -> list[Any]:
    """Four significant digits of numbers, or text."""
    if values.dtype.kind == "f":
        return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values.tolist()]
    return values.tolist() if values.dtype.kind in "iub" else [str(value) for value in values]


def picture_shape(names: list[str]) -> list[int]:
    """Rows, columns and colours of a picture whose features are named by place; [] for no picture.

    >>> picture_shape(["x[0,0]", "x[0,1]", "x[1,0]", "x[1,1]"])
    [2, 2, 1]
    >>> picture_shape(["age", "income"])
    []
    """
    places = [re.fullmatch(r"(?:x\[|pixel )(\d+),(\d+)(?:,(\d+))?\]?", name) for name in names]
    if not names or None in places:
        return []
    ends = np.array([[int(part or 0) for part in place.groups()] for place in places if place])
    shape = [int(size) for size in ends.max(axis=0) + 1]
    # Colours first, as torch has them, are not drawn.
    whole = int(np.prod(shape)) == len(names) and shape[2] in (1, 3, 4)
    return shape if whole else []
