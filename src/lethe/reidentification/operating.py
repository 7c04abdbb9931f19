"""Where to stand between privacy and utility, under a rule that was fixed before the sweep."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.errors import check_at_least
from lethe.evidence.estimate import Estimate

TIER_NAMES = ((1.5, "low lift"), (2.0, "near-random"), (5.0, "privacy-viable"))
"""Upper limits of the lift, and what the reference study calls them; none of them is a proof."""


def tier(lift: Estimate) -> str:
    """The best tier whose limit the *upper* limit of the lift stays below.

    "Random" is never said: that a lift is 1 takes a test, and what nobody can beat a certificate.

    >>> tier(Estimate(1.4, 1.2, 1.7, 0.95, "by users", 1000))
    'near-random'
    """
    if lift.high is not None:
        for limit, name in TIER_NAMES:
            if lift.high < limit:
                return name
    return "identifiable"


@dataclass(frozen=True)
class OperatingPoint:
    """Whether noise can be had that both sides accept.

    Attributes:
        privacy: smallest sigma from which on the lift is below its threshold; None if none is.
        utility: largest sigma at which utility is above its floor; None if none is.
        recommended: the midpoint where there is room between them, else None.
    """

    privacy: float | None
    utility: float | None
    recommended: float | None

    def __str__(self) -> str:
        if self.recommended is not None:
            return (
                f"sigma {self.recommended:.3g}, between {self.privacy:.3g} (privacy) and "
                f"{self.utility:.3g} (utility)"
            )
        sides = (
            "no measured sigma is private enough"
            if self.privacy is None
            else f"privacy needs sigma {self.privacy:.3g}",
            "utility fails even without noise"
            if self.utility is None
            else f"utility ends at sigma {self.utility:.3g}",
        )
        return f"no operating point: {sides[0]}, {sides[1]}"


def operating_point(privacy: float | None, utility: float | None) -> OperatingPoint:
    """Midpoint between the least noise that is private and the most that is useful.

    Args:
        privacy: see `Curve.private_from`, >= 0, or None.
        utility: see `largest_sigma`, >= 0, or None.

    >>> print(operating_point(3.0, 2.0))
    no operating point: privacy needs sigma 3, utility ends at sigma 2
    """
    for name, side in (("privacy", privacy), ("utility", utility)):
        if side is not None:
            check_at_least(name, side, 0)
    if privacy is None or utility is None or not privacy < utility:
        return OperatingPoint(privacy, utility, None)
    return OperatingPoint(privacy, utility, (privacy + utility) / 2)
