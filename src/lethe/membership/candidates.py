"""The candidates of an audit: its mitigations, and the measurements on each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_choice
from lethe.evidence.document import NotRun
from lethe.evidence.estimate import Estimate, Measured, Refusal
from lethe.evidence.frontier import Candidate, Frontier
from lethe.evidence.guarantee import empirical_only
from lethe.evidence.of_model import EarlyStop, Moved
from lethe.evidence.risk import AttackResult, family_confidence
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.checks import self_checked
from lethe.membership.document import Measurement, moved_words
from lethe.membership.exposure import expose, mean_change
from lethe.membership.measure import (
    labelled_as_family,
    risk_change,
    risk_rate,
    run_attacks,
    strongest,
    strongest_metric,
)
from lethe.membership.records import newly_exposed
from lethe.membership.settings import AuditSettings
from lethe.membership.utility import drift, train_utility, utility, utility_loss, utility_name
from lethe.mitigations.mitigation import (
    BASELINE,
    DRAWS,
    MITIGATIONS,
    PRIVATE,
    STANDARD,
    Asked,
    Comparator,
    EarlyStopping,
    Mitigation,
    build,
)
from lethe.training.batches import stop_epochs
from lethe.training.environment import on_one_thread
from lethe.training.recipe import Recipe, TorchRecipe
from lethe.training.shadows import Shadows

NAMES = tuple(MITIGATIONS)
"""Names for `mitigations`; each private one makes a candidate for each epsilon."""

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
) -> tuple[list[Mitigation], list[NotRun]]:
    """Candidates that can be trained, the baseline first, and those that cannot, with reasons.

    Args:
        recipe: how one model is trained.
        extra: further candidates, built by the caller.
        public: function that returns (N,) weights independent of private records, for
            ``individual-dp``; None to get only names and refusals.

    Without names all standard mitigations are candidates, and the private ones whose epsilon is
    given; ``all`` adds everything that the recipe supports.

    Raises InputError: an unknown name in `mitigations`, a named one that the recipe cannot carry,
        or one whose target is given, a target that no named one uses, or a `release` that is not
        built.
    """
    names = settings.mitigations
    for name in names or ():
        check_choice("mitigation", name, [*NAMES, "all", "none"])
    _check_used(settings)
    named = _implied(settings) if names is None else names
    built: list[Mitigation] = [BASELINE]
    skipped: list[NotRun] = []
    for name in _wanted(settings):
        missing = _missing(name, settings, recipe)
        made: list[Mitigation] = []
        if not missing:
            weights = public() if public is not None and name == "individual-dp" else _UNKNOWN
            made = build(name, Asked.of(settings, recipe, weights))
        reasons = [missing] if missing else []
        for mitigation in made:
            if mitigation.settings.get("noise") == 0.0:
                continue
            at_a_bound = getattr(mitigation, "at_a_bound", None)
            bound = None if public is None or at_a_bound is None else at_a_bound()
            if bound is not None:
                skipped.append(NotRun(mitigation.name, bound))
                continue
            reason = _refused(mitigation, recipe)
            if reason is None:
                built.append(mitigation)
            else:
                reasons.append(reason)
        if reasons and name in named:
            raise InputError(f"mitigation {name!r}: {reasons[0]}.")
        skipped += [NotRun(name, reason) for reason in reasons[:1]]
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
    """Refuse a privacy target that no candidate uses."""
    names = settings.mitigations
    if names is None or names == ("all",):
        return
    for is_set, name, kinds in (
        (bool(settings.epsilon), "epsilon", PRIVATE),
        (settings.local_epsilon is not None, "local-epsilon", DRAWS),
    ):
        if is_set and not set(kinds) & set(names):
            raise InputError(
                f"--{name} is given, and no candidate of --mitigations uses it: add {kinds[0]}, "
                f"or leave --{name} out."
            )


def _wanted(settings: AuditSettings) -> tuple[str, ...]:
    names = settings.mitigations
    if names == ("all",):
        return NAMES
    if names is not None:
        return tuple(name for name in NAMES if name in names)
    return (*STANDARD, *_implied(settings))


def _implied(settings: AuditSettings) -> tuple[str, ...]:
    """Mitigations that the given privacy targets imply."""
    private = PRIVATE[:1] if settings.epsilon else ()
    drawn = DRAWS[:1] if settings.local_epsilon is not None else ()
    return (*private, *drawn)


def _missing(name: str, settings: AuditSettings, recipe: Recipe) -> str:
    """What the settings or the recipe lack for a mitigation; empty if nothing."""
    private = name in PRIVATE and not settings.epsilon
    drawn = name in DRAWS and settings.local_epsilon is None
    if private or drawn:
        return _HOW[name]
    if name == "early-stopping" and isinstance(recipe, TorchRecipe) and recipe.epochs == 1:
        return "a training of one epoch has no earlier stop"
    return _NO_TORCH if name in PRIVATE and not isinstance(recipe, TorchRecipe) else ""


def stops_asked(settings: AuditSettings, recipe: Recipe) -> tuple[int, ...]:
    """Epochs at which the plain models are evaluated in training; none without early stopping."""
    if not isinstance(recipe, TorchRecipe) or "early-stopping" not in _wanted(settings):
        return ()
    return stop_epochs(recipe.epochs)


# Measurements on a candidate: attacks, exposure, utility, self-checks.


@on_one_thread
def measure(
    shadows: Shadows,
    mitigation: Mitigation,
    before: Measurement | None,
    settings: AuditSettings,
    applied: NDArray[np.float32] | None = None,
    targets: Shadows | None = None,
    among: int = 1,
) -> Measurement:
    """Measure a candidate: attacks, exposure, utility, self-checks.

    Args:
        before: the baseline's measurement, for paired differences; None for the baseline.
        applied: (N,) weights that this candidate trained with, if any.
        targets: models to attack instead of each shadow model in turn.
        among: number of releases that this one was chosen from by its results; the limits of its
            risk, utility loss and change of risk hold for all of them at once.
    """
    confidence = settings.confidence
    results = run_attacks(
        shadows,
        settings.attacks(Available.of(shadows)),
        settings.fprs(),
        confidence,
        settings.variance,
        settings.seed,
        targets,
        among,
    )
    fpr = risk_rate(shadows, targets)
    mitigated = mitigation != BASELINE
    how = fpr, settings.variance, settings.seed, mitigated
    results, checks, planted = self_checked(shadows, targets, results, *how)
    best = strongest(results, fpr)
    exposure = expose(shadows, confidence=confidence)
    moved = None
    if before is not None:
        chosen = before.exposure.selected
        others = np.setdiff1d(np.arange(shadows.records), () if chosen is None else chosen)
        t = before.exposure.all_models.t[others], exposure.all_models.t[others]
        others = others[np.isfinite(t[0]) & np.isfinite(t[1])]
        if len(others) and shadows.models >= 6:
            shift = mean_change(shadows, before.shadows, others, confidence)
            newly = newly_exposed(exposure.all_models, before.exposure.all_models, others)
            moved = Moved(len(others), shift, newly, moved_words(shift, newly, len(others)))
    level = family_confidence(confidence, among)
    change = None if before is None else risk_change(results, before.results, fpr, level)
    return Measurement(
        mitigation=mitigation,
        shadows=shadows,
        results=results,
        risk_fpr=fpr,
        best=best,
        exposure=exposure,
        checks=checks,
        plants=planted,
        utility=utility(shadows, confidence),
        train_utility=train_utility(shadows, confidence),
        drift=drift(shadows, confidence),
        risk=strongest_metric(results, fpr),
        utility_loss=None if before is None else loss_among(shadows, before, confidence, among),
        risk_change=change and labelled_as_family(change, confidence, among, "stops"),
        moved=moved,
        weights=applied,
        before=before,
        among=among,
    )


def loss_among(
    shadows: Shadows, before: Measurement, confidence: float, among: int
) -> Estimate | None:
    """The utility loss, with limits that hold for `among` releases at once (Bonferroni)."""
    level = family_confidence(confidence, among)
    loss = utility_loss(shadows, before.shadows, level)
    return None if loss is None else labelled_as_family(loss, confidence, among, "stops")


def with_views(measured: Sequence[Measurement]) -> list[Measurement]:
    """Add to candidates with full answers the results of attacks on limited answers, as views.

    An attacker with probabilities can round or flatten them or take their labels, so an attack on
    these attacks the release. A temperature can be undone; rounding and bare labels cannot.
    """
    limited = {
        row.name: row.results
        for row in measured
        if isinstance(row.mitigation, Comparator) and row.mitigation.answers_only
    }
    full = {row.name for row in measured if row.mitigation == BASELINE} | {"temperature"}
    shared = sum(map(len, limited.values())) + len(measured[0].results) * bool(limited)
    listed = []
    for row in measured:
        views = {name: results for name, results in limited.items() if row.name in full - {name}}
        # Limits on a view and on the full release hold at once; else the narrower limits of the
        # view alone could lie above those of the release.
        family = shared if row.name in full | {*limited} else 0
        risk = strongest_metric(row.results, row.risk_fpr, views, family)
        seen = [other.groups for other in measured if other.name in views]
        groups = {
            name: _at_least(rate, [part[name] for part in seen if name in part])
            for name, rate in row.groups.items()
        }
        listed.append(replace(row, views=views, family=family, risk=risk, groups=groups))
    return listed


def _at_least(rate: Measured, views: Sequence[Measured]) -> Measured:
    """Raise value and upper limit of a release to at least those of its views."""
    for view in views:
        if isinstance(rate, Refusal) or isinstance(view, Refusal):
            return rate if isinstance(rate, Refusal) else view
        known = [limit for limit in (rate.value, view.value) if limit is not None]
        highs = (rate.high, view.high)
        high = None if None in highs else max(limit for limit in highs if limit is not None)
        rate = replace(rate, value=max(known, default=None), high=high)
    return rate


def headline(measured: Measurement) -> str:
    """Line on the baseline, shown before anything else is trained."""
    where = "AUC" if measured.risk_fpr is None else f"TPR at {measured.risk_fpr:g} FPR"
    name = utility_name(measured.shadows.task)
    merit = "" if measured.utility is None else f", {name} {measured.utility}"
    if measured.drift is not None:
        merit += f"; on random records {measured.drift.near}"
    return f"baseline: {where} {measured.risk} ({measured.best}){merit}"


# Early stopping: of the epochs that the plain training passes, the best to end it at.
#
# A fixed share of the epochs is a weak comparator: where training goes on for long, a third of it
# memorises every record. So the plain shadow models are asked at several epochs on the way, all
# stops are compared under one attack, and the best is measured as every other candidate is.
#
# Guarantee: limits of the risk and of the utility loss of the stop that is shown hold although it
#     was chosen: they hold for all attacks on all stops at once (Bonferroni).
# Assumes: the stops were fixed before the run; the release stops at the epoch that is named and was
#     not chosen by what its own attackers saw.


def best_stop(
    mitigation: EarlyStopping,
    cut: Callable[[int], Shadows],
    first: Measurement,
    settings: AuditSettings,
) -> Measurement:
    """Compare all stops, and measure the best with every attack of the audit.

    Args:
        cut: function of a number of epochs: the plain shadow models stopped there.
    """
    best, stops = compare_stops(mitigation.stops, cut, first, settings)
    chosen = replace(mitigation, chosen=best)
    result = measure(cut(best), chosen, first, settings, among=len(stops))
    return replace(result, stops=stops)


@on_one_thread
def compare_stops(
    epochs: Sequence[int],
    cut: Callable[[int], Shadows],
    first: Measurement,
    settings: AuditSettings,
) -> tuple[int, list[EarlyStop]]:
    """Measure all stops with a single attack, and return the epoch of the best.

    The best has the lowest risk within the allowed utility loss; else the smallest loss of those
    that at least halve the risk; else the smallest loss, the later of equal ones. The attack is the
    strongest on the baseline among those that score by a formula.

    Args:
        cut: the plain shadow models with their training cut after so many epochs.
    """
    by_formula = {
        name: result for name, result in first.results.items() if ATTACKS[name].by_formula
    }
    fpr, among, confidence = first.risk_fpr, len(epochs), settings.confidence

    def attacked(shadows: Shadows, attack: str, among: int) -> Measured:
        tried = (attack,), settings.fprs(), confidence, settings.variance, settings.seed
        return run_attacks(shadows, *tried, among=among)[attack].metric(fpr)

    attack = strongest(by_formula, fpr) if by_formula else "lira-online"
    before = by_formula[attack].metric(fpr) if by_formula else attacked(first.shadows, attack, 1)
    stops = []
    for stop in epochs:
        shadows = cut(stop)
        stops.append(
            EarlyStop(
                stop,
                attack,
                attacked(shadows, attack, among),
                utility(shadows, confidence),
                loss_among(shadows, first, confidence, among),
            )
        )
    full = _candidate(BASELINE.name, before, first.utility, None)
    listed = [_candidate(str(s.epochs), s.risk, s.utility, s.utility_loss) for s in stops]
    everyone = frozenset(option.name for option in listed)
    frontier = Frontier([full, *listed], settings.margin, everyone)
    best = frontier.operating_point() or frontier.cheapest_large_reduction()
    return (int(best) if best is not None else min(stops, key=_price).epochs), stops


def _candidate(
    name: str, risk: Measured, merit: Estimate | None, loss: Estimate | None
) -> Candidate:
    """A stop as a candidate of the frontier."""
    unknown = Estimate(None, None, None, 0.95, "not provided", 0)
    attacks = [AttackResult("", risk)]
    return Candidate(name, "", {}, merit or unknown, attacks, empirical_only(), loss)


def _price(stop: EarlyStop) -> tuple[float, int]:
    loss = None if stop.utility_loss is None else stop.utility_loss.value
    return (math.inf if loss is None else loss), -stop.epochs
