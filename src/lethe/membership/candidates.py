"""Which mitigations an audit can put on the frontier, and which of them were asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.membership.settings import AuditSettings
from lethe.mitigations.mitigation import (
    DRAWS,
    MITIGATIONS,
    PRIVATE,
    STANDARD,
    Asked,
    Mitigation,
    build,
)
from lethe.mitigations.obfuscation import BASELINE
from lethe.training.batches import stop_epochs
from lethe.training.recipe import Recipe, TorchRecipe

NAMES = tuple(MITIGATIONS)
"""What `mitigations` may name; the private ones stand for one candidate an epsilon."""

_UNKNOWN = np.ones(1, np.float32)
_HOW = {
    **dict.fromkeys(PRIVATE, "needs --epsilon and --delta, such as --epsilon 8 --delta 1e-5"),
    **dict.fromkeys(DRAWS, "needs --local-epsilon, such as --local-epsilon 4"),
}


_NO_TORCH = (
    "differentially private training needs a torch recipe: it clips the gradient of each record. "
    "Leave --epsilon out, or give TorchRecipe(...)"
)

PublicWeights = Callable[[], NDArray[np.float32]]


def build_candidates(
    settings: AuditSettings,
    recipe: Recipe,
    extra: Sequence[Mitigation] = (),
    public: PublicWeights | None = None,
) -> tuple[list[Mitigation], list[dict[str, str]]]:
    """Candidates that can be trained, the baseline first, and those that cannot, with why.

    Args:
        recipe: how one model is trained.
        extra: further candidates, built by the caller.
        public: (N,) weights that no private record decides, for ``individual-dp``; None where
            only names and refusals are asked for.

    Without names all standard mitigations are offered, and the private ones whose epsilon is
    given; ``all`` offers everything that the recipe can carry.

    Raises InputError: an unknown name in `mitigations`, a named one that the recipe cannot carry,
        or one whose target is given, a target that no named one uses, or a `release` that is not
        built.
    """
    asked = settings.mitigations
    for name in asked or ():
        check_choice("mitigation", name, [*NAMES, "all", "none"])
    _check_used(settings)
    named = _implied(settings) if asked is None else asked
    built: list[Mitigation] = [BASELINE]
    skipped: list[dict[str, str]] = []
    for name in _wanted(settings):
        missing = _missing(name, settings, recipe)
        made: list[Mitigation] = []
        if not missing:
            weights = public() if public is not None and name == "individual-dp" else _UNKNOWN
            made = build(name, Asked(settings, recipe, weights))
        reasons = [missing] if missing else []
        for mitigation in made:
            if mitigation.settings.get("noise") == 0.0:
                continue
            told = getattr(mitigation, "at_a_bound", None)
            bound = None if public is None or told is None else told()
            if bound is not None:
                skipped.append({"name": mitigation.name, "why": bound})
                continue
            reason = _refused(mitigation, recipe)
            if reason is None:
                built.append(mitigation)
            else:
                reasons.append(reason)
        if reasons and name in named:
            raise InputError(f"mitigation {name!r}: {reasons[0]}.")
        skipped += [{"name": name, "why": reason} for reason in reasons[:1]]
    for mitigation in extra:
        reason = _refused(mitigation, recipe)
        if reason is not None:
            raise InputError(f"mitigation {mitigation.name!r}: {reason}.")
        built.append(mitigation)
    check_choice("release", settings.release, [mitigation.name for mitigation in built])
    return built, skipped


def _refused(mitigation: Mitigation, recipe: Recipe) -> str | None:
    return recipe.refuses(mitigation.treatment(np.ones(1, np.float32)))


def _check_used(settings: AuditSettings) -> None:
    """Refuse a target that nobody would train for."""
    asked = settings.mitigations
    if asked is None or asked == ("all",):
        return
    for given, name, kinds in (
        (bool(settings.epsilon), "epsilon", PRIVATE),
        (settings.local_epsilon is not None, "local-epsilon", DRAWS),
    ):
        if given and not set(kinds) & set(asked):
            raise InputError(
                f"--{name} is given, and no candidate of --mitigations uses it: add {kinds[0]}, "
                f"or leave --{name} out."
            )


def _wanted(settings: AuditSettings) -> tuple[str, ...]:
    asked = settings.mitigations
    if asked == ("all",):
        return NAMES
    if asked is not None:
        return tuple(name for name in NAMES if name in asked)
    return (*STANDARD, *_implied(settings))


def _implied(settings: AuditSettings) -> tuple[str, ...]:
    """What a target was given for, which is as good as its name."""
    private = PRIVATE[:1] if settings.epsilon else ()
    drawn = DRAWS[:1] if settings.local_epsilon is not None else ()
    return (*private, *drawn)


def _missing(name: str, settings: AuditSettings, recipe: Recipe) -> str:
    """What a mitigation lacks in the settings or the recipe; empty if nothing."""
    private = name in PRIVATE and not settings.epsilon
    drawn = name in DRAWS and settings.local_epsilon is None
    if private or drawn:
        return _HOW[name]
    if name == "early-stopping" and isinstance(recipe, TorchRecipe) and recipe.epochs == 1:
        return "a training of one epoch has no earlier stop"
    return _NO_TORCH if name in PRIVATE and not isinstance(recipe, TorchRecipe) else ""


def stops_asked(settings: AuditSettings, recipe: Recipe) -> tuple[int, ...]:
    """Epochs on the way at which the plain models are asked; none without early stopping."""
    if not isinstance(recipe, TorchRecipe) or "early-stopping" not in _wanted(settings):
        return ()
    return stop_epochs(recipe.epochs)
