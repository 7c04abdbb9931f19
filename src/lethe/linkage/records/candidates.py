"""Measure one release of sparse records: who is identified, and how many facts that reveals.

Records may be pseudonyms, several of one person: the attack names the record that fits best, and is
right when it is ANY of the person's own. `exposed` is the share of the person's facts in that
record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lethe.data.records import Ratings
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.of_rows import AdversaryRow, Point, RecordDetails
from lethe.evidence.risk import AttackResult, Risk, family_confidence, risk_of
from lethe.evidence.sight import Plant
from lethe.linkage.document import FEWEST, RowRelease, measured_only, strongest
from lethe.linkage.records.attackers import (
    ASSIGNED,
    ATTACKERS,
    Adversary,
    Board,
    boards_of,
    look,
    outside,
    phi_of,
    share_out,
    together,
)
from lethe.linkage.records.facts import Float, Index, Int, Known, without
from lethe.linkage.records.likelihood import Blur, Sampling, blur_of
from lethe.linkage.records.mitigations import MONTH, Coarsened, Sheet, holders
from lethe.linkage.records.planted import plants_of
from lethe.linkage.records.scoreboard import NO_MATCH, Links
from lethe.linkage.settings import RecordSettings
from lethe.linkage.utility import (
    Utility,
    answer_overlap,
    count_overlap,
    counted_utility,
    mean_share,
    paired_change,
    split,
    use_of,
)


def utility_in(
    sheet: Sheet,
    ratings: Ratings,
    settings: RecordSettings,
    release: Coarsened,
    again: Callable[[Sheet], Coarsened],
) -> Utility:
    """Measure the utility of a release: counts, queries, or the user's model.

    Args:
        again: the mitigation with the same random numbers, for the facts that are not held out.

    Raises NotMeasurable: too few facts to hold some out, or none is released without them.
    """
    use = use_of(settings, {})  # no column is needed: predictions are refused for facts
    if use is None:
        value = utility_of(sheet, release, ratings, settings.queries)
        return counted_utility(value, len(sheet.item), settings.confidence, "facts")
    out = split(len(sheet.item), settings)
    rest = as_it_stands(again(sheet.take(~out)), ratings)
    held_out = as_it_stands(sheet.take(out), ratings)
    return use(rest, held_out, held_out)


def utility_of(
    sheet: Sheet, release: Coarsened, ratings: Ratings, queries: Sequence[str] = ()
) -> float:
    """1 = all counts, or all answers, are as before.

    Without queries: mean overlap of the counts by item and value, and by item and month, see
    `count_overlap`; by item, where neither is released. With queries: 1 - their mean error.

    Args:
        ratings: names of people and items, for the queries.
        queries: SQL over `release (person, item, value, time)`; times are dates.
    """
    if queries:
        whole = as_it_stands(sheet, ratings)
        return answer_overlap(whole, as_it_stands(release, ratings), queries)
    new = release.sheet
    original, released = [sheet.item], [new.item]
    groups, tables = [np.arange(sheet.items)], []
    if sheet.value is not None and new.value is not None:
        table, code = np.unique(sheet.value, return_inverse=True)
        written = table if release.values is None else release.values
        names, group = np.unique(written, return_inverse=True)
        original.append(code)
        released.append(np.searchsorted(names, new.value))
        groups.append(group)
        tables.append((0, len(original) - 1))
    if sheet.time is not None:
        first = int(sheet.time.min())
        month = (sheet.time - first) // MONTH
        wide = max(release.days // MONTH, 1)  # months that are one in the release
        group = np.arange(int(month.max()) + 1) // wide
        if new.time is None:
            group = np.zeros_like(group)
            months: Int = np.zeros(len(new.item), np.int64)
        else:
            months = np.minimum((new.time - first) // MONTH // wide, group[-1])
        original.append(month)
        released.append(months)
        groups.append(group)
        tables.append((0, len(original) - 1))
    return count_overlap(original, released, groups, tables or [(0,)], scale=1 / release.share)


def as_it_stands(release: Sheet | Coarsened, ratings: Ratings) -> dict[str, NDArray[np.generic]]:
    """The facts as a table with names, as it would be handed out; pseudonyms are numbers."""
    sheet = release.sheet if isinstance(release, Coarsened) else release
    whole = isinstance(release, Sheet) or release.owner is None
    names = ratings.people if whole else np.arange(sheet.people).astype(np.str_)
    columns: dict[str, NDArray[np.generic]] = {
        "person": names[sheet.person],
        "item": ratings.items[sheet.item],
    }
    if sheet.value is not None:
        columns["value"] = sheet.value
    if sheet.time is not None:
        columns["time"] = sheet.time.astype("datetime64[D]")
    return columns


_ASSUMED = (
    "targets are drawn at random from people with enough facts, and what is known of them too",
    "the attackers of the audit; a better one may identify more",
)
_UNLINKED = "the risk is of one pseudonym alone; its upper limit is of who links them, by the times"
_NEARLY = 0.8
LINKED = "pseudonyms linked"


@dataclass(frozen=True, eq=False)
class Aim:
    """An adversary: people who are looked for, and what is known of them."""

    name: str  # what is known, in words
    targets: Int  # (Q,) persons who are looked for, all of the original
    known: Known  # what is known of them
    few: Known | None = None  # a few facts of each, for attackers that take no more; None = `known`
    sampling: Sampling = Sampling()  # how that was drawn
    simulated: tuple[Index, Adversary] | None = None  # the original and who is simulated in it

    def boards(
        self, settings: RecordSettings, blur: Blur | None = None, published: bool = True
    ) -> dict[str, Board]:
        """Return the scoreboard of each attacker.

        Args:
            blur: what a mitigation did; None = there is none.
            published: whether attackers that do not read the mitigation are among them: on
                mitigated releases they play the first adversary only.
        """
        sampling = self.sampling if blur is None else replace(self.sampling, blur=blur)
        boards = boards_of((settings.value_scale, settings.time_scale), sampling)
        return {name: board for name, board in boards.items() if published or board is sampling}

    def attacks(self, settings: RecordSettings, published: bool = True) -> int:
        """Count the attacks in the family."""
        return len(self.boards(settings, None, published)) + self.sampling.closed

    @property
    def known_by(self) -> dict[str, Known]:
        """By attacker, what it is given."""
        few = self.known if self.few is None else self.few
        return {name: few if who.few else self.known for name, who in ATTACKERS.items()}

    def label(self, attacker: str) -> str:
        """Name the result of an attacker under this adversary."""
        return f"{attacker}, {self.name}"


@dataclass(frozen=True, eq=False)
class Looked(AdversaryRow):
    """What one attacker made of what a simulated adversary knows.

    Attributes:
        calibrated: threshold at which few people outside the release are named a record, from all
            targets looked for without their own; recall and silence there.
    """

    keys: ClassVar = {"result": "", "links": "", "points": ""}
    result: AttackResult  # best guess: share of people named rightly
    links: Links  # of the targets
    points: list[Point]  # recall, precision, abstention and false matches at each threshold

    def at(self, phi: float) -> Point:
        """The point of one threshold."""
        return next(point for point in self.points if point.phi == phi)


@dataclass(frozen=True, eq=False)
class Simulated:
    """One simulated adversary and what came of it."""

    aim: Aim  # what is known of whom
    by: Mapping[str, Looked]  # what came of it, by attacker

    @property
    def name(self) -> str:
        """In words."""
        return self.aim.name

    @property
    def strongest(self) -> str:
        """The attacker with the highest lower limit."""
        best = strongest([looked.result for looked in self.by.values()])
        return next(name for name, looked in self.by.items() if looked.result is best)


@dataclass(frozen=True, eq=False)
class Attacked(RowRelease):
    """A release, and what the risk of later ones is compared with.

    Attributes:
        right: by attack, the adversary and (Q,) whether each target's best guess is right.
    """

    right: Mapping[str, tuple[str, NDArray[np.bool_]]] = field(default_factory=dict)


def family_of(aims: Sequence[Aim], settings: RecordSettings, mitigated: bool = False) -> float:
    """Confidence of each limit, so that those of all attacks on a candidate hold at once."""
    # One more: all attackers of the first adversary together, from their thresholds on.
    size = 1 + sum(
        aim.attacks(settings, not mitigated or aim is aims[0])
        for aim in aims
        if len(aim.targets) >= FEWEST
    )
    return family_confidence(settings.confidence, size)


def measure(
    name: str,
    words: str,
    sheet: Sheet,
    coarse: Coarsened,
    utility: Utility,
    aims: Sequence[Aim],
    settings: RecordSettings,
    baseline: Attacked | None = None,
) -> Attacked:
    """Attack a release. Shares are of all targets, those whose record is not released included.

    Args:
        words: what is done.
        aims: adversaries; the first also answers from the threshold of the audit on.
        baseline: the release as it is, whose upper limits are those of pseudonyms that can be
            linked: by times (clicks of one session fall together), or by habits.

    Raises NotMeasurable: nothing that can be attacked is left.
    """
    mitigated = coarse.sheet is not sheet
    sure, blur = family_of(aims, settings, mitigated), blur_of(sheet, coarse)
    facts, owner = released(coarse)
    repeats = coarse.owner is not None and holders(sheet).sum() < len(sheet.item)
    first = aims[0]
    results: list[AttackResult] = []
    right: dict[str, tuple[str, NDArray[np.bool_]]] = {}
    links: dict[str, Links] = {}
    shown: dict[str, Float] = {}  # (Q,) of each attack: share of the facts that it reads
    alike: Callable[[Int, Int], Float] | None = None
    held, whole = facts.lengths(), np.bincount(sheet.person, minlength=sheet.people)
    for aim in aims:
        boards = aim.boards(settings, blur, not mitigated or aim is first)
        several = {ASSIGNED: boards["likelihood"]} if aim.sampling.closed else {}
        seen = look(facts, aim.known_by, {**boards, **several})
        links = links or {attacker: seen[attacker] for attacker in boards}
        for attacker, link in seen.items():
            label = aim.label(attacker)
            hit = _named(link.best, owner) == aim.targets
            right[label] = aim.name, hit
            shown[label] = np.where(hit, held[link.best] / whole[aim.targets], 0.0)
            missed = np.flatnonzero(~hit & (link.best >= 0))
            if attacker == "likelihood" and len(missed):
                alike = alike or _both_have(sheet, facts)
                shown[label][missed] = alike(aim.targets[missed], link.best[missed])
            results.append(named_rightly(label, hit, aim.name, attacker, sure))
    count = len(first.targets)
    phi, answered = _answers(facts, owner, links, first, blur, settings)

    def share(metric: str, confidence: float) -> Measured:
        return clopper_pearson(int(answered[metric].sum()), count, confidence)

    match = Refusal(phi) if isinstance(phi, str) else share("match", sure)
    strange = Refusal(phi) if isinstance(phi, str) else share("false-match", settings.confidence)
    if isinstance(match, Estimate):
        label = f"all attackers beyond their thresholds, {first.name}"
        results.append(AttackResult(label, match, knows=first.name, powered=count >= FEWEST))
    own_results = [result for result in results if result.attack in map(first.label, ATTACKERS)]
    best = strongest(own_results)
    read = shown[best.attack]
    reading = [AttackResult(one, mean_share(part, sure)) for one, part in shown.items()]
    if coarse.owner is not None and baseline is not None and (sheet.time is not None or repeats):
        # An attacker who links the pseudonyms gets at most what the release as it is gives.
        most = "at most that of the release as it is"
        knows = (
            "which pseudonyms are one person's: from times, habits or a leak; a limit, not tried"
        )
        for family, measured in ((results, baseline.risk), (reading, baseline.measures["exposed"])):
            if isinstance(measured, Estimate):
                bound = replace(measured, value=None, low=0.0, method=most)
                family.append(AttackResult(LINKED, bound, knows=knows))
    exposed = risk_of(reading)
    assert isinstance(exposed, Risk)
    evidence: dict[str, Measured] = {
        "match": match,
        "exposed": exposed.estimate,
        "false-match": strange,
    }
    details = RecordDetails(
        match=match,
        false_match=strange,
        exposed=exposed.estimate,
        exposed_where_right=float(read[read > 0].mean()) if read.any() else None,
        facts=len(coarse.sheet.item),
        people=len(np.unique(coarse.owners[~coarse.out])),
        records=int((~coarse.out).sum()),
    )
    assumed = _ASSUMED if coarse.owner is None else (*_ASSUMED, _UNLINKED)
    plants: list[Plant] = []
    if first.simulated is not None:
        top = right[best.attack][1].astype(np.float64)
        plants = plants_of(
            sheet,
            coarse,
            (facts, owner),
            *first.simulated,
            replace(first.sampling, blur=blur),
            None if isinstance(phi, str) else phi,
            {"top-1": top, "exposed": read, **answered},
            sure,
            settings.seed,
        )
    risk = risk_of(results, chance := 1 / facts.people)
    evidence["top-1"] = risk if isinstance(risk, Refusal) else risk.estimate
    return Attacked(
        name,
        words,
        {},
        utility.estimate,
        tuple(results),
        measured_only(*assumed),
        details=details,
        measures={**evidence, "utility-loss": None},
        chance=chance,
        plants=plants,
        used=utility,
        right=right,
    )


def _both_have(sheet: Sheet, facts: Index) -> Callable[[Int, Int], Float]:
    """Facts that a target and a named record both have, of all that either has; 0 below 0.8.

    Facts are the same by item and value. So another's record tells as much, where it is nearly
    equal (homogeneity).
    """
    before, now, kinds = sheet.item.astype(np.int64), facts.item, 1
    if facts.value is not None and sheet.value is not None:
        last, kinds = len(facts.values) - 1, len(facts.values) + 1
        code = np.minimum(np.searchsorted(facts.values, sheet.value), last)
        code[facts.values[code] != sheet.value] = last + 1
        before, now = before * kinds + code, now * kinds + facts.value
    wide = sheet.items * kinds
    held = [
        csr_array((np.ones(len(who)), (who, mark)), shape=(people, wide))
        for who, mark, people in (
            (sheet.person, before, sheet.people),
            (facts.person, now, facts.people),
        )
    ]

    def share(targets: Int, named: Int) -> Float:
        mine, theirs = held[0][targets], held[1][named]
        both = mine.minimum(theirs).sum(axis=1)
        of_either = both / np.maximum(mine.sum(axis=1) + theirs.sum(axis=1) - both, 1)
        return np.where(of_either >= _NEARLY, of_either, 0.0)

    return share


def named_rightly(
    label: str, right: NDArray[np.bool_], aim: str, attacker: str, confidence: float
) -> AttackResult:
    """Share of people whose record the best guess names; too few people show nothing."""
    count = len(right)
    return AttackResult(
        label,
        clopper_pearson(int(right.sum()), count, confidence)
        if count
        else Refusal("nobody is known to be in the release."),
        knows=f"{aim}; {ATTACKERS[attacker].knows}",
        powered=count >= FEWEST,
        why="" if count >= FEWEST else f"{count} people, at least {FEWEST} are needed",
    )


def _answers(
    facts: Index,
    owner: Int,
    links: Mapping[str, Links],
    aim: Aim,
    blur: Blur,
    settings: RecordSettings,
) -> tuple[dict[str, float | None] | str, dict[str, Float]]:
    """Thresholds, or why there are none; (Q,) who is named rightly, and who is while not there."""
    absent = outside(facts, aim.known_by, aim.targets, aim.boards(settings, blur), owner)
    calibrated = share_out(absent, settings.false_matches, settings.confidence)
    phi = phi_of(calibrated, settings.phi)
    if all(least is None for least in phi.values()):
        return next(one.reason for one in calibrated.values() if isinstance(one, Refusal)), {}
    named = _named(together(links, phi).record, owner) == aim.targets
    strange = together(absent, phi).record >= 0
    return phi, {"match": named.astype(np.float64), "false-match": strange.astype(np.float64)}


def risk_change(*, baseline: Attacked, release: Attacked, confidence: float) -> Estimate | None:
    """Risk of the release minus the baseline's: paired where both are about the same people."""
    now, before = strongest(release.attacks), strongest(baseline.attacks)
    after, earlier = now.estimate, before.estimate
    if not (isinstance(after, Estimate) and isinstance(earlier, Estimate)):
        return None
    mine, theirs = release.right.get(now.attack), baseline.right.get(before.attack)
    linked = any(result.attack == LINKED for result in release.attacks)
    if mine is not None and theirs is not None and mine[0] == theirs[0]:
        change = paired_change(now=mine[1], before=theirs[1], confidence=confidence)
        return replace(change, high=max(change.high or 0.0, 0.0)) if linked else change
    assert after.value is not None and after.low is not None and after.high is not None
    assert earlier.value is not None and earlier.low is not None and earlier.high is not None
    highest = earlier.high if linked else after.high
    limits = after.low - earlier.high, highest - earlier.low
    method = "limits of both, simultaneous"
    return Estimate(after.value - earlier.value, *limits, after.confidence, method, after.n)


def released(release: Coarsened) -> tuple[Index, Int]:
    """The release as an index, and the person behind each of its records."""
    facts = release.sheet.index()
    if not release.out.any():
        return facts, release.owners
    facts, kept = without(facts, np.flatnonzero(release.out))
    return facts, release.owners[kept]


def _named(best: Int, owner: Int) -> Int:
    """(Q,) the person behind each named record; NO_MATCH where none is named."""
    return np.where(best >= 0, owner[best], NO_MATCH)
