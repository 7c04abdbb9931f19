"""What an audit is told to do; the same names as the command's options and the keys of a file."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.precision import Precision, parse_precision
from lethe.evidence.rules import Rule, parse_rule
from lethe.membership.attacks import ATTACKS, choose_attacks
from lethe.membership.lira import VARIANCES
from lethe.membership.measure import FPRS
from lethe.mitigations.mitigation import Mitigation
from lethe.mitigations.obfuscation import (
    BASELINE,
    NOISE_CONVENTIONS,
    noise_on_mean,
    standard_mitigations,
)
from lethe.training.design import check_models
from lethe.training.recipe import Recipe, TorchRecipe
from lethe.training.shadows import Shadows


@dataclass(frozen=True)
class AuditSettings:
    """Settings of a membership audit.

    Attributes:
        models: K, shadow models a candidate; odd numbers are rounded up, at least 4.
        seed: of everything random.
        confidence: of all intervals.
        margin: utility loss that counts as none (0.01 = one point of accuracy, or 0.01 of R²).
        holdout: share of the records that no model trains on.
        mitigations: names to put on the frontier, ``none`` for the baseline alone; None for all
            that the recipe allows.
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
        if "none" in (self.mitigations or ()):
            if self.mitigations != ("none",):
                raise InputError(
                    f"mitigations={', '.join(self.mitigations or ())}: 'none' stands alone; "
                    "leave it out, or the others."
                )
            object.__setattr__(self, "mitigations", ())
        standard_mitigations(self.noise, self.alpha, self.beta, None)

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

    def candidates(self, recipe: Recipe) -> tuple[list[Mitigation], list[dict[str, str]]]:
        """Candidates that can be trained, the baseline first, and those that cannot, with why.

        Raises:
            InputError: an unknown name in `mitigations`, or a `release` that is not built.
        """
        batch = recipe.batch_size if isinstance(recipe, TorchRecipe) else 1
        early = max(1, recipe.epochs // 3) if isinstance(recipe, TorchRecipe) else 1
        offered: list[Mitigation] = [
            mitigation
            for mitigation in standard_mitigations(
                noise_on_mean(self.noise, self.noise_convention, batch),
                self.alpha,
                self.beta,
                early,
            )
            if not (mitigation.settings.get("noise") == 0.0)
        ]
        names = [mitigation.name for mitigation in offered]
        for name in self.mitigations or ():
            check_choice("mitigation", name, [*names, "none"])
        wanted = [m for m in offered if self.mitigations is None or m.name in self.mitigations]
        built: list[Mitigation] = [BASELINE]
        skipped: list[dict[str, str]] = []
        import numpy as np

        for mitigation in wanted:
            reason = recipe.refuses(mitigation.treatment(np.ones(1, np.float32)))
            if reason is None:
                built.append(mitigation)
            elif self.mitigations is not None:
                raise InputError(f"mitigation {mitigation.name!r}: {reason}.")
            else:
                skipped.append({"name": mitigation.name, "why": reason})
        check_choice("release", self.release, [mitigation.name for mitigation in built])
        return built, skipped
