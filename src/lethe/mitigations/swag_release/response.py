"""Does the estimated epsilon see the spread of the draws at all?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from numpy.typing import ArrayLike

from lethe.errors import InputError
from lethe.mitigations.pseudo_posterior import estimate_epsilon

_LEAST_RISE = 0.01


@dataclass(frozen=True)
class ScaleResponse:
    """Estimated epsilon at several scales of the draw's covariance.

    The formula looks at losses and never at the covariance, so a draw that is almost a point
    mass at the mean, and hides nothing, gets a fine epsilon. It shows here: no response.

    Attributes:
        scales: in rising order.
        epsilons: the estimate at each.
    """

    scales: tuple[float, ...]
    epsilons: tuple[float, ...]

    @property
    def rise(self) -> float:
        """Epsilon at the largest scale relative to that at the smallest, minus 1."""
        low, high = self.epsilons[0], self.epsilons[-1]
        return high / low - 1 if low > 0 else (0.0 if high == 0 else float("inf"))

    @property
    def responds(self) -> bool:
        """Whether epsilon rises by more than 1 %.

        If not, the draws lie almost on one point, or every loss is at its bound already.
        """
        return self.rise > _LEAST_RISE


def scale_response(
    log_likelihoods: Mapping[float, ArrayLike],
    weights: ArrayLike,
    relation: str,
    *,
    outcome: str = "discrete",
    releases: int = 1,
    bound: float | None = None,
) -> ScaleResponse:
    """Estimate epsilon at several scales of the draw.

    Args:
        log_likelihoods: scale -> (S, N), from the same random numbers at each scale.
        weights: (N,) as trained with.
        relation: as in `lethe.mitigations.pseudo_posterior.estimate_epsilon`, like the rest.

    Raises:
        InputError: fewer than 2 scales.

    >>> losses = {1.0: [[-1.0]], 2.0: [[-1.5]]}
    >>> scale_response(losses, [1.0], "add/remove").rise
    0.5
    """
    scales = sorted(log_likelihoods)
    if len(scales) < 2:
        raise InputError(f"scales={scales} are too few to compare; give at least 2.")
    found = [
        estimate_epsilon(
            log_likelihoods[scale],
            weights,
            relation,
            outcome=outcome,
            releases=releases,
            bound=bound,
        ).epsilon
        for scale in scales
    ]
    return ScaleResponse(tuple(map(float, scales)), tuple(found))
