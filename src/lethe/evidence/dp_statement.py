"""Turn a DP-SGD training that ran into its strongest `Guarantee`: epsilon becomes a claim here.

The claim weakens by itself: from ``individual-dp`` to ``approx-dp``, to an epsilon without
amplification where batches were not drawn by Poisson sampling, to ``empirical-only`` where nothing
is proven.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.accounting import (
    SAMPLINGS,
    Float,
    check_weights,
    dp_sgd_epsilon,
    epochs_of,
    individual_epsilons,
    steps_per_epoch,
)
from lethe.evidence.guarantee import Guarantee, check_given_delta, empirical_only, from_seeded_noise

TUNING = ("none", "public", "counted", "uncounted")
SOURCES = ("public", "private")
SEEDS = ("secret", "given")
_ROUNDING = 1e-12  # 1/49 times 49 is a little below 1


@dataclass(frozen=True, eq=False)
class DpSgdRun:
    """A training as it ran, recorded by the trainer (`dp_statement` checks the values).

    Attributes:
        noise_multiplier: sd of the noise on the sum / clipping bound, >= 0; 0 proves nothing.
        sampling_rate: in (0, 1].
        steps: noisy steps of one training, >= 1.
        delta: in (0, 1); at 1 / records or above nothing is claimed.
        records: units in the training data, >= 1.
        sensitivity: largest norm of one unit's part in the sum / clipping bound, as checked.
        relation: ``add/remove`` or ``replace-one``.
        sampling: of `SAMPLINGS`, or a word for another sampler, which proves nothing.
        unit: ``record`` or ``user``: what was clipped and sampled as one.
        tuning: how settings were chosen: ``none`` (fixed in advance), ``public`` (on other data),
            ``counted`` (on the private data, all `runs` charged) or ``uncounted``.
        runs: trainings on the private data that are charged, >= 1.
        batch_norm: whether a layer mixes the records of a batch.
        weights: (records,) factors of the clipped gradients in [0, 1], or None for 1.
        weights_from: ``public`` (or held-out) or ``private`` data.
        noise_seed: ``secret`` (128 drawn bits or more, handed to nobody) or ``given``, as in an
            audit, whose label is then for a training anew.
    """

    noise_multiplier: float
    sampling_rate: float
    steps: int
    delta: float | None
    records: int
    sensitivity: float
    relation: str = "add/remove"
    sampling: str = "poisson"
    unit: str = "record"
    tuning: str = "none"
    runs: int = 1
    batch_norm: bool = False
    weights: ArrayLike | None = None
    weights_from: str = "public"
    noise_seed: str = "secret"


@dataclass(frozen=True, eq=False)
class DpStatement:
    """A guarantee, why it is no stronger, and the epsilon of each record where there is one.

    Attributes:
        dropped: a sentence for each broken condition; empty if none was broken.
    """

    guarantee: Guarantee  # the strongest that the training has earned
    dropped: tuple[str, ...] = ()
    epsilons: Float | None = None  # (records,) for ``individual-dp``, else None

    def __str__(self) -> str:
        claimed = self.guarantee
        reasons = "".join(f"; {reason}" for reason in self.dropped)
        if not claimed.proven:
            return f"{claimed.kind}: no epsilon is proven{reasons}"
        epsilon, delta = claimed.parameters["epsilon"], claimed.parameters["delta"]
        most = " at most" if self.epsilons is not None else ""
        claim = f"epsilon ={most} {epsilon:.4g} at delta = {delta:g}"
        return f"{claimed.kind}: {claim}, {claimed.relation}, per {claimed.unit}{reasons}"


def dp_statement(run: DpSgdRun) -> DpStatement:
    """Find the strongest guarantee that a training has earned, and why it is no stronger.

    Args:
        run: the training as it ran, above all its sampler.

    Returns:
        ``individual-dp`` with an epsilon for each record if there are weights, ``approx-dp`` with
        one for all, or ``empirical-only`` without any.

    Guarantee:
        Where the kind is proven, its (epsilon, delta) is an upper bound under the assumptions that
        it lists.

    Assumes:
        The description of the run is correct; nothing here can verify it.

    Raises:
        InputError: a value outside its range, delta not given, or weights not in [0, 1].

    >>> run = DpSgdRun(1.0, 0.01, 1000, 1e-5, records=5000, sensitivity=1.0)
    >>> print(dp_statement(run))
    approx-dp: epsilon = 1.828 at delta = 1e-05, add/remove, per record
    """
    delta = _check(run)
    weights = None if run.weights is None else check_weights(run.weights)
    if weights is not None and len(weights) != run.records:
        raise InputError(
            f"{len(weights)} weights do not fit records={run.records}: give one for each record."
        )
    ended = _what_ends_it(run, delta)
    if ended:
        label = empirical_only(voided_by=ended)
        if run.noise_multiplier > 0:
            label = from_seeded_noise(label, given=run.noise_seed == "given")
        return DpStatement(label, ended)
    steps = run.steps
    if run.sampling == "shuffled":
        # Each run has its own last epoch, which a record may meet however short it was cut.
        steps = epochs_of(run.steps, run.sampling_rate) * steps_per_epoch(run.sampling_rate)
    weaker = _lost(run)
    largest = 1.0 if weights is None else float(weights.max())
    parameters = {
        "delta": delta,
        "noise_multiplier": float(run.noise_multiplier),
        "sampling_rate": float(run.sampling_rate),
        "steps": float(run.steps),
        "runs": float(run.runs),
        "sensitivity": float(run.sensitivity),
    }
    if weights is not None and _each_record(run):
        epsilons = individual_epsilons(
            weights,
            noise_multiplier=run.noise_multiplier,
            sampling_rate=run.sampling_rate,
            steps=steps * run.runs,
            delta=delta,
            sensitivity=run.sensitivity,
            relation=run.relation,
            sampling=run.sampling,
        )
        spread = {
            "epsilon": float(epsilons.max()),
            "epsilon_median": float(np.median(epsilons)),
            "epsilon_min": float(epsilons.min()),
        }
        parameters = spread | parameters
        return DpStatement(_proven("individual-dp", parameters, run), weaker, epsilons)
    epsilon = dp_sgd_epsilon(
        noise_multiplier=run.noise_multiplier,
        sampling_rate=run.sampling_rate,
        steps=steps * run.runs,
        delta=delta,
        sensitivity=run.sensitivity * (largest or 1.0),
        relation=run.relation,
        sampling=run.sampling,
    )
    return DpStatement(_proven("approx-dp", {"epsilon": epsilon} | parameters, run), weaker)


def _each_record(run: DpSgdRun) -> bool:
    """Whether weights give each record its own epsilon."""
    return run.sampling == "poisson" or run.relation != "add/remove"


def _lost(run: DpSgdRun) -> tuple[str, ...]:
    """Reasons why the claim is weaker than it could be."""
    reasons = []
    if run.sampling != "poisson":
        reasons.append(
            f"batches were {run.sampling}, not drawn by Poisson sampling: "
            "epsilon stands without amplification"
        )
    if run.weights is not None and not _each_record(run):
        reasons.append(
            "the gap of a removed record is filled by another of another weight: "
            "no epsilon of single records"
        )
    return tuple(reasons)


def _check(run: DpSgdRun) -> float:
    check_at_least("records", run.records, 1)
    check_at_least("runs", run.runs, 1)
    check_at_least("steps", run.steps, 1)
    check_at_least("noise_multiplier", run.noise_multiplier, 0)
    check_choice("tuning", run.tuning, TUNING)
    check_choice("weights_from", run.weights_from, SOURCES)
    check_choice("noise_seed", run.noise_seed, SEEDS)
    check_choice("unit", run.unit, ("record", "user"))
    check_between("sampling_rate", run.sampling_rate, 0, 1, open_low=True)
    return check_given_delta(run.delta)


def _what_ends_it(run: DpSgdRun, delta: float) -> tuple[str, ...]:
    """The conditions without which no epsilon is proven, as far as they are broken."""
    ended = {
        "no noise was added": run.noise_multiplier == 0,
        f"the sampler was {run.sampling!r}, for which no bound is known here": (
            run.sampling not in SAMPLINGS
        ),
        f"delta = {delta:g} is not below 1/{run.records}: "
        "releasing one record as it is would pass": delta * run.records >= 1 - _ROUNDING,
        "the weights came from private data: another record changes the weights of all": (
            run.weights is not None and run.weights_from == "private"
        ),
        "settings were tuned on the private data and those trainings are not counted": (
            run.tuning == "uncounted"
        ),
        "batch normalisation mixes records: one record moves the gradients of others": (
            run.batch_norm
        ),
    }
    return tuple(reason for reason, broken in ended.items() if broken)


def _proven(kind: str, parameters: dict[str, float], run: DpSgdRun) -> Guarantee:
    clipped = (
        f"each {run.unit}'s part of a sum is clipped as one to {run.sensitivity:g} times the bound"
    )
    drawn = {
        "poisson": f"each {run.unit} enters each batch by its own coin",
        "shuffled": "each epoch is one random order, all its batches are used, "
        "and the number of steps does not depend on the data",
        "fixed-size": "each batch is drawn anew without replacement, of one size",
    }[run.sampling]
    assumed = [
        clipped,
        drawn,
        "sums are divided by a number that does not depend on the batch drawn",
        "initial parameters and preprocessing do not depend on the private data",
    ]
    if run.relation == "add/remove":
        assumed.append(public_count(run.unit))
    if run.weights is not None:
        assumed.append(
            f"the weight of a {run.unit} is at most 1, a function of it and of public data alone"
        )
        if run.relation == "replace-one":
            assumed.append(f"the {run.unit} put in another's place has the same weight")
    if run.tuning == "counted":
        assumed.append(
            f"the {run.runs} trainings charged had at least this noise and no more steps"
        )
    elif run.tuning == "public":
        assumed.append("settings were chosen on other data")
    else:
        assumed.append("settings were fixed in advance, not by how they did on these data")
    voided = (
        "another sampler, a skipped or weighted batch, or an early stop chosen on private data",
        "a layer that mixes records, a parameter outside the clipping",
        "a choice among several trainings by how they did on the private data",
        "further releases from the same data, which add up",
    )
    label = Guarantee(kind, parameters, run.relation, run.unit, tuple(assumed), voided)
    return from_seeded_noise(label, given=run.noise_seed == "given")


def public_count(unit: str) -> str:
    """Assumption of add/remove adjacency about settings that depend on the size of the data."""
    return (
        f"the number of {unit}s is public, although one more or fewer is a neighbour: "
        "the sampling rate, the steps, the noise and the divisor of sums may follow from it"
    )
