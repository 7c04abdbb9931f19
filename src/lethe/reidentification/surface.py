"""Success of an attack by noise level, measured at as few levels as possible.

Everything depends on (sigma, M) through sigma / sqrt(M), so the surface is a curve. It is refined
where the upper limit of the strongest attacker crosses a threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from lethe.errors import InputError, check_at_least
from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import AttackResult, Risk
from lethe.evidence.sight import Plant
from lethe.reidentification.by_user import Linear, scaled, share_of_users
from lethe.reidentification.smoothing import Sample, unit_noise
from lethe.reidentification.vectors import Float, effective_sigma

SIGMAS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
TIERS = (5.0, 2.0, 1.5)
_CLOSE = 0.1  # refinement ends where neighbouring levels differ by less than this share
_LARGEST = 1e3  # sigma at which the search for the largest ends

Attack = Callable[[Sample], ArrayLike]
"""From a (noisy) sample to (G,) hits of each user, in [0, probes of the user], or (G, K) of several
measures; thresholds and widths look at the first."""


@dataclass(frozen=True, eq=False)
class Judged:
    """All attackers on one release, and the strongest of them.

    Attributes:
        attacks: lift of every attacker in every view, with simultaneous limits.
        named: (G,) share of each person's new vectors that the same attacker names; NaN without.
        plants: leaks of known size in the release, and what was measured on them.
    """

    attacks: tuple[AttackResult, ...]
    risk: Risk  # the worst of them
    strongest: Linear  # Top-1 of the attacker that the risk names, to be compared in pairs
    named: Float
    plants: tuple[Plant, ...] = ()


@dataclass(frozen=True, eq=False)
class Level:
    """The attack at an effective noise level."""

    sigma: float  # sigma / sqrt(M)
    share: Estimate  # share of probes that were named, averaged over noise; interval by users
    lift: Estimate  # the same times G, the number of users: 1 is chance
    draws: int  # noise draws behind it
    exposure: Float  # (G,) share of each user's probes that were named; 0 without probes
    others: tuple[Estimate, ...] = ()  # shares of the attack's further measures, in their order
    judged: Judged | None = None  # what all attackers found there; None where one ran alone

    @property
    def worst(self) -> Estimate:
        """The deciding lift of the level: that of the strongest attacker."""
        return self.lift if self.judged is None else self.judged.risk.estimate


@dataclass(frozen=True, eq=False)
class Curve:
    """Levels by ascending sigma."""

    levels: tuple[Level, ...]  # what was measured
    asked: tuple[float, ...]  # the sigmas that were asked for; the others came from refinement

    def at(self, sigma: float, draws: int = 1) -> Level:
        """The level of (sigma, M).

        Raises InputError: it was not measured.
        """
        wanted = _rounded(effective_sigma(sigma, draws))
        for level in self.levels:
            if level.sigma == wanted:
                return level
        raise InputError(f"sigma={sigma:g} with draws={draws} was not measured; add it to sigmas.")

    def private_from(self, threshold: float) -> float | None:
        """The smallest measured sigma from which on every upper limit of the lift is below.

        None where even the largest sigma does not reach it.
        """
        sigma = None
        for level in reversed(self.levels):
            if not _below(level, threshold):
                break
            sigma = level.sigma
        return sigma

    def gap(self, threshold: float) -> tuple[float, float] | None:
        """The two neighbouring sigmas between which the upper limit last falls below."""
        above = [i for i, level in enumerate(self.levels) if not _below(level, threshold)]
        if not above or above[-1] + 1 == len(self.levels):
            return None
        return self.levels[above[-1]].sigma, self.levels[above[-1] + 1].sigma


def attack_curve(
    attack: Attack,
    sample: Sample,
    sigmas: Sequence[float] = SIGMAS,
    *,
    draws: int = 20,
    thresholds: Sequence[float] = TIERS,
    extra: int = 12,
    confidence: float = 0.95,
    seed: int = 0,
    further: Callable[[Level], Level] | None = None,
    judged: Callable[[int, int], None] | None = None,
    elsewhere: Callable[[Sequence[float]], list[Level]] | None = None,
) -> Curve:
    """Run an attack at every effective sigma, then closer around the thresholds.

    Args:
        attack: see `Attack`; for hits in parts (ties) any number up to the probes is right.
        sigmas: effective noise, >= 0.
        draws: noise draws a level; sigma 0 needs one.
        thresholds: lifts to resolve; their crossings are narrowed down.
        extra: most levels that refinement may add, >= 0.
        confidence: two-sided, of each interval by itself.
        seed: of the noise: the same vectors at every sigma.
        further: adds what other attackers find at a level, so that thresholds look at the worst.
        judged: called with (levels done, levels of this round) after each of those calls.
        elsewhere: measures levels in place of all of the above, such as other machines.

    Raises InputError: sigma < 0, no sigmas, or an attack that returns another shape.
    """
    if not len(sigmas):
        raise InputError("sigmas need one entry or more.")
    check_at_least("draws", draws, 1)
    check_at_least("extra", extra, 0)
    levels_asked = sorted({_rounded(effective_sigma(sigma)) for sigma in sigmas})

    def measure(wanted: Sequence[float]) -> list[Level]:
        if elsewhere is not None:
            return elsewhere(wanted)
        hits = {sigma: np.zeros((sample.users, 1)) for sigma in wanted}
        for draw in range(draws if any(wanted) else 1):
            noise = unit_noise(sample, draw, seed)
            for sigma in wanted:
                if sigma > 0 or draw == 0:  # without noise every draw is the same
                    hits[sigma] = hits[sigma] + _hits(attack(noise.on(sample, sigma)), sample)
        measured = [
            _level(sigma, hits[sigma], draws if sigma > 0 else 1, sample, confidence)
            for sigma in wanted
        ]
        if further is None:
            return measured
        worst = []
        for level in measured:
            worst.append(further(level))
            if judged is not None:
                judged(len(worst), len(measured))
        return worst

    levels = {level.sigma: level for level in measure(levels_asked)}
    for _ in range(extra):
        curve = _curve(levels, levels_asked)
        between = _widest(curve, thresholds)
        if between is None or between in levels:
            break
        levels[between] = measure([between])[0]
    return _curve(levels, levels_asked)


def largest_sigma(utility: Callable[[float], Estimate], floor: float) -> float | None:
    """The largest effective sigma at which the lower limit of a utility is still above a floor.

    By bisection, for a utility that falls with sigma and has a closed form.

    Args:
        floor: e.g. an AUC of 0.6.

    Returns: A sigma up to 1,000 at which the test was seen to hold, within a thousandth, or None if
        it fails even without noise.
    """

    def holds(sigma: float) -> bool:
        low = utility(sigma).low
        return low is not None and low > floor

    if not holds(0.0):
        return None
    low, high = 0.0, 1.0
    while holds(high):
        if high == _LARGEST:
            return high
        low, high = high, min(2 * high, _LARGEST)
    # Tiny answers need many halvings; below this they are 0 for every purpose.
    while high - low > max(1e-3 * high, 1e-9 * _LARGEST):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _hits(returned: ArrayLike, sample: Sample) -> Float:
    """(G, K) checked hits that an attack returned."""
    hits = np.asarray(returned, np.float64)
    if hits.ndim not in (1, 2) or len(hits) != sample.users:
        raise InputError(
            f"the attack returned {hits.shape}; it must give hits of each of the "
            f"{sample.users} users."
        )
    return hits.reshape(len(hits), -1)


def _level(sigma: float, hits: Float, draws: int, sample: Sample, confidence: float) -> Level:
    """A level from the hits (G, K) of all its draws."""
    tries = draws * sample.tries
    # Averages over ties may leave their range by a rounding.
    hits = np.clip(hits, 0, tries[:, None])
    tried = tries > 0
    share, *others = (share_of_users(column[tried], tries[tried], confidence) for column in hits.T)
    exposure = hits[:, 0] / np.maximum(tries, 1)
    lift = scaled(share, sample.users)
    return Level(sigma, share, lift, draws, exposure, tuple(others))


def _curve(levels: dict[float, Level], sigmas: Sequence[float]) -> Curve:
    return Curve(tuple(levels[sigma] for sigma in sorted(levels)), tuple(sigmas))


def _below(level: Level, threshold: float) -> bool:
    return level.worst.high is not None and level.worst.high < threshold


def _rounded(sigma: float) -> float:
    """To 12 digits, so that 0.5 / sqrt(25) and 0.1 are one level."""
    return float(f"{sigma:.12g}")


def _widest(curve: Curve, thresholds: Sequence[float]) -> float | None:
    """Inside the relatively widest gap that still hides a crossing; None if all are closed."""
    gaps = [gap for threshold in thresholds if (gap := curve.gap(threshold)) is not None]
    open_gaps = [(low, high) for low, high in gaps if high > low * (1 + _CLOSE)]
    if not open_gaps:
        return None
    low, high = max(open_gaps, key=lambda gap: gap[1] / gap[0] if gap[0] > 0 else np.inf)
    return _rounded(np.sqrt(low * high) if low > 0 else high / 2)


TIER_NAMES = ((1.5, "low lift"), (2.0, "near-random"), (5.0, "privacy-viable"))
"""Upper limits of the lift, with the reference study's names; none is a proof."""


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
    """Whether there is a noise level acceptable for both privacy and utility.

    Attributes:
        privacy: smallest sigma from which on the lift is below its threshold; None if none is.
    """

    privacy: float | None
    utility: float | None  # largest sigma at which utility is above its floor; None if none is
    recommended: float | None  # the midpoint where there is room between them, else None
    measured: bool = True  # False without head or labels

    def __str__(self) -> str:
        if self.recommended is not None:
            return (
                f"sigma {self.recommended:.3g}, between {self.privacy:.3g} (privacy) and "
                f"{self.utility:.3g} (utility)"
            )
        if not self.measured:
            utility = "utility was not measured: that needs a head and labels"
        elif self.utility is None:
            utility = "utility fails even without noise"
        else:
            utility = f"utility ends at sigma {self.utility:.3g}"
        sides = (
            "no measured sigma is private enough"
            if self.privacy is None
            else f"privacy needs sigma {self.privacy:.3g}",
            utility,
        )
        return f"no operating point: {sides[0]}, {sides[1]}"


def operating_point(
    privacy: float | None, utility: float | None, measured: bool = True
) -> OperatingPoint:
    """Midpoint between the least noise that is private and the most that is useful.

    Args:
        privacy: see `Curve.private_from`, >= 0, or None.
        utility: see `largest_sigma`, >= 0, or None.
        measured: whether utility was measured.

    >>> print(operating_point(3.0, 2.0))
    no operating point: privacy needs sigma 3, utility ends at sigma 2
    """
    for name, side in (("privacy", privacy), ("utility", utility)):
        if side is not None:
            check_at_least(name, side, 0)
    if privacy is None or utility is None or not privacy < utility:
        return OperatingPoint(privacy, utility, None, measured)
    return OperatingPoint(privacy, utility, (privacy + utility) / 2)
