"""From what was measured on a language model to the findings: candidates, facts, words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.run import AuditFacts, Subject, Verdict, check, outcome_words
from lethe.assess.verdict import NO_BASE, InputCheck
from lethe.evidence.document import AttackRow, CheckRow, ThreatModel
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.of_language import (
    BlindRates,
    CanaryPlan,
    ExposedText,
    LanguageData,
    LanguageSection,
    MarkShares,
    Prompts,
)
from lethe.evidence.one_run import met
from lethe.evidence.plain import plain
from lethe.evidence.rules import Rule, lower_for_rule
from lethe.membership.blind import midranks
from lethe.membership.checks import power
from lethe.membership.document import PARAMETERS
from lethe.membership.inputs import shifted
from lethe.membership.language.attacks import ATTACKS, COMBINED
from lethe.membership.language.audit import LanguageStudy, TunedModel
from lethe.membership.language.candidates import (
    MARK_RATE,
    LanguageNumbers,
    epsilon_of,
    reach_of,
    wrong_way,
)
from lethe.membership.language.measure import Pair
from lethe.membership.language.settings import DRAWN_ALIKE
from lethe.report.memorised import MemorisedText, memorised_page, tokens_of
from lethe.training.fingerprint import digest, hash_array

MOST_EXPOSED = 100
_FEW_CANARIES = 24  # of which half may well be guessed right by chance
_RELATED = 3.7  # standard errors of a rank correlation: shuffled scores have them once in 10,000
_EVEN = 0.02  # deviation of ranks in (0, 1), below which nearly all values are equal
_SETTINGS = (
    "seed",
    "confidence",
    "unit",
    "prefix",
    "suffix",
    "samples",
    "chance",
    "precision",
    "rule",
)
_COMBINED = AttackRow(
    COMBINED,
    "Learned combination",
    "logistic stack of all of these; folds share no person",
    "membership of other people's texts, to learn from",
)
_LIMITS = (
    "Members and others must be drawn alike: a random hold-out made before fine-tuning. The blind "
    "check can refute that; it cannot prove it.",
    "No reference model was trained. Attacks that train some on like texts find more (Hayes "
    "et al. 2025): hand their scores to lethe audit scores.",
    "Extraction is measured from the true beginning of a text, under top-40 sampling at "
    "temperature 1 and greedily; other prompts may give more.",
    "Canaries bound epsilon from below; a bound is no proof of privacy, and canaries that stand "
    "several times bound what so many copies of a record lose.",
    "What the base model learned before fine-tuning is not audited.",
)


def moved(study: LanguageStudy) -> str:
    """Which other order of the texts membership fits far better; empty where none does."""
    measured = study.releases[0].measured
    score = midranks(measured.signals.get("ratio", measured.mean))
    sides = (score - score.mean(), study.texts.member - study.texts.member.mean())
    order = shifted(*(side[None] for side in sides))
    return f"membership fits the scores far better {order}: is it of these rows?" if order else ""


def belongs(study: LanguageStudy) -> CheckRow:
    """Whether scores from another engine are of the texts that they are said to be of.

    A longer text has more tokens, and what the model finds unlikely its base finds unlikely too:
    where scores are shuffled among texts neither is so, and no attack could find anything.
    """
    measured, texts = study.releases[0].measured, study.texts.texts
    tokens = measured.tokens.astype(np.float64)
    lengths = np.array([len(text) for text in texts], np.float64)
    pairs = {"number of tokens, length of the text": (tokens, lengths)}
    if "ratio" in measured.signals:
        base = measured.mean - measured.signals["ratio"]
        pairs["log-probability of the model, that of its base"] = (measured.mean, base)
    found, failed = [], False
    for name, sides in pairs.items():
        first, second = map(midranks, sides)
        if min(first.std(), second.std()) < _EVEN:
            found.append(f"{name}: all are alike, so that nothing tells")
            continue
        z = float(np.corrcoef(first, second)[0, 1]) * math.sqrt(len(lengths) - 1)
        failed |= z < _RELATED
        found.append(f"{name}: {'related' if z >= _RELATED else 'NOT related'} (z = {z:.1f})")
    # The base tells whether both files have one order, the lengths alone whether it is the texts'.
    status = "fail" if failed else "warn" if tokens.std() < _EVEN else "pass"
    return check("texts and scores belong together", status, "; ".join(found), None)


@dataclass(frozen=True, eq=False)
class LanguageSubject(LanguageNumbers, Subject):
    """A fine-tuned language model, measured."""

    def evidence(self, candidate: str, rule: Rule) -> Measured | None:
        found = super().evidence(candidate, rule)
        if rule.metric != "epsilon-lower":
            return found
        release = next(one for one in self.study.releases if one.name == candidate)
        return lower_for_rule(found, reach_of(self.canaries(release)), rule.limit)

    def facts(self) -> AuditFacts:
        study, settings = self.study, self.settings
        texts, units = study.texts, study.units
        first = study.releases[0]
        inside, outside = units.people.meter.sides
        kept = len(units.rows)
        notes = [*study.notes]
        if repeated := int((~texts.single).sum()):
            notes.append(
                f"{repeated} texts stand more than once: no membership is asked of them, only "
                "extraction"
            )
        return AuditFacts(
            subject={
                "release": "language-model",
                "name": study.name,
                "summary": f"A fine-tuned language model; {int(texts.member.sum()):,} texts that "
                f"it was trained on, {int((~texts.member).sum()):,} that it was not.",
            },
            threat_model=ThreatModel(
                "who was trained on; texts and personal data that come out",
                f"the texts in question{', the base model' if study.has_base else ''}",
                "log-probabilities of tokens",
                f"one reading of each text; {max(settings.samples)} samples an extraction; "
                "no model is trained",
                settings.unit,
            ),
            data=LanguageData(
                records=len(texts),
                members=int(texts.member.sum()),
                others=int((~texts.member).sum()),
                asked=kept,
                units=[inside, outside],
                people=len(np.unique(texts.people)) if texts.named_people else None,
                tokens=int(first.measured.tokens.sum()),
                notes=notes,
                fingerprint=digest(*texts.texts, hash_array(texts.member)),
            ),
            attacks=[*self._attacks(first)],
            attacks_not_run=[
                {"name": "parameters", "title": PARAMETERS.name, "why": PARAMETERS.why},
                *(
                    {"name": name, "title": ATTACKS[name].title, "why": why}
                    for name, why in first.measured.not_run.items()
                ),
                {
                    "name": "reference models",
                    "title": "LiRA and RMIA with reference fine-tunes",
                    "why": "they train several models; lethe audit scores attacks their scores",
                },
                {
                    "name": "canaries",
                    "title": "Canaries and epsilon",
                    "why": "none were planted before training (lethe canaries text)",
                },
            ][: None if study.plan is None else -1],
            utility="the user's function, not a share"
            if self.utilities is not None
            else "held-out log-probability a token",
            risk=f"TPR at {100 * study.fpr:g} % FPR of the strongest attack",
            operating_rule="lowest risk among the candidates that are shown to lower it and lose "
            f"at most {settings.margin:g} of utility.",
            margin=settings.margin,
            skipped=[{"name": name, "why": why} for name, why in study.skipped.items()],
            keep_records=settings.keep_records,
            exposed=self.exposed_texts()[:MOST_EXPOSED] if settings.keep_records else [],
            checks=self._checks(),
            limits=_LIMITS,
            reproduction={name: plain(getattr(settings, name)) for name in _SETTINGS},
            libraries=("numpy", "torch", "transformers"),
            sections={"language": self._section()},
        )

    def _attacks(self, first: TunedModel) -> Sequence[AttackRow]:
        listed = [
            AttackRow(name, ATTACKS[name].title, ATTACKS[name].paper, ATTACKS[name].threat)
            for name in first.found.rates
            if name != COMBINED
        ]
        listed += [_COMBINED] * (COMBINED in first.found.rates)
        listed.append(
            AttackRow(
                "extraction",
                "Extraction from the beginning of a text",
                "Hayes et al. 2024",
                "the beginning of a text; samples of the model",
                {"prefix": self.settings.prefix, "suffix": self.settings.suffix},
            )
        )
        if self.study.plan is not None:
            paper = "Carlini et al. 2019; Steinke et al. 2023"
            listed.append(AttackRow("canaries", "Canaries", paper, "texts planted before training"))
        return listed

    def _section(self) -> LanguageSection:
        study, settings = self.study, self.settings
        blind, plan = study.blind.rates, study.plan
        first, marks = self.canaries(study.releases[0]), self.marks
        planted = None
        if plan is not None:
            planted = CanaryPlan(
                plan.digest,
                len(plan),
                int(plan.inserted.sum()),
                settings.claimed_delta,
                reach_of(first),
                self.claim(),
                self.training,
            )
        return LanguageSection(
            self.plain_words(),
            settings.unit,
            study.fpr,
            study.has_base,
            self.refused,
            BlindRates(study.blind.tells, study.blind.p_value, blind.name, blind.auc, blind.tpr),
            planted,
            Prompts(settings.prefix, settings.suffix, settings.chance, settings.samples),
            None if marks is None else MarkShares(MARK_RATE, marks.member, marks.other),
        )

    def _checks(self) -> list[CheckRow]:
        study, settings, blind = self.study, self.settings, self.study.blind
        detail = (
            f"{blind.rates.name}: p = {blind.p_value:.3g} over permutations of who was a member"
        )
        status = "fail" if self.refused else "pass"
        found = [check("blind classifier", status, detail, None, blind.rates.auc)]
        if blind.tells and not self.refused:
            said = f"--accept {DRAWN_ALIKE}: {detail}"
            found = [replace(found[0], status="warn", detail=said, effect="accepted")]
        odd = [f"{one.name}: {name}" for one in study.releases for name in one.found.permuted]
        odd += [
            f"{one.name}, {view}: {name}"
            for one in study.releases
            for view, found_there in one.views.items()
            for name in found_there.permuted
        ]
        words = "no attack finds members where membership is permuted among people"
        found.append(
            check("permuted membership", "fail" if odd else "pass", ", ".join(odd) or words, None)
        )
        if study.truncated:
            share = study.truncated / len(study.texts)
            words = f"{study.truncated} texts are scored on their beginning only"
            found.append(check("length of texts", "warn" if share > 0.05 else "pass", words, None))
        if study.has_base:
            words = "the model says of every text what its base says: was it fine-tuned?"
            status = "fail" if study.same_as_base else "pass"
            detail = words if study.same_as_base else "model and base differ"
            found.append(check("fine-tuned", status, detail))
        else:
            words = "No base model was given: who holds it compares both, and may find far more."
            stops = InputCheck(NO_BASE, "stops", words, "Name it: --base.")
            found.append(stops.row(settings.accept))
        for name, status, words in self.training:
            found.append(check(name, status, words))
        if study.plan is not None and study.seen is None:
            words = "nobody watched the training (canaries-training.json): canaries may lack loss"
            found.append(check("canaries received loss", "warn", words))
        for one in study.releases:
            found += self._against_proof(one)
            found += self._copies_found(one)
            views = (found_there.rates for found_there in (one.found, *one.views.values()))
            turned = dict(pair for rates in views for pair in rates.items() if pair[1].turned)
            status = "fail" if one.trained_as_is else "warn"
            found += [
                CheckRow(
                    "direction of scores",
                    one.name,
                    status,
                    wrong_way(name, rates),
                    name,
                    rates.turned,
                )
                for name, rates in turned.items()
            ]
        found += [belongs(study)] if study.from_file else []
        if order := moved(study):
            found.append(check("membership belongs to the texts", "fail", order))
        seen = power(self.all_candidates[0].plants or (), settings.fprs(), "every single attack")
        return [*found, seen]

    def _copies_found(self, release: TunedModel) -> list[CheckRow]:
        """A control: canaries that stand several times are found, unless in another training."""
        plan, signs = self.study.plan, self._writer(release).canaries
        if plan is None or signs is None:
            return []
        times = np.array([one.repetitions for one in plan.canaries])
        rows, name = times == times.max(), f"{times.max()} copies of a canary are found"
        if times.max() == 1 or met(signs.score[rows], plan.inserted[rows], plan.seed):
            return [check(name, "pass", "p below 0.001", release.name)] * bool(times.max() > 1)
        if release.name in self.settings.defence:
            hidden = "they are at chance: this option, trained here with them, hides them"
            return [check(name, "pass", hidden, release.name)]
        excused = release.guarantee.proven and release.trained_as_is and self.watched
        words = "they are at chance, as in a model that never met them: is it of this training?"
        status = "warn" if excused or rows.sum() < _FEW_CANARIES else "fail"
        return [check(name, status, words, release.name)]

    def _against_proof(self, release: TunedModel) -> list[CheckRow]:
        """What is proven must not be refuted by the canaries that stand once."""
        proven, rows = release.guarantee, self.canaries(release)
        low = epsilon_of(rows)
        if not (proven.proven and "epsilon" in proven.parameters and isinstance(low, Estimate)):
            return []
        # Epsilon falls as delta rises: a bound at a smaller delta refutes nothing of the proof.
        delta = proven.parameters.get("delta", 0.0)
        if proven.relation != "add/remove" or self.settings.claimed_delta < delta:
            return []
        epsilon = proven.parameters["epsilon"]
        broken = low.low is not None and low.low > epsilon
        words = f"epsilon {epsilon:.3g} is proven, canaries show at least {low.low:.3g}"
        return [check("proof against canaries", "fail" if broken else "pass", words, release.name)]

    # Words, and personal data.

    def words(self, verdict: Verdict) -> Sequence[str]:
        return [outcome_words(verdict), *self.plain_words()]

    def plain_words(self) -> list[str]:
        """Membership in a sentence, and what a claimed epsilon came to."""
        claim = self.claim()
        return [self._membership_words(), *([] if claim is None else [claim.words])]

    def _membership_words(self) -> str:
        risk, fpr = self.all_candidates[0].risk, f"{100 * self.study.fpr:g} %"
        if self.refused:
            return f"Membership is not judged: {self.refused}."
        if isinstance(risk, Refusal) or risk.value is None:
            return "Membership could not be measured."
        value, low = (f"{100 * (end or 0.0):.3g} %" for end in (risk.value, risk.low))
        return (
            f"An attacker recognises {value} ({low} to {100 * (risk.high or 1.0):.3g} %) of the "
            f"training {self.settings.unit}s at a {fpr} false-positive rate."
        )

    def exposed_texts(self) -> list[ExposedText]:
        """Trained texts (or people), the most exposed first; personal data."""
        study, units = self.study, self.study.units
        rates, score = self.strongest(study.releases[0])
        inside = np.flatnonzero(units.people.member)
        listed = []
        for rank, unit in enumerate(inside[np.argsort(-score[inside], kind="stable")], 1):
            row = units.rows[unit if units.of is None else np.argmax(units.of == unit)]
            number = float(f"{score[unit]:.6g}")
            listed.append(ExposedText(rank, study.texts.ids[int(row)], rates.name, number))
        return listed

    def memorised(self, of_tokens: Callable[[Sequence[int]], Mapping[int, Pair]]) -> str:
        """The page of reproduced and exposed texts, token by token; personal data.

        Args:
            of_tokens: scores the tokens of texts with the model and its base, by their places.
        """
        study, settings = self.study, self.settings
        measured = study.releases[0].measured
        reproduced = self.reproduced()
        # Unknown for a text that is too short.
        sure = np.nan_to_num(measured.suffix, nan=-np.inf, neginf=-np.inf)
        listed, tries = np.flatnonzero(reproduced), max(settings.samples)
        by_base = self.got(measured.base_suffix, measured.base_greedy, tries)
        # Texts that the base does not reproduce come first, the likeliest of them first.
        order = np.lexsort((-sure[listed], by_base[listed]))
        rows = [int(row) for row in listed[order][:MOST_EXPOSED]]
        places = {name: place for place, name in enumerate(study.texts.ids)}
        exposed = [places[text.id] for text in self.exposed_texts()[:MOST_EXPOSED]]
        rows += [row for row in exposed if row not in rows]
        scores, texts = of_tokens(rows), []
        for row in rows:
            text, (own, base) = study.texts.texts[row], scores.get(row, (None, None))
            tokens = tokens_of(
                text,
                study.offsets(text) if study.offsets is not None else (),
                None if own is None else -own.logprob,
                None if base is None else -base.logprob,
                (settings.prefix, settings.suffix) if reproduced[row] else (0, 0),
            )
            chance = math.exp(sure[row]) if np.isfinite(sure[row]) else None
            how = bool(measured.greedy[row]), bool(by_base[row]), int(study.texts.copies[row])
            known = study.texts.ids[row], tokens, bool(reproduced[row]), chance
            texts.append(MemorisedText(*known, *how))
        many = len(listed), settings.prefix, study.has_base
        return memorised_page(study.name, texts, *many)

    def reproduced(self) -> NDArray[np.bool_]:
        """(N,) training texts whose prompt the model continues verbatim."""
        measured, tries = self.study.releases[0].measured, max(self.settings.samples)
        return self.got(measured.suffix, measured.greedy, tries) & self.sides["member"]

    def extracted_texts(self) -> list[Mapping[str, Any]]:
        """Trained texts that come out, with their words; personal data."""
        study = self.study
        measured = study.releases[0].measured
        return [
            {
                "id": study.texts.ids[int(at)],
                "text": study.texts.texts[int(at)],
                "log_probability": float(measured.suffix[at])
                if np.isfinite(measured.suffix[at])
                else None,
                "greedy": bool(measured.greedy[at]),
                "copies": int(study.texts.copies[at]),
            }
            for at in np.flatnonzero(self.reproduced())
        ]
