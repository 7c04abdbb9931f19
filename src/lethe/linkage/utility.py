"""What a release is for, and what was lost against the baseline: one shape, however it came about.

Higher = better: counted in all rows (no sampling error: counts of columns, or answers to the user's
SQL queries that are still right), a mean over held-out rows (an interval, paired against the
baseline), or one number of the user's code. Nothing is trained on held-out rows.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lethe.data.columns import Codes, as_text, check_column, is_text
from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson, clustered_share
from lethe.evidence.twoway import Spread, symmetric_estimate
from lethe.linkage.codes import Float, Int, as_numbers, count
from lethe.linkage.settings import CommonSettings
from lethe.training.environment import one_thread
from lethe.training.models import load_callable
from lethe.training.users_code import seeded, users_code

Columns = Mapping[str, NDArray[Any]]
_ALONE = "one number, without an interval"


@dataclass(frozen=True, eq=False)
class Utility:
    """How useful a release is.

    Attributes:
        of_row: (held-out rows,) its parts, of which it is the mean; None where there are none.
    """

    estimate: Estimate  # higher = better
    of_row: Float | None = None


def counted_utility(value: float, rows: int, confidence: float, where: str) -> Utility:
    """A share that was counted, not estimated: the limits are the value itself."""
    return Utility(Estimate(value, value, value, confidence, f"counted in all {where}", rows))


def single_utility(value: float, rows: int, confidence: float) -> Utility:
    """One number of the user's code; it has no interval, and its loss has none either."""
    return Utility(Estimate(value, None, None, confidence, _ALONE, rows))


def mean_utility(of_row: Float, confidence: float) -> Utility:
    """The mean over held-out rows: exact limits where all are 0 or 1, else Student's.

    Args:
        of_row: (rows,) higher = better.

    Raises NotMeasurable: fewer than 2 rows.

    >>> print(mean_utility(np.array([1.0, 1.0, 0.0, 1.0]), 0.95).estimate)
    0.75 [0.1941, 0.9937]
    """
    rows = len(of_row)
    if rows < 2:
        raise NotMeasurable(f"utility on held-out rows needs at least 2 of them, got {rows}.")
    if _binary(of_row):
        return Utility(clopper_pearson(int(of_row.sum()), rows, confidence), of_row)
    return Utility(_student(of_row, confidence, "t over held-out rows"), of_row)


def utility_loss(*, baseline: Utility, released: Utility, confidence: float) -> Estimate:
    """Utility of the baseline minus that of the release; paired where both are of held-out rows.

    >>> all_right, all_wrong = mean_utility(np.ones(100), 0.95), mean_utility(np.zeros(100), 0.95)
    >>> print(utility_loss(baseline=all_right, released=all_wrong, confidence=0.95))
    1 [0.9143, 1]
    """
    old, new = baseline.estimate, released.estimate
    assert old.value is not None and new.value is not None
    gone = old.value - new.value
    if baseline.of_row is not None and released.of_row is not None:
        if _binary(baseline.of_row) and _binary(released.of_row):
            change = paired_change(
                now=released.of_row == 1, before=baseline.of_row == 1, confidence=confidence
            )
            assert change.low is not None and change.high is not None
            return Estimate(gone, -change.high, -change.low, confidence, change.method, change.n)
        gone_of_row = baseline.of_row - released.of_row
        return _student(gone_of_row, confidence, "paired, t over held-out rows")
    if old.low is None or new.low is None:
        return Estimate(gone, None, None, confidence, _ALONE, new.n)
    return Estimate(gone, gone, gone, confidence, new.method, new.n)


def paired_change(
    *, now: NDArray[np.bool_], before: NDArray[np.bool_], confidence: float = 0.95
) -> Estimate:
    """Share now minus share before, of the same targets.

    Exact limits of the share gained and of the share lost, each with half of the error
    (Bonferroni).

    >>> print(paired_change(now=np.array([False] * 100), before=np.array([True] * 100)))
    -1 [-1, -0.9143]
    """
    trials, halved = len(now), 1 - (1 - confidence) / 2
    gained, lost = int((now & ~before).sum()), int((before & ~now).sum())
    up, down = (clopper_pearson(count, trials, halved) for count in (gained, lost))
    assert up.low is not None and up.high is not None
    assert down.low is not None and down.high is not None
    low, high = max(up.low - down.high, -1.0), min(up.high - down.low, 1.0)
    return Estimate((gained - lost) / trials, low, high, confidence, "paired, exact", trials)


def mean_share(shares: Float, confidence: float) -> Estimate:
    """Mean of shares in [0, 1], one for each person; exact where all are 0 or 1."""
    rows = len(shares)
    mean = float(np.clip(shares.mean(), 0.0, 1.0))
    return clustered_share(
        mean, float(shares.var()) / rows, max(rows - 1, 1), rows, rows, confidence
    )


def _binary(values: Float) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _student(values: Float, confidence: float, method: str) -> Estimate:
    rows = len(values)
    spread = Spread(float(values.var(ddof=1)) / rows, rows - 1)
    return symmetric_estimate(float(values.mean()), spread, rows, confidence, method)


MOST_CLASSES = 20  # whole numbers with more values are predicted as numbers
_NAMES = 254  # categories that a boosted tree tells apart; rarer ones are one


def is_class(column: NDArray[Any]) -> bool:
    """Whether values are named (accuracy) rather than measured (R2).

    >>> is_class(np.array([0, 1, 1])), is_class(np.array([0.5, 1.0]))
    (True, False)
    """
    if column.dtype.kind in "iu":
        return len(np.unique(column)) <= MOST_CLASSES
    return column.dtype.kind == "b" or is_text(column)


def predict_rows(
    released: Columns,
    held_out: Columns,
    written: Columns,
    column: str,
    *,
    classes: bool,
    seed: int = 0,
) -> Float:
    """Train gradient boosting on released rows and score each held-out row by it.

    Args:
        released: rows that the model is trained on, as the release writes them.
        held_out: original rows, none of them among the released ones; their `column` is the truth.
        written: the same rows as the release would write them: what the model is asked about.
        column: that is predicted; all others are features.

    Returns: (rows,) higher = better. Classes: 1 = right, 0 = wrong, so the mean is the accuracy.
        Numbers: 1 - error² / variance, so the mean is R2; held-out rows without the number are left
        out.

    Raises:
        InputError: no other column, or a column of dates.
        NotMeasurable: no released row has a value, or held-out numbers are all equal.
    """
    features = [name for name in released if name != column]
    if not features:
        raise InputError(f"predict={column!r} is the only column; a model needs others to learn.")
    truth = held_out[column]
    if truth.dtype.kind == "M":
        raise InputError(f"predict={column!r} holds dates. Give a class or a number.")
    pairs = [_numbers(released[name], written[name]) for name in features]
    categories = np.array([named for _, _, named in pairs])
    train, test = (np.column_stack([pair[side] for pair in pairs]) for side in (0, 1))
    if not len(train):
        raise NotMeasurable("no row is released to train on.")
    labels = released[column]
    if classes:
        names = as_text(labels)
        guess = names[:1]
        if len(np.unique(names)) > 1:
            guess = _predicted(train, names, test, categories, seed)
        return np.asarray(guess == as_text(truth), dtype=np.float64)
    if is_text(labels):
        raise NotMeasurable("the number is released as text, so it cannot be learnt.")
    there = ~np.isnan(truth.astype(np.float64))
    right = truth.astype(np.float64)[there]
    spread = float(right.var()) if len(right) else 0.0
    if not spread:
        raise NotMeasurable("held-out numbers are all equal, so R2 has no meaning.")
    known = ~np.isnan(labels.astype(np.float64))
    if not known.any():
        raise NotMeasurable("no released row has the number that is to be predicted.")
    numbers = labels[known].astype(np.float64)
    predictions = _predicted(train[known], numbers, test[there], categories, seed)
    return np.asarray(1 - (predictions - right) ** 2 / spread, dtype=np.float64)


def _numbers(released: NDArray[Any], written: NDArray[Any]) -> tuple[Float, Float, bool]:
    """A column as numbers on both sides, and whether they are names of categories."""
    if not is_text(released) and not is_text(written):
        return as_numbers(released), as_numbers(written), False
    names, count = np.unique(as_text(released), return_counts=True)
    kept = names[np.argsort(-count, kind="stable")][:_NAMES]
    code = {name: float(index) for index, name in enumerate(kept.tolist())}
    sides = [
        np.array([code.get(text, np.nan) for text in as_text(one).tolist()])
        for one in (released, written)
    ]
    return sides[0], sides[1], True


def _predicted(
    train: Float, target: NDArray[Any], test: Float, categories: NDArray[np.bool_], seed: int
) -> NDArray[Any]:
    """Predict the test rows by boosted trees: numbers, or text for classes."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    # Trees cannot be fitted on a column without a value; one of zeros tells them nothing.
    empty = np.isnan(train).all(axis=0)
    train, test = np.where(empty, 0.0, train), np.where(empty, 0.0, test)
    number = target.dtype.kind == "f"
    trees = HistGradientBoostingRegressor if number else HistGradientBoostingClassifier
    model = trees(
        max_iter=50, early_stopping=False, categorical_features=categories, random_state=seed
    )
    # One thread: on busy or few cores the trees' threads wait for each other most of the time.
    with one_thread():
        return np.asarray(model.fit(train, target).predict(test))


Use = Callable[[Columns, Columns, Columns], Utility]
"""Utility of released rows, held-out original rows, and those as the release writes them."""


def use_of(settings: CommonSettings, columns: Columns) -> Use | None:
    """The utility that was asked for; None = counts or queries, which need no held-out rows.

    Raises InputError: no such column, or a function that cannot be loaded.
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

        return predicted
    if settings.utility_model is None:
        return None
    named_model = settings.utility_model
    model = load_callable(named_model) if isinstance(named_model, str) else named_model
    return partial(_ask, model, settings)


def split(rows: int, settings: CommonSettings) -> NDArray[np.bool_]:
    """(rows,) which rows are held out, the same for every candidate.

    Raises NotMeasurable: fewer than 2 rows on a side.
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
    settings: CommonSettings,
    released: Columns,
    held_out: Columns,
    written: Columns,
) -> Utility:
    rows, name = len(next(iter(held_out.values()))), settings.model_name
    parameters = inspect.signature(model).parameters
    more = {"written": _copied(written)} if "written" in parameters else {}
    # Copies: a model that changes its columns must not change the next candidate's.
    with users_code(f"the utility model {name}"), seeded(settings.seed):
        answers = np.asarray(model(_copied(released), _copied(held_out), **more))
    if answers.dtype.kind not in "biuf" or answers.shape not in ((), (rows,)):
        raise InputError(
            f"the utility model {name} returns {answers.dtype} of shape {answers.shape}, expected "
            f"one number, or one for each of the {rows} held-out rows."
        )
    numbers = answers.astype(np.float64)
    if not np.isfinite(numbers).all():
        raise InputError(f"the utility model {name} returns a number that is not finite.")
    if numbers.shape == ():
        return single_utility(float(numbers), rows, settings.confidence)
    return mean_utility(numbers, settings.confidence)


def _copied(columns: Columns) -> dict[str, NDArray[Any]]:
    return {name: column.copy() for name, column in columns.items()}


# Counts of columns, and answers to queries, that are still right.

_DENSE = 2**20  # cells that are counted in a table, beside as many as there are rows


def pairs_of_columns(columns: int) -> list[tuple[int, ...]]:
    """List all pairs of columns; the column itself where there is only one.

    >>> pairs_of_columns(3)
    [(0, 1), (0, 2), (1, 2)]
    """
    return list(combinations(range(columns), 2)) or [(0,)]


def count_overlap(
    original: Sequence[Codes],
    released: Sequence[Codes],
    groups: Sequence[Codes],
    tables: Sequence[tuple[int, ...]] | None = None,
    *,
    scale: float = 1.0,
) -> float:
    """Mean overlap of contingency tables, 1 = every count is right, 0 = none is.

    Of each table: the sum over cells of min(original count, released count), over the original
    rows. A released value that stands for several is spread over them evenly.

    Args:
        original: codes (n,) of each column.
        released: codes (m,) of each column's groups; -1 = a value that the original does not have.
        groups: (levels,) of each column: the group that stands for each original value.
        tables: places of the columns of each table; all pairs by default.
        scale: of released counts: 1 / share, where a known share of rows was drawn.

    >>> column = np.array([0, 0, 1, 1])
    >>> count_overlap([column], [np.zeros(4, int)], [np.zeros(2, int)])  # one group for both
    1.0
    >>> count_overlap([column], [column[:3]], [np.arange(2)])  # a row is missing
    0.75
    """
    shares = []
    for table in tables or pairs_of_columns(len(original)):
        mine, theirs, own = ([side[at] for at in table] for side in (original, released, groups))
        wide, most = [len(group) for group in own], [int(group.max()) + 1 for group in own]
        cells, held = _cells(mine, wide)
        inside = np.logical_and.reduce([column >= 0 for column in theirs])
        keys, of_group = _cells([column[inside] for column in theirs], most)
        asked, share = _recoded(cells, wide, own)
        expected = np.zeros(len(cells))
        if len(keys):
            place = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
            expected = np.where(keys[place] == asked, of_group[place], 0) * share * scale
        shares.append(float(np.minimum(held, expected).sum() / int(held.sum())))
    return float(np.mean(shares))


@dataclass(frozen=True, eq=False)
class Original:
    """Counts of all pairs of columns, to compare many recodings of the same rows with."""

    columns: Sequence[Codes]  # codes (n,) of each
    levels: Sequence[int]  # how many values each has
    times: Int | None = None  # (n,) how many equal rows each row stands for; None = one each

    @cached_property
    def _counted(self) -> list[tuple[tuple[int, ...], Int, Int]]:
        return [
            (table, *self._cells(table, self.columns, self.times))
            for table in pairs_of_columns(len(self.columns))
        ]

    def _cells(
        self, table: tuple[int, ...], columns: Sequence[Codes], times: Int | None
    ) -> tuple[Int, Int]:
        return _cells([columns[at] for at in table], [self.levels[at] for at in table], times)

    def overlap(self, groups: Sequence[Codes], kept: NDArray[np.bool_]) -> float:
        """`count_overlap` of some of the rows, recoded.

        Args:
            groups: (levels,) of each column: the group that stands for each value.
            kept: (n,) whether the row is released.
        """
        whole = 2 * int(kept.sum()) > len(kept)
        few = ~kept if whole else kept  # rows that have to be looked at once more
        columns = [column[few] for column in self.columns]
        times = None if self.times is None else self.times[few]
        shares = []
        for table, cells, held in self._counted:
            inside, number = self._cells(table, columns, times)
            released = held.copy() if whole else np.zeros_like(held)
            released[np.searchsorted(cells, inside)] += -number if whole else number
            asked, share = _recoded(
                cells, [self.levels[at] for at in table], [groups[at] for at in table]
            )
            _, place = np.unique(asked, return_inverse=True)
            expected = np.bincount(place, released)[place] * share
            shares.append(float(np.minimum(held, expected).sum() / int(held.sum())))
        return float(np.mean(shares))


def _recoded(
    cells: Int, wide: Sequence[int], groups: Sequence[Codes]
) -> tuple[Int, NDArray[np.float64]]:
    """The joint group of each cell, and the share of the group's rows that is the cell's."""
    levels = np.unravel_index(cells, wide)
    most = [int(group.max()) + 1 for group in groups]
    asked = _joint([group[level] for group, level in zip(groups, levels, strict=True)], most)
    share = np.ones(len(cells))
    for group, level in zip(groups, levels, strict=True):
        share /= np.bincount(group)[group[level]]
    return asked, share


def _cells(
    columns: Sequence[Codes], levels: Sequence[int], times: Int | None = None
) -> tuple[Int, Int]:
    """Joint codes that occur, ascending, and the rows that have each."""
    joint, width = _joint(columns, levels), math.prod(levels)
    if width <= _DENSE + len(joint):
        held = count(joint, width, times)
        cells = np.flatnonzero(held)
        return cells, held[cells]
    cells, place = np.unique(joint, return_inverse=True)
    return cells, count(place, len(cells), times)


def _joint(columns: Sequence[Codes], levels: Sequence[int]) -> Int:
    total = np.zeros(len(columns[0]), np.int64)
    for column, width in zip(columns, levels, strict=True):
        total *= width
        total += column
    return total


Answer = dict[tuple[Any, ...], list[float]]
TABLE = "release"


def ask(columns: Mapping[str, NDArray[Any]], sql: str) -> Answer:
    """Answer one query over a table named `release`, in DuckDB, which sees nothing else.

    Args:
        columns: (rows,) each, as `lethe.data.columns.read_columns` gives them.
        sql: a SELECT; its number columns are answers, its other columns say what of.

    Returns:
        By the values of the other columns, the numbers in their order; NULL is NaN.

    Raises:
        InputError: not answered; the message is DuckDB's first line.
    """
    table = pa.table(
        {
            name: pa.array(column.tolist() if is_text(column) else column)
            for name, column in columns.items()
        }
    )
    try:
        with duckdb.connect(":memory:", config={"enable_external_access": "false"}) as base:
            base.register(TABLE, table)
            rows = base.execute(sql).fetchall()
    except duckdb.Error as error:
        first = str(error).splitlines()[0]
        raise InputError(
            f"query {sql!r}: {first}. Ask the table {TABLE!r} for its columns."
        ) from error
    answer: Answer = {}
    for row in rows:
        key = tuple(cell for cell in row if not _is_number(cell))
        answer.setdefault(key, []).extend(float(cell) for cell in row if _is_number(cell))
    if not any(answer.values()):
        raise InputError(f"query {sql!r} gives no number. Ask for counts, sums or means.")
    return answer


def error_of(right: Answer, answer: Answer) -> float:
    """Mean over all numbers of |right - given| / max(|right|, |given|), in [0, 1].

    A number that only one side has, or that is no finite number, counts as wholly wrong.

    >>> error_of({("a",): [10.0]}, {("a",): [5.0]}), error_of({(): [0.0]}, {(): [0.0]})
    (0.5, 0.0)
    """
    wrong: list[float] = []
    for key in right.keys() | answer.keys():
        mine, theirs = right.get(key, []), answer.get(key, [])
        for one, other in zip(mine, theirs, strict=False):
            if math.isfinite(one) and math.isfinite(other):
                largest = max(abs(one), abs(other))
                wrong.append(min(abs(one - other) / largest, 1.0) if largest else 0.0)
            else:
                wrong.append(0.0 if math.isnan(one) and math.isnan(other) else 1.0)
        wrong += [1.0] * abs(len(mine) - len(theirs))
    return float(np.mean(wrong)) if wrong else 1.0


def answer_overlap(
    original: Mapping[str, NDArray[Any]],
    released: Mapping[str, NDArray[Any]],
    queries: Sequence[str],
) -> float:
    """1 - mean error of the queries; 1 = the release answers all as the original does.

    Raises InputError: a query that cannot be answered.
    """
    return 1 - float(np.mean([error_of(ask(original, one), ask(released, one)) for one in queries]))


def _is_number(cell: Any) -> bool:
    # DuckDB sums whole numbers as int, and gives decimals a type of their own.
    return hasattr(cell, "__float__") and not isinstance(cell, bool)
