"""Black-box audit of a mechanism: many answers on neighbouring inputs, and what they prove."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lethe.errors import InputError
from lethe.evidence.findings import Findings
from lethe.queries.mechanism_audit.document import MechanismSubject
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.settings import MechanismSettings
from lethe.queries.mechanism_audit.study import study
from lethe.queries.mechanism_audit.trials import Mechanism
from lethe.training.fingerprint import digest, hash_value


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
    >>> from lethe.queries.mechanism_audit.claim import Claim
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
