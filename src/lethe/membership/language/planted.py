"""Leaks of known size, planted into what a fine-tuned model says: what its audit could have seen.

Into the scores of texts: a member gets all scores of one of the texts that were not trained on,
drawn from the higher ones. Into extraction: sequences that the model is known to write. Into
canaries: those that were planted get the highest scores that any canary has.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.one_run import met, score_plant
from lethe.evidence.roc import auc_of, rate_at, roc
from lethe.evidence.rules import Rule
from lethe.evidence.sight import Plant
from lethe.membership.blind import midranks
from lethe.membership.language.canaries import CanarySigns, RepetitionResult, TextCanaries
from lethe.membership.language.extraction import share_of
from lethe.membership.language.measure import Measured, Units
from lethe.membership.planted import keep_strongest, leaks

Bool = NDArray[np.bool_]
ODDS = (1.5, 3.0, 8.0, 20.0, 75.0, 200.0)
"""Draws of which a member has the largest: TPR 1 - (1 - f)^k at FPR f, AUC k / (k + 1)."""
SHARES = (0.02, 0.05, 0.2, 0.5, 0.98)
"""Shares of the members that have the largest of `_FULLY` draws."""
EXTRACTED = (0.0005, 0.002, 0.01, 0.05, 0.2, 0.5, 1.0)
_MODEL_ALONE = ("loss", "min-k++")
"""Attacks that read nothing but the model: what they do not tell apart, it does not tell apart."""


def score_plants(
    measured: Measured, units: Units, fprs: Sequence[float], confidence: float, seed: int
) -> list[Plant]:
    """Leaks planted into the scores of the texts, read by every attack that learns nothing.

    Args:
        measured: of the candidate, all of what it releases.
        confidence: of each attack, as in the audit.

    Returns: One entry a size and kind; its size is what an attacker who knows the draws reaches.
    """
    names = list(measured.signals)
    table = np.stack([measured.signals[name][units.rows] for name in names])
    alone = [at for at, name in enumerate(names) if name in _MODEL_ALONE]
    member, rng = units.texts.member, np.random.default_rng([seed, 41])
    # Texts that were not trained on, those that all attacks together find least like members first.
    like = np.mean([midranks(signal) for signal in table], axis=0)
    outside = np.flatnonzero(~member)
    rising = outside[np.argsort(like[outside], kind="stable")]
    place = np.argsort(np.argsort(like[outside], kind="stable"), kind="stable")
    meter = units.people.meter
    drawn, order = rng.random(len(member)), rng.permutation(np.flatnonzero(member))
    found = []
    for kind, odds in leaks(len(member), order, ODDS, SHARES):
        rank = (drawn ** (1 / odds) * len(rising)).astype(np.intp)
        rank[outside] = place
        twin = table[:, rising[rank]]
        best: dict[str, Estimate] = {}
        for signal in twin:
            keep_strongest(best, meter.rates("", units.score(signal), fprs, confidence))
        # Equal scores of the model alone have equal places: their mean.
        group = np.unique(twin[alone], axis=1, return_inverse=True)[1].reshape(-1)
        oracle = units.score((np.bincount(group, rank) / np.bincount(group))[group])
        curve = roc(units.people.member, oracle)
        leak = {"auc": auc_of(curve)}
        for fpr in fprs:
            if (quantity := Rule("tpr", fpr, 0.0).quantity) in best:
                leak[quantity] = rate_at(curve, fpr).tpr
        found.append(Plant(kind, leak, best))
    return found


def extraction_plants(
    got: Bool,
    hidden: Bool,
    people: NDArray[np.intp],
    known: Bool | None,
    confidence: float,
    seed: int,
) -> list[Plant]:
    """Texts among the training texts that are known to come out, as the extraction finds them.

    Args:
        got: (n,) training texts that come out, and not of the base model.
        hidden: (n,) those that come out of the base model, which the extraction does not count.
        people: (n,) their persons.
        known: whether each sequence that the model is known to write came out; None without any.
    """
    if known is None or not len(known):
        return []
    order, found = np.random.default_rng([seed, 43]).permutation(len(got)), []
    for count in sorted({max(1, round(share * len(got))) for share in EXTRACTED}):
        twin = got.copy()
        planted = order[:count]
        twin[planted] = np.resize(known, count) & ~hidden[planted]
        leak, kind = {"extraction": count / len(got)}, "sequences that the model writes"
        read = share_of(twin, people, confidence)
        found.append(Plant(kind, leak, {"extraction": read} if isinstance(read, Estimate) else {}))
    return found


def canary_plants(
    plan: TextCanaries,
    signs: CanarySigns,
    rows: Sequence[RepetitionResult],
    delta: float,
    confidence: float,
    watched: bool,
    proven: bool,
) -> list[Plant]:
    """Whether canaries could have shown more: in their scores, and in the training.

    Canaries that stand several times are a control of the training: it must be found. Where nobody
    saw the training take loss on canaries, nothing else shows that it met them.

    Args:
        rows: what the canaries show, by repetition count.
        watched: whether the training was seen to take loss on every copy of a canary.
        proven: whether the candidate carries a proof, under which copies may well stay hidden.
    """
    once = next((one for one in rows if one.repetitions == 1 and one.bounds), None)
    if once is None:
        return []
    here = np.array([one.repetitions == 1 for one in plan.canaries])
    kinds = np.array([one.kind for one in plan.canaries])[here]
    alone = signs.score if signs.alone is None else signs.alone
    once_in = score_plant(
        alone[here], plan.inserted[here], delta, confidence=confidence, kinds=kinds, seed=plan.seed
    )
    found = [once_in]
    copies = [one for one in rows if one.repetitions > 1 and one.bounds]
    if copies and not (watched and proven):
        most = max(copies, key=lambda one: one.repetitions)
        rows_of = np.array([one.repetitions == most.repetitions for one in plan.canaries])
        seen = met(signs.score[rows_of], plan.inserted[rows_of], plan.seed)
        low = most.bounds["binomial"].low * seen
        read = Estimate(low, low, low, confidence, "plant", most.canaries)
        # Where nobody watched, copies too few to show as much show nothing of the training.
        largest = most.largest if watched else max(most.largest, once.largest)
        words, leak = f"{most.repetitions} copies of a canary", {"epsilon-lower": largest}
        found.append(Plant(words, leak, {"epsilon-lower": read}))
    elif not watched:
        words = "canaries in a training that nobody watched"
        found.append(Plant(words, once_in.leak, {}))
    return found
