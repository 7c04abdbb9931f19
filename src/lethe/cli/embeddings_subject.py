"""The vectors and heads that `lethe audit embeddings` is told to audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lethe.data.vectors import read_embeddings, read_head
from lethe.errors import InputError
from lethe.reidentification.released import Released
from lethe.training.fingerprint import digest, hash_array


def read_models(files: Sequence[Path], options: Mapping[str, Any]) -> list[Released]:
    """One model a file, with its head.

    Args:
        files: see `read_embeddings`.
        options: of the command: `head` and `layer`.

    Raises:
        InputError: a file is not readable or does not fit, or as many heads as files are not there.
    """
    given = options["head"] or []
    heads = [Path(one) for one in (given if isinstance(given, list) else [given])]
    if heads and len(heads) != len(files):
        raise InputError(
            f"files={len(files)} and heads={len(heads)}: give --head once for each "
            "file, in their order, or not at all."
        )
    models = []
    for at, path in enumerate(files):
        read = read_embeddings(path)
        head = None
        if heads:
            found = read_head(heads[at], read.representations.shape[1], options["layer"])
            head = (found.weights, found.bias)
        models.append(
            Released(
                read.name,
                read.representations,
                read.user_ids,
                read.labels,
                head,
                read.period,
                read.features,
                read.notes,
            )
        )
    return models


def models_name(models: Sequence[Released], seed: int) -> str:
    """What a run is bound to: the content of the files, and the seed."""
    hashes = [
        hash_array(array)
        for model in models
        for array in (model.representations, model.user_ids, model.labels, model.features)
        if array is not None
    ]
    return digest(*hashes, str(seed))
