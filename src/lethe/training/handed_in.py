"""Models that somebody else trained and scored: references, and targets to attack with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.training.scores_file import ScoreTable, read_scores
from lethe.training.shadows import Shadows


def read_models(path: Path | str, signal: str = "logit") -> tuple[Shadows, Shadows | None]:
    """Reference models and, where the file marks some, the targets to attack with them.

    Args:
        path: a scores file, wide or long.
        signal: see `read_scores`.

    Returns:
        The references, and the targets; None where every model is to be the target in turn.

    Raises:
        InputError: as `read_scores`.
    """
    table = read_scores(Path(path), signal)
    outside = np.asarray(~table.members.any(axis=0))
    if outside.all():
        outside[:] = False  # refused elsewhere: there is nobody to find

    def side(column: NDArray[Any] | None, which: NDArray[np.bool_]) -> NDArray[Any] | None:
        return None if column is None else column[which]

    whole = Shadows(
        table.signals[:, ~outside],
        table.members[:, ~outside],
        table.ids[~outside],
        side(table.labels, ~outside),
        side(table.groups, ~outside),
        population=table.signals[:, outside],
        population_labels=side(table.labels, outside),
        notes=_notes(table, int(outside.sum())),
        task="regression" if signal == "squared-error" else None,
        population_groups=side(table.groups, outside),
        in_sd=False,
    )
    if table.targets is None:
        return whole, None
    return whole.select(np.flatnonzero(~table.targets)), whole.select(np.flatnonzero(table.targets))


def _notes(table: ScoreTable, outside: int) -> tuple[str, ...]:
    notes = list(table.notes)
    if outside:
        notes.append(
            f"{outside} records are OUT of every model; they stand for people outside and are not "
            "attacked."
        )
    if table.targets is not None:
        chosen, everyone = int(table.targets.sum()), len(table.targets)
        what = "is the target" if chosen == 1 else "are targets"
        notes.append(
            f"{chosen} of the {everyone} models {what}; the other {everyone - chosen} are "
            "references."
        )
    return tuple(notes)
