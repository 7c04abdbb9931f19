"""What a differentially private training is asked to do, and the numbers that follow from it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from lethe.errors import InputError, check_at_least, check_between, check_choice
from lethe.evidence.accounting import check_given_delta
from lethe.evidence.calibration import noise_for
from lethe.evidence.dp_statement import TUNING
from lethe.training.recipe import SCHEDULES

OPTIMIZERS = ("adam", "adamw", "sgd")
PRECISIONS = ("float32", "bfloat16")


@dataclass(frozen=True, kw_only=True)
class PrivateSettings:
    """Settings of `train_privately`.

    Attributes:
        epsilon: target, > 0; or give `noise_multiplier`.
        noise_multiplier: sd of the noise on the sum of clipped gradients / `clip`, > 0.
        delta: in (0, 1), well below 1 / records; there is no default.
        clip: C, largest norm of one example's gradient in the sum, > 0.
        batch_size: expected number of examples a step; Poisson sampling makes it vary.
        epochs: passes over the data, expected; steps = epochs * records / batch_size, rounded up.
        learning_rate: on the mean of a batch, the highest of the schedule.
        optimizer: ``adam``, ``adamw`` or ``sgd``.
        momentum: of SGD.
        weight_decay: as in torch.optim.
        schedule: ``constant``, ``cosine`` or ``one-cycle``.
        warmup: share of the steps, in [0, 1).
        relation: ``add/remove`` or ``replace-one``.
        unit: what one example is: ``record``, or ``user`` where every example holds all records
            of one person.
        tuning: how these settings were chosen, see `lethe.evidence.dp_statement.DpSgdRun`.
        runs: trainings on the private data that are charged, >= 1.
        copies: rows of each drawn example in a step, >= 1, for `augment` to change.
        part_size: most examples computed at a time; larger batches are added up in parts.
        precision: ``float32``, or ``bfloat16`` products in the forward and backward pass.
    """

    delta: float | None = None
    epsilon: float | None = None
    noise_multiplier: float | None = None
    clip: float = 1.0
    batch_size: int = 256
    epochs: float = 10
    learning_rate: float = 1e-3
    optimizer: str = "adam"
    momentum: float = 0.0
    weight_decay: float = 0.0
    schedule: str = "constant"
    warmup: float = 0.0
    relation: str = "add/remove"
    unit: str = "record"
    tuning: str = "none"
    runs: int = 1
    copies: int = 1
    part_size: int = 64
    precision: str = "float32"

    def __post_init__(self) -> None:
        check_given_delta(self.delta)
        if (self.epsilon is None) == (self.noise_multiplier is None):
            raise InputError(
                "give epsilon (the noise is found) or noise_multiplier (epsilon is computed), "
                "not both and not neither."
            )
        for name in ("epsilon", "noise_multiplier", "clip", "learning_rate", "epochs"):
            value = getattr(self, name)
            if value is not None:
                check_between(name, value, 0, math.inf, open_low=True, open_high=True)
        for name in ("batch_size", "copies", "part_size", "runs"):
            check_at_least(name, getattr(self, name), 1)
        check_between("momentum", self.momentum, 0, 1, open_high=True)
        check_at_least("weight_decay", self.weight_decay, 0)
        check_between("warmup", self.warmup, 0, 1, open_high=True)
        check_choice("optimizer", self.optimizer, OPTIMIZERS)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("unit", self.unit, ("record", "user"))
        check_choice("relation", self.relation, ("add/remove", "replace-one"))
        check_choice("tuning", self.tuning, TUNING)

    def rate(self, records: int) -> float:
        """Probability of an example to be in a batch.

        Raises:
            InputError: the batch is larger than the data.
        """
        if self.batch_size > records:
            raise InputError(
                f"batch_size={self.batch_size} must be at most the {records} examples."
            )
        return self.batch_size / records

    def steps(self, records: int) -> int:
        """Noisy steps of one training."""
        return math.ceil(self.epochs / self.rate(records) - 1e-9)

    def noise(self, records: int, sensitivity: float) -> float:
        """The noise multiplier that was given, or the smallest that meets epsilon.

        Args:
            records: examples in the private data.
            sensitivity: largest norm of one example's part of the sum / clip, as checked.
        """
        if self.noise_multiplier is not None:
            return self.noise_multiplier
        assert self.epsilon is not None
        return noise_for(
            self.epsilon,
            self.delta,
            sampling_rate=self.rate(records),
            steps=self.steps(records) * self.runs,
            sensitivity=sensitivity,
            relation=self.relation,
        )
