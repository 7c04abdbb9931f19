"""The claim of a mechanism, and the settings of its audit, named as the command's options."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.epsilon import RELATIONS
from lethe.evidence.gdp import check_delta
from lethe.evidence.rules import MECHANISM_METRICS, Rule, parse_rule

FEWEST = 100
"""Runs on each input."""
MOST = 0.2
"""Rank correlation of successive answers from which on their noise counts as reused."""
REUSE = "reuse"
MEASURES = ("epsilon", "rho", "mu")


@dataclass(frozen=True)
class Claim:
    """A privacy parameter, and how large it is said to be.

    Attributes:
        measure: ``epsilon`` of (epsilon, delta)-DP, ``rho`` of zero-concentrated DP (Bun and
            Steinke 2016), ``mu`` of Gaussian DP (Dong, Roth and Su 2022).
        value: claimed, > 0; None where nothing is claimed and a limit is all that is asked for.
        delta: in [0, 1); of epsilon only.

    Raises:
        InputError: a value out of range, or a delta that goes with no epsilon.

    >>> print(Claim("epsilon", 1.0, 1e-6))
    (1, 1e-06)-DP
    """

    measure: str = "epsilon"
    value: float | None = None
    delta: float = 0.0

    def __post_init__(self) -> None:
        check_choice("measure", self.measure, MEASURES)
        check_delta(self.delta)
        if self.value is not None:
            name = f"claimed {self.measure}"
            check_between(name, self.value, 0, math.inf, open_low=True, open_high=True)
        if self.delta > 0 and self.measure != "epsilon":
            raise InputError(f"delta={self.delta:g} goes with epsilon; {self.measure} has none.")

    def __str__(self) -> str:
        if self.value is None:
            return "nothing is claimed"
        if self.delta:
            return f"({self.value:.3g}, {self.delta:g})-DP"
        kind = {"epsilon": "DP", "rho": "zCDP", "mu": "GDP"}[self.measure]
        return f"{self.value:.3g}-{kind}"


def claim_from(
    epsilon: float | None, delta: float | None, rho: float | None, mu: float | None
) -> Claim:
    """The one claim among the options of a command.

    Raises InputError: several claims at once, or one out of range.
    """
    claims = [
        (name, value)
        for name, value in (("epsilon", epsilon), ("rho", rho), ("mu", mu))
        if value is not None
    ]
    if len(claims) > 1:
        named = " and ".join(name for name, _ in claims)
        raise InputError(f"{named} are both claimed; audit one claim at a time.")
    measure, value = claims[0] if claims else ("epsilon", None)
    return Claim(measure, value, delta or 0.0)


@dataclass(frozen=True)
class MechanismSettings:
    """An audit of a mechanism.

    Attributes:
        claim: what is said of it; its value is a rule of its own.
        relation: add/remove: the neighbour lacks one person; replace-one: it has another in that
            place.
        runs: on each input of each pair, at least 100.
        confidence: of all limits together.
        rule: further rule that sets the exit code, such as "epsilon-lower<=0.5"; may be repeated.
            Metrics: epsilon-lower, rho-lower or mu-lower, as claimed, and reuse.
        seed: of the seeds that the mechanism is given.
    """

    claim: Claim = field(default_factory=Claim)
    relation: str = "add/remove"
    runs: int = 10_000
    confidence: float = 0.95
    rule: tuple[str, ...] = ()
    seed: int = 0

    def __post_init__(self) -> None:
        check_choice("relation", self.relation, RELATIONS)
        check_at_least("runs", self.runs, FEWEST)
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        check_at_least("seed", self.seed, 0)
        for rule in self.rules():
            if rule.on_width:
                raise InputError(f"rule {str(rule)!r}: these metrics have no width.")
            if rule.metric not in (REUSE, self.metric):
                measure = rule.metric.removesuffix("-lower")
                raise InputError(
                    f"rule {str(rule)!r} is about {measure}, this audit measures "
                    f"{self.claim.measure}; claim --{measure}, or drop the rule."
                )

    @property
    def metric(self) -> str:
        """The limit of the claim's measure, as rules name it."""
        return f"{self.claim.measure}-lower"

    def rules(self) -> list[Rule]:
        """Those of the claim, and those of `rule`."""
        claimed = self.claimed()
        return claimed + [rule for rule in self._asked() if rule not in claimed]

    def claimed(self) -> list[Rule]:
        """The claim as a rule, and beside it the one on noise that is used twice."""
        if self.claim.value is None:
            return []
        rules = [Rule(self.metric, None, self.claim.value)]
        if all(rule.metric != REUSE for rule in self._asked()):
            rules.append(Rule(REUSE, None, MOST))
        return rules

    def _asked(self) -> list[Rule]:
        return [parse_rule(text, MECHANISM_METRICS) for text in self.rule]
