"""One release of sparse records: who is found in it, and how much of their facts that gives away.

The records of a release may be pseudonyms, several of one person. The attack names the record that
fits best, and is right when that record is ANY of the person's own. (A record can only score
through a known fact that lies in it, so it is one that holds a known fact.) What it then reads is
that record, not the person: `exposed` is the share of the person's facts that lie in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.linkage.coarsening import Coarsened, Sheet
from lethe.linkage.facts import Facts, Float, Int, Known, without
from lethe.linkage.scoreboard import NO_MATCH, Scoreboard, link
from lethe.linkage.settings import RecordSettings
from lethe.linkage.way import Way, paired_change
from lethe.linkage.worth import Worth, lost, mean_share

_ASSUMED = (
    "targets are drawn at random from people with enough facts, and what is known of them too",
    "the scoreboard of the audit; a better attack may name more",
)
_UNLINKED = "nobody links the pseudonyms of a person with each other; who does reads more"


@dataclass(frozen=True, eq=False)
class Attack:
    """The linkage that every release is given.

    Attributes:
        known: what is known of the targets.
        targets: (Q,) who is looked for.
        strangers: places in `targets` of those also looked for in a release without them.
        scoring: of records.
    """

    known: Known
    targets: Int
    strangers: Int
    scoring: Scoreboard


@dataclass(frozen=True, eq=False)
class Measurement:
    """A candidate, and what later ones are compared with.

    Attributes:
        way: the candidate.
        right: (Q,) whether each target's best guess is right.
        worth: its utility.
    """

    way: Way
    right: NDArray[np.bool_]
    worth: Worth


def measure(
    name: str,
    words: str,
    sheet: Sheet,
    made: Coarsened,
    worth: Worth,
    attack: Attack,
    settings: RecordSettings,
    base: Measurement | None,
) -> Measurement:
    """Attack a release. Shares are of all targets, those whose record is not released included.

    Args:
        name: of the candidate.
        words: what is done.
        sheet: the original facts.
        made: the release.
        worth: its utility.
        attack: see `Attack`.
        settings: of the audit.
        base: the release as it is; None for itself.

    Raises:
        NotMeasurable: nothing that can be attacked is left.
    """
    sure = settings.confidence
    facts, owner = released(made, np.zeros(0, np.int64))
    links = link(facts, attack.known, attack.scoring, entropy=False)
    right = _named(links.best, owner) == attack.targets
    sure_right = _named(links.matched(settings.phi), owner) == attack.targets
    read = np.where(right, _read(links.best, facts, sheet, attack.targets), 0.0)
    count = len(attack.targets)
    top = clopper_pearson(int(right.sum()), count, sure)
    match = clopper_pearson(int(sure_right.sum()), count, sure)
    exposed = mean_share(read, sure)
    strange: Measured = Refusal("nobody was looked for who is not in the release.")
    if len(attack.strangers):
        gone, _ = released(made, attack.targets[attack.strangers])
        found = link(gone, pick(attack.known, attack.strangers), attack.scoring, entropy=False)
        answered = int((found.matched(settings.phi) >= 0).sum())
        strange = clopper_pearson(answered, len(attack.strangers), sure)
    evidence: dict[str, Measured] = {
        "top-1": top,
        "match": match,
        "exposed": exposed,
        "false-match": strange,
    }
    loss = change = None
    if base is not None:
        loss = lost(base.worth, worth, sure)
        change = paired_change(right, base.right, sure)
        evidence["utility-loss"] = loss
    details: dict[str, Any] = {
        "match": match.to_json(),
        "false_match": strange.to_json(),
        "exposed": exposed.to_json(),
        "exposed_where_right": float(read[right].mean()) if right.any() else None,
        "facts": len(made.sheet.item),
        "people": len(np.unique(made.owners[~made.out])),
        "records": int((~made.out).sum()),
    }
    assumed = _ASSUMED if made.owner is None else (*_ASSUMED, _UNLINKED)
    way = Way(name, words, {}, top, worth.utility, loss, change, evidence, details, assumed)
    return Measurement(way, right, worth)


def released(made: Coarsened, also_out: Int) -> tuple[Facts, Int]:
    """The release without some people, as an index, and the person behind each of its records."""
    out = made.out | np.isin(made.owners, also_out)
    facts = made.sheet.index()
    if not out.any():
        return facts, made.owners
    facts, kept = without(facts, np.flatnonzero(out))
    return facts, made.owners[kept]


def pick(known: Known, rows: NDArray[np.integer[Any]]) -> Known:
    """What is known of some targets, in that order."""
    spans = [np.arange(known.start[at], known.start[at + 1]) for at in rows]
    held = np.concatenate(spans) if spans else np.zeros(0, np.int64)
    return Known(
        np.concatenate([[0], np.cumsum([len(span) for span in spans])]).astype(np.int64),
        known.item[held],
        None if known.value is None else known.value[held],
        None if known.time is None else known.time[held],
    )


def _named(best: Int, owner: Int) -> Int:
    """(Q,) the person behind each named record; NO_MATCH where none is named."""
    return np.where(best >= 0, owner[best], NO_MATCH)


def _read(best: Int, facts: Facts, sheet: Sheet, targets: Int) -> Float:
    """(Q,) facts in the named record, as a share of the target's in the original."""
    held = np.bincount(facts.person, minlength=facts.people)[best]
    return held / np.bincount(sheet.person, minlength=sheet.people)[targets]
