"""The vectors of one model as they are released, with what is known about their rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError
from lethe.reidentification.gallery import check_users
from lethe.reidentification.head import Head, as_head, classes_of
from lethe.reidentification.vectors import check_binary, check_table


@dataclass(frozen=True, eq=False)
class Released:
    """One model's vectors; rows of several models belong together by position.

    Attributes:
        name: of the model.
        representations: (n, d), finite.
        user_ids: (n,) whole numbers or text; whose row it is.
        labels: (n,) classes from 0, or None: then no utility.
        head: what reads the vectors, see `as_head`; None: no utility and no radii.
        period: (n,) period of each row, or None.
        features: (n, p) inputs of the model, or None.
        notes: what was left out or converted when the file was read.

    Raises:
        InputError: arrays of different length, NaN, ids of mixed types, a head of other
            dimension, labels that the head cannot give.
    """

    name: str
    representations: NDArray[Any]
    user_ids: NDArray[Any]
    labels: NDArray[Any] | None = None
    head: Any = None
    period: NDArray[Any] | None = None
    features: NDArray[Any] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        vectors = np.asarray(self.representations)
        check_table("representations", vectors)
        object.__setattr__(self, "representations", vectors)
        object.__setattr__(self, "user_ids", check_users(self.user_ids))
        for name in ("user_ids", "labels", "period", "features"):
            given = getattr(self, name)
            if given is None:
                continue
            if len(given) != len(vectors):
                raise InputError(
                    f"{name} has {len(given)} rows, representations {len(vectors)}. Give one of "
                    "each row."
                )
            object.__setattr__(self, name, np.asarray(given))
        if self.features is not None:
            check_table("features", self.features)
        if self.head is not None:
            object.__setattr__(self, "head", as_head(self.head, vectors.shape[1]))
        if self.head is not None and self.labels is not None:
            self._check_labels(self.head, self.labels)

    def _check_labels(self, head: Head, labels: NDArray[Any]) -> None:
        sample = head.logits(self.representations[:1])
        if sample.ndim == 1:
            check_binary(labels, len(labels))
        elif not np.isin(labels, np.arange(sample.shape[1])).all():
            raise InputError(
                f"labels must be classes 0 to {sample.shape[1] - 1}, as the head of "
                f"{sample.shape[1]} logits gives them."
            )

    @property
    def classes(self) -> int | None:
        """Classes that the head tells apart; None without a head."""
        if self.head is None:
            return None
        logits = self.head.logits(self.representations[:1])
        return 2 if logits.ndim == 1 else int(logits.shape[1])

    def predicted(self) -> NDArray[np.intp]:
        """(n,) classes that the head gives the clean vectors."""
        return classes_of(self.head.logits(self.representations))


def check_same_people(models: Sequence[Released]) -> None:
    """Models side by side must be of the same rows, or their numbers compare different people.

    Raises:
        InputError: no model, two of one name, or rows of other people.
    """
    if not models:
        raise InputError("there are no representations to audit; give one model or more.")
    names = [one.name for one in models]
    if len(set(names)) != len(names):
        raise InputError(f"models must have different names, got {', '.join(names)}.")
    first = models[0]
    for other in models[1:]:
        if not np.array_equal(first.user_ids, other.user_ids):
            raise InputError(
                f"the rows of {other.name!r} are not those of {first.name!r}: their user_ids "
                "differ. Save the same rows in the same order for each model, or audit them apart."
            )
