"""Everything that is measured on one candidate: attacks, exposure, utility, self-checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import family_confidence
from lethe.membership.attacks.attack import Available
from lethe.membership.checks import self_checked
from lethe.membership.document import Measurement
from lethe.membership.exposure import expose, mean_change, newly_exposed
from lethe.membership.measure import (
    risk_change,
    risk_rate,
    run_attacks,
    strongest,
    strongest_metric,
)
from lethe.membership.settings import AuditSettings
from lethe.membership.threads import on_one_thread
from lethe.membership.utility import train_utility, utility, utility_loss, utility_name
from lethe.mitigations.mitigation import Mitigation
from lethe.training.shadows import Shadows


@on_one_thread
def measure(
    shadows: Shadows,
    mitigation: Mitigation,
    before: Measurement | None,
    settings: AuditSettings,
    applied: NDArray[np.float32] | None = None,
    targeted: NDArray[np.float32] | None = None,
    targets: Shadows | None = None,
    among: int = 1,
) -> Measurement:
    """Everything that is measured on one candidate.

    Args:
        shadows: its shadow models.
        mitigation: what it is.
        before: the baseline's measurement, for paired differences; None for the baseline.
        settings: of the audit.
        applied: (N,) weights that this candidate trained with, if any.
        targeted: (N,) targeted weights of the audit, if any.
        targets: models to attack if these are not the shadow models in turn.
        among: releases that this one was chosen from for what it showed; the limits of its risk,
            of its utility loss and of its change of risk hold for all of them at once.
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
    results, checks = self_checked(shadows, results, fpr, settings.seed)
    best = strongest(results, fpr)
    exposure = expose(shadows, confidence=confidence)
    moved = None
    if before is not None:
        chosen = before.exposure.selected
        others = np.setdiff1d(np.arange(shadows.records), () if chosen is None else chosen)
        t = before.exposure.all_models.t[others], exposure.all_models.t[others]
        others = others[np.isfinite(t[0]) & np.isfinite(t[1])]
        if len(others) and shadows.models >= 6:
            moved = (
                mean_change(shadows, before.shadows, others, confidence),
                newly_exposed(exposure.all_models, before.exposure.all_models, others),
                len(others),
            )
    return Measurement(
        mitigation=mitigation,
        shadows=shadows,
        results=results,
        risk_fpr=fpr,
        best=best,
        exposure=exposure,
        checks=checks,
        utility=utility(shadows, confidence),
        train_utility=train_utility(shadows, confidence),
        risk=strongest_metric(results, fpr),
        utility_loss=None if before is None else loss_among(shadows, before, confidence, among),
        risk_change=None
        if before is None
        else _at_once(
            risk_change(results, before.results, fpr, family_confidence(confidence, among)),
            confidence,
            among,
        ),
        moved=moved,
        weights=applied,
        targeted=targeted,
        before=before,
        among=among,
    )


def loss_among(
    shadows: Shadows, before: Measurement, confidence: float, among: int
) -> Estimate | None:
    """The utility loss, with limits that hold for `among` releases at once (Bonferroni)."""
    level = family_confidence(confidence, among)
    return _at_once(utility_loss(shadows, before.shadows, level), confidence, among)


def _at_once(estimate: Estimate | None, confidence: float, among: int) -> Estimate | None:
    if estimate is None or among == 1:
        return estimate
    method = f"{estimate.method}; Bonferroni over {among} stops"
    return replace(estimate, confidence=confidence, method=method)


def headline(measured: Measurement, settings: AuditSettings) -> str:
    """The baseline in one line, on screen before anything else is trained."""
    where = "AUC" if measured.risk_fpr is None else f"TPR at {measured.risk_fpr:g} FPR"
    name = utility_name(measured.shadows.task)
    merit = "" if measured.utility is None else f", {name} {measured.utility}"
    return f"baseline: {where} {measured.risk} ({measured.best}){merit}"
