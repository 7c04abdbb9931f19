"""`lethe audit model` and `text`: who was in the training of a model that is trained here?"""

from __future__ import annotations

from collections import defaultdict
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from lethe.membership.settings import AuditSettings
from lethe.runs.settings import Run, settings_of

if TYPE_CHECKING:
    from lethe.cli.subject import Subject
    from lethe.evidence.findings import Findings
    from lethe.runs.progress import Progress

FEW = 8
"""Fine-tuned models, where nobody says how many."""


def model(target: str, /, **options: Any) -> Findings:
    """Train the recipe many times on halves of the records of a file, attack, mitigate, report."""
    return _trained("audit model", target, options, {})


def text(file: str, /, **options: Any) -> Findings:
    """The same of an autocoder, a head on a sentence encoder: texts become vectors once."""
    settled: dict[str, Any] = {"predictions": True}
    if options.get("fine_tune"):
        settled["models"] = options.get("models", FEW)
        if "epsilon" not in options and "local_epsilon" not in options:
            settled["mitigations"] = options.get("mitigations") or ["none"]
    return _trained("audit text", file, options, settled)


def _trained(
    command: str, target: str, options: dict[str, Any], settled: dict[str, Any]
) -> Findings:
    """An audit that trains its models: load, train, attack, report."""
    from lethe.api.models import models_notes
    from lethe.cli.subject import find_subject
    from lethe.data.dataset import copies_note
    from lethe.membership.audit import audit_model
    from lethe.runs.progress import Progress
    from lethe.runs.run import perform
    from lethe.training.engines import check_engine, choose_engine
    from lethe.training.engines.processes import preloading
    from lethe.training.environment import default_workers
    from lethe.training.folder import RunFolder

    options = defaultdict(lambda: None, {**options, **settled, "command": command})
    settings = settings_of(AuditSettings, options)
    where, details, workers = options["engine"], options["engine_option"] or (), options["workers"]
    quiet = bool(options["quiet"])
    check_engine(where, details)
    if command == "audit model" and where in (None, "processes") and not options["recipe"]:
        # Half of what a small audit takes is torch being imported, here and in the workers.
        modules = ("lethe.training.chunks", "lethe.training.calibrate")
        imported: AbstractContextManager[None] = preloading(modules, workers or default_workers())
    else:
        imported = nullcontext()
    with imported:
        with Progress(quiet) as progress:
            subject = find_subject(target, options, settings, progress.say)
        data = subject.data
        notes = models_notes(options["models"], settings.models)
        if copies := copies_note(data.content, data.labels, data.groups):
            notes.append(f"warning: {copies}")

        def measured(run: RunFolder, progress: Progress) -> Findings:
            if options["fine_tune"]:
                _say_time(subject, settings, workers, progress)
            engine = choose_engine(where, run.path, workers, details, progress.say)
            memory = options["memory"]
            return audit_model(
                data, subject.recipe, settings, run, progress, workers, engine, memory
            )

        return perform(
            command,
            Run(out=options["out"], quiet=quiet),
            data.name,
            subject.name,
            settings,
            measured,
            notes=notes,
            settled=settled,
        )


def _say_time(
    subject: Subject, settings: AuditSettings, workers: int | None, progress: Progress
) -> None:
    """What fine-tuning will take, measured on this machine, before it begins."""
    from lethe.membership.candidates import build_candidates
    from lethe.training.environment import default_workers
    from lethe.training.recipe import CallableRecipe
    from lethe.training.text_recipe import fine_tune_seconds

    assert isinstance(subject.recipe, CallableRecipe)
    each = fine_tune_seconds(subject.recipe, settings.holdout)
    candidates = len(build_candidates(settings, subject.recipe)[0])
    workers = workers or default_workers()
    hours = each * settings.models * candidates / workers / 3600
    progress.say(
        f"fine-tuning: about {each / 60:.1f} minutes a model on one core; {settings.models} models "
        f"x {candidates} candidates on {workers} processes: about {hours:.1f} hours. Finished "
        "models are kept; stop with Ctrl-C."
    )
