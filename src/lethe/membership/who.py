"""Who bears the risk: the strongest attack by class and by the columns that were asked for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, NotMeasurable
from lethe.membership.scoring import score
from lethe.membership.slices import slice_metrics
from lethe.membership.threads import on_one_thread
from lethe.training.shadows import Shadows


@on_one_thread
def who_bears(
    shadows: Shadows,
    attack: str,
    fpr: float | None,
    columns: Mapping[str, NDArray[Any]],
    confidence: float = 0.95,
    variance: str = "auto",
    seed: int = 0,
) -> list[dict[str, Any]]:
    """Metrics of one attack on each value of some columns, for `findings.json`.

    Args:
        shadows: K models on N records.
        attack: the strongest.
        fpr: of the pooled threshold; None where the audit resolves no rate, 10 % is tried then.
        columns: name to (N,) group of each record.
        confidence: of all intervals of one column together.
        variance: of LiRA.
        seed: of the attack and the bootstrap.

    Returns:
        For each column its name, the FPR, and `slices`, see `Slice.to_json`; or why not.
    """
    if not columns:
        return []
    scores = score(shadows, (attack,), variance, seed)[attack]
    found = []
    for name, values in columns.items():
        entry: dict[str, Any] = {"column": name, "attack": attack, "fpr": fpr or 0.1}
        try:
            cut = slice_metrics(
                scores,
                shadows.signals,
                shadows.members,
                shadows.pairs,
                np.asarray(values),
                entry["fpr"],
                shadows.groups,
                confidence,
                seed,
            )
        except (InputError, NotMeasurable) as error:
            found.append({**entry, "refused": str(error)})
            continue
        ordered = sorted(cut, key=lambda one: by_number(one.name))
        found.append({**entry, "slices": [one.to_json() for one in ordered]})
    return found


def by_number(name: str) -> tuple[float, bool]:
    """Sorts names by the first number in them, what lies below it first; others stay behind.

    >>> sorted(["10", "28 to 37", "9", "below 28"], key=by_number)
    ['9', '10', 'below 28', '28 to 37']
    """
    number = re.search(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?", name)
    return (float(number.group()) if number else math.inf, not name.startswith("below"))
