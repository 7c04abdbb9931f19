"""Limits on what a released classifier answers: temperature, rounding, the label alone.

The model is trained as the recipe says and remembers as much as ever; only less of it is shown.
Each limit is attacked by somebody who knows it, see `lethe.training.answers`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.guarantee import Guarantee, empirical_only
from lethe.mitigations.mitigation import Mitigation
from lethe.training.answers import Answer, LabelOnly, Rounding, Temperature
from lethe.training.recipe import Treatment


@dataclass(frozen=True)
class OutputLimit:
    """One way to answer that the audit puts on the frontier.

    Attributes:
        name: unique name of the candidate.
        title: what is done, in words.
        answer: what the model answers, and what the attacker makes of it.
        assumes: how it was attacked.
        voided_by: what would end it beyond what ends every limit on outputs.
        needs_weights: never.
    """

    name: str
    title: str
    answer: Answer
    assumes: str
    voided_by: tuple[str, ...]
    needs_weights: bool = False

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its numbers, plain values."""
        return {key: value for key, value in self.answer.describe().items() if key != "kind"}

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The recipe as it is, with another answer."""
        return Treatment(answer=self.answer)

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """Always `empirical-only`: the model itself is unchanged."""
        return empirical_only(
            self.assumes,
            "nobody but its operator sees the model's parameters, gradients or full outputs",
            voided_by=(
                "a release of the parameters, or another way to ask the model",
                *self.voided_by,
                "a stronger attack",
            ),
        )

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Nothing further."""
        return {}


def output_limits(
    temperature: float = 4.0, decimals: int = 1, labels: LabelOnly | None = None
) -> list[Mitigation]:
    """The limits on outputs that a fair reader asks for.

    Args:
        temperature: of the answered probabilities, > 0.
        decimals: of the answered probabilities.
        labels: how a model that answers labels only is attacked; its own defaults by default.
            For images say so there: the copies are then moved, too.
    """
    asked = LabelOnly() if labels is None else labels
    return [
        OutputLimit(
            "temperature",
            "probabilities flattened or sharpened by a temperature",
            Temperature(temperature),
            "the attacker knows the temperature and undoes it: it protects nobody",
            ("knowledge or a guess of the temperature",),
        ),
        OutputLimit(
            "rounding",
            "probabilities rounded to few decimals",
            Rounding(decimals),
            "the attacker sees the rounded probabilities of the record alone",
            ("questions about changed copies of a record, which give the lost digits back",),
        ),
        OutputLimit(
            "label-only",
            "the most likely class and nothing else",
            asked,
            f"the attacker asks about {asked.copies} changed copies of every record",
            ("more questions a record, or such as search for the boundary",),
        ),
    ]
