"""What every candidate of a membership audit offers: a change of the training, and its label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.guarantee import Guarantee
from lethe.training.recipe import Treatment


class Mitigation(Protocol):
    """One way to train, or to answer, that an audit puts on the frontier."""

    @property
    def name(self) -> str:
        """Unique name of the candidate."""
        ...

    @property
    def title(self) -> str:
        """What is done, in words."""
        ...

    @property
    def settings(self) -> Mapping[str, Any]:
        """Its numbers, plain values."""
        ...

    @property
    def needs_weights(self) -> bool:
        """Whether it uses the weights that the audit derives from the private baseline."""
        ...

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """The training change.

        Args:
            weights: (N,) targeted weights of this audit; 1 for held-out records.
            pool: (N,) records that can be members; all by default.
        """
        ...

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """What it proves.

        Args:
            pool: (N,) records that can be members; half of them train one model. None where
                nothing is known of the data.
        """
        ...

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """Further plain values for the findings, by key; most have none.

        Args:
            pool: (N,) records that can be members.
        """
        ...
