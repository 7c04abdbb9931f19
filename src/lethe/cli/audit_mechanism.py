"""`lethe audit mechanism`: run a mechanism as a black box, and say what it reveals at least."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    Subject,
    audited,
    given_in,
    grouped,
    merged,
    options_for,
    settings_of,
    subject_named,
)
from lethe.errors import InputError
from lethe.queries.mechanism_audit.audit import audit_mechanism, code_of
from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs, users_pairs
from lethe.queries.mechanism_audit.settings import MechanismSettings, claim_from
from lethe.training.fingerprint import digest
from lethe.training.models import load_callable

if TYPE_CHECKING:
    TrialOptions = MechanismSettings
else:
    TrialOptions = options_for(MechanismSettings, leave=("claim",))


@partial(grouped, others={"epsilon": "Claim", "delta": "Claim"})
@dataclass(frozen=True, kw_only=True)
class ClaimOptions:
    """What is claimed, and on which inputs it is tried.

    Parameters
    ----------
    epsilon
        Claimed; a rule that is judged. Without any claim only the limit is given.
    delta
        Claimed beside epsilon. [0]
    rho
        Claimed, of zero-concentrated differential privacy, in place of epsilon.
    mu
        Claimed, of Gaussian differential privacy, in place of epsilon. For Gaussian noise a claim
        of mu or rho needs far fewer runs than one of epsilon and delta.
    bounds
        LOW,HIGH: the mechanism takes a vector of numbers in this range, and neighbours are made.
    size
        People in those made-up data sets. [10]
    beyond
        Also try a value far outside the bounds, which a mechanism that clamps does not mind.
    neighbours
        file.py:name of a function that returns a list of (data, neighbour) or (name, data,
        neighbour), in place of --bounds.
    """

    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    bounds: str | None = None
    size: int | None = None
    beyond: Annotated[bool | None, Parameter(negative=())] = None
    neighbours: str | None = None


CLAIM, TRIALS = ClaimOptions(), TrialOptions()


def mechanism(
    function: str | None = None,
    /,
    *,
    claim: ClaimOptions = CLAIM,
    settings: TrialOptions = TRIALS,
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit a mechanism that claims differential privacy: does it have too little noise?

    It is run many times on data sets that differ in one person. Whatever tells the answers apart
    bounds epsilon from below; a limit above the claim contradicts it (exit code 1). A limit below
    is no proof. The function runs in this process, as your own code.

    Parameters
    ----------
    function
        file.py:name or package.module:name of mechanism(data) or mechanism(data, seed). Whatever it
        returns, raises, warns, logs or prints is its answer.
    """
    reference = str(subject_named(function, run.config, "audit mechanism"))
    options = merged(run.config, {**given_in(claim, settings), "out": run.out})
    claimed = claim_from(*(options[name] for name in ("epsilon", "delta", "rho", "mu")))
    asked = settings_of(MechanismSettings, {**options, "claim": claimed})
    tested, pairs = load_callable(reference), _pairs(options, asked.relation)
    title = reference.rpartition(":")[2]
    name = digest(code_of(tested, pairs, reference), repr(asked))
    # The claim is a rule too, and was fixed before the run like any other.
    rules = [*(options["gate"] or ()), *map(str, asked.claimed())]
    command = {"command": "audit mechanism", "target": reference, **options, "gate": rules}
    subject = Subject(
        title,
        name,
        lambda _, progress: audit_mechanism(tested, pairs, asked, name=title, say=progress.say),
    )
    return audited(subject, command, run)


def _pairs(options: Mapping[str, Any], relation: str) -> list[Pair]:
    own = options["neighbours"]
    made = [name for name in ("bounds", "size", "beyond") if options[name] is not None]
    if own is not None and made:
        raise InputError(f"--neighbours and --{made[0]} both name inputs; give one of them.")
    if own is not None:
        return users_pairs(load_callable(own), own)
    if options["bounds"] is None:
        raise InputError(
            "lethe audit mechanism needs inputs: --bounds LOW,HIGH for a mechanism on a vector of "
            "numbers, or --neighbours file.py:name."
        )
    low, high = _ends(options["bounds"])
    return standard_pairs(low, high, options["size"] or 10, relation, bool(options["beyond"]))


def _ends(text: Any) -> tuple[float, float]:
    parts = text.split(",") if isinstance(text, str) else list(text)
    try:
        low, high = (float(part) for part in parts)
    except (TypeError, ValueError):
        raise InputError(f"bounds={text!r} must be two numbers: --bounds 0,1.") from None
    return low, high
