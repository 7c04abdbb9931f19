"""What an audit is told to do; the same names as the command's options and the keys of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.accounting import check_given_delta
from lethe.evidence.precision import Precision, parse_precision
from lethe.evidence.rules import Rule, parse_rule
from lethe.membership.attacks import ATTACKS, choose_attacks
from lethe.membership.lira import VARIANCES
from lethe.membership.measure import FPRS
from lethe.mitigations.mitigation import Mitigation
from lethe.mitigations.obfuscation import NOISE_CONVENTIONS, standard_mitigations
from lethe.training.design import check_models
from lethe.training.recipe import Recipe
from lethe.training.shadows import Shadows

if TYPE_CHECKING:
    from lethe.membership.candidates import PublicWeights


@dataclass(frozen=True)
class AuditSettings:
    """Settings of a membership audit.

    Attributes:
        models: K, shadow models a candidate; odd numbers are rounded up, at least 4.
        seed: of everything random.
        confidence: of all intervals.
        margin: utility loss that counts as none (0.01 = one point of accuracy, or 0.01 of R²).
        holdout: share of the records that no model trains on.
        mitigations: names to put on the frontier, see `lethe.membership.candidates.NAMES`;
            ``none`` for the baseline alone, ``all`` for everything that the recipe can carry;
            None for the standard ones, and DP-SGD where `epsilon` is given.
        noise: gradient noise, see `noise_convention`.
        noise_convention: ``mean`` (on the averaged gradient) or ``record`` (eq. 8's sigma_j).
        alpha: of the weights e^(-alpha t + beta).
        beta: of the weights.
        attack: names of attacks, or ``auto``, or ``all``; see `choose_attacks`.
        variance: of LiRA.
        gate: rules fixed before the run, such as ``tpr@0.001<=0.05``.
        until: widths such as ``width(tpr@0.01)<=0.01`` at which training stops, see
            `parse_precision`; `models` is then the most there may be.
        release: the candidate that the rules judge.
        keep_records: write the per-record table, which is personal data.
        epsilon: targets of differentially private training, each one candidate.
        delta: of those; well below 1 / records, without a default.
        clip: largest norm of one record's gradient there.
        dp_batch_size: expected batch there; None for twice the recipe's, at least 128.
        dp_epochs: passes there; None for the recipe's.
        dp_learning_rate: the highest rate there; None for 0.01 with Adam.
        dp_optimizer: ``sgd``, ``adam`` or ``adamw`` there; None for Adam, see `private_training`.
        local_epsilon: target of the *estimated* epsilon of a posterior draw under replace-one.
        predictions: keep the predicted classes and report F1, see `f1_tables`.
    """

    models: int = 64
    seed: int = 0
    confidence: float = 0.95
    margin: float = 0.01
    holdout: float = 0.2
    mitigations: tuple[str, ...] | None = None
    noise: float = 0.01
    noise_convention: str = "mean"
    alpha: float = 2.0
    beta: float = 2.0
    attack: tuple[str, ...] = ("auto",)
    variance: str = "auto"
    gate: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    release: str = "baseline"
    keep_records: bool = False
    epsilon: tuple[float, ...] = ()
    delta: float | None = None
    clip: float = 1.0
    dp_batch_size: int | None = None
    dp_epochs: int | None = None
    dp_learning_rate: float | None = None
    dp_optimizer: str | None = None
    local_epsilon: float | None = None
    predictions: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "models", check_models(self.models))
        check_at_least("seed", self.seed, 0)
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        for name in ("margin", "noise", "alpha", "beta"):
            check_between(name, getattr(self, name), 0, float("inf"), open_high=True)
        check_between("holdout", self.holdout, 0, 0.9, open_low=True)
        check_choice("noise_convention", self.noise_convention, NOISE_CONVENTIONS)
        check_choice("variance", self.variance, VARIANCES)
        if not self.attack or len(set(self.attack) & {"auto", "all"}) and len(self.attack) > 1:
            raise InputError(
                f"attack={', '.join(self.attack)!r}: name attacks, or say 'auto' or 'all' alone."
            )
        for name in self.attack:
            check_choice("attack", name, ["auto", "all", *ATTACKS])
        self.rules()
        self.widths()
        for alone in {"none", "all"} & set(self.mitigations or ()):
            if self.mitigations != (alone,):
                raise InputError(
                    f"mitigations={', '.join(self.mitigations or ())}: {alone!r} stands alone; "
                    "leave it out, or the others."
                )
        if self.mitigations == ("none",):
            object.__setattr__(self, "mitigations", ())
        self._check_private()
        standard_mitigations(self.noise, self.alpha, self.beta, None)

    def _check_private(self) -> None:
        object.__setattr__(self, "epsilon", tuple(sorted(set(self.epsilon))))
        for epsilon in self.epsilon:
            check_between("epsilon", epsilon, 0, float("inf"), open_low=True, open_high=True)
        if self.epsilon:
            check_given_delta(self.delta)
        check_between("clip", self.clip, 0, float("inf"), open_low=True, open_high=True)
        if self.local_epsilon is not None:
            check_between(
                "local_epsilon", self.local_epsilon, 0, float("inf"), open_low=True, open_high=True
            )

    def rules(self) -> list[Rule]:
        """The gate's rules, read."""
        return [parse_rule(text) for text in self.gate]

    def widths(self) -> list[Precision]:
        """The widths at which training stops, read."""
        return [parse_precision(text) for text in self.until]

    def fprs(self) -> tuple[float, ...]:
        """The false positive rates to report: the usual ones and those of the rules."""
        rules = [*self.rules(), *(width.rule for width in self.widths())]
        asked = {rule.fpr for rule in rules if rule.fpr is not None}
        return tuple(sorted({*FPRS, *asked}, reverse=True))

    def attacks(self, shadows: Shadows) -> tuple[str, ...]:
        """The attacks to run on these models; see `choose_attacks`."""
        return choose_attacks(self.attack, shadows)

    def candidates(
        self,
        recipe: Recipe,
        extra: Sequence[Mitigation] = (),
        public: PublicWeights | None = None,
    ) -> tuple[list[Mitigation], list[dict[str, str]]]:
        """Candidates that can be trained, the baseline first, and those that cannot, with why.

        Raises:
            InputError: see `lethe.membership.candidates.candidates`.
        """
        from lethe.membership.candidates import candidates

        return candidates(self, recipe, extra, public)
