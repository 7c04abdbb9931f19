"""Can three files be compared: is the control one, and are values spelled alike?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.verdict import InputCheck
from lethe.data.columns import is_text, missing
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.linkage.document import FEWEST
from lethe.linkage.synthetic.copies import IDENTICAL, SINGLE, patterns, tail
from lethe.linkage.synthetic.nearest import Files, Mixed, joined, nearest_distance, ranked
from lethe.linkage.synthetic.ratios import cross_fitted
from lethe.linkage.synthetic.risk import Outcomes, rate_of, risk, risk_in
from lethe.linkage.utility import paired_change

Columns = Mapping[str, NDArray[Any]]
_SURE = 0.998  # a lower limit above 0 then has a p-value below 0.001
_TOLD, _ABOVE = 0.52, 0.01  # smallest effects that stop: an AUC, a share beyond the expected
_RECUR, _MEET, _GAIN = 0.9, 0.5, 0.05  # shares of values that recur and that meet
_MOST = 1000  # rows of a file that are looked at
_DRAW = "Draw the control at random from the people of the original, and use it for nothing."


def refuse_same_files(files: Files) -> None:
    """Refuse a control that is one of the other files, in any order, or too small.

    Raises InputError: naming the file.
    """
    *others, outside = map(np.sort, patterns(files))
    for name, rows in zip(("original", "synthetic rows"), others, strict=True):
        if np.array_equal(rows, outside):
            raise InputError(f"the control is the {name}: the same {len(rows)} rows. {_DRAW}")
    if len(outside) < FEWEST:
        raise InputError(
            f"the control has {len(outside)} rows, {FEWEST} are needed. Hold out more."
        )


def as_whole_numbers(
    original: Columns, synthetic: Columns
) -> tuple[dict[str, NDArray[Any]], list[InputCheck]]:
    """Round decimals of synthetic rows in columns of whole numbers, and say so.

    A generator that treats ages as measured invents 41.3: no spelling of other people, and no
    reason to overlook a copy. Only columns are rounded whose values then meet the original's.
    """
    rounded, notes = dict(synthetic), []
    for name in (name for name in original if name in synthetic):
        column = original[name]
        if column.dtype.kind not in "iuf" or synthetic[name].dtype.kind != "f":
            continue
        known, values = (cells[~np.isnan(cells)] for cells in (column, synthetic[name]))
        if min(len(known), len(values)) < FEWEST or (known % 1).any():
            continue
        number = np.unique(known, return_counts=True)[1]
        recur = number[number > 1].sum() / len(known)
        whole = np.round(values)
        before, after = (np.isin(cells, known).mean() for cells in (values, whole))
        out = ((whole < known.min()) | (whole > known.max())).mean()
        if recur >= _RECUR and before < _MEET <= after and out < _GAIN:
            text = f"{name} has decimals, the original has whole numbers: they were rounded."
            notes.append(InputCheck("vocabulary", "mends", text))
            rounded[name] = np.round(synthetic[name])
    return rounded, notes


def file_checks(
    files: Files,
    columns: Sequence[Columns],
    outcomes: Mapping[str, Outcomes],
    seed: int,
) -> Iterator[InputCheck]:
    """Check the files; only what can be shown stops an audit.

    Values that do not meet; a control that shares rows with the original, exact or near, more than
    the original's own rows recur (p < 0.001); one that a classifier tells from it; synthetic rows
    that are closer to it than to the original, or that hold its rows.

    Args:
        columns: the files, as they are written.
        outcomes: of the attacks on copies.
    """
    (original, synthetic, control), rng = files, np.random.default_rng([seed, 91])
    inside, released, outside = patterns(files)
    first = np.unique(inside, return_index=True)[1]  # rows that are repeated say nothing new
    first = first if len(first) >= FEWEST else np.arange(len(original))
    once = original.take(first), {name: cells[first] for name, cells in columns[0].items()}
    for called, at in (("synthetic rows", 1), ("control", 2)):
        if odd := list(_unmet(once[0], files[at], once[1], columns[at])):
            text = f"Values of the {called} do not meet those of the original: {'; '.join(odd[:3])}"
            text += f"; and {len(odd) - 3} more columns." if len(odd) > 3 else "."
            yield InputCheck("vocabulary", "stops", text, "Write them alike in all files.")
    _, place, number = np.unique(inside, return_inverse=True, return_counts=True)
    shared, twins = np.isin(outside, inside), number[place] > 1
    scaled, made_of_control = ranked(files), False
    theirs = rng.permutation(np.unique(outside, return_index=True)[1])[:_MOST]
    every, rows = range(len(original.names)), min(len(original), len(synthetic))
    mine = rng.permutation(len(original))[:_MOST]
    within = nearest_distance(scaled[0].take(mine), scaled[0], every, but=mine)
    drawn = [table.take(rng.permutation(len(table))[:rows]) for table in scaled[:2]]
    across, to_made = (nearest_distance(scaled[2].take(theirs), table, every) for table in drawn)
    near = np.quantile(within, 0.01)
    # Two rows that are nearest to each other are one event: both have the same distance.
    both, events = within <= near, np.unique(within, return_inverse=True)[1]
    moved = risk(across <= near, both, rate_of(both, _SURE), _SURE, (None, events)).excess
    more = risk(shared, twins, rate_of(twins, _SURE), _SURE, (outside, inside))
    if _beyond(more.excess):
        text = f"{shared.sum():,} of {len(control):,} control rows are in the original, more than "
        text += f"chance allows ({100 * twins.mean():.2g} % of its own rows recur)."
        yield InputCheck("control-rows", "stops", text, _DRAW)
    elif _beyond(moved):
        text = f"{100 * (across <= near).mean():.2g} % of the control rows are nearer to an "
        text += "original row than 99 % of those are to each other: were rows moved a little?"
        yield InputCheck("control-rows", "stops", text, _DRAW)
    auc, low = told_apart(original, control, rng)
    if low > _TOLD:
        text = f"A classifier tells control rows from original ones: AUC {auc:.2f}."
        yield InputCheck("control-source", "stops", text, _DRAW)
    used = np.isin(outside, released), to_made <= near
    usual = shared, across <= near
    for hit, expected in zip(used, usual, strict=True):
        change = paired_change(now=hit, before=expected, confidence=_SURE)
        # More rows meet more: of so many times as many, as if drawn anew; and half of that again.
        usually, times = float(expected.mean()), max(1.5, len(released) / len(inside))
        allowed = _ABOVE + (1 - usually) - (1 - usually) ** times
        made_of_control |= change.low is not None and change.low > allowed
    if made_of_control:
        text = f"{100 * max(hit.mean() for hit in used):.2g} % of the control rows are in or next "
        text += "to the synthetic rows, beyond what the original rows lead to expect."
        yield InputCheck("control-nearer", "stops", text, "Was the control used, or exchanged?")
    elif _exchanged(outcomes):
        text = "The synthetic rows are closer to the control than to the original."
        yield InputCheck("control-nearer", "stops", text, "Was the control used, or exchanged?")


def _exchanged(outcomes: Mapping[str, Outcomes]) -> bool:
    """Whether the control would be found by the attacks, were it the original."""
    near = outcomes["closest"]
    risks = [tail(near.control, near.main, 0.01, _SURE)] if len(near.main) >= 100 else []
    hits = [outcomes[name] for name in (IDENTICAL, SINGLE) if name in outcomes]
    risks += [risk_in(replace(hit, main=hit.control, control=hit.main), _SURE) for hit in hits]
    return any(_beyond(risk.excess, _ABOVE) for risk in risks)


def _beyond(excess: Measured, least: float = 0.0) -> bool:
    return isinstance(excess, Estimate) and excess.low is not None and excess.low > least


def told_apart(original: Mixed, control: Mixed, rng: np.random.Generator) -> tuple[float, float]:
    """AUC of boosted trees, fitted on half of the rows and tried on the others, both ways.

    Returns: The mean of both, and its lower limit (p < 0.001 under equal distributions).
    """
    rows = min(len(original), len(control), 2 * _MOST)
    drawn = (table.take(rng.permutation(len(table))[:rows]) for table in (original, control))
    score = cross_fitted(np.stack(joined(*drawn).columns, axis=1).astype(np.float64))
    aucs = []
    for half in (0, 1):
        mine, theirs = score[half:rows:2], score[rows + half :: 2]
        n, m = len(mine), len(theirs)
        below = [np.searchsorted(np.sort(theirs), mine, side) for side in ("left", "right")]
        aucs.append(float(np.mean(below)) / m)
    auc = float(np.mean(aucs))
    # Mann and Whitney 1947; what the halves come to may hang together, so no less for both.
    return auc, auc - 3.09 * ((n + m + 1) / (12 * n * m)) ** 0.5


def _unmet(original: Mixed, other: Mixed, columns: Columns, written: Columns) -> Iterator[str]:
    """Columns whose values are not the original's, with one value of each file."""
    for at, name in enumerate(original.names):
        known, values = (
            table.columns[at][~(np.isnan(table.columns[at]) | missing(cells[name]))]
            for table, cells in ((original, columns), (other, written))
        )
        cells = written[name][~missing(written[name])]
        if min(len(known), len(values)) < FEWEST:
            continue
        hit = np.isin(values, known)
        _, place, number = np.unique(known, return_inverse=True, return_counts=True)
        recur = float((number[place] > 1).mean())
        # New words are rare where the original's own are not: a file invents spellings, not words.
        error = 3 * (recur * (1 - recur) * (1 / len(known) + 1 / len(values))) ** 0.5
        least = recur - _GAIN - error if is_text(columns[name]) else _MEET * (recur >= _RECUR)
        if hit.mean() < least:
            usually = columns[name][~missing(columns[name])][0]
            yield f"{name} has {str(cells[~hit][0])!r}, the original has {str(usually)!r}"
        elif original.is_number(at):
            out = (values < known.min()) | (values > known.max())
            if out.mean() > 1 - _MEET:
                yield f"{name} has {cells[out][0]}, outside of the original's range"
