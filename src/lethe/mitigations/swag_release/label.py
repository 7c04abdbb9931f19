"""What may be said of a released draw, in words that stay with it."""

from __future__ import annotations

from dataclasses import replace

from lethe.evidence.guarantee import Guarantee
from lethe.mitigations.pseudo_posterior import EpsilonEstimate
from lethe.mitigations.swag_release.response import ScaleResponse
from lethe.mitigations.swag_release.settings import ReleaseSettings


def release_guarantee(
    settings: ReleaseSettings,
    estimate: EpsilonEstimate,
    response: ScaleResponse | None,
    recomputed: bool,
) -> Guarantee:
    """The label of a release: asymptotic, with all that is known to stand against it.

    Args:
        settings: that the draw was made with.
        estimate: on the final draws.
        response: to the scale of the draw, or None.
        recomputed: whether batch statistics were recomputed on the private records.
    """
    sampler = {"swag": "SWAG", "sgld": "SGLD"}[settings.sampler]
    plain = estimate.guarantee(sampler, batch_norm=recomputed)
    told = [
        f"with 1 draw the estimate is {estimate.growth[0]:.4g}, with {estimate.draws} draws "
        f"{estimate.growth[-1]:.4g}: it grows with their number",
    ]
    if settings.weighting != "none" and estimate.epsilon > settings.epsilon:
        told.append(f"the target of {settings.epsilon:g} was not met")
    if settings.sampler == "swag":
        told.append("the estimate looks at losses only and ignores SWAG's covariance")
    if settings.weighting in ("target", "linear", "scalar") or settings.rounds > 0:
        told.append("the weights were computed from the private records")
    if estimate.bounded is None:
        told.append("the loss has no bound")
    if response is not None:
        told.append(
            f"at {len(response.scales)} scales of the draw, {response.scales[0]:g} to "
            f"{response.scales[-1]:g}, the estimate goes from {response.epsilons[0]:.4g} to "
            f"{response.epsilons[-1]:.4g}"
            + ("" if response.responds else ": the draws may be almost one point")
        )
    return replace(plain, assumptions=(*plain.assumptions, *told))
