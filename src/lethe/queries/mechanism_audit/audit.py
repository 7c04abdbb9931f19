"""Black-box audit of a mechanism: many answers on neighbouring inputs, and what they prove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.findings import Findings
from lethe.queries.mechanism_audit.bounds import Found, bound_pair
from lethe.queries.mechanism_audit.document import MechanismSubject
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.runs import (
    Failed,
    Mechanism,
    Outcomes,
    answer_once,
    read_outcomes,
    repeats,
    reuse,
    run_trials,
)
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.training.fingerprint import digest, hash_value
from lethe.training.users_code import users_code


def audit_mechanism(
    mechanism: Mechanism,
    pairs: Sequence[Pair],
    settings: MechanismSettings | None = None,
    *,
    name: str | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Findings:
    """Bound the privacy loss of a mechanism from below, and judge what is claimed of it.

    Args:
        mechanism: `mechanism(data)` or `mechanism(data, seed)`, which returns a number, a category
            or an array of these; an exception counts as an answer.
        pairs: neighbouring inputs: `standard_pairs`, or your own.
        settings: claim, runs, confidence, rules.
        name: of the mechanism; by default that of the function.
        say: told how far it is.

    Returns:
        Findings: the limit of every pair, whether the claim is contradicted, and what so many runs
        could have shown.

    Guarantee:
        A right mechanism's limit is above its true value with probability at most
        1 - `settings.confidence`.

    Assumes:
        Pairs and settings were fixed before the runs; answers are independent, which is checked.

    Raises:
        InputError: no pair, fewer than 100 runs, a mechanism that always fails or returns what is
            no answer.
        NotMeasurable: too few runs to show anything.

    >>> import numpy as np
    >>> from lethe.queries.mechanism_audit.settings import Claim
    >>> from lethe.queries.mechanism_audit.neighbours import standard_pairs
    >>> def count(data, seed):  # half the noise that epsilon 1 needs
    ...     return len(data) + np.random.default_rng(seed).laplace(scale=0.5)
    >>> settings = MechanismSettings(Claim("epsilon", 1.0), runs=1000)
    >>> findings = audit_mechanism(count, standard_pairs(0, 1)[:1], settings)
    >>> print(findings.verdict["outcome"])
    fail
    """
    settings = settings or MechanismSettings()
    named = name or str(getattr(mechanism, "__name__", type(mechanism).__name__))
    found = study(mechanism, pairs, settings, say)
    return MechanismSubject(found, settings, named, code_of(mechanism, pairs, named)).findings()


def code_of(mechanism: Mechanism, pairs: Sequence[Pair], name: str) -> str:
    """Hash of a mechanism's code and of its inputs; of its name where the code has none.

    Args:
        mechanism: the callable.
        pairs: its inputs.
        name: what stands for code that cannot be hashed, such as a foreign library's handle.
    """
    inputs = hash_value([(pair.name, pair.first, pair.second) for pair in pairs], "pairs")
    try:
        return digest(hash_value(mechanism, "mechanism"), inputs)
    except InputError:
        return digest(name, inputs)


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
    for place, (pair, seed) in enumerate(zip(pairs, seeds, strict=True), start=1):
        say(f"pair {place} of {len(pairs)} ({pair.name}): {2 * settings.runs:,} answers")
        trials = run_trials(mechanism, pair, settings.runs, seed)
        if all(isinstance(answer, Failed) for answer in trials.first + trials.second):
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
