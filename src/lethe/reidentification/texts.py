"""Texts behind vectors: which text of a list does a released vector stand for?

The attacker has the encoder of the texts and a list of candidates, and takes the nearest. Models
that write a text from a vector (inversion) are not run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.arrays import as_array
from lethe.errors import InputError
from lethe.evidence.of_vectors import ByTexts, Retrieved
from lethe.reidentification.attack import measure
from lethe.reidentification.by_user import scaled
from lethe.reidentification.ranks import ranks
from lethe.reidentification.vectors import check_vectors

SIZES = (10, 100, 1000, 10_000, 100_000)

Encode = Callable[[Sequence[str]], Any]
"""From m texts to their vectors (m, d), those that the released ones were made as."""


@dataclass(frozen=True, eq=False)
class Texts:
    """What an attacker on texts has, and the texts of the rows, which tell whether it is right.

    Attributes:
        of_rows: (n,) the text of each released row.
        candidates: further texts of the attacker's list; those of the rows are in it too.
    """

    of_rows: Sequence[str]
    encode: Encode
    candidates: Sequence[str] = ()


def retrieved(
    vectors: NDArray[Any],
    user_ids: NDArray[Any],
    texts: Texts,
    *,
    metric: str = "cosine",
    confidence: float = 0.95,
) -> Retrieved:
    """Look up the nearest text of each released row (n, d); intervals by people.

    Equal texts are one entry of the list. Ranks are exact, so smaller lists follow from the whole.

    Raises InputError: another number of texts than rows, fewer than 2 texts, or an encoder that
        gives other dimensions.

    >>> def encode(texts): return [[float(len(t)), 1.0] for t in texts]
    >>> rows, texts = np.array([[1.0, 1.0], [4.0, 1.0]]), Texts(["a", "four"], encode)
    >>> retrieved(rows, np.array([0, 1]), texts).sizes[-1].top_1.value
    1.0
    """
    names = np.asarray(texts.of_rows, dtype=str)
    if names.shape != (len(vectors),):
        raise InputError(f"texts has {len(names)} entries for {len(vectors)} rows.")
    everything = np.unique(np.concatenate([names, np.asarray(texts.candidates, dtype=str)]))
    if len(everything) < 2:
        raise InputError("retrieval needs a list of 2 different texts or more.")
    encoded = check_vectors(
        "encoded texts", as_array(texts.encode(everything.tolist()), "encode"), vectors.shape[1]
    )
    if len(encoded) != len(everything):
        raise InputError(f"encode gave {len(encoded)} vectors for {len(everything)} texts.")
    place = np.searchsorted(everything, names)
    order = ranks(np.asarray(vectors, np.float64), encoded, place, metric)
    size = len(everything)
    fewer = [number for number in SIZES if number < size]
    owner = np.unique(user_ids, return_inverse=True)[1]
    whole = measure(order, owner, top=(1, 10), common=fewer, confidence=confidence)
    tops = {**whole.common, size: whole.top[1]}
    sizes = [ByTexts(number, top, scaled(top, number)) for number, top in tops.items()]
    return Retrieved(size, sizes, whole.top[10])
