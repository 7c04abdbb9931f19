"""The first screen: what is released, the worst number, what was tried, what remains.

It is the same in every medium. A room says what its numbers mean (`Room`). Everything else is
decided here: which candidate makes the headline, what is recommended, how severe it is.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic

from lethe.errors import InputError
from lethe.evidence.document import C, CandidateRow, Document
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import OPTIONAL, Findings
from lethe.evidence.frontier import floor
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.plain import read
from lethe.evidence.rules import METRICS, Rule
from lethe.evidence.sight import smallest_seen
from lethe.report.catalogue import say
from lethe.report.context_fields import given, source
from lethe.report.numbers import (
    Cell,
    few,
    percent,
    points,
    range_words,
    share,
    share_words,
    significant,
)
from lethe.report.output_check import readable
from lethe.report.proofs import VACUOUS, claim_of, label, notes
from lethe.report.sections import Chart, Mark, Row, Section, Table
from lethe.report.severity import (
    Outcome,
    Place,
    Worst,
    outcome,
    rule_in_words,
    severity,
)
from lethe.report.utility import Utility

_MOST_NAMED = 2  # rules, doubts or attacks in a sentence
NOT_MET = ("fail", "not-enough-evidence", "not-tested")


@dataclass(frozen=True)
class Card:
    """One of the four cards: a heading, a few large words, and lines below them."""

    title: str
    large: str
    lines: Sequence[str]
    level: str = ""

    @property
    def line(self) -> str:
        """The first line after a comma, printed behind the large words; empty without lines."""
        return next((f", {line.rstrip('.')}" for line in self.lines if line), "")


@dataclass(frozen=True)
class First:
    """Everything of the first screen.

    Attributes:
        kind: of the release, such as ``trained model``.
        name: of the subject.
        source: date, version and run; parts that are not known are left out.
        outcome: of the rules.
        rules: outcome of the rules in words.
        level: severity of the worst number.
        headline: that number in a sentence.
        detail: sentences below it, before the outcome.
        cards: released, worst risk, tried, remaining.
        chart: utility against risk; None where nothing was compared.
        options: the same as a table, or what an epsilon allows; None where there is neither.
        notes: sentences on the proofs in that table.
        signed: what a signature stands for, printed at the first line to sign.
        size: the worst share, to rank releases of one severity.
    """

    kind: str
    name: str
    source: Sequence[str]
    outcome: Outcome
    rules: str
    level: str
    headline: str
    detail: Sequence[str]
    cards: Sequence[Card]
    chart: Chart | None
    options: Table | None
    notes: Sequence[str] = ()
    signed: str = ""
    size: float = 0.0

    @property
    def lead(self) -> str:
        """Severity in words, printed before the headline; empty without a severity."""
        return f"{say(f'level.{self.level}')}. " if self.level else ""

    @property
    def verdict(self) -> str:
        """The sentences below the headline, and the outcome of the rules."""
        return " ".join([*self.detail, f"{self.outcome.words}. {self.rules}"])


class Room(abc.ABC, Generic[C]):
    """How a kind of release reports its findings; each kind is a subclass.

    Attributes:
        plain, findings: `Findings.to_json()`, and the findings themselves.
        document: `plain` read into types; `section` holds what only this kind has.
        utility: how utility is named and printed.
    """

    reads: Any
    tells: Any = Any  # what the section of the kind is read as
    section: Any
    kind: str = ""
    risk_head: str = ""
    glossary: Sequence[str] = ()
    metrics: Mapping[str, str] = METRICS  # that rules on this kind may be about
    fpr: float | None = None  # at which the risk is read; None where it is no such rate
    result_head: str = "attacks.risk"
    change: tuple[str, Callable[[Any], Cell]] = "options.change.points", points
    attacks_head: str = "attacks"
    none_fits: str = "tried.none"
    planted: str = ""  # the quantity of `share_of` in planted leaks; "" = the share is counted
    criteria: Mapping[str, str] = {"": "inference"}  # by how the name of an attack begins

    def __init__(self, plain: Mapping[str, Any]) -> None:
        self.plain, self.findings = plain, Findings.from_json(plain)
        try:
            self.document: Document[C, Any, Any] = read(self.reads, plain)
            self.section = read(self.tells, next(filter(None, map(plain.get, OPTIONAL)), None))
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(
                "these findings have another form than this version of Lethe writes: run the audit "
                "again, or read them with the version that wrote them."
            ) from error
        self.utility = Utility(self.document.frontier.utility)

    def named(self, name: str | None) -> C | None:
        """The candidate with a name."""
        return next((row for row in self.document.candidates if row.name == name), None)

    def short_name(self, candidate: C) -> str:
        """The name of a candidate without its model, where several were audited side by side."""
        return candidate.name

    @cached_property
    def rules(self) -> list[Rule]:
        """The rules of the run that this version can read."""
        return readable([row.rule for row in self.document.rules], self.metrics)

    @cached_property
    def judged(self) -> C | None:
        """The candidate that the rules judged, or else the baseline.

        Where several models were audited, rules judge a candidate of each: this is the worst.
        """

        def worse(candidate: C) -> list[float]:
            risk = self.share_of(candidate)
            ends = (getattr(risk, end, None) for end in ("low", "value"))
            return [-math.inf if end is None else end for end in ends]

        base = self.document.baseline
        name = self.document.verdict.candidate or (base and base.candidate)
        named = [x for x in self.document.candidates if name in (x.name, self.short_name(x))]
        return max(named, key=worse) if named else self.base

    @cached_property
    def base(self) -> C | None:
        """The baseline; of several models that of the first."""
        baseline = self.document.baseline
        return self.named(None if baseline is None else baseline.candidate)

    def base_of(self, candidate: C) -> C | None:
        """The baseline of the model that the candidate belongs to."""
        return self.base

    @cached_property
    def recommended(self) -> C | None:
        """The recommended option, never the baseline; None where none is within the limit."""
        option = self.named(self.document.frontier.operating_point)
        return None if option is None or option is self.base_of(option) else option

    @property
    def put_forward(self) -> C | None:
        """The recommended option, else the cheapest large reduction, else None."""
        return self.recommended or self.named(self.document.frontier.cheapest_large_reduction)

    def proofs(self, name: str) -> list[Guarantee]:
        """Proven guarantees of a candidate, unless they prove next to nothing."""
        claims = [claim.guarantee for claim in self.document.guarantees if claim.candidate == name]
        proven = [claim for claim in claims if claim.proven]
        # A bound near certainty is no guarantee; see `label` for why the first one decides.
        vacuous = proven and proven[0].parameters.get("success", 0.0) >= VACUOUS
        return [] if vacuous else proven

    def risk_shown(self, candidate: C) -> Measured | None:
        """The risk of an option as every chart and table prints it.

        The limits of the recommended option allow for its choice among several.
        """
        chosen, risk = self.document.frontier.recommended, self.share_of(candidate)
        if chosen and chosen.candidate == candidate.name and risk is candidate.risk:
            return chosen.risk
        return risk

    @property
    def chance(self) -> float:
        """The share that a random guess reaches, in the unit of `share_of`."""
        return 0.0

    def share_of(self, candidate: C) -> Measured | None:
        """The risk of a candidate as a share; None or a refusal where there is none."""
        return candidate.risk

    def result_cell(self, found: Measured | None) -> Cell:
        """The result of an attack, in the room's primary metric; `change` prints a change of it."""
        return share(found)

    def attack_title(self, attack: str) -> str:
        """The name of an attack as its tables print it: its title, where no other has the same."""
        title = self.document.titles.get(attack, attack)
        return title if [*self.document.titles.values()].count(title) == 1 else attack

    def in_words(self, rule: str) -> str:
        """A rule in words, or as it is written where this version cannot read it."""
        return rule_in_words(rule, self.metrics) or rule

    def unlimited(self, column: str, value: str) -> str:
        """A group in words if no rule is about it; else empty."""
        about = f"{column}={value}", f"every {column}"
        ruled = any(rule.group in about for rule in self.rules)
        return "" if ruled else say("limits.group", name=about[0])

    @cached_property
    def proof_notes(self) -> list[str]:
        """What a reader of the proofs must know; the last sentence says where they are listed."""
        listed = self.document.candidates
        proofs = {row.name: self.proofs(row.name) for row in listed}
        return notes(proofs, {row.name: self.risk_shown(row) for row in listed}, self.fpr)

    def notes(self) -> list[str]:
        """What a reader of the options must know: who else meets the rules, doubts, proofs."""
        from lethe.report.changes import met_by  # NumPy comes with it

        base = self.base and self.base.name
        doubts = [
            say("notes.check", candidate=row.candidate, name=row.name, detail=row.detail)
            for row in self.document.checks
            if row.status != "pass" and self.named(row.candidate) and row.candidate != base
        ]
        others = [] if self.judged is None else met_by(self.findings, self.judged.name)
        if self.utility.name == say("utility.counts"):
            others.append(say("notes.counts", what=self.document.frontier.utility))
        return [*others, *[few(doubts, _MOST_NAMED, " ")] * bool(doubts), *self.proof_notes]

    @property
    def meeting(self) -> list[Any]:
        """The other options that meet every rule and whose loss of utility is known."""
        from lethe.report.changes import meeting  # NumPy comes with it

        met = [] if self.judged is None else meeting(self.findings, self.judged.name)[0]
        return [row for row in met if getattr(row.utility_loss, "value", None) is not None]

    @property
    def as_is(self) -> str:
        """What the rules judged, where it is the baseline."""
        return say("limits.as_is")

    @property
    def margin(self) -> str:
        """The largest utility loss that a recommended option may have."""
        limit = self.document.frontier.margin
        return share_words(limit) if self.utility.shares else f"{limit:g}"

    @property
    def signed(self) -> str:
        """What a signature stands for: a blank for the option taken, where there are some."""
        key = "sign.option" if len(self.document.candidates) > 1 else "sign.for"
        return say(key, name=self.as_judged(say("limits.as_is")))

    def as_judged(self, name: str) -> str:
        """What is signed for where no option is taken, and that it breaks a rule if it does."""
        base = self.base and self.base.name
        failed = [rule.candidate for rule in self.document.rules if rule.outcome == "fail"]
        broken = failed if base is None else base in failed
        return say("sign.fails", name=name) if broken else name

    def criterion(self, attack: str) -> str:
        """The WP216 criterion that an attack tests: singling, linking, inference, or all."""
        return next(kind for name, kind in self.criteria.items() if attack.startswith(name))

    def words(self) -> Sequence[str]:
        """The findings in plain sentences; may be empty."""
        return getattr(self.section, "words", None) or ()

    def seen(self, candidate: C) -> float | None:
        """The smallest planted leak distinguished from chance; None where none was."""
        return smallest_seen(candidate.plants or (), self.planted, self.chance)

    def level(self, candidate: C) -> str:
        """Severity of the share of a candidate."""
        return severity(self.share_of(candidate), self.chance)

    def blind(self, candidate: C) -> bool:
        """Whether nothing was shown above chance, and no planted leak would have been."""
        unseen = self.planted and self.seen(candidate) is None
        return bool(unseen) and self.level(candidate) == "not-above-chance"

    def interval(self, found: Estimate) -> str:
        """``95 % interval 6.3 to 8.5 %``; empty for a share that was counted.

        Limits with a higher confidence hold for several attacks at once at the audit's confidence.
        """
        words = range_words(found)
        if not words or found.value is None:
            return ""
        confidence = self.document.reproduction.get("confidence", found.confidence)
        return say("first.interval", confidence=percent(confidence), range=words)

    @abc.abstractmethod
    def worst(self, candidate: C | None) -> Worst:
        """The worst number of the judged candidate; `candidate` is None where there is none."""

    @abc.abstractmethod
    def released(self) -> tuple[str, list[str]]:
        """What is released in a few words, and lines on the data behind it."""

    @abc.abstractmethod
    def exposed(self) -> Section:
        """Records and groups at risk."""

    def places(self, candidate: C) -> list[Place]:
        """The worst group and the most exposed records of a candidate, where they bear more."""
        return []

    def beyond(self, candidate: C) -> str:
        """A sentence on what an option reveals beyond its share; may be empty."""
        return ""

    def attacks(self) -> Sequence[Any]:
        """Further parts of the section on attacks."""
        return ()

    def options(self) -> Sequence[Any]:
        """Further parts of the section on options."""
        return ()

    def size_needed(self) -> str:
        """The sample size at which an open limit could pass, in a sentence; empty if not known."""
        return ""

    def chart(self) -> Chart | None:
        """The chart of the first screen, where no candidates were compared."""
        return None

    def beside(self) -> Table | None:
        """The table beside the chart, where no candidates were compared."""
        return None

    def tried(self) -> Card | None:
        """The third card (tried), where it is not about candidates."""
        return None

    def remaining(self) -> tuple[str, list[str]] | None:
        """The fourth card (remaining), where it is not about candidates."""
        return None


def first_screen(room: Room[Any], manifest: Mapping[str, Any], chart: Chart | None) -> First:
    """The first screen of one release."""
    document, candidate = room.document, room.judged
    worst, on = room.worst(candidate), _judged_option(room)
    unseen = candidate is not None and worst.level in ("", "not-above-chance")
    if candidate is not None and unseen and room.blind(candidate):
        value = share_sentence(room.share_of(candidate), room.chance)[0]
        words, detail = say("first.blind", value=value), room.beyond(candidate)
        worst = replace(worst, headline=words, short=say("unmeasured"), level="", detail=detail)
    before, worst = worst, worst.promoted()
    raised = next((place for place in before.places if place not in worst.places), None)
    # Data stored in the file can be read without an attack, so it comes first.
    checks = [row for row in document.checks if row.name.rpartition(" ")[2].startswith("stored-")]
    inside, rows = [row.detail for row in checks], any(row.status == "fail" for row in checks)
    beside = [place.short for place in worst.places]
    large, lines = room.released()
    if candidate is not None:
        names = "release", "access"
        form, access = (given(document.context, name) or say("not_told") for name in names)
        lines = [*lines, say("released.form", form=form, access=access)]
    share_now = worst.share or (None if candidate is None else room.share_of(candidate))
    ends = [getattr(share_now, end, None) for end in ("value", "high")]
    return First(
        kind=say(room.kind),
        name=document.subject.name,
        source=source(document.reproduction, manifest),
        outcome=outcome(document.verdict.outcome, len(document.rules)),
        rules=_outcome(room, raised is not None),
        level="high" if rows else worst.level,
        headline=" ".join([*inside, worst.headline]),
        detail=[
            *filter(None, (on, worst.detail)),
            *(
                check.detail
                for check in document.checks
                if check.effect not in ("", "mends") and check.detail not in inside
            ),
        ],
        cards=[
            Card(say("card.released"), large, lines),
            Card(say("card.worst"), worst.short, [*beside, worst.by, on], worst.level),
            room.tried() or Card(say("card.tried"), *_tried(room)),
            Card(say("card.remaining"), *_remaining(room)),
        ],
        chart=chart or room.chart(),
        options=options_table(room) if document.candidates else room.beside(),
        notes=room.notes(),
        signed=room.signed,
        size=ends[0] or ends[1] or 0.0,
    )


def _judged_option(room: Room[Any]) -> str:
    """The name of the judged candidate, where it is not the only baseline; else empty."""
    candidate = room.judged
    base = None if candidate is None else room.base_of(candidate)
    if candidate is None or base is None:
        return ""
    if candidate is not base:
        return say("first.option", name=candidate.name, before=_value(room, base))
    several = candidate.name != room.short_name(candidate)
    return say("first.model", name=candidate.name) if several else ""


def share_sentence(share_now: Measured | None, chance: float) -> tuple[str, str, str]:
    """A share, its interval and chance in words; all empty where it was not measured."""
    if not isinstance(share_now, Estimate):
        return "", "", ""
    value = share_now.value
    words = share_words(value) if value is not None else range_words(share_now)
    guess = f"{significant(100 * chance, 2)} %"
    return words, range_words(share_now) if value is not None else "", guess


def options_table(room: Room[Any]) -> Table:
    """Every option with its risk and its paired utility loss."""
    best = room.recommended
    rows: list[Row] = []
    marked: list[Mark] = []
    for option in room.document.candidates:
        risk = room.risk_shown(option)
        high = getattr(risk, "high", None)
        limit = "" if high is None else f"{high:.8g}"
        marked.append(Mark(limit, option is best))
        proven = label(room.proofs(option.name), room.fpr)
        marks = [proven] + [say("label.recommended")] * (option is best)
        lost = room.utility.loss_cell(option.utility_loss)
        rows.append((option.name, [", ".join(marks), share(risk), lost]))
    keys = ("options.option", "options.label", room.risk_head)
    heads = [*map(say, keys), room.utility.lost]
    return Table(say("options.table"), heads, rows, marks=marked)


def _outcome(room: Room[Any], raised: bool) -> str:
    """Word the outcome of the rules; after a pass also name people whom no rule covers.

    Args:
        raised: whether a group or the most exposed records raise the severity.
    """
    rules = room.document.rules
    if not rules:
        return say("limits.none")
    base, late = room.base and room.base.name, sum(not rule.fixed for rule in rules)
    codes = [code for code in NOT_MET if code in {rule.outcome for rule in rules}] or ["pass"]
    sentences = []
    for code in codes:
        judged = [rule for rule in rules if rule.outcome == code]
        texts = dict.fromkeys(f"“{room.in_words(rule.rule)}”" for rule in judged)
        listed = few([*texts], _MOST_NAMED, "; ")
        options = dict.fromkeys(rule.candidate for rule in judged)
        names = ", ".join(room.as_is if name == base else name for name in options)
        sentences.append(say(f"limits.{code}", rules=listed, name=names))
    if late:
        sentences.append(say("limits.late", some=late, n=len(rules)))
    if codes != ["pass"]:
        sentences.append(room.size_needed())
    elif raised and room.judged is not None:
        places = [place.unlimited for place in room.places(room.judged) if place.unlimited]
        sentences.append(say("limits.unlimited", who=say("or").join(places)) if places else "")
    return " ".join(filter(None, sentences))


def _tried(room: Room[Any]) -> tuple[str, list[str]]:
    """The large words and the lines of the card of mitigations tried, with their cost."""
    utility, listed = room.utility, room.document.candidates
    options = [row for row in listed if row is not room.base_of(row)]
    if not options:
        return say("tried.nothing"), [say("tried.how")]
    best, other = room.recommended, room.put_forward
    named = other or room.judged
    base = room.base if named is None else room.base_of(named)
    count = say("tried.count", n=len(options)) if len(options) > 1 else say("tried.count.one")
    if best is not None:
        lost = best.utility_loss
        key = "tried.costs" if lost.value >= 0 else "tried.gains"
        costs = say(key, loss=utility.loss(lost))
        return f"{best.name}: {_value(room, best)}", [costs, best.mitigation, count]
    ruled = room.none_fits == "tried.none" and room.document.rules
    meets = room.meeting if ruled else []
    other = min(meets, key=lambda row: row.utility_loss.value, default=other)
    if other is not None and base is not None:
        was, now = (utility.words(row.utility.value) for row in (base, other))
        words = {"merit": utility.name, "was": was, "now": now}
        words |= {"before": _value(room, base), "after": _ranged(room, other)}
        least = share_words(floor(room.chance))
        key = "tried.none.rules" if ruled else room.none_fits
        shown = "tried.meets" if meets else "tried.cheapest"
        fits = say(key, margin=room.margin, floor=least)
        costs = say(shown, name=other.name, what=other.mitigation, **words)
        return say("tried.not_one"), [fits, costs, count]
    shares = [(getattr(room.share_of(row), "value", None), row) for row in options]
    known = [(value, row) for value, row in shares if value is not None]
    known = [(value, row) for value, row in known if room.base_of(row) is base]
    if not known or base is None:
        return say("tried.unmeasured"), [count]
    lowest, least = min(known, key=lambda pair: pair[0])
    initial = getattr(room.share_of(base), "value", None)
    # The risk is halved, but the option is not put forward, because its cost is unknown.
    halves = initial is not None and lowest <= initial / 2 < initial
    lowers = "tried.least" if initial is None or lowest < initial else "tried.none_lower"
    before, after = _value(room, base), _ranged(room, least)
    key = "tried.lowest" if halves else lowers
    line = say(key, name=least.name, before=before, after=after)
    return say("tried.no_price" if halves else "tried.no_help"), [line, count]


def _value(room: Room[Any], candidate: CandidateRow) -> str:
    """The risk of an option as the table of options prints it."""
    text = "" if room.blind(candidate) else share_sentence(room.share_of(candidate), room.chance)[0]
    return text or say("unmeasured")


def _ranged(room: Room[Any], candidate: CandidateRow) -> str:
    """The risk of an option with its interval, which may overlap that of the baseline."""
    value, limits, _ = share_sentence(room.share_of(candidate), room.chance)
    return f"{value} ({limits})" if limits else value or say("unmeasured")


def _remaining(room: Room[Any]) -> tuple[str, list[str]]:
    """The card of the risk that remains with the option put forward, and who accepts it."""
    remaining = room.remaining()
    if remaining is not None:
        large, lines = remaining
    else:
        signed, other = room.judged, room.recommended
        if signed is None:
            return say("unmeasured"), []
        risk, proofs = room.risk_shown(signed), room.proofs(signed.name)
        risk = None if room.blind(signed) else risk
        value = share_sentence(risk, room.chance)[0] or say("unmeasured")
        key = "remaining.proven" if proofs else "remaining.measured"
        if proofs and proofs[0].unit == "vector":
            key = "remaining.proven.vector"
        name = room.as_is if signed is room.base_of(signed) else signed.name
        large = say(key, value=value, name=name[:1].upper() + name[1:])
        ends = range_words(risk) if isinstance(risk, Estimate) else ""
        lines = [say("remaining.range", range=ends) if ends else ""]
        lines += [room.beyond(signed), *(f"{claim_of(proof)}." for proof in proofs[:1])]
        if other is not None and other is not signed:
            risk = room.risk_shown(other)
            ends = range_words(risk) if isinstance(risk, Estimate) else ""
            value = _value(room, other)
            places = [place.short for place in room.places(other)]
            shown = say("remaining.other", name=other.name, value=value, range=ends)
            lines.append("; ".join([shown, *places]))
            lines += [f"{claim_of(proof)}." for proof in room.proofs(other.name)[:1]]
    if words := given(room.document.context, "residual_risk"):
        lines = [words, *lines]
    untested = room.document.attacks_not_run
    untested = sorted(untested, key=lambda row: row.why.startswith("not asked for"))
    names = [row.title or row.name for row in untested]
    if names:
        lines = [*lines, say("remaining.untested", names=few(names, _MOST_NAMED, "; "))]
    return large, lines
