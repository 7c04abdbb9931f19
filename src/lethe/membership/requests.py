"""Who asked: from a file of names to rows of the audit, without telling anybody else's name."""

from __future__ import annotations

import html
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import as_text, missing, read_columns
from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.membership.forgotten import (
    DISTINGUISHABLE,
    INCONCLUSIVE,
    NOT,
    TURNED,
    Forgotten,
    Verdict,
)

# The sheet that a person gets: what was found about them, in plain words, and nobody else's data.
#
# One HTML file without scripts, styles from elsewhere or requests; every text is escaped.

_STYLE = (
    "body{font:16px/1.5 sans-serif;max-width:42rem;margin:2rem auto;padding:0 1rem}"
    "table{border-collapse:collapse}th,td{text-align:left;padding:.3rem .8rem .3rem 0;"
    "border-bottom:1px solid #ccc;vertical-align:top;font-weight:normal}"
    ".verdict{border:2px solid;padding:.5rem 1rem}"
)
_PLAIN = {
    "loss-threshold": "looking at how sure the model is of the right answer",
    "lira-online": "comparing the model with others trained with and without the records",
    "lira-offline": "comparing the model with others trained without the records",
}


def meaning(one: Verdict, margin: float) -> str:
    """The verdict in one or two sentences.

    Args:
        margin: AUC that counts as not distinguishable.
    """
    if one.verdict == DISTINGUISHABLE:
        assert isinstance(one.auc, Estimate)
        small = one.auc.high is not None and one.auc.high <= margin
        more = f" The difference is within the margin of {margin:.0%} though." if small else ""
        return (
            "A model trained with these records can be told from one trained without them: "
            f"they leave a trace.{more}"
        )
    if one.verdict == NOT:
        return (
            "None of the attacks run tells a model trained with these records from one trained "
            f"without them in more than {margin:.0%} of comparisons (pure guessing: 50 %). A trace "
            "beyond that, planted into the same records, was seen."
        )
    if isinstance(one.auc, Refusal):
        return f"Nothing can be said: {one.auc.reason}."
    if one.doubt:
        return f"There is not enough evidence that the records leave no trace: {one.doubt}."
    shown = (
        f"The {one.models_with + one.models_without} models at hand show that no attack run is "
        f"right in more than {one.auc.high:.0%} of comparisons, and not yet in at most {margin:.0%}"
    )
    if one.if_as_seen:
        return (
            f"{shown}: they are too few to decide. If the measured {one.auc.value:.0%} is the true "
            f"value, about {one.models_needed} models would tell."
        )
    return (
        f"{shown}: they are too few to decide. With {one.models_needed} models an answer could be "
        "expected."
    )


def evidence_words(one: Verdict) -> str:
    """The strongest attack's evidence, as a game of two models that anybody can picture."""
    if isinstance(one.auc, Refusal) or one.auc.value is None or one.attack is None:
        return "No attack could be measured."
    low, high = one.auc.low, one.auc.high
    assert low is not None and high is not None
    way = _PLAIN.get(one.attack.removesuffix(TURNED), "its scores")
    way += ", less sure counting as trained on" * one.attack.endswith(TURNED)
    return (
        f"Somebody is shown two models, one trained with the records and one without, and has to "
        f"say which is which by {way} (attack {one.attack}). They are right in "
        f"{one.auc.value:.0%} of cases (limits {low:.0%} to {high:.0%}); a coin is right in 50 %."
    )


def comparison_words(one: Verdict, task: str | None) -> str:
    """The gold standard: what models trained without the person say, beside the others."""
    if one.signal_with is None or one.signal_without is None:
        return "Models of one kind are missing, so there is no comparison."
    inside, outside = one.signal_with, one.signal_without
    if task == "regression":
        words = f"an error of {-inside:.3g} and {-outside:.3g} standard deviations"
    else:
        shown = [1 / (1 + math.exp(-min(max(v, -700.0), 700.0))) for v in (inside, outside)]
        words = (
            f"a probability of {shown[0]:.1%} and {shown[1]:.1%} for the right answer (log-odds "
            f"{inside:.2f} and {outside:.2f})"
        )
    return (
        f"On average the {one.models_with} models trained with the records and the "
        f"{one.models_without} trained without them show {words}. The models without are what "
        "complete forgetting looks like."
    )


def sheet(name: str, one: Verdict, found: Forgotten, candidate: str, task: str | None) -> str:
    """The HTML page for one person.

    Args:
        name: as the person is called in the request.
        found: for the settings; nothing of other persons is read.
        task: of the model, for words.
    """
    rows = [
        ("Request of", name),
        ("Records in the audit", str(one.records)),
        ("Training judged", candidate),
        ("Attacks run", ", ".join(found.attacks)),
        ("Margin fixed beforehand", f"right in at most {found.margin:.0%} of comparisons"),
        (
            "Errors",
            f"all answers given together hold with {found.confidence:.0%} confidence; answers "
            f"allowed for: {len(found.persons)}",
        ),
        ("p of 'no trace'", _p(one.p_distinguishable)),
        ("p of 'a trace beyond the margin'", _p(one.p_not)),
    ]
    if one.power is not None:
        rows.append(("Chance that these models decide", f"{one.power:.0%}"))
    table = "\n".join(
        f'<tr><th scope="row">{html.escape(head)}</th><td>{html.escape(text)}</td></tr>'
        for head, text in rows
    )
    titles = {DISTINGUISHABLE: "Distinguishable", NOT: "Not distinguishable"}
    title = titles.get(one.verdict, INCONCLUSIVE.capitalize())
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Has this person been forgotten?</title>
<style>{_STYLE}</style>
</head>
<body>
<main>
<h1>Has this person been forgotten?</h1>
<section class="verdict">
<h2>{html.escape(title)}</h2>
<p>{html.escape(meaning(one, found.margin))}</p>
</section>
<h2>What was found</h2>
<p>{html.escape(evidence_words(one))}</p>
<p>{html.escape(comparison_words(one, task))}</p>
<table>
<tbody>
{table}
</tbody>
</table>
<h2>What this does not say</h2>
<p>The answer is about this way of training, judged by retraining it many times with and without
the records. It holds for the attacks named above; a stronger attack may see more. It is a
measurement, not a proof, and says nothing about copies of the data elsewhere.</p>
</main>
</body>
</html>
"""


def _p(value: float | None) -> str:
    if value is None:
        return "not measurable"
    return "below 0.0001" if value < 1e-4 else f"{value:.4f}"


_PERSON = ("person", "group")


@dataclass(frozen=True)
class Request:
    """One person who asked."""

    name: str  # as in the file
    rows: NDArray[np.intp]  # of the person's records, among those that can be members


@dataclass(frozen=True)
class Requests:
    """All who asked."""

    listed: tuple[Request, ...]  # one for each person, in the order of the file
    merged: int  # how many lines named a person who stood there already


def read_names(
    path: Path, id_column: str | None = None, group: str | None = None
) -> tuple[list[str], str]:
    """The names in a file of requests, and whether they name records or persons.

    Args:
        path: csv or parquet with one of the columns ``id``, ``person``, or those of the audit.
        id_column: the audit's column of record names, if any.
        group: the audit's column of persons, if any.

    Returns: The names, one a line of the file, and ``record``, ``person`` or ``either`` (``id``).
    Raises InputError: no such file or column, several of them, no line, or an empty cell.
    """
    columns = read_columns(path)
    kinds = {name: "person" for name in (*_PERSON, group) if name} | {"id": "either"}
    if id_column is not None and id_column != group:
        kinds.setdefault(id_column, "record")
    matches = [name for name in kinds if name in columns]
    wanted = ", ".join(repr(name) for name in sorted(kinds))
    if len(matches) != 1:
        what = "none" if not matches else ", ".join(map(repr, matches))
        raise InputError(f"{path} must have exactly one of the columns {wanted}, it has {what}.")
    column = columns[matches[0]]
    if column.ndim != 1 or len(column) == 0:
        raise InputError(f"{path}: column {matches[0]!r} must hold one name a line, at least one.")
    gaps = missing(column)
    if gaps.any():
        raise InputError(
            f"{path}: {matches[0]!r} is empty in {int(gaps.sum())} lines, the first is "
            f"line {int(np.argmax(gaps)) + 2}. Fill it or remove the line."
        )
    return as_text(column).tolist(), kinds[matches[0]]


def find_people(
    names: list[str],
    kind: str,
    where: str | Path,
    ids: NDArray[Any],
    groups: NDArray[Any] | None,
    pool: NDArray[np.bool_],
) -> Requests:
    """The records behind each name; naming a record of a person asks for the person.

    Errors name lines of the requests only: similar names would give away who is in the audit.

    Args:
        kind: ``record``, ``person`` or ``either``.
        where: the file, for messages.
        ids: (N,) names of all records of the audit.
        groups: (N,) persons, or None when each record is its own.
        pool: (N,) True where a record can be a member; the others were held out.

    Raises InputError: a name is not in the audit, means a record and another person as well, or was
        held out of all training.
    """
    rows_of_record = {str(name): row for row, name in enumerate(ids)} if kind != "person" else {}
    rows_of_person: dict[str, NDArray[np.intp]] = {}
    person_of: NDArray[np.intp] | None = None
    whole: list[NDArray[np.intp]] = []
    if groups is not None:
        persons, person_of = np.unique(groups, return_inverse=True)
        order = np.argsort(person_of, kind="stable")
        whole = np.split(order, np.cumsum(np.bincount(person_of))[:-1])
        if kind != "record":
            rows_of_person = {str(p): rows for p, rows in zip(persons, whole, strict=True)}
    elif kind == "person":
        raise InputError(
            f"{where} names persons, but the audit knows records only: each record is its own "
            "person there. Name records in a column 'id', or audit again with --group."
        )
    place = np.cumsum(pool) - 1
    unknown, unclear, outside = [], [], []
    requests: dict[int, Request] = {}
    for line, name in enumerate(names):
        rows, row = rows_of_person.get(name), rows_of_record.get(name)
        behind = None
        if row is not None:
            behind = np.array([row]) if person_of is None else whole[int(person_of[row])]
        if rows is None and behind is None:
            unknown.append(line)
            continue
        if rows is not None and behind is not None and rows[0] != behind[0]:
            unclear.append(line)
            continue
        taken = rows if rows is not None else behind
        assert taken is not None
        if not pool[taken].all():
            outside.append(line)
            continue
        requests.setdefault(int(taken[0]), Request(name, place[taken].astype(np.intp)))
    for lines, words in (
        (unknown, "not in the audit. Remove them, and tell them that no record was found"),
        (unclear, "both a record's name and another person's. Name the column 'person'"),
        (outside, "held out of all training, so no model has anything to forget. Remove them"),
    ):
        if lines:
            # As an editor counts them, the header being the first.
            shown = ", ".join(str(line + 2) for line in lines[:12])
            more = f" and {len(lines) - 12} more" if len(lines) > 12 else ""
            named = f"line {shown} is" if len(lines) == 1 else f"lines {shown}{more} are"
            raise InputError(f"{where}: {named} {words}.")
    return Requests(tuple(requests.values()), len(names) - len(requests))
