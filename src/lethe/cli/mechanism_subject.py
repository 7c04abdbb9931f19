"""The mechanism that `lethe audit mechanism` is told to run, and on which inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lethe.cli.options import settings_of
from lethe.errors import InputError
from lethe.queries.mechanism_audit.audit import code_of
from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs, users_pairs
from lethe.queries.mechanism_audit.settings import MechanismSettings, claim_from
from lethe.training.fingerprint import digest
from lethe.training.models import load_callable


@dataclass(frozen=True, eq=False)
class Subject:
    """One audit that is ready to run.

    Attributes:
        title: name of the mechanism.
        name: what the run is bound to: code, inputs and settings.
        mechanism: the user's function.
        pairs: neighbouring inputs.
        settings: of the audit.
    """

    title: str
    name: str
    mechanism: Callable[..., Any]
    pairs: list[Pair]
    settings: MechanismSettings


def subject_of(reference: str, options: Mapping[str, Any]) -> Subject:
    """Load the mechanism and its inputs.

    Args:
        reference: ``file.py:name`` or ``package.module:name``.
        options: of the command, merged.

    Raises:
        InputError: no such function, several claims, or neither bounds nor neighbours.
    """
    claim = claim_from(*(options[name] for name in ("epsilon", "delta", "rho", "mu")))
    settings = settings_of(MechanismSettings, {**options, "claim": claim}, ("gate",))
    function = load_callable(reference)
    pairs = _pairs(options, settings.relation)
    title = reference.rpartition(":")[2]
    code = code_of(function, pairs, reference)
    name = digest(code, repr(settings))
    return Subject(title, name, function, pairs, settings)


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
