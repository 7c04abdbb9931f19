"""The vectors of one model as they are released, with what is known about their rows."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lethe.data.arrays import as_array
from lethe.errors import InputError
from lethe.reidentification.gallery import check_users
from lethe.reidentification.texts import Texts
from lethe.reidentification.vectors import Float, check_binary, check_table, check_vectors

# The head on top of a representation: from (m, d) vectors to logits, linear or any module.

_ROWS = 1 << 14  # rows that a module sees at once


@dataclass(frozen=True, eq=False)
class LinearHead:
    """logits = weight r + bias; one logit for a binary head, C for C classes.

    Raises InputError: shapes that do not fit, entries that are not finite, or a binary weight of
        zeros, which looks at nothing.

    >>> LinearHead([3.0, 4.0], -5.0).margins([[3.0, 4.0], [1.0, 0.0]])
    array([ 4. , -0.4])
    """

    weight: ArrayLike  # (d,) for a binary head, (C, d) for C >= 2 classes
    bias: ArrayLike = 0.0  # a number, or (C,); 0 is none for either

    def __post_init__(self) -> None:
        weight, bias = np.asarray(self.weight, np.float64), np.asarray(self.bias, np.float64)
        if weight.ndim not in (1, 2) or not weight.size or (weight.ndim == 2 and len(weight) < 2):
            raise InputError(
                f"head weight of shape {weight.shape} must be (d,) for a binary head "
                "or (C, d) with C >= 2."
            )
        if weight.ndim == 1 and bias.shape == (1,):
            bias = bias[0]
        if weight.ndim == 2 and bias.shape == () and bias == 0:
            bias = np.zeros(len(weight))
        if np.shape(bias) != weight.shape[:-1]:
            raise InputError(
                f"head bias of shape {np.shape(bias)} must be {weight.shape[:-1]} "
                f"for weights of shape {weight.shape}."
            )
        if not (np.isfinite(weight).all() and np.isfinite(bias).all()):
            raise InputError("head weight and bias must be finite numbers.")
        if weight.ndim == 1 and not weight.any():
            raise InputError("head weight is all zeros: such a head looks at nothing.")
        object.__setattr__(self, "weight", weight)
        object.__setattr__(self, "bias", np.asarray(bias))

    @property
    def rows(self) -> Float:
        """(1, d) or (C, d): the weight with one row a logit."""
        return np.atleast_2d(np.asarray(self.weight, np.float64))

    @property
    def dimension(self) -> int:
        """d, the length of the vectors that it reads."""
        return int(self.rows.shape[1])

    @property
    def binary(self) -> bool:
        """Whether it has one logit (class 1 where that is above 0)."""
        return np.ndim(self.weight) == 1

    @property
    def classes(self) -> int:
        """Number of classes, >= 2."""
        return 2 if self.binary else len(self.rows)

    @property
    def norm(self) -> float:
        """||w|| of a binary head: what one unit of isotropic noise becomes in the logit.

        Raises InputError: the head has several logits.
        """
        if not self.binary:
            raise InputError(f"a head of {self.classes} logits has no single norm; use `margins`.")
        return float(np.linalg.norm(self.rows))

    def logits(self, representations: ArrayLike) -> Float:
        """(n,) of a binary head or (n, C)."""
        r = check_vectors("representations", representations, self.dimension)
        return np.asarray(r @ np.asarray(self.weight).T + self.bias)

    def predict(self, representations: ArrayLike) -> NDArray[np.intp]:
        """(n,) class of each row; a binary logit of exactly 0 is class 0."""
        return classes_of(self.logits(representations))

    def margins(self, representations: ArrayLike) -> Float:
        """(n,) distance to where the predicted class changes.

        Binary: z / ||w||, with the sign of z. Several classes: the least of
        (z_A - z_j) / ||w_A - w_j|| over the others, >= 0; inf where no other can ever win.
        """
        z = self.logits(representations)
        if self.binary:
            return np.asarray(z / self.norm)
        rows, best = self.rows, z.argmax(axis=1)
        gap = z[np.arange(len(z)), best][:, None] - z
        away = np.linalg.norm(rows[:, None] - rows[None], axis=2)[best]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(away > 0, gap / away, np.where(gap > 0, np.inf, 0.0))
        reach[np.arange(len(z)), best] = np.inf
        return np.asarray(reach.min(axis=1))


@dataclass(frozen=True, eq=False)
class AnyHead:
    """A callable from (m, d) vectors to (m,), (m, 1) or (m, C) logits; a torch module as well.

    A module is called without gradients, in inference mode (dropout off, as it is used), and is
    left as it was found.

    Attributes:
        function: the module or the callable; a callable is given and returns NumPy arrays.
    """

    function: Callable[..., Any]

    def logits(self, representations: ArrayLike) -> Float:
        """(n,) of a binary head or (n, C).

        Raises InputError: the head returns another shape, or numbers that are not finite.
        """
        r = check_vectors("representations", representations)
        call = self._module if is_module(self.function) else self.function
        parts = [np.asarray(call(r[at : at + _ROWS]), np.float64) for at in range(0, len(r), _ROWS)]
        z = np.concatenate(parts)
        if z.ndim not in (1, 2) or len(z) != len(r) or not z.size:
            raise InputError(
                f"the head made {z.shape} of {len(r)} rows; it must give (m,) or (m, C) logits."
            )
        if not np.isfinite(z).all():
            raise InputError("the head gave NaN or inf logits.")
        return z[:, 0] if z.ndim == 2 and z.shape[1] == 1 else z

    def predict(self, representations: ArrayLike) -> NDArray[np.intp]:
        """(n,) class of each row; a binary logit of exactly 0 is class 0."""
        return classes_of(self.logits(representations))

    def _module(self, rows: Float) -> Float:
        import torch

        module: Any = self.function
        was = {part: part.training for part in module.modules()}
        weight = next(module.parameters(), torch.zeros(0))
        module.train(False)
        try:
            with torch.no_grad():
                given = torch.as_tensor(rows, dtype=weight.dtype, device=weight.device)
                return np.asarray(module(given).double().cpu().numpy())
        finally:
            for part, training in was.items():
                part.training = training


Head = LinearHead | AnyHead


def is_module(head: object) -> bool:
    """Whether this is a torch module; torch is not imported to find out."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(head, torch.nn.Module)


def as_head(head: Any, dimension: int | None = None) -> Head:
    """A head from whatever describes one.

    Args:
        head: a `LinearHead` or `AnyHead`, a pair (w, b), a ``torch.nn.Linear`` (taken as linear),
            any other module, or a callable.
        dimension: d of the vectors, checked where the head knows its own.

    Raises InputError: something else, or another dimension.

    >>> as_head(([1.0, 0.0], 0.5), 2).binary
    True
    """
    made: Head
    if isinstance(head, LinearHead | AnyHead):
        made = head
    elif isinstance(head, tuple) and len(head) == 2:
        made = LinearHead(*head)
    elif is_module(head) and isinstance(head, sys.modules["torch"].nn.Linear):
        weight = head.weight.detach().double().cpu().numpy()
        free = np.zeros(len(weight)) if head.bias is None else head.bias.detach().double().cpu()
        bias = np.asarray(free)
        made = LinearHead(weight[0], bias[0]) if len(weight) == 1 else LinearHead(weight, bias)
    elif callable(head):
        made = AnyHead(head)
    else:
        raise InputError(
            f"head of type {type(head).__name__} must be (w, b), a torch module or a callable."
        )
    if dimension is not None and isinstance(made, LinearHead) and made.dimension != dimension:
        raise InputError(
            f"head weight has {made.dimension} dimensions and the representations {dimension}: "
            "take both from one model."
        )
    return made


def classes_of(logits: Float) -> NDArray[np.intp]:
    """(n,) classes from (n,) binary or (n, C) logits; ties go to the lower class."""
    if logits.ndim == 1:
        return np.asarray(logits > 0, np.intp)
    return np.asarray(logits.argmax(axis=1), np.intp)


@dataclass(frozen=True, eq=False)
class Released:
    """One model's vectors; rows of several models belong together by position.

    Each may be given as an array, a torch tensor, a column or frame of pandas, polars or Arrow, or
    a list; it is kept as an array.

    Attributes:
        name: of the model.
        representations: (n, d), finite.
        user_ids: (n,) whole numbers or text; whose row it is.
        labels: (n,) classes from 0, or None: then no utility.
        head: what reads the vectors, see `as_head`; None: no utility and no radii.
        period: (n,) period of each row, or None.
        features: (n, p) inputs of the model, or None.
        notes: what was left out or converted when the file was read.
        attributes: by name a value for each row (n,), what may be inferred of its person.

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
    attributes: Mapping[str, Any] = field(default_factory=dict)
    texts: Texts | None = None  # the text behind each row, and their encoder

    def __post_init__(self) -> None:
        vectors = as_array(self.representations, "representations")
        if vectors.dtype == np.float16:  # sums of halves would be rounded to halves
            vectors = vectors.astype(np.float64)
        check_table("representations", vectors)
        if vectors.dtype == np.float64 and max(vectors.max(), -vectors.min()) > 1e150:
            raise InputError(
                "representations reach beyond 1e150, and squares of these have no place in a "
                "64-bit float. Divide all vectors, and the noise, by one constant."
            )
        object.__setattr__(self, "representations", vectors)
        object.__setattr__(self, "user_ids", check_users(as_array(self.user_ids, "user_ids")))
        for name in ("user_ids", "labels", "period", "features"):
            given = getattr(self, name)
            if given is None:
                continue
            given = as_array(given, name)
            if len(given) != len(vectors):
                raise InputError(
                    f"{name} has {len(given)} rows, representations {len(vectors)}. Give one of "
                    "each row."
                )
            object.__setattr__(self, name, given)
        given_attributes = {
            name: as_array(values, name) for name, values in self.attributes.items()
        }
        for name, values in given_attributes.items():
            if values.shape != (len(vectors),):
                raise InputError(
                    f"attribute {name!r} has shape {values.shape}; give one value for each of "
                    f"{len(vectors)} rows."
                )
        object.__setattr__(self, "attributes", given_attributes)
        if self.features is not None:
            check_table("features", self.features)
        if self.head is not None:
            object.__setattr__(self, "head", as_head(self.head, vectors.shape[1]))
        if self.head is not None and self.labels is not None:
            sample = self.head.logits(self.representations[:1])
            if sample.ndim == 1:
                check_binary(self.labels, len(self.labels))
            elif not np.isin(self.labels, np.arange(sample.shape[1])).all():
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

    Raises InputError: no model, two of one name, or rows of other people.
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
