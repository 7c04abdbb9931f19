"""What the six steps are run with, checked before the first of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.mitigations.pseudo_weights import NEIGHBOURS
from lethe.mitigations.swag import PRECISIONS

WEIGHTINGS = ("target", "linear", "scalar", "bound", "none")
REWEIGHTS = ("raise", "lower")
SAMPLERS = ("swag", "sgld")
BATCH_NORMS = ("refuse", "frozen", "recompute")


@dataclass(frozen=True)
class ReleaseSettings:
    """Numbers of the pseudo-posterior mechanism (Chew et al. 2025, arXiv 2503.21528).

    Attributes:
        epsilon: target of the estimated epsilon, of all released draws together, > 0.
        relation: ``add/remove`` or ``replace-one``; there is no default, since every epsilon
            means another thing under the other relation.
        weighting: ``target`` (form a), ``linear`` (form b), ``scalar`` (form c, the tempered
            posterior), ``bound`` (one weight from the loss bound alone, so that no data enter
            it; needs `floor`), or ``none``.
        linear: scale and shift of form b.
        floor: m in (0, 1): the training loss itself is -log((1 - m) p + m / C), at most
            ln(C / m). None leaves the loss without a bound.
        fit_epochs: passes of step 2.
        refit_epochs: passes of step 5.
        swag_epochs: passes of steps 3 and 6, each with one collection; >= 2.
        rate: learning rate of steps 2 and 5, > 0.
        swag_rate: constant learning rate of steps 3 and 6, >= `rate`.
        momentum: of SGD, in [0, 1); 0 for the ``sgld`` sampler.
        weight_decay: Gaussian prior of precision weight_decay x records, >= 0.
        batch_size: records a step aimed at.
        rank: deviations that SWAG keeps.
        scale: of SWAG's covariance; 1/2 is its authors'.
        draws: S of step 4, which give the risks.
        final_draws: S' of step 6, which give the epsilon; it grows with them.
        rounds: how often the weights are changed after step 6 and steps 5 and 6 repeated.
        reweight: ``raise`` gives weight back to over-protected records, at the same epsilon on
            the same draws (arXiv 2006.01230); ``lower`` takes weight from those that are above
            the target on the final draws, until none is.
        below: k of `lethe.mitigations.pseudo_weights.raise_weights`.
        releases: draws that may ever leave; the epsilon is for all together.
        scales: scales of the draw at which the epsilon is measured again; empty for none.
        batch_norm: ``refuse``; ``frozen``: running statistics stay as they are given, in training
            too; ``recompute``: on the private records, which voids every claim.
        precision: of SWAG's deviations, ``full`` or ``bfloat16``.
        sampler: ``swag``, or ``sgld`` (Welling and Teh 2011) as comparator.
    """

    epsilon: float
    relation: str
    weighting: str = "target"
    linear: tuple[float, float] = (1.0, 0.0)
    floor: float | None = None
    fit_epochs: int = 10
    refit_epochs: int = 10
    swag_epochs: int = 20
    rate: float = 0.01
    swag_rate: float = 0.05
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch_size: int = 32
    rank: int = 20
    scale: float = 0.5
    draws: int = 20
    final_draws: int = 20
    rounds: int = 0
    reweight: str = "raise"
    below: float = 0.95
    releases: int = 1
    scales: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0)
    batch_norm: str = "refuse"
    precision: str = "full"
    sampler: str = "swag"

    def __post_init__(self) -> None:
        for name in ("epsilon", "rate", "swag_rate", "scale"):
            check_between(name, getattr(self, name), 0, math.inf, open_low=True, open_high=True)
        for scale in self.scales:
            check_between("scales", scale, 0, math.inf, open_low=True, open_high=True)
        check_choice("relation", self.relation, NEIGHBOURS)
        check_choice("weighting", self.weighting, WEIGHTINGS)
        check_choice("reweight", self.reweight, REWEIGHTS)
        check_choice("batch_norm", self.batch_norm, BATCH_NORMS)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("sampler", self.sampler, SAMPLERS)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_between("weight_decay", self.weight_decay, 0, math.inf, open_high=True)
        check_between("below", self.below, 0, 1, open_low=True, open_high=True)
        for name, low in _WHOLE.items():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise InputError(f"{name}={value!r} must be a whole number.")
            check_at_least(name, value, low)
        if self.floor is not None:
            check_between("floor", self.floor, 0, 1, open_low=True, open_high=True)
        if self.weighting == "bound" and self.floor is None:
            raise InputError(
                "weighting='bound' needs a bounded loss, and floor=None leaves it without one; "
                "set floor=, such as 0.01."
            )
        if self.swag_rate < self.rate:
            raise InputError(
                f"swag_rate={self.swag_rate!r} must be at least rate={self.rate!r}: the draws "
                "would lie almost on one point."
            )
        if self.sampler == "sgld":
            self._check_sgld()

    def _check_sgld(self) -> None:
        if self.momentum != 0:
            raise InputError(f"sampler='sgld' needs momentum=0, got {self.momentum!r}.")
        for name in ("draws", "final_draws", "releases"):
            if getattr(self, name) > self.swag_epochs:
                raise InputError(
                    f"sampler='sgld' has one draw an epoch: {name}={getattr(self, name)} must be "
                    f"at most swag_epochs={self.swag_epochs}."
                )


_WHOLE = {
    "fit_epochs": 0,
    "refit_epochs": 0,
    "swag_epochs": 2,
    "batch_size": 1,
    "rank": 1,
    "draws": 1,
    "final_draws": 1,
    "rounds": 0,
    "releases": 1,
}
