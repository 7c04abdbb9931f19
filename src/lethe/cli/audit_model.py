"""`lethe audit model`, `scores` and `text`: who was in the training of a model?"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lethe.cli.options import (
    AS_USUAL,
    RunOptions,
    Subject,
    audited,
    begin,
    command_line,
    finish,
    given_in,
    heading_of,
    merged,
    scores_name,
    settings_of,
    subject_named,
)
from lethe.cli.subject import (
    DATA,
    ENGINES,
    MODEL,
    SCORES,
    TEXTS,
    DataOptions,
    EngineOptions,
    ModelOptions,
    ScoreOptions,
    TextOptions,
)
from lethe.membership.settings import AuditSettings

if TYPE_CHECKING:
    from lethe.cli.progress import Progress
    from lethe.cli.subject import Subject as Trained

FEW = 8
"""Fine-tuned models, where nobody says how many."""


def model(
    target: str | None = None,
    /,
    *,
    data: DataOptions = DATA,
    settings: ModelOptions = MODEL,
    engines: EngineOptions = ENGINES,
    run: RunOptions = AS_USUAL,
) -> int:
    """Attack a model's training, find the records at risk, mitigate, attack again, report.

    Nothing needs to be trained beforehand: the recipe is trained many times on halves of the
    records. The same command again resumes an interrupted run.

    Parameters
    ----------
    target
        Built-in data (digits, breast-cancer, diabetes) or a file (csv, parquet, npz). [as --config
        names it]
    """
    target = str(subject_named(target, run.config, "audit model"))
    given = given_in(data, settings, engines)
    return _trained("audit model", target, merged(run.config, {**given, "out": run.out}), run)


def text(
    file: str | None = None,
    /,
    *,
    texts: TextOptions = TEXTS,
    data: DataOptions = DATA,
    settings: ModelOptions = MODEL,
    engines: EngineOptions = ENGINES,
    run: RunOptions = AS_USUAL,
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
    """
    file = str(subject_named(file, run.config, "audit text"))
    given = given_in(texts, data, settings, engines)
    options = merged(run.config, {**given, "out": run.out, "predictions": None})
    options["predictions"] = True
    if options["fine_tune"]:
        options["models"] = FEW if options["models"] is None else options["models"]
        if options["epsilon"] is None and options["local_epsilon"] is None:
            options["mitigations"] = options["mitigations"] or ["none"]
    return _trained("audit text", file, options, run)


def _trained(command: str, target: str, options: dict[str, Any], run: RunOptions) -> int:
    """An audit that trains its models: load, train, attack, report."""
    from lethe.cli.progress import Progress
    from lethe.cli.subject import find_subject
    from lethe.data.dataset import copies_note
    from lethe.membership.audit import audit_model
    from lethe.training.engines import check_engine, choose_engine
    from lethe.training.engines.processes import preloading
    from lethe.training.environment import default_workers
    from lethe.training.folder import RunFolder

    settings = settings_of(AuditSettings, options)
    where, details, workers = options["engine"], options["engine_option"] or (), options["workers"]
    check_engine(where, details)
    if command == "audit model" and where in (None, "processes") and not options["recipe"]:
        # Half of what a small audit takes is torch being imported, here and in the workers.
        modules = ("lethe.training.chunks", "lethe.training.calibrate")
        imported: AbstractContextManager[None] = preloading(modules, workers or default_workers())
    else:
        imported = nullcontext()
    with Progress(run.quiet) as progress, imported:
        found = find_subject(target, options, settings, progress.say)
        with RunFolder(found.folder, found.name, command_line()) as folder:
            begin(folder, {"command": command, "target": target, **options})
            warn_models(options["models"], settings.models, progress.say)
            copies = copies_note(found.data.content, found.data.labels, found.data.groups)
            if copies:
                progress.say(f"warning: {copies}")
            if options.get("fine_tune"):
                _say_time(found, settings, workers, progress)
            engine = choose_engine(where, found.folder, workers, details, progress.say)
            memory = options["memory"]
            findings = audit_model(
                found.data, found.recipe, settings, folder, progress, workers, engine, memory
            )
            return finish(findings, folder, run.context, run.as_json)


def scores(
    file: Path | None = None,
    /,
    *,
    signal: Annotated[str | None, Parameter(group=heading_of("signal"))] = None,
    settings: ScoreOptions = SCORES,
    run: RunOptions = AS_USUAL,
) -> int:
    """Audit scores that you computed, in any language; nothing is trained.

    Parameters
    ----------
    file
        npz or safetensors with signals (models, records) and members (models, records), or
        parquet or csv with the columns model, record, signal, member. Models marked by targets
        (models,), or a column target, are attacked with all others as references. Records that
        no model was trained on stand for people outside.
    signal
        What the numbers are: "logit" (log of p/(1-p) of the true label), "prob", "loss" or
        "squared-error", of which minus the root is taken. [logit]
    """
    from lethe.membership.audit import audit_scores
    from lethe.membership.checks import duplicates
    from lethe.training.shadows import read_models

    file = Path(subject_named(file, run.config, "audit scores"))
    given = given_in(settings)
    options = merged(run.config, {**given, "signal": signal, "out": run.out})
    chosen = settings_of(AuditSettings, options)
    shadows, targets = read_models(file, options["signal"] or "logit")
    name = scores_name(shadows, targets, chosen.seed)
    notes: list[str] = []
    warn_models(None, shadows.models, notes.append)
    if shadows.copies:
        notes.append(f"warning: {duplicates(shadows).detail}")
    subject = Subject(
        file.stem,
        name,
        lambda folder, _: audit_scores(file.stem, shadows, chosen, folder, targets),
        tuple(notes),
    )
    return audited(subject, {"command": "audit scores", "file": str(file), **options}, run)


def warn_models(asked: int | None, models: int, say: Callable[[str], None]) -> None:
    """Say what is odd about the number of models."""
    if asked is not None and asked != models:
        say(f"models={asked} is odd; {models} are trained, in complementary pairs.")
    if models == 1:
        say("one model: only attacks that compare it with no other are run; see the limits.")
    elif models < 8:
        say(
            f"warning: models={models} gives very wide intervals and no selection of exposed "
            "records; use at least 16."
        )


def _say_time(
    found: Trained, settings: AuditSettings, workers: int | None, progress: Progress
) -> None:
    """What fine-tuning will take, measured on this machine, before it begins."""
    from lethe.membership.candidates import build_candidates
    from lethe.training.environment import default_workers
    from lethe.training.recipe import CallableRecipe
    from lethe.training.text_recipe import fine_tune_seconds

    assert isinstance(found.recipe, CallableRecipe)
    each = fine_tune_seconds(found.recipe, settings.holdout)
    candidates = len(build_candidates(settings, found.recipe)[0])
    workers = workers or default_workers()
    hours = each * settings.models * candidates / workers / 3600
    progress.say(
        f"fine-tuning: about {each / 60:.1f} minutes a model on one core; {settings.models} models "
        f"x {candidates} candidates on {workers} processes: about {hours:.1f} hours. Finished "
        "models are kept; stop with Ctrl-C."
    )
