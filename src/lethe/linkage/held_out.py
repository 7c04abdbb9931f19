"""What a release is for: a model of the user's, or a prediction, as its utility.

Some original rows are held out. Nothing is trained on them; the model of every candidate is
tested on them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import check_column
from lethe.errors import InputError, NotMeasurable
from lethe.linkage.predicting import is_class, predict_rows
from lethe.linkage.settings import CommonSettings
from lethe.linkage.utility import Utility, mean_utility, single_utility
from lethe.training.models import load_callable
from lethe.training.users_code import seeded, users_code

Columns = Mapping[str, NDArray[Any]]


class UtilityModel(Protocol):
    """The user's function.

    A parameter named `written` is given the held-out rows as the release writes them, ages in
    groups for instance; a function without one is not.
    """

    def __call__(self, released: Columns, held_out: Columns) -> float | NDArray[Any]:
        """Train on released rows, test on original ones.

        Returns:
            A number, higher = better; or one for each held-out row, whose mean is the utility.
            Only the latter has an interval.
        """


@dataclass(frozen=True, eq=False)
class Use:
    """A utility that needs held-out rows.

    Attributes:
        utility: of released rows, held-out original rows, and those as the release writes them.
    """

    utility: Callable[[Columns, Columns, Columns], Utility]


def use_of(settings: CommonSettings, columns: Columns) -> Use | None:
    """The utility that was asked for; None = counts or queries, which need no held-out rows.

    Args:
        settings: of the audit.
        columns: of the original.

    Raises:
        InputError: no such column, or a function that cannot be loaded.
    """
    sure = settings.confidence
    if settings.predict is not None:
        column = settings.predict
        check_column("predict", column, columns, "the table")
        named = is_class(columns[column])

        def predicted(released: Columns, held_out: Columns, written: Columns) -> Utility:
            of_row = predict_rows(
                released, held_out, written, column, classes=named, seed=settings.seed
            )
            return mean_utility(of_row, sure)

        return Use(predicted)
    if settings.utility_model is None:
        return None
    given = settings.utility_model
    model = load_callable(given) if isinstance(given, str) else given
    name = given if isinstance(given, str) else str(getattr(given, "__qualname__", "utility_model"))

    def judged(released: Columns, held_out: Columns, written: Columns) -> Utility:
        return _ask(model, name, released, held_out, written, settings)

    return Use(judged)


def split(rows: int, settings: CommonSettings) -> NDArray[np.bool_]:
    """(rows,) which rows are held out, the same for every candidate.

    Raises:
        NotMeasurable: fewer than 2 rows on a side.
    """
    count = round(settings.held_out * rows)
    if count < 2 or rows - count < 2:
        raise NotMeasurable(
            f"held_out={settings.held_out:g} of {rows} rows leaves {count} to test on and "
            f"{rows - count} to learn from; 2 of each are needed."
        )
    out = np.zeros(rows, bool)
    out[np.random.default_rng([settings.seed, 79]).permutation(rows)[:count]] = True
    return out


def _ask(
    model: Callable[..., Any],
    name: str,
    released: Columns,
    held_out: Columns,
    written: Columns,
    settings: CommonSettings,
) -> Utility:
    rows = len(next(iter(held_out.values())))
    more = {"written": _copied(written)} if _wants_written(model) else {}
    # Copies: a model that changes its columns must not change the next candidate's.
    with users_code(f"the utility model {name}"), seeded(settings.seed):
        found = np.asarray(model(_copied(released), _copied(held_out), **more))
    if found.dtype.kind not in "biuf" or found.shape not in ((), (rows,)):
        raise InputError(
            f"the utility model {name} returns {found.dtype} of shape {found.shape}, expected one "
            f"number, or one for each of the {rows} held-out rows."
        )
    numbers = found.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"the utility model {name} returns a number that is not finite.")
    if numbers.shape == ():
        return single_utility(float(numbers), rows, settings.confidence)
    return mean_utility(numbers, settings.confidence)


def _wants_written(model: Callable[..., Any]) -> bool:
    return "written" in inspect.signature(model).parameters


def _copied(columns: Columns) -> dict[str, NDArray[Any]]:
    return {name: column.copy() for name, column in columns.items()}
