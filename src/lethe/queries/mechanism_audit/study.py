"""Running a mechanism on every pair of inputs, and bounding what tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.queries.mechanism_audit.bounds import Found, bound_pair
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.outcomes import Outcomes, read_outcomes
from lethe.queries.mechanism_audit.reuse import repeats, reuse
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.queries.mechanism_audit.trials import Failed, Mechanism, answer_once, run_trials
from lethe.training.users_code import users_code


@dataclass(frozen=True, eq=False)
class Measurement:
    """One pair, and what it showed.

    Attributes:
        pair: the inputs.
        found: the limit and its event.
        others: share of answers on the first input and on its neighbour that hold something that
            is no number, by what it is, where such an answer is an error, NaN or infinite.
    """

    pair: Pair
    found: Found
    others: dict[str, tuple[float, float]]


@dataclass(frozen=True, eq=False)
class Study:
    """Everything measured on a mechanism.

    Attributes:
        measured: one a pair, in the order given.
        reuse: rank correlation of successive answers.
        repeats: True if the answer to the same data never changes, while it differs between data.
    """

    measured: tuple[Measurement, ...]
    reuse: Measured
    repeats: bool

    @property
    def worst(self) -> Measurement:
        """The pair with the highest limit, the first of several."""
        return max(self.measured, key=lambda one: one.found.limit.low or 0.0)

    @property
    def limit(self) -> Estimate:
        """The highest limit of all pairs; each has its share of the confidence."""
        found, pairs = self.worst.found.limit, len(self.measured)
        shared = f", highest of {pairs} pairs, Bonferroni" if pairs > 1 else ""
        return replace(found, method=found.method + shared)


def study(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    settings: MechanismSettings,
    say: Callable[[str], None] = lambda text: None,
) -> Study:
    """Run the mechanism and bound its privacy loss from below.

    Args:
        mechanism: `mechanism(data)` or `mechanism(data, seed)`, which returns a number, a
            category, None, or an array, list or dict of these. An exception is an outcome.
        pairs: neighbouring inputs, at least one.
        settings: of the audit.
        say: told how far it is.

    Guarantee:
        With probability >= `settings.confidence` no pair's limit is above the true value of the
        mechanism: each has its share of what may go wrong (Bonferroni).

    Assumes:
        Answers are independent of each other, and pairs were fixed before the runs.

    Raises:
        InputError: no pair, a mechanism that fails on every input, or returns something else.
        NotMeasurable: too few runs for any limit.
    """
    if not pairs:
        raise InputError("no neighbouring inputs were given; at least one pair is needed.")
    seeds = np.random.SeedSequence(settings.seed).generate_state(len(pairs)).tolist()
    confidence = 1 - (1 - settings.confidence) / len(pairs)
    sides: list[tuple[Outcomes, Outcomes]] = []
    measured = []
    for at, (pair, seed) in enumerate(zip(pairs, seeds, strict=True), start=1):
        say(f"pair {at} of {len(pairs)} ({pair.name}): {2 * settings.runs:,} answers")
        trials = run_trials(mechanism, pair, settings.runs, seed)
        if all(isinstance(one, Failed) for one in trials.first + trials.second):
            with users_code("the mechanism"):  # tell where, if it does so again
                answer_once(mechanism, pair.first)
        first, second = read_outcomes(trials.first, trials.second)
        found = bound_pair(
            first,
            second,
            settings.claim,
            confidence=confidence,
            relation=settings.relation,
            seed=settings.seed,
        )
        measured.append(Measurement(pair, found, _others(first, second)))
        sides.append((first, second))
    return Study(tuple(measured), reuse(sides, settings.confidence), repeats(sides))


def _others(first: Outcomes, second: Outcomes) -> dict[str, tuple[float, float]]:
    """Errors and numbers that are none, with their shares on both sides."""
    odd = ("raises ", "NaN", "+inf", "-inf")
    seen = np.unique(np.concatenate([first.patterns, second.patterns])).tolist()
    return {
        pattern: (
            float((first.patterns == pattern).mean()),
            float((second.patterns == pattern).mean()),
        )
        for pattern in seen
        if any(word in pattern for word in odd)
    }
