"""Early stopping: of the epochs that the plain training passes, the best to end it at.

A fixed share of the epochs is a weak comparator: where training goes on for long, a third of it
memorises every record. So the plain shadow models are asked at several epochs on the way, all
stops are compared under one attack, and the best is measured as every other candidate is.

Guarantee: limits of the risk and of the utility loss of the stop that is shown hold although it
    was chosen: they hold for all attacks on all stops at once (Bonferroni).
Assumes: the stops were fixed before the run; the release stops at the epoch that is named and was
    not chosen by what its own attackers saw.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate, Measured
from lethe.evidence.frontier import Candidate, Frontier
from lethe.evidence.guarantee import empirical_only
from lethe.evidence.risk import AttackResult
from lethe.membership.attacks.registry import ATTACKS
from lethe.membership.candidate import loss_among, measure
from lethe.membership.document import EarlyStop, Measurement
from lethe.membership.measure import run_attacks, strongest
from lethe.membership.settings import AuditSettings
from lethe.membership.threads import on_one_thread
from lethe.membership.utility import utility
from lethe.mitigations.obfuscation import BASELINE, EarlyStopping
from lethe.training.shadows import Shadows


def best_stop(
    mitigation: EarlyStopping,
    cut: Callable[[int], Shadows],
    first: Measurement,
    settings: AuditSettings,
    targeted: NDArray[np.float32],
) -> Measurement:
    """Compare all stops, and measure the best with every attack of the audit.

    Args:
        mitigation: its stops.
        cut: the plain shadow models with their training cut after so many epochs.
        first: the baseline's measurement.
        settings: of the audit.
        targeted: (N,) targeted weights of the audit.
    """
    best, stops = compare_stops(mitigation.stops, cut, first, settings)
    chosen = replace(mitigation, chosen=best)
    found = measure(cut(best), chosen, first, settings, targeted=targeted, among=len(stops))
    return replace(found, stops=stops)


@on_one_thread
def compare_stops(
    epochs: Sequence[int],
    cut: Callable[[int], Shadows],
    first: Measurement,
    settings: AuditSettings,
) -> tuple[int, list[EarlyStop]]:
    """All stops under one attack, and the epoch of the best.

    The best is what the audit would recommend if there were nothing but the stops: the lowest risk
    within the allowed utility loss; else the cheapest that at least halves the risk; else the one
    with the smallest utility loss, the later of equal ones. The attack is the strongest on the
    baseline of those that score a record by a formula: learning one anew at every stop would take
    longer than the training.

    Args:
        epochs: the stops.
        cut: the plain shadow models with their training cut after so many epochs.
        first: the baseline's measurement.
        settings: of the audit.
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
    frontier = Frontier([full, *listed], settings.margin)
    best = frontier.operating_point() or frontier.cheapest_large_reduction()
    return (int(best) if best is not None else min(stops, key=_price).epochs), stops


def _candidate(
    name: str, risk: Measured, merit: Estimate | None, loss: Estimate | None
) -> Candidate:
    """A stop on the plane of utility and risk."""
    unknown = Estimate(None, None, None, 0.95, "not provided", 0)
    attacks = [AttackResult("", risk)]
    return Candidate(name, "", {}, merit or unknown, attacks, empirical_only(), loss)


def _price(stop: EarlyStop) -> tuple[float, int]:
    loss = None if stop.utility_loss is None else stop.utility_loss.value
    return (math.inf if loss is None else loss), -stop.epochs
