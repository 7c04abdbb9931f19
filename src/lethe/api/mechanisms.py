"""Audits of mechanisms that claim differential privacy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.settings import MechanismSettings, claim_from
from lethe.runs.run import perform
from lethe.runs.settings import audit_of, keywords_of

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings


@audit_of(MechanismSettings)
def audit_mechanism(
    mechanism: str | Callable[..., Any],
    /,
    pairs: str | Sequence[Pair] | None = None,
    *,
    epsilon: float | None = None,
    delta: float | None = None,
    rho: float | None = None,
    mu: float | None = None,
    bounds: str | tuple[float, float] | None = None,
    size: int | None = None,
    beyond: bool = False,
    **settings: Any,
) -> Findings:
    """Does a mechanism have the noise that it claims? Run many times on neighbouring inputs.

    Whatever tells the answers apart bounds epsilon from below; a limit above the claim contradicts
    it. A limit below is no proof. The function runs in this process, as your own code.

    Args:
        mechanism: ``mechanism(data)`` or ``mechanism(data, seed)``, which returns a number, a
            category or an array of these; or file.py:name of it.
        pairs: file.py:name of a function that returns a list of (data, neighbour) or (name, data,
            neighbour), in place of --bounds.
        epsilon: claimed; a rule that is judged. Without any claim only the limit is given.
        delta: claimed beside epsilon. [0]
        rho: claimed, of zero-concentrated differential privacy, in place of epsilon.
        mu: claimed, of Gaussian differential privacy, in place of epsilon. For Gaussian noise a
            claim of mu or rho needs far fewer runs than one of epsilon and delta.
        bounds: LOW,HIGH: the mechanism takes a vector of numbers in this range, and neighbours are
            made.
        size: people in those made-up data sets. [10]
        beyond: also try a value far outside the bounds, which a mechanism that clamps does not
            mind.
        settings: of `MechanismSettings`.

    >>> import numpy as np
    >>> def total(data, seed):
    ...     return data.sum() + np.random.default_rng(seed).laplace(scale=1.0)
    >>> found = audit_mechanism(
    ...     total, bounds=(0, 1), epsilon=0.2, runs=1000, save=False, quiet=True
    ... )
    >>> found.rules[0]["outcome"]
    'fail'
    """
    from lethe.queries.mechanism_audit.audit import audit_mechanism as measured
    from lethe.queries.mechanism_audit.audit import code_of
    from lethe.queries.mechanism_audit.neighbours import standard_pairs, users_pairs
    from lethe.training.fingerprint import digest
    from lethe.training.models import load_callable

    claim = claim_from(epsilon, delta, rho, mu)
    how, asked = keywords_of(MechanismSettings, settings, claim=claim)
    function = load_callable(mechanism) if isinstance(mechanism, str) else mechanism
    for option, value in (("bounds", bounds), ("size", size), ("beyond", beyond or None)):
        if pairs is not None and value is not None:
            raise InputError(f"--neighbours and --{option} both name inputs; give one of them.")
    if isinstance(pairs, str):
        inputs = users_pairs(load_callable(pairs), pairs)
    elif pairs is not None:
        inputs = list(pairs)
    elif bounds is not None:
        inputs = standard_pairs(*_ends(bounds), size or 10, asked.relation, beyond)
    else:
        raise InputError(
            "lethe audit mechanism needs inputs: --bounds LOW,HIGH for a mechanism on a vector of "
            "numbers, or --neighbours file.py:name; in Python bounds=(low, high) or pairs."
        )
    label = str(getattr(function, "__name__", type(function).__name__))
    if isinstance(mechanism, str):
        label = mechanism.rpartition(":")[2]
    title = how.name or label
    reference = mechanism if isinstance(mechanism, str) else title
    return perform(
        "audit_mechanism",
        how,
        title,
        digest(code_of(function, inputs, reference), repr(asked)),
        asked,
        lambda _, progress: measured(function, inputs, asked, name=title, say=progress.say),
    )


def _ends(text: Any) -> tuple[float, float]:
    parts = text.split(",") if isinstance(text, str) else list(text)
    try:
        low, high = (float(part) for part in parts)
    except (TypeError, ValueError):
        raise InputError(f"bounds={text!r} must be two numbers: --bounds 0,1.") from None
    return low, high
