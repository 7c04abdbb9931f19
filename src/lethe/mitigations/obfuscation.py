"""Targeted obfuscation (Forgotten by Design 2025, eqs. 8 to 12) and its fair comparators.

theta <- theta - eta * (1/B) * sum_j (w_j g_j + u_j): records that give themselves away count
less, and noise is added to the averaged gradient. Nothing is clipped, and the weights come
from the same private data, so nothing is proven: every form here is `empirical-only`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.guarantee import SEED_KNOWN, Guarantee, empirical_only
from lethe.mitigations.mitigation import Measured
from lethe.training.batches import stop_epochs
from lethe.training.recipe import Treatment

_OF_THIS_AUDIT = "the attacks of this audit, at their budget, on records like these"
_VOIDED_BY = ("a stronger attack", "retraining", "another form of release")

Float = NDArray[np.float64]


def exponential_weights(t: Float, alpha: float, beta: float) -> NDArray[np.float32]:
    """min(e^(-alpha t + beta), 1): eq. 11 of the study.

    Args:
        t: (N,) baseline t-scores; NaN (not scored) gives 1.
        alpha: how fast the weight falls with t, >= 0.
        beta: offset, >= 0; weights start to fall at t = beta/alpha.

    >>> exponential_weights(np.array([0.5, 1.0, 2.0]), 2, 2).round(3).tolist()
    [1.0, 1.0, 0.13500000536441803]
    """
    check_at_least("alpha", alpha, 0)
    check_at_least("beta", beta, 0)
    exponent = (
        np.minimum(-alpha * np.where(np.isnan(t), -np.inf, t) + beta, 0.0)
        if (alpha > 0)
        else np.zeros(len(t))
    )
    return np.exp(exponent).astype(np.float32)


def equal_mean(
    weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
) -> NDArray[np.float32]:
    """One weight for everybody with the same mean: is it who is weighted, or how much?

    The mean is taken over the records of `pool`, which can be members; over all by default.
    """
    counted = weights if pool is None else weights[pool]
    return np.full_like(weights, float(counted.mean(dtype=np.float64)))


def dropped(weights: NDArray[np.float32], below: float = 0.5) -> NDArray[np.float32]:
    """0 for the records that a weighting pushes below a limit, 1 for the others."""
    check_between("below", below, 0, 1)
    return (weights >= below).astype(np.float32)


@dataclass(frozen=True)
class Obfuscation(Measured):
    """One way to train that the audit puts on the frontier."""

    name: str  # unique name of the candidate
    title: str  # what is done, in words
    settings: dict[str, Any]  # its numbers, plain values
    needs_weights: bool = False  # whether it uses the weights derived from the baseline audit

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """See `Mitigation`."""
        rule = self.settings.get("weights")
        chosen: NDArray[np.float32] | None = None
        if rule == "targeted":
            chosen = weights
        elif rule == "equal-mean":
            chosen = equal_mean(weights, pool)
        elif rule == "drop":
            chosen = dropped(weights, self.settings["drop_below"])
        return Treatment(
            weights=chosen,
            noise=self.settings.get("noise", 0.0),
            epochs=self.settings.get("epochs"),
            remove=rule == "drop",
        )

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: no clipping, and the weights are taken from private data."""
        extra = ("weights are themselves computed from the private records",)
        return empirical_only(
            _OF_THIS_AUDIT,
            *(extra if self.needs_weights else ()),
            voided_by=(
                *_VOIDED_BY,
                *((SEED_KNOWN,) if self.settings.get("noise") else ()),
            ),
        )


@dataclass(frozen=True)
class EarlyStopping(Measured):
    """Training cut at an earlier epoch, the best of several that the plain training passes.

    Which stop is the best is found by the audit, see `lethe.membership.candidates`. The plain
    shadow models are asked on their way, on the recipe's own schedule.
    """

    stops: tuple[int, ...]  # epochs to choose from, ascending
    full: int  # epochs of the full training
    chosen: int | None = None  # the best stop; None before it is known
    name: str = "early-stopping"

    @property
    def title(self) -> str:
        """What is done, in words."""
        if self.chosen is None:
            return "training that ends earlier"
        return (
            f"training that ends after {self.chosen} of {self.full} epochs, the best of "
            f"{len(self.stops)} stops"
        )

    @property
    def settings(self) -> Mapping[str, Any]:
        """The stop, and those it was chosen from."""
        return {"epochs": self.chosen, "full_epochs": self.full, "stops": list(self.stops)}

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The training change: at the best stop, or at the last where it is not known."""
        return Treatment(epochs=self.chosen or self.stops[-1])

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: nothing bounds what a record changes on the way."""
        return empirical_only(_OF_THIS_AUDIT, voided_by=_VOIDED_BY)


BASELINE = Obfuscation("baseline", "the recipe as it is", {})


def standard_mitigations(
    noise: float, alpha: float, beta: float, epochs: int | None
) -> list[Obfuscation | EarlyStopping]:
    """The study's scenarios and the comparators that a fair reader asks for.

    Args:
        noise: deviation on the averaged gradient.
        epochs: of the full training, to be stopped earlier; None or 1 leaves that out.
    """
    if alpha == 0 and noise == 0:
        raise InputError("alpha=0 and noise=0 leave nothing to compare; set one of them.")
    curve = {"alpha": alpha, "beta": beta}
    listed: list[Obfuscation | EarlyStopping] = [
        Obfuscation("uniform-noise", "Gaussian noise on every averaged gradient", {"noise": noise}),
        Obfuscation(
            "weighted",
            "records that give themselves away count less",
            {"weights": "targeted", **curve},
            True,
        ),
        Obfuscation(
            "weighted-noise",
            "targeted weights and gradient noise together",
            {"weights": "targeted", **curve, "noise": noise},
            True,
        ),
        Obfuscation(
            "removal",
            "the same records left out of training",
            {"weights": "drop", **curve, "drop_below": 0.5},
            True,
        ),
        Obfuscation(
            "equal-mean-weight",
            "one weight for all, with the mean of the targeted ones",
            {"weights": "equal-mean", **curve},
            True,
        ),
    ]
    if epochs is not None and epochs > 1:
        listed.append(EarlyStopping(stop_epochs(epochs), epochs))
    return listed
