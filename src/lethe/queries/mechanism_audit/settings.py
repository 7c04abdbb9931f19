"""What an audit of a mechanism is told; the same names as the command's options."""

from __future__ import annotations

from dataclasses import dataclass, field

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.epsilon import RELATIONS
from lethe.evidence.rules import MECHANISM_METRICS, Rule, parse_rule
from lethe.queries.mechanism_audit.bounds import FEWEST
from lethe.queries.mechanism_audit.claim import Claim
from lethe.queries.mechanism_audit.reuse import MOST

REUSE = "reuse"


@dataclass(frozen=True)
class MechanismSettings:
    """An audit of a mechanism.

    Attributes:
        claim: what is said of it; its value is a rule of its own.
        relation: add/remove: the neighbour lacks one person; replace-one: it has another in that
            place.
        runs: on each input of each pair, at least 100.
        confidence: of all limits together.
        gate: further rule that sets the exit code, such as "epsilon-lower<=0.5"; may be repeated.
            Metrics: epsilon-lower, rho-lower or mu-lower, as claimed, and reuse.
        seed: of the seeds that the mechanism is given.
    """

    claim: Claim = field(default_factory=Claim)
    relation: str = "add/remove"
    runs: int = 10_000
    confidence: float = 0.95
    gate: tuple[str, ...] = ()
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
        """Those of the claim, and those of the gate."""
        own = self.claimed()
        return own + [rule for rule in self._of_gate() if rule not in own]

    def claimed(self) -> list[Rule]:
        """The claim as a rule, and beside it the one on noise that is used twice."""
        if self.claim.value is None:
            return []
        rules = [Rule(self.metric, None, self.claim.value)]
        if all(rule.metric != REUSE for rule in self._of_gate()):
            rules.append(Rule(REUSE, None, MOST))
        return rules

    def _of_gate(self) -> list[Rule]:
        return [parse_rule(text, MECHANISM_METRICS) for text in self.gate]
