"""What an audit is told to do; the same names as the command's options and the keys of a file."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.assess.verdict import WAIVABLE
from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.guarantee import check_clip, check_given_delta
from lethe.evidence.rules import Precision, Rule, parse_precision, parse_rule
from lethe.membership.attacks.attack import Available
from lethe.membership.attacks.lira import VARIANCES
from lethe.membership.attacks.registry import ATTACKS, choose_attacks
from lethe.membership.exposure import MINIMUM_MODELS
from lethe.membership.measure import FPRS
from lethe.mitigations.mitigation import standard_mitigations
from lethe.training.design import check_models

MOST_ROUNDS = 10
MOST_QUERIES = 64


@dataclass(frozen=True)
class AuditSettings:
    """Settings of a membership audit.

    Attributes:
        models: shadow models a candidate, at least 4; odd numbers are rounded up. Below 8 the
            intervals are very wide. With until the most there may be; `lethe plan` says how many
            it takes.
        seed: of everything random.
        confidence: of all intervals.
        margin: loss of accuracy, or of R², that counts as none.
        holdout: share of the records, drawn at random, that no model trains on, to measure accuracy
            or R²; see holdout_by for a date or site.
        mitigations: names of the mitigations to compare. Standard: uniform-noise, weighted,
            weighted-noise, removal, equal-mean-weight, early-stopping. Cheap: l2, label-smoothing,
            mixup, model-averaging. What is answered: temperature, rounding, label-only. With
            epsilon: dp-sgd, weighted-dp, individual-dp. With local_epsilon: swag-ppm, swag-scalar.
            Or all, or none, to measure the plain model alone; by default the standard ones, and
            dp-sgd and swag-ppm where their epsilon is given.
        noise: standard deviation of the noise on the averaged gradient.
        alpha: targeted weights are exp(-alpha t + beta), cut to [0, 1].
        beta: see alpha.
        attack: names of the attacks to run: lira-online, lira-ranked, lira-offline, lira-queries,
            lira-hierarchical, bavaria-n, bavaria-t, bavaria-offline, rmia-online, rmia-offline,
            base-online, base-offline, attack-r, learned-ratio, loss-threshold, gap, quantile; or
            all; or auto, the strongest ones and a blind baseline.
        augmented_queries: changed copies of each record that models are asked about too, where the
            recipe augments its pictures; lira-queries reads them. 0 for none.
        variance: variance rule of LiRA: auto, pooled, pooled-total, per-record or shrunken.
        rule: rule that sets the exit code, such as "tpr@0.001<=0.05"; may be repeated. Metrics:
            tpr@FPR, tau@FPR, auc, top-t, utility-loss, and width(...) of each.
        until: stop training as soon as an interval is narrow enough: "width(tpr@0.01)<=0.01"
            (limits at most 0.01 apart), "tpr@0.01 within 0.005" or "tpr@0.001 within 20%" (of the
            value); may be repeated, then all must hold. Only widths: a verdict belongs in rule.
            Whatever number of models that takes, the audit is valid, and goes on if you ask for
            more.
        release: candidate that the rules judge.
        accept: checks of the input that shall not stop the verdict, by name, such as copies; the
            report says so.
        onion: rounds of removing the 1 % most exposed records, training again without them, and
            seeing who is exposed next; each costs as many trainings as a mitigation. From 16 models
            on.
        keep_records: keep the table of exposed records in the run folder; it is personal data.
        epsilon: train privately too (DP-SGD), with this epsilon; may be repeated.
        delta: of the private training: well below 1/records, such as 1e-5. It has no default.
        clip: largest norm of one record's gradient in the private training.
        dp_batch_size: expected batch of the private training; by default twice the recipe's, at
            least 128.
        dp_epochs: passes of the private training; by default the recipe's.
        dp_learning_rate: highest learning rate of the private training; by default 0.01 for Adam,
            the recipe's if only the optimizer is given.
        dp_optimizer: of the private training: sgd, adam or adamw; by default adam, the recipe's if
            only the rate is given.
        local_epsilon: train posterior draws too (SWAG), aimed at this estimated epsilon under
            replace-one; it is no guarantee.
        predictions: keep the predicted classes and report F1, see `f1_tables`.
    """

    models: int = 64
    seed: int = 0
    confidence: float = 0.95
    margin: float = 0.01
    holdout: float = 0.2
    mitigations: tuple[str, ...] | None = None
    noise: float = 0.01
    alpha: float = 2.0
    beta: float = 2.0
    attack: tuple[str, ...] = ("auto",)
    augmented_queries: int = 8
    variance: str = "auto"
    rule: tuple[str, ...] = ()
    until: tuple[str, ...] = ()
    release: str = "baseline"
    accept: tuple[str, ...] = ()
    onion: int = 0
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
        check_between("augmented_queries", self.augmented_queries, 0, MOST_QUERIES)
        check_between("onion", self.onion, 0, MOST_ROUNDS)
        if self.onion and self.models < MINIMUM_MODELS:
            raise InputError(
                f"onion={self.onion} needs at least {MINIMUM_MODELS} models, of which one half "
                f"chooses whom to remove and the other says what that did; models={self.models}."
            )
        for name in self.accept:
            check_choice("accept", name, WAIVABLE)
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
        object.__setattr__(self, "epsilon", tuple(sorted(set(self.epsilon))))
        for epsilon in self.epsilon:
            check_between("epsilon", epsilon, 0, float("inf"), open_low=True, open_high=True)
        if self.epsilon:
            check_given_delta(self.delta)
        check_clip(self.clip)
        if self.local_epsilon is not None:
            check_between(
                "local_epsilon", self.local_epsilon, 0, float("inf"), open_low=True, open_high=True
            )
        standard_mitigations(self.noise, self.alpha, self.beta, None)

    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse_rule(text) for text in self.rule]

    def widths(self) -> list[Precision]:
        """The widths at which training stops, read."""
        return [parse_precision(text) for text in self.until]

    def fprs(self) -> tuple[float, ...]:
        """The false positive rates to report: the usual ones and those of the rules."""
        rules = [*self.rules(), *(width.rule for width in self.widths())]
        asked = {rule.fpr for rule in rules if rule.fpr is not None}
        return tuple(sorted({*FPRS, *asked}, reverse=True))

    def attacks(self, available: Available) -> tuple[str, ...]:
        """The attacks to run on what is available; see `choose_attacks`."""
        return choose_attacks(self.attack, available)
