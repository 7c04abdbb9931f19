"""Models behind the service: labels alone, or scores with fresh noise, and a count of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, check_at_least, check_between, check_choice

Predict = Callable[[NDArray[np.float64]], Any]
KINDS = ("label", "smoothed")
MOST_ROWS = 1_000


@dataclass(frozen=True)
class Served:
    """A model that answers rows.

    Attributes:
        name: in the URL.
        predict: rows (n, d) -> scores (n, C), or values (n,) of a regression.
        kind: "label": the index of the largest score, nothing else; "smoothed": the scores with
            normal noise, drawn anew for every answer.
        features: d.
        queries: rows that each analyst may have answered in all.
        sigma: standard deviation of the noise, in units of the scores; above 0 for "smoothed".

    Guarantee:
        None: what is answered was measured at most (empirical-only). The same row asked M times
        has its noise averaged away like 1/sqrt(M); the count of rows is what limits M.
    """

    name: str
    predict: Predict
    kind: str
    features: int
    queries: int
    sigma: float = 0.0

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, KINDS)
        check_at_least("features", self.features, 1)
        check_at_least("queries", self.queries, 1)
        check_between("sigma", self.sigma, 0, float("inf"), open_high=True)
        if (self.kind == "smoothed") is not (self.sigma > 0):
            raise InputError(
                f"sigma={self.sigma:g} with kind={self.kind!r}: noise belongs to 'smoothed', and "
                "has a sigma above 0 there."
            )

    def rows(self, given: Any) -> NDArray[np.float64]:
        """Rows of a request as an array.

        Raises:
            InputError: not 1 to `MOST_ROWS` lists of `features` finite numbers.
        """
        fits = isinstance(given, list) and 0 < len(given) <= MOST_ROWS
        if not fits or not all(self._is_row(row) for row in given):
            raise InputError(
                f"rows must be 1 to {MOST_ROWS} lists of {self.features} finite numbers each."
            )
        return np.array(given, dtype=np.float64)

    def answer(self, rows: NDArray[np.float64]) -> list[Any]:
        """Labels, or scores with noise, one entry a row.

        Raises:
            InputError: the model gave something else than scores.
        """
        scores = np.asarray(self.predict(rows), dtype=np.float64)
        if scores.ndim not in (1, 2) or len(scores) != len(rows) or not np.isfinite(scores).all():
            raise InputError("the model did not give finite scores, one line a row.")
        if self.kind == "label":
            if scores.ndim != 2:
                raise InputError("labels need scores (n, C).")
            return [int(at) for at in scores.argmax(axis=1)]
        # From the operating system, not from a seed: nobody may draw the same noise again.
        noise = np.random.default_rng().normal(0.0, self.sigma, scores.shape)
        noisy: list[Any] = (scores + noise).tolist()
        return noisy

    def _is_row(self, row: Any) -> bool:
        return (
            isinstance(row, Sequence)
            and not isinstance(row, str)
            and len(row) == self.features
            and all(_is_number(one) for one in row)
        )


def _is_number(one: Any) -> bool:
    # Whole numbers of JSON have any size, and those beyond a float cannot be converted.
    return (
        isinstance(one, int | float)
        and not isinstance(one, bool)
        and abs(one) <= 1e300
        and one == one
    )
