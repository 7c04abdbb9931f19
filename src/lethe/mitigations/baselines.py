"""Cheap comparators that a serious defence must beat: regularisers, and limits on what is answered.

L2, label smoothing, mixup and averaging are there to generalise better; nothing limits what the
model learns of any one record, and better is not always safer: on digits (32 networks, 1,437
records, seed 0) LiRA's TPR at 1 % FPR was 0.055 without them, 0.055 with L2 0.001, 0.072 with
smoothing 0.1, 0.047 with mixup, 0.054 with averaging. Early stopping, the fifth, is in
`lethe.mitigations.obfuscation`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.training.answers import Answer, LabelOnly, Rounding, Temperature
from lethe.training.recipe import Recipe, TorchRecipe, Treatment

STRONGER = 10.0
"""How many times the recipe's own L2 penalty the comparator takes, if the recipe has one."""


@dataclass(frozen=True)
class Comparator:
    """A `Mitigation` whose fixed change is measured and proves nothing."""

    name: str  # unique name of the candidate
    title: str  # what is done, in words
    settings: Mapping[str, Any]  # its numbers, plain values
    changes: Treatment  # the same for every data set
    assumptions: tuple[str, ...]  # how it was attacked
    voided_by: tuple[str, ...]  # what would end its effect
    needs_weights: bool = False  # never

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The change; the weights play no part."""
        return self.changes

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: nothing bounds what one record changes."""
        return empirical_only(*self.assumptions, voided_by=self.voided_by)

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Nothing further."""
        return {}


def _regulariser(name: str, title: str, field: str, value: float, *voided_by: str) -> Comparator:
    """One field of `Treatment` set."""
    return Comparator(
        name,
        title,
        {field: value},
        Treatment(**{field: value}),  # type: ignore[arg-type]  # the fields are numbers
        ("the attacks of this audit, at their budget, on records like these",),
        (*voided_by, "a stronger attack", "retraining", "another form of release"),
    )


def _output_limit(
    name: str, title: str, answer: Answer, assumes: str, voided_by: str
) -> Comparator:
    """The recipe as it is, with another answer."""
    return Comparator(
        name,
        title,
        {key: value for key, value in answer.describe().items() if key != "kind"},
        Treatment(answer=answer),
        (assumes, "nobody but its operator sees the model's parameters, gradients or full outputs"),
        (
            "a release of the parameters, or another way to ask the model",
            voided_by,
            "a stronger attack",
        ),
    )


def default_decay(recipe: Recipe) -> float:
    """An L2 penalty that is felt: ten times the recipe's own, or one for its optimiser.

    1e-3 where the penalty is part of the gradient, 0.1 where AdamW takes it off the parameters,
    times the learning rate.
    """
    if isinstance(recipe, TorchRecipe) and recipe.weight_decay > 0:
        return STRONGER * recipe.weight_decay
    return 0.1 if isinstance(recipe, TorchRecipe) and recipe.optimizer == "adamw" else 1e-3


def cheap_baselines(
    recipe: Recipe,
    weight_decay: float | None = None,
    label_smoothing: float = 0.1,
    mixup: float = 1.0,
    average: float = 0.25,
) -> list[Comparator]:
    """The cheap regularisers; `recipe.refuses` says which of them a recipe cannot take.

    Args:
        weight_decay: of the L2 comparator; see `default_decay`.
        label_smoothing: of the target, in [0, 1).
        mixup: alpha of Beta(alpha, alpha), > 0; 1 takes all shares to be alike.
        average: share of the last steps whose parameters are averaged, in (0, 1].
    """
    decay = default_decay(recipe) if weight_decay is None else weight_decay
    return [
        _regulariser("l2", "a stronger L2 penalty on the parameters", "weight_decay", decay),
        _regulariser(
            "label-smoothing",
            "targets that give every class a little",
            "label_smoothing",
            label_smoothing,
            "shadow models with the same smoothing, which can mark members more clearly",
        ),
        _regulariser("mixup", "training on mixtures of two records of a batch", "mixup", mixup),
        _regulariser(
            "model-averaging",
            "the average of the parameters over the last steps",
            "average",
            average,
        ),
    ]


def output_limits(
    temperature: float = 4.0, decimals: int = 1, labels: LabelOnly | None = None
) -> list[Comparator]:
    """The limits on outputs that a fair reader asks for.

    Args:
        temperature: of the answered probabilities, > 0.
        decimals: of the answered probabilities.
        labels: how a model that answers labels only is attacked; its own defaults by default.
            For images say so there: the copies are then moved, too.
    """
    asked = LabelOnly() if labels is None else labels
    return [
        _output_limit(
            "temperature",
            "probabilities flattened or sharpened by a temperature",
            Temperature(temperature),
            "the attacker knows the temperature and undoes it: it protects nobody",
            "knowledge or a guess of the temperature",
        ),
        _output_limit(
            "rounding",
            "probabilities rounded to few decimals",
            Rounding(decimals),
            "the attacker sees the rounded probabilities of the record alone",
            "questions about changed copies of a record, which give the lost digits back",
        ),
        _output_limit(
            "label-only",
            "the most likely class and nothing else",
            asked,
            f"the attacker asks about {asked.copies} changed copies of every record",
            "more questions a record, or such as search for the boundary",
        ),
    ]
