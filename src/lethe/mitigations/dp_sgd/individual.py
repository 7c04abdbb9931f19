"""Individual DP obfuscation: DP-SGD in which exposed records count less, each with its epsilon.

Clipped gradients are multiplied by weights w_j in [0, 1] before noise is added, so that record j
moves the sum by at most w_j C and has the noise multiplier sigma / w_j. Where the weights are
functions of each record alone, fixed without the private data, that is a proof for every record;
where they come from the audit of the private data, it is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between
from lethe.evidence.dp_statement import DpStatement, dp_statement
from lethe.evidence.guarantee import Guarantee
from lethe.evidence.individual import check_weights
from lethe.mitigations.dp_sgd.candidate import PrivateTraining, of_an_audit, unknown_size
from lethe.mitigations.dp_sgd.method import expected_records
from lethe.mitigations.dp_sgd.public_weights import LEVELS
from lethe.training.recipe import Treatment


@dataclass(frozen=True, eq=False)
class IndividualPrivacy:
    """DP-SGD with a weight for each record; see `lethe.mitigations.mitigation.Mitigation`.

    Attributes:
        training: the noise: its epsilon is that of a record of weight 1.
        weights: (N,) in [0, 1], functions of each record alone that were fixed without the private
            data; rounded up to multiples of 1/32, so that each has an epsilon of its own. None
            takes the targeted weights of the audit, which proves nothing.
    """

    training: PrivateTraining
    weights: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        if self.weights is not None:
            levels = np.ceil(check_weights(self.weights) * LEVELS) / LEVELS
            object.__setattr__(self, "weights", levels.astype(np.float32))

    def at_a_bound(self) -> str | None:
        """Why it is no candidate: public weights that are all 1, or all at the floor; else None."""
        if self.weights is None:
            return None
        if (self.weights <= 1 / LEVELS).all():
            return (
                f"all public weights are at most 1/{LEVELS}, so that it delivers far less than "
                f"epsilon {self.training.epsilon:g} to every record and trains on next to nothing; "
                "lower --alpha, or hold out more records"
            )
        if (self.weights >= 1).all():
            return "all public weights are 1, so that it is dp-sgd itself; raise --alpha"
        return None

    @property
    def name(self) -> str:
        """See `Mitigation`."""
        kind = "weighted" if self.weights is None else "individual"
        return f"{kind}-dp-eps{self.training.epsilon:g}"

    @property
    def title(self) -> str:
        """See `Mitigation`."""
        whose = "targeted weights of private data" if self.weights is None else "public weights"
        return f"clipped gradients times {whose}, noise for epsilon {self.training.epsilon:g}"

    @property
    def settings(self) -> Mapping[str, Any]:
        """See `Mitigation`."""
        rule = "targeted" if self.weights is None else "public"
        return {**self.training.settings, "weights": rule}

    @property
    def needs_weights(self) -> bool:
        """See `Mitigation`."""
        return self.weights is None

    def treatment(
        self, weights: NDArray[np.float32], pool: NDArray[np.bool_] | None = None
    ) -> Treatment:
        """See `Mitigation`."""
        plain = self.training.treatment(weights, pool)
        return Treatment(
            weights=weights if self.weights is None else self.weights, method=plain.method
        )

    def guarantee(self, pool: NDArray[np.bool_] | None = None) -> Guarantee:
        """``individual-dp`` with public weights, ``empirical-only`` with those of the audit."""
        return unknown_size() if pool is None else of_an_audit(self.statement(pool).guarantee)

    def statement(self, pool: NDArray[np.bool_]) -> DpStatement:
        """The guarantee, with the epsilon of each record of the pool where there is one.

        Args:
            pool: (N,) records that can be members.

        Raises:
            InputError: weights of another length than the pool.
        """
        records = int(pool.sum())
        own = np.ones(records)
        if self.weights is not None:
            if self.weights.shape != pool.shape:
                raise InputError(
                    f"{len(self.weights)} weights do not fit {len(pool)} records: "
                    "give one for each."
                )
            own = self.weights[pool].astype(np.float64)
        source = "private" if self.weights is None else "public"
        run = self.training.run(expected_records(pool))
        return dp_statement(replace(run, records=records, weights=own, weights_from=source))

    def details(self, pool: NDArray[np.bool_]) -> Mapping[str, Any]:
        """How epsilon is spread over the records of the pool, where each has one."""
        epsilons = self.statement(pool).epsilons
        return {} if epsilons is None else {"epsilons": epsilon_histogram(epsilons)}


def epsilon_histogram(epsilons: NDArray[np.float64], bins: int = 20) -> dict[str, Any]:
    """How epsilon is spread over the records, as plain values for a report.

    Args:
        epsilons: (n,) >= 0, n >= 1.
        bins: >= 1, of equal width from 0 to the largest.

    Returns:
        ``edges`` (bins + 1), ``counts`` (bins), ``median``, ``min``, ``max`` and ``n``.

    >>> epsilon_histogram(np.array([0.0, 1.0, 4.0, 4.0]), bins=2)["counts"]
    [2, 2]
    """
    check_at_least("bins", bins, 1)
    check_at_least("n", len(epsilons), 1)
    least, most = float(np.min(epsilons)), float(np.max(epsilons))
    check_between("epsilons", least, 0, np.inf)
    counts, edges = np.histogram(epsilons, bins, (0.0, most or 1.0))
    return {
        "edges": edges.tolist(),
        "counts": counts.tolist(),
        "median": float(np.median(epsilons)),
        "min": least,
        "max": most,
        "n": len(epsilons),
    }
