"""The numbers of every candidate: attacks, utility, canaries and extraction, as plain values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate
from lethe.evidence.of_language import (
    Bound,
    CanaryRow,
    EpsilonClaim,
    Extraction,
    LanguageDetails,
    Pattern,
    Side,
    TextAttack,
    TextGroup,
)
from lethe.evidence.one_run import judged_claim
from lethe.evidence.risk import RELEASE, AttackResult, Risk, risk_of
from lethe.evidence.sight import Plant, blindness
from lethe.evidence.twoway import symmetric_estimate
from lethe.membership.language.attacks import ATTACKS, COMBINED
from lethe.membership.language.audit import BASELINE, LanguageStudy, TunedModel
from lethe.membership.language.canaries import RepetitionResult, canary_results, training_checks
from lethe.membership.language.extraction import PATTERNS, clustered, discoverable, share_of
from lethe.membership.language.planted import canary_plants, extraction_plants, score_plants
from lethe.membership.language.settings import DRAWN_ALIKE, LanguageSettings
from lethe.membership.measure import AttackRates, paired

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


_HELD_OUT = "held-out texts"
MARK_RATE = 0.01
"""Share of the tokens of texts never trained on that the token-level attack marks."""


@dataclass(frozen=True)
class Marks:
    """Tokens of which a model learnt more than of nearly all tokens that it never met.

    Attributes:
        threshold: information in nats above which a token is marked; taken as given in the limits.
        member: mean share of marked tokens in a text that was trained on.
        other: the same of texts never trained on, those that did not set the threshold.
    """

    threshold: float
    member: Estimate
    other: Estimate


@dataclass(frozen=True, eq=False)
class LanguageNumbers:
    """What the candidates of one audit come to."""

    study: LanguageStudy
    settings: LanguageSettings
    utilities: Mapping[str, float] | None = None

    def candidates(self) -> Sequence[Candidate]:
        return [self._candidate(one) for one in self.study.releases]

    def _candidate(self, release: TunedModel) -> Candidate:
        results = self._results(release)
        fprs = self.settings.fprs()
        worst = {fpr: _measure(risk_of(self._results(release, fpr), fpr)) for fpr in fprs}
        area = _measure(risk_of(self._results(release, None), 0.5))
        extracted = self._extracted(release)
        canaries = self.canaries(release)
        base = self.study.releases[0]
        loss = None if release is base else self._loss(release)
        rates = release.found.rates.items()
        details = LanguageDetails(
            text_attacks={name: self._rates(found) for name, found in rates},
            extraction=self._extraction(release),
            canaries=tuple(_canary_row(one) for one in canaries),
        )
        measures: dict[str, Measured | None] = {
            **{f"tpr@{fpr:g}": one for fpr, one in worst.items()},
            "auc": area,
            "extraction": extracted,
            "epsilon-lower": epsilon_of(canaries),
            "utility-loss": loss,
        }
        change = None
        if release is not base and not self.refused:
            (mine, _), (theirs, _) = self.strongest(release), self.strongest(base)
            found = paired(mine, theirs, self.study.fpr, theirs.auc.confidence)
            change = None if isinstance(found, Refusal) else found
        return Candidate(
            release.name,
            release.mitigation,
            release.settings,
            self._utility(release),
            results,
            release.guarantee,
            loss,
            change,
            details,
            measures,
            chance=self.study.fpr,
            plants=self.plants(release),
        )

    @cached_property
    def refused(self) -> str:
        """Why no membership result stands; empty where they do."""
        blind = self.study.blind.rates
        if not self.study.blind.tells or DRAWN_ALIKE in self.settings.accept:
            return ""
        return (
            f"a classifier that never asks the model tells members from others by "
            f"{blind.name} (AUC {blind.auc.value:.2f}): they were not drawn alike (waived by "
            f"--accept {DRAWN_ALIKE})"
        )

    def _results(self, release: TunedModel, fpr: float | None = -1.0) -> list[AttackResult]:
        """Every attack at an FPR (by default that of the risk), or as its AUC for None."""
        at = self.study.fpr if fpr == -1.0 else fpr
        results = []
        for view, found in ((RELEASE, release.found), *release.views.items()):
            for name, rates in found.rates.items():
                odd = "it finds members where membership was permuted"
                why = self.refused or odd * (name in found.permuted)
                # A mitigation may well turn scores round: there they are one more attack.
                if rates.turned is not None and release.trained_as_is:
                    why = why or wrong_way(name, rates)
                estimate = rates.auc if at is None else rates.tpr[at]
                knows = "" if name == COMBINED else ATTACKS[name].threat
                results.append(
                    AttackResult(name, estimate, view=view, knows=knows, valid=not why, why=why)
                )
        return results

    @cached_property
    def _blind(self) -> AttackRates:
        """The blind classifier on the units that are asked about, for pairs with attacks."""
        units, confidence = self.study.units, self.settings.confidence
        score = units.score(self.study.blind.score)
        return units.people.meter.rates("blind", score, self.settings.fprs(), confidence)

    def _rates(self, rates: AttackRates) -> TextAttack:
        excess = paired(rates, self._blind, self.study.fpr, rates.auc.confidence)
        assert excess is not None
        return TextAttack(rates.auc, rates.tpr, rates.realised_fpr, excess)

    def strongest(self, release: TunedModel) -> tuple[AttackRates, Float]:
        """The attack that decides, and its scores, whatever the checks say."""
        results = [replace(one, valid=True) for one in self._results(release)]
        found = risk_of(results, self.study.fpr)
        name = found.attack if isinstance(found, Risk) else next(iter(release.found.rates))
        view = found.view if isinstance(found, Risk) else RELEASE
        of = release.found if view == RELEASE else release.views[view]
        return of.rates[name], of.scores[name]

    # Utility.

    @cached_property
    def _held_out(self) -> NDArray[np.intp]:
        texts = self.study.texts
        mean = self.study.releases[0].measured.mean
        return np.flatnonzero(~texts.member & (texts.copies == 0) & ~np.isnan(mean))

    def _mean(self, values: Float, rows: NDArray[np.intp], what: str) -> Estimate:
        people = self.study.texts.people[rows]
        method = f"clustered by person, Student t; n = {what}"
        return symmetric_estimate(
            float(values.mean()),
            clustered(values, people),
            len(values),
            self.settings.confidence,
            method,
        )

    def _utility(self, release: TunedModel) -> Estimate:
        if self.utilities is not None:
            value = self.utilities.get(release.name)
            return Estimate(value, None, None, self.settings.confidence, "the user's function", 1)
        of = self.study.releases[0] if release.interface else release
        return self._mean(of.measured.mean[self._held_out], self._held_out, _HELD_OUT)

    def _loss(self, release: TunedModel) -> Estimate:
        confidence = self.settings.confidence
        if release.interface:
            lost = None if release.name == "top-5" else 0.0  # of tokens that nobody sees
            return Estimate(
                lost, lost, lost, confidence, "the model itself is the same; n = models", 1
            )
        if self.utilities is not None:
            lost = self.utilities[BASELINE] - self.utilities[release.name]
            return Estimate(lost, None, None, confidence, "the user's function", 1)
        rows, base = self._held_out, self.study.releases[0].measured.mean
        return self._mean((base - release.measured.mean)[rows], rows, _HELD_OUT)

    # Tokens.

    @cached_property
    def marks(self) -> Marks | None:
        """What the token-level attack marks; None where membership is refused or no token is known.

        One half of the texts never trained on sets the threshold, the other half is the control.
        """
        texts, learnt = self.study.texts, self.study.releases[0].measured.learnt
        known = np.zeros(len(texts), bool)
        known[list(learnt)] = True
        inside, outside = (np.flatnonzero(known & self.sides[side]) for side in self.sides)
        outside = np.random.default_rng([self.settings.seed, 47]).permutation(outside)
        half = len(outside) // 2
        if self.refused or half < 2 or len(inside) < 2:
            return None
        never = np.concatenate([learnt[int(at)] for at in outside[:half]])
        threshold = float(np.quantile(never.astype(np.float64), 1 - MARK_RATE))

        def share(rows: NDArray[np.intp]) -> Estimate:
            values = np.array([float((learnt[int(at)] > threshold).mean()) for at in rows])
            found = self._mean(values, rows, "texts")
            return replace(found, low=max(found.low or 0.0, 0.0))

        return Marks(threshold, share(inside), share(outside[half:]))

    # What could have been seen.

    def plants(self, release: TunedModel) -> list[Plant]:
        """Leaks of known size in the scores, the extraction and the canaries of a candidate."""
        settings, study = self.settings, self.study
        each = next(iter(release.found.rates.values())).auc.confidence
        measured = release.measured
        found = score_plants(measured, study.units, settings.fprs(), each, settings.seed)
        writer = self._writer(release)
        signs, rows = writer.canaries, self.sides["member"] & ~np.isnan(writer.measured.suffix)
        known, n = writer.known, max(settings.samples)
        if known is None:
            # Of another engine: that anything comes out shows that it can be found.
            any_came = self.got(writer.measured.suffix, writer.measured.greedy, n).any()
            known = np.ones(int(any_came or (signs is not None and signs.extracted.any())), bool)
        if rows.any():
            people, sure = study.texts.people[rows], settings.confidence
            came, hidden = self._came(release)
            found += extraction_plants(came[rows], hidden[rows], people, known, sure, settings.seed)
        return found + self._canary_plants(release)

    def _canary_plants(self, release: TunedModel) -> list[Plant]:
        study, settings = self.study, self.settings
        if study.plan is None or release.canaries is None:
            return []
        return canary_plants(
            study.plan,
            release.canaries,
            self.canaries(release),
            settings.claimed_delta,
            settings.confidence,
            release.name in settings.defence or (release.trained_as_is and self.watched),
            release.guarantee.proven and "epsilon" in release.guarantee.parameters,
        )

    @cached_property
    def training(self) -> list[tuple[str, str, str]]:
        """Checks on what the training of the model was seen to do; none where nobody watched."""
        study = self.study
        if study.plan is None or study.seen is None:
            return []
        return training_checks(study.seen, study.plan)

    @property
    def watched(self) -> bool:
        """Whether the training was seen to take loss on every copy of every planted canary."""
        return bool(self.training) and {status for _, status, _ in self.training} == {"pass"}

    # Canaries.

    def canaries(self, release: TunedModel) -> list[RepetitionResult]:
        """By repetition count; empty where none were planted."""
        if self.study.plan is None or release.canaries is None:
            return []
        delta, sure = self.settings.claimed_delta, self.settings.confidence
        return canary_results(self.study.plan, release.canaries, delta, sure)

    def claim(self) -> EpsilonClaim | None:
        """What canaries that stand once say of the claimed epsilon; None without either."""
        epsilon, delta = self.settings.claimed_epsilon, self.settings.claimed_delta
        rows = [one for one in self.canaries(self.study.releases[0]) if one.repetitions == 1]
        if epsilon is None or not rows or not rows[0].bounds:
            return None
        plants = self._canary_plants(self.study.releases[0])
        doubt = blindness(plants, "epsilon-lower", epsilon, math.inf)
        verdict, words = judged_claim(rows[0].bounds["binomial"], epsilon, delta, doubt)
        return EpsilonClaim(epsilon, delta, verdict, words)

    # Extraction.

    @cached_property
    def sides(self) -> dict[str, Bool]:
        """(N,) texts that were trained on, and texts that no trained one equals."""
        texts = self.study.texts
        return {"member": texts.member, "other": ~texts.member & (texts.copies == 0)}

    def got(self, suffix: Float, greedy: Bool, n: int) -> Bool:
        """(N,) texts whose suffix comes greedily or in n tries."""
        with np.errstate(invalid="ignore"):
            return greedy | discoverable(suffix, n, self.settings.chance)

    def _extracted(self, release: TunedModel, side: str = "member") -> Measured:
        """Share of training texts that the most tries give, and the base model's do not."""
        measured, got = self._writer(release).measured, self._came(release)[0]
        rows = self.sides[side] & ~np.isnan(measured.suffix)
        if not rows.any():
            length = self.settings.prefix + self.settings.suffix
            return Refusal(f"no text of this kind has {length} tokens whose ranks are known")
        people = self.study.texts.people[rows]
        return share_of(got[rows], people, self.settings.confidence)

    def _writer(self, release: TunedModel) -> TunedModel:
        """Whose texts come out: behind a narrower interface the model writes what it wrote."""
        return self.study.releases[0] if release.interface else release

    def _came(self, release: TunedModel) -> tuple[Bool, Bool]:
        """(N,) texts that the most tries give and the base model's do not, and the base model's."""
        measured, n = self._writer(release).measured, max(self.settings.samples)
        got = self.got(measured.suffix, measured.greedy, n)
        base = self.got(measured.base_suffix, measured.base_greedy, n)
        return got & ~base, base

    def _extraction(self, release: TunedModel) -> Extraction:
        control, release = self._extracted(release, "other"), self._writer(release)
        measured, texts, sure = release.measured, self.study.texts, self.settings.confidence
        known = ~np.isnan(measured.suffix)
        sides = []
        for side, flag in self.sides.items():
            here = flag & known
            people = texts.people[here]

            def row(name: str, got: Bool, here: Bool = here, people: Any = people) -> TextGroup:
                return TextGroup(name=name, share=share_of(got[here], people, sure))

            listed = [row("greedy, verbatim", measured.greedy)]
            if release.near is not None:
                near = release.near[side]
                share = share_of(near, np.arange(len(near)), sure)
                listed.append(TextGroup(name="greedy, near-verbatim", share=share))
            for n in self.settings.samples:
                got = discoverable(measured.suffix, n, self.settings.chance)
                listed.append(row(_tries(n), got))
            if self.study.has_base:
                listed.append(row("greedy, verbatim, base model", measured.base_greedy))
                for n in self.settings.samples:
                    got = discoverable(measured.base_suffix, n, self.settings.chance)
                    listed.append(row(f"{_tries(n)}, base model", got))
            sides.append(Side(side, int(here.sum()), listed))
        return Extraction(sides, self._groups(release), self._patterns(release), control)

    def _groups(self, release: TunedModel) -> list[TextGroup]:
        """Shares of training texts by how often they stand there, and by their length."""
        measured, texts = release.measured, self.study.texts
        rows = self.sides["member"] & ~np.isnan(measured.suffix)
        if not rows.any():
            return []
        got = self._came(release)[0]
        copies, length = texts.copies, measured.tokens
        cuts = np.quantile(length[rows], [1 / 3, 2 / 3]).astype(int)
        named = [
            ("stands once", copies == 1),
            ("stands 2 or 3 times", (copies >= 2) & (copies <= 3)),
            ("stands 4 to 15 times", (copies >= 4) & (copies <= 15)),
            ("stands 16 times or more", copies >= 16),
            (f"at most {cuts[0]} tokens", length <= cuts[0]),
            (f"{cuts[0] + 1} to {cuts[1]} tokens", (length > cuts[0]) & (length <= cuts[1])),
            (f"more than {cuts[1]} tokens", length > cuts[1]),
        ]
        found = []
        for name, flag in named:
            here = rows & flag
            if here.any():
                share = share_of(got[here], texts.people[here], self.settings.confidence)
                found.append(TextGroup(name=name, texts=int(here.sum()), share=share))
        return found

    def _patterns(self, release: TunedModel) -> list[Pattern]:
        """Personal patterns: how many stand in training texts, and how many come out."""
        n, sides, found = max(self.settings.samples), self.sides, []
        spans = release.measured.spans
        for kind in ("declared", *PATTERNS):
            shares: list[Measured] = []
            counts: list[int] = []
            for side in ("member", "other"):
                own = [(at, lp) for at, what, lp in spans if what == kind and sides[side][at]]
                got = discoverable(np.array([lp for _, lp in own]), n, self.settings.chance)
                people = self.study.texts.people[[at for at, _ in own]] if own else np.zeros(0, int)
                shares.append(share_of(got, people, self.settings.confidence))
                counts.append(len(own))
            if any(counts):
                found.append(Pattern(kind, shares[0], counts[0], shares[1], counts[1]))
        return found


def wrong_way(name: str, rates: AttackRates) -> str:
    """What is wrong with an attack whose scores are lower for members."""
    return (
        f"{name} has AUC {rates.turned}; its negatives have {rates.auc}. Scores point the wrong "
        "way: were losses handed over as log-probabilities, or is the column of members turned?"
    )


def _measure(found: Risk | Refusal) -> Measured:
    return found if isinstance(found, Refusal) else found.estimate


def _tries(n: int) -> str:
    return "1 try" if n == 1 else f"{n} tries"


def epsilon_of(rows: Sequence[RepetitionResult]) -> Measured | None:
    """The bound of canaries that stand once; None where there are none."""
    once = [one for one in rows if one.repetitions == 1]
    if not once:
        return None
    if not once[0].bounds:
        return Refusal(once[0].note)
    return once[0].bounds["binomial"].estimate


def reach_of(rows: Sequence[RepetitionResult]) -> float:
    """The largest epsilon that canaries which stand once could show."""
    return next((one.largest for one in rows if one.repetitions == 1), 0.0)


def _canary_row(one: RepetitionResult) -> CanaryRow:
    bounds = {
        form: Bound(**vars(bound.estimate), note=bound.note) for form, bound in one.bounds.items()
    }
    names = [field.name for field in fields(CanaryRow) if field.name != "epsilon"]
    return CanaryRow(epsilon=bounds, **{name: getattr(one, name) for name in names})
