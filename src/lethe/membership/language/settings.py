"""What an audit of a language model is told to do; the same names as the command's options."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.assess.verdict import NO_BASE
from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.rules import LANGUAGE_METRICS, Rule, parse_rule
from lethe.membership.language.models import DEVICES, PRECISIONS

FPRS = (0.1, 0.01)
UNITS = ("text", "person")
DRAWN_ALIKE = "members-drawn-alike"


@dataclass(frozen=True)
class LanguageSettings:
    """An audit of a fine-tuned language model.

    Attributes:
        seed: of everything random.
        confidence: of all intervals.
        margin: held-out log-probability a token that may be lost and counts as none, in nats.
        unit: whose membership is asked: text, or person, by all texts of one together.
        prefix: tokens at the beginning of a text that an extraction starts from.
        suffix: tokens after them that it must give.
        samples: tries of an extraction, each at least 1; the largest decides.
        chance: with which so many tries must hold the suffix, in (0, 1).
        near: texts of each side that are continued, to count near-verbatim copies; 0 for none.
        precision: of the models: float32 or bfloat16.
        device: auto, cpu or cuda.
        defence: train it here too and attack it: epochs-N, deduplicated, lora-RANK, or
            dp-lora-EPSILON; may be repeated. It needs the base.
        epochs: of the defences that are trained here.
        rate: learning rate of the same.
        batch: texts a step of the same.
        claimed_epsilon: epsilon that the training claims, judged by canaries of one repetition.
        claimed_delta: of the claim and of bounds on epsilon; also of private defences.
        rule: rule that sets the exit code, such as "tpr@0.01<=0.05", "extraction<=0.001" or
            "epsilon-lower<=8"; may be repeated.
        release: candidate that the rules judge.
        accept: what shall not stop the verdict: members-drawn-alike, that texts alone tell members
            from others; no-base, that no base was given, where nobody else holds it. The report
            says so.
        keep_records: keep the table of exposed texts and of what was extracted in the run folder;
            it is personal data.
    """

    seed: int = 0
    confidence: float = 0.95
    margin: float = 0.05
    unit: str = "text"
    prefix: int = 20
    suffix: int = 20
    samples: tuple[int, ...] = (1, 10, 100)
    chance: float = 0.5
    near: int = 200
    precision: str = "float32"
    device: str = "auto"
    defence: tuple[str, ...] = ()
    epochs: int = 3
    rate: float = 5e-4
    batch: int = 16
    claimed_epsilon: float | None = None
    claimed_delta: float = 1e-5
    rule: tuple[str, ...] = ()
    release: str = "baseline"
    accept: tuple[str, ...] = ()
    keep_records: bool = False

    def __post_init__(self) -> None:
        check_at_least("seed", self.seed, 0)
        check_between("confidence", self.confidence, 0, 1, open_low=True, open_high=True)
        check_between("chance", self.chance, 0, 1, open_low=True, open_high=True)
        check_between("claimed_delta", self.claimed_delta, 0, 1, open_high=True)
        for name in ("margin", "near"):
            check_at_least(name, getattr(self, name), 0)
        for name in ("prefix", "suffix", "epochs", "batch"):
            check_at_least(name, getattr(self, name), 1)
        check_between("rate", self.rate, 0, 1, open_low=True)
        if not self.samples:
            raise InputError("samples=() must name at least one number of tries.")
        for n in self.samples:
            check_at_least("samples", n, 1)
        object.__setattr__(self, "samples", tuple(sorted(set(self.samples))))
        if self.claimed_epsilon is not None:
            check_between("claimed_epsilon", self.claimed_epsilon, 0, 1e6, open_low=True)
        check_choice("unit", self.unit, UNITS)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("device", self.device, DEVICES)
        for name in self.accept:
            check_choice("accept", name, (DRAWN_ALIKE, NO_BASE))
        for name in self.defence:
            parse_defence(name)
        self.rules()

    def rules(self) -> list[Rule]:
        """The rules, read."""
        return [parse_rule(text, LANGUAGE_METRICS) for text in self.rule]

    def fprs(self) -> tuple[float, ...]:
        """The false positive rates to report: the usual ones and those of the rules."""
        asked = {rule.fpr for rule in self.rules() if rule.fpr is not None}
        return tuple(sorted({*FPRS, *asked}, reverse=True))


def parse_defence(name: str) -> tuple[str, float]:
    """Kind and number of a defence that is trained here; 0 where it has none.

    Raises InputError: it is none.

    >>> parse_defence("dp-lora-4"), parse_defence("deduplicated")
    (('dp-lora', 4.0), ('deduplicated', 0.0))
    """
    if name == "deduplicated":
        return name, 0.0
    kind, _, number = name.rpartition("-")
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    if kind not in ("epochs", "lora", "dp-lora") or not 0 < value < 1e6:
        raise InputError(
            f"defence={name!r} must be epochs-N, deduplicated, lora-RANK or dp-lora-EPSILON, such "
            "as epochs-1 or dp-lora-8."
        )
    if kind != "dp-lora" and value != int(value):
        raise InputError(f"defence={name!r}: {number} must be a whole number.")
    return kind, value
