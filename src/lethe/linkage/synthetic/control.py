"""Can these three files be compared: is the control one, and are values spelled alike?

Only what can be shown stops an audit: rows that are shared more often than the original's own rows
recur, files that a classifier tells apart, values that never meet.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from lethe.assess.input_checks import InputCheck
from lethe.data.columns import is_text, missing
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate
from lethe.linkage.document import FEWEST
from lethe.linkage.inputs import list_few
from lethe.linkage.synthetic.nearest import Mixed, nearest_distance, patterns
from lethe.linkage.synthetic.risk import Risk, Trials, rate_of, risk

Columns = Mapping[str, NDArray[Any]]
_SURE = 0.998  # a lower limit above 0 has a p-value below 0.001
_TOLD = 0.52  # AUC that the lower limit of a classifier must exceed, too
_HALVES, _MEET, _GAIN = 0.95, 0.5, 0.05
_MOST = 1000  # rows of a file whose neighbours are looked for
_LEVELS = 20  # categories with a feature each
_SAME_SOURCE = "Draw the control at random from the people of the original, and use it for nothing."


def refuse_same_files(original: Mixed, synthetic: Mixed, control: Mixed) -> None:
    """Refuse a control that is one of the other two files, in any order of rows.

    Raises InputError: it is, or has fewer rows than an attack needs.
    """
    inside, made, outside = map(np.sort, patterns([original, synthetic, control]))
    for name, rows in (("original", inside), ("synthetic rows", made)):
        if np.array_equal(rows, outside):
            raise InputError(
                f"the control is the {name}: both hold the same {len(rows)} rows. {_SAME_SOURCE}"
            )
    if len(control) < FEWEST:
        raise InputError(
            f"the control has {len(control)} rows, at least {FEWEST} are needed. Hold out more."
        )


def control_checks(original: Mixed, control: Mixed, seed: int) -> list[InputCheck]:
    """Whether the control shares people with the original, or comes from elsewhere.

    A control row is compared with what the original's own rows say: how many of them have a twin,
    or a near one, among the others.
    """
    rng = np.random.default_rng([seed, 91])
    found = []
    inside, outside = patterns([original, control])
    _, place, number = np.unique(inside, return_inverse=True, return_counts=True)
    shared, twins = np.isin(outside, inside), number[place] > 1
    if _more(shared, twins, outside, inside):
        text = (
            f"{int(shared.sum()):,} of {len(control):,} control rows are in the original, more "
            f"than chance allows ({100 * float(twins.mean()):.2g} % of its rows have a twin)."
        )
        found.append(InputCheck("control-rows", "stops", text, _SAME_SOURCE))
    else:
        mine, theirs = (
            rng.permutation(len(table))[:_MOST].astype(np.int64) for table in (original, control)
        )
        columns = range(len(original.names))
        between = nearest_distance(original.take(mine), original, columns, but=mine)
        across = nearest_distance(control.take(theirs), original, columns)
        near = float(np.quantile(between, 0.01))
        if _more(across <= near, between <= near, outside[theirs], inside[mine]):
            text = (
                f"{100 * float((across <= near).mean()):.2g} % of the control rows are as near to "
                f"an original row as {100 * float((between <= near).mean()):.2g} % of those are to "
                "each other: rows that were moved a little?"
            )
            found.append(InputCheck("control-rows", "stops", text, _SAME_SOURCE))
    auc, low = told_apart(original, control, rng)
    if low > _TOLD:
        text = f"A classifier tells control rows from original ones: AUC {auc:.2f}."
        found.append(InputCheck("control-source", "stops", text, _SAME_SOURCE))
    return found


def _more(
    hit: NDArray[np.bool_],
    expected: NDArray[np.bool_],
    rows: NDArray[np.int64],
    others: NDArray[np.int64],
) -> bool:
    """Whether the control is hit more often beyond doubt; equal rows count as one."""
    if expected.all():
        return False
    compared = risk(Trials(hit, rows), Trials(expected, others), rate_of(expected, _SURE), _SURE)
    excess = compared.excess
    return isinstance(excess, Estimate) and excess.low is not None and excess.low > 0


def told_apart(original: Mixed, control: Mixed, rng: np.random.Generator) -> tuple[float, float]:
    """AUC of a linear classifier of ranks, levels and products, and its lower limit (p < 0.001).

    Fitted on one half of the rows and tried on the other, both ways.
    """
    tables = [table.take(rng.permutation(len(table))[: 2 * _MOST]) for table in (original, control)]
    label = np.repeat([0.0, 1.0], [len(table) for table in tables])
    features = _features(tables)
    fold = np.zeros(len(label), np.int64)
    for side in (0, 1):
        fold[np.flatnonzero(label == side)[::2]] = 1
    values, variances = [], []
    for half in (0, 1):
        fit, test = fold != half, fold == half
        # Ridge regression on the label is Fisher's discriminant up to scale.
        centred = features[fit] - features[fit].mean(0)
        weight = np.linalg.solve(
            centred.T @ centred + 1e-3 * fit.sum() * np.eye(centred.shape[1]),
            centred.T @ (label[fit] - label[fit].mean()),
        )
        ranks, member = rankdata(features[test] @ weight), label[test] == 1
        inside, outside = int((~member).sum()), int(member.sum())
        wins = ranks[member].sum() - outside * (outside + 1) / 2
        values.append(wins / (inside * outside))
        variances.append((inside + outside + 1) / (12 * inside * outside))
    auc = float(np.mean(values))
    return auc, auc - 3.09 * float(np.sqrt(sum(variances))) / 2


def _features(tables: Sequence[Mixed]) -> NDArray[np.float64]:
    """Ranks of numbers and their distance from the middle, levels of categories, and products."""
    parts = []
    for at in range(len(tables[0].names)):
        column = np.concatenate([table.columns[at] for table in tables])
        if tables[0].is_number(at):
            gaps = np.isnan(column)
            rank = np.full(len(column), 0.0)
            if not gaps.all():
                rank[~gaps] = rankdata(column[~gaps]) / (~gaps).sum() - 0.5
            parts.append([rank, np.abs(rank) - 0.25, gaps - gaps.mean()])
        else:
            levels, number = np.unique(column, return_counts=True)
            most = levels[np.argsort(-number, kind="stable")[:_LEVELS]]
            parts.append([(column == level) - float((column == level).mean()) for level in most])
    single = [feature for part in parts for feature in part]
    first = [part[0] for part in parts[:12]]
    both = [4 * a * b for at, a in enumerate(first) for b in first[:at]]
    return np.stack([*single, *both], axis=1)


def nearer_control(attacks: Mapping[str, Risk]) -> list[InputCheck]:
    """A control that the synthetic rows are made of, beyond doubt, more than of the original."""
    for name in ("identical, original rows", "closest"):
        excess = attacks[name].excess if name in attacks else None
        if isinstance(excess, Estimate) and excess.high is not None and excess.high < 0:
            text = (
                f"The synthetic rows are closer to the control than to the original ({name}: "
                f"excess {excess})."
            )
            way_out = "Were the two files exchanged, or the control used?"
            return [InputCheck("control-nearer", "stops", text, way_out)]
    return []


def vocabulary_checks(tables: Sequence[tuple[str, Mixed, Columns]], seed: int) -> list[InputCheck]:
    """Whether the values of each column meet those of the first table.

    Args:
        tables: name, rows and columns of the original, then of those compared with it.
    """
    rng = np.random.default_rng([seed, 92])
    (_, original, columns), *others = tables
    shown: dict[str, list[str]] = {}
    for at, name in enumerate(original.names):
        known = original.columns[at][~(np.isnan(original.columns[at]) | missing(columns[name]))]
        if len(known) < FEWEST:
            continue
        half = rng.permutation(known)
        own = float(np.isin(half[::2], half[1::2]).mean())
        usual: dict[str, str] = {}
        if is_text(columns[name]):
            usual = {_normal(cell): cell for cell in sorted(set(columns[name].tolist()) - {""})}
        for called, rows, written in others:
            there = ~(np.isnan(rows.columns[at]) | missing(written[name]))
            values, cells = rows.columns[at][there], written[name][there]
            if len(values) < FEWEST:
                continue
            hit = np.isin(values, known)
            among = hit
            if usual:
                alike = {cell: _normal(cell) in usual for cell in set(cells.tolist())}
                among = hit | np.array([alike[cell] for cell in cells.tolist()])
            elif rows.is_number(at):
                among = (values >= known.min()) & (values <= known.max())
            spelled = bool(usual) and (among & ~hit).mean() >= _GAIN
            if spelled:
                first = cells[among & ~hit][0]
                pair = f"{first!r} beside {usual[_normal(first)]!r}: the same but for their form"
            elif own >= _HALVES and hit.mean() < _MEET:
                pair = f"{str(cells[~hit][0])!r} beside {str(columns[name][0])!r}"
            elif rows.is_number(at) and among.mean() < _MEET:
                pair = f"{str(cells[~among][0])!r} outside of {known.min():g} to {known.max():g}"
            else:
                continue
            shown.setdefault(called, []).append(f"{name} ({pair})")
    way_out = "Write them alike in all files: the same capitals, digits and unit."
    return [
        InputCheck(
            "vocabulary",
            "stops",
            f"Values of the {called} do not occur in the original: {list_few(names)}.",
            way_out,
        )
        for called, names in shown.items()
    ]


def _normal(cell: str) -> str:
    """Text without what readers do not see: capitals, blanks and forms of a character."""
    return " ".join(unicodedata.normalize("NFKC", cell).casefold().split())
