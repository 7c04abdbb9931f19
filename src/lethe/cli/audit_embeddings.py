"""`lethe audit embeddings`: measure vectors that a model gives of people."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from lethe.cli.options import options_of

_RENAMED = {"sigma": "sigmas"}
_LISTS = ("sigmas", "averaged", "surface", "radius_sigmas", "gate", "common")


def embeddings(
    *files: Path,
    head: Annotated[list[Path] | None, Parameter(negative=())] = None,
    layer: str | None = None,
    sigma: Annotated[list[float] | None, Parameter(consume_multiple=True, negative=())] = None,
    averaged: Annotated[list[int] | None, Parameter(consume_multiple=True, negative=())] = None,
    metric: str | None = None,
    clean_gallery: bool | None = None,
    vectors: int | None = None,
    known: str | None = None,
    later: str | None = None,
    min_rows: int | None = None,
    draws: int | None = None,
    plays: int | None = None,
    norm: float | None = None,
    diameter: float | None = None,
    delta: float | None = None,
    lift: float | None = None,
    floor: float | None = None,
    radius_points: int | None = None,
    radius_draws: int | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    release: str | None = None,
    margin: float | None = None,
    confidence: float | None = None,
    seed: int | None = None,
    out: Path | None = None,
    workers: int | None = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit vectors: whose is this one, what noise stops that, and what no attacker can do.

    Each file is one model's: representations (rows, dimensions) and user_ids, perhaps labels,
    period and features; npz, safetensors, parquet or pt. Nothing in a file is ever unpickled.
    Several models are compared side by side and must be of the same rows.

    Parameters
    ----------
    files
        One file a model.
    head
        File with w and b (or W and b), for utility and radii; once for each model, in their
        order.
    layer
        Name of the head's layer, in a checkpoint that has several.
    sigma
        Noise levels. [0.01 0.05 0.1 0.25 0.5 0.75 1 1.5 2 3]
    averaged
        Numbers M of draws of one vector that somebody may average. [1 4 16 100]
    metric
        Distance of the sweep's table: cosine or l2. All attackers run in any case. [cosine]
    clean_gallery
        The adversary may hold vectors of people from before the noise. [yes]
    vectors
        Most new vectors of a person that the adversary may know to be of one; 0 = all. [0]
    known
        Period of the vectors that the attacker knows, with --later.
    later
        Period of the vectors to be named: the cross-window protocol.
    min_rows
        People with fewer rows are left out. [4]
    draws
        Noise draws a level. [20]
    plays
        Plays of the best attacker there is, a level; 0 leaves him out. [2000]
    norm
        Clip vectors to this length before noise, as one more candidate; fixed without the data.
    diameter
        The most that two vectors can differ, known without the data, such as that of a last
        LayerNorm: gives differential privacy.
    delta
        Of the epsilon that is printed. [1e-5]
    lift
        Privacy asks for a lift over chance below it. [2]
    floor
        Utility asks for an AUC (or accuracy) above it. [0.6]
    radius_points
        Rows with certified radii, at most. [3000]
    radius_draws
        Draws a radius. [1000]
    gate
        Rule that sets the exit code, such as "lift<=2" or "bound<=0.01"; may be repeated. Metrics:
        lift and top-1 of the strongest attacker, bound (on every attacker's Top-1, one vector),
        utility-loss, and width(...) of each.
    release
        Candidate that the rules judge, such as noise-1. [baseline]
    margin
        Loss of utility that counts as none. [0.01]
    confidence
        Of all intervals. [0.95]
    seed
        Of everything random. [0]
    out
        Run folder. [lethe-runs/FILE-HASH]
    workers
        Threads that rank. [1]
    keep_records
        Keep the table of exposed people in the run folder; it is personal data.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "files")
    from lethe.cli.embeddings_subject import models_name, read_models
    from lethe.cli.options import (
        finish,
        merged,
        run_folder,
        running,
        settings_of,
        subject_named,
    )
    from lethe.reidentification.audit import audit_released
    from lethe.reidentification.settings import EmbeddingSettings

    named = subject_named(files, config, "audit embeddings")
    files = (Path(named),) if isinstance(named, str) else tuple(map(Path, named))
    options = merged(config, given)
    wanted = {_RENAMED.get(key, key): value for key, value in options.items()}
    settings = settings_of(EmbeddingSettings, wanted, _LISTS)
    models = read_models(files, options)
    name = models_name(models, settings.seed)
    folder = run_folder(options["out"], files[0].stem, name)
    command = {"command": "audit embeddings", "file": list(files), **options}
    with running(folder, name, command, quiet) as (run, progress):
        for note in (note for model in models for note in model.notes):
            progress.say(note)
        findings = audit_released(models, settings, progress.say, run)
        return finish(findings, run, context, as_json)
