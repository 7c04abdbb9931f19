"""`lethe audit embeddings`: measure vectors that a model gives of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    finish,
    given_in,
    merged,
    options_for,
    run_folder,
    running,
    settings_of,
    subject_named,
)
from lethe.errors import InputError
from lethe.loaders.embeddings import read_embeddings, read_head
from lethe.reidentification.audit import audit_released
from lethe.reidentification.released import Released
from lethe.reidentification.settings import EmbeddingSettings
from lethe.training.fingerprint import digest, hash_array

_NAMES = {"sigmas": "sigma"}
if TYPE_CHECKING:
    VectorOptions = EmbeddingSettings
else:
    VectorOptions = options_for(
        EmbeddingSettings,
        names=_NAMES,
        leave=(
            *("surface", "pools", "precision", "refine", "repeats", "common", "radius_sigmas"),
            *("alpha", "backend"),
        ),
    )


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class HeadOptions:
    """What is done with the vectors.

    Parameters
    ----------
    head
        File with w and b (or W and b), for utility and radii; once for each model, in their
        order.
    layer
        Name of the head's layer, in a checkpoint that has several.
    """

    head: Annotated[list[Path] | None, Parameter(negative=())] = None
    layer: str | None = None


HEADS, VECTORS = HeadOptions(), VectorOptions()


def embeddings(
    *files: Path,
    heads: HeadOptions = HEADS,
    settings: VectorOptions = VECTORS,
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit vectors: whose is this one, what noise stops that, and what no attacker can do.

    Each file is one model's: representations (rows, dimensions) and user_ids, perhaps labels,
    period and features; npz, safetensors, parquet or pt. Nothing in a file is ever unpickled.
    Several models are compared side by side and must be of the same rows.

    Parameters
    ----------
    files
        One file a model.
    """
    named = subject_named(files, run.config, "audit embeddings")
    files = (Path(named),) if isinstance(named, str) else tuple(map(Path, named))
    options = merged(run.config, {**given_in(heads, settings), "out": run.out})
    chosen = settings_of(EmbeddingSettings, options, _NAMES)
    models = read_models(files, options)
    name = models_name(models, chosen.seed)
    folder = run_folder(options["out"], files[0].stem, name)
    command = {"command": "audit embeddings", "file": list(files), **options}
    with running(folder, name, command, run.quiet) as (there, progress):
        for note in (note for model in models for note in model.notes):
            progress.say(note)
        findings = audit_released(models, chosen, progress.say, there)
        return finish(findings, there, run.context, run.as_json)


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
