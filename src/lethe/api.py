"""An audit in one line of Python: what is in memory goes in, findings come out."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lethe.errors import InputError

if TYPE_CHECKING:
    from lethe.data.dataset import Dataset
    from lethe.evidence.findings import Findings
    from lethe.training.recipe import Recipe


def audit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    groups: Any = None,
    ids: Any = None,
    name: str = "model",
    out: str | Path | None = None,
    save: bool = True,
    quiet: bool = False,
    workers: int | None = None,
    **settings: Any,
) -> Findings:
    """Attack the training of a model, mitigate, attack again, and compare.

    The model is trained many times on random halves of the records; yours is left as it is. The
    same call again goes on where it was stopped, and computes nothing anew once it is done.

    Args:
        model: how one model is trained: an estimator or pipeline with scikit-learn's interface
            (it is fitted on your own data frame, by column names); a function without arguments
            that builds a torch module; a function ``train(rows, weights, seed)`` that returns
            ``predict(rows)``, probabilities or numbers; or a recipe of `lethe.training`.
        X: (records, ...) pandas or polars frame, Arrow table, NumPy array, SciPy sparse matrix,
            tensor; or a torch Dataset or DataLoader of pairs, without `y`.
        y: (records,) classes as text, bools or whole numbers; numbers for a regression.
        groups: (records,) the person of each record; nobody is trained on in part.
        ids: (records,) unique names of the records.
        name: what the report calls the model.
        out: folder of the run; by default ``lethe-runs/NAME-HASH``.
        save: leave the run folder with report, findings and shadow models; False leaves nothing.
        quiet: no progress.
        workers: processes of one thread each; all cores by default.
        settings: of `AuditSettings`, such as ``models=16``, ``attack="lira-online"``,
            ``mitigations="none"``, ``gate="tpr@0.01<=0.05"``.

    Returns:
        The findings.

    Raises:
        InputError: a value, type or setting breaks a rule; the message says which.
        RunFailed: a worker died or the disk is full; the same call resumes.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = audit(LogisticRegression(), X, y, models=4, mitigations="none", save=False,
    ...               quiet=True, workers=1, attack="loss-threshold")
    >>> found.candidates[0]["name"]
    'baseline'
    """
    from lethe.cli.options import begin, documents, run_folder
    from lethe.cli.progress import Progress
    from lethe.data.given import given_rows
    from lethe.membership.audit import audit_model, baseline_spec
    from lethe.training.folder import RunFolder

    chosen = audit_settings(settings)
    task = _task_of(model)
    data, frame = given_rows(X, y, task=task, groups=groups, ids=ids, name=name)
    recipe = recipe_of(model, data, frame)
    bound = baseline_spec(data, recipe, chosen).hash()
    with _place(run_folder(out, name, bound), save) as path, Progress(quiet) as progress:
        with RunFolder(path, bound, f"lethe.audit({type(model).__name__})") as folder:
            begin(folder, {"command": "lethe.audit", "gate": list(chosen.gate)})
            found = audit_model(data, recipe, chosen, folder, progress, workers)
            findings = documents(found, folder)
            if save:
                progress.say(f"report: {folder.path / 'report.html'}")
    return findings


def audit_settings(given: dict[str, Any]) -> Any:
    """`AuditSettings` of keyword arguments; one value will do where several are taken.

    Raises InputError: there is no such setting, or a value breaks its rule.

    >>> audit_settings({"attack": "lira-online"}).attack
    ('lira-online',)
    """
    from dataclasses import fields

    from lethe.errors import did_you_mean
    from lethe.membership.settings import AuditSettings

    known = {field.name: str(field.type) for field in fields(AuditSettings)}
    for key in given:
        if key not in known:
            raise InputError(
                f"{key}={given[key]!r} is no setting of an audit.{did_you_mean(key, known)} "
                f"Settings: {', '.join(known)}."
            )
    several = {
        key: (value,) if isinstance(value, str | float | int) else tuple(value)
        for key, value in given.items()
        if known[key].startswith("tuple") and value is not None
    }
    return AuditSettings(**{**given, **several})


def recipe_of(model: Any, data: Dataset, frame: Any = None) -> Recipe:
    """How one model is trained, from what people have.

    Args:
        model: see `audit`.
        data: the records.
        frame: the table that an estimator is fitted on.

    Raises InputError: it is none of them; the message says what to hand over.
    """
    from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe

    if isinstance(model, TorchRecipe | SklearnRecipe | CallableRecipe):
        return model
    if hasattr(model, "fit") and hasattr(model, "get_params"):
        return SklearnRecipe(model, frame)
    regression = data.task == "regression"
    if hasattr(model, "parameters") and hasattr(model, "state_dict"):
        raise InputError(
            f"model is one {type(model).__name__}: every shadow model needs a fresh one. Hand over "
            "a function that builds it, such as lambda: Net()."
        )
    if callable(model):
        wanted = _arguments(model)
        if wanted == 0:
            return TorchRecipe(model, loss="squared-error" if regression else "cross-entropy")
        if wanted == 3:
            return CallableRecipe(model, "prediction" if regression else "probabilities")
    raise InputError(
        f"model is a {type(model).__name__}; hand over an estimator with fit and predict_proba, a "
        "function without arguments that builds a torch module, a function train(rows, weights, "
        "seed) that returns predict(rows), or a recipe."
    )


def _task_of(model: Any) -> str | None:
    """What an estimator or a recipe is for; None where the labels say it."""
    from lethe.training.recipe import SklearnRecipe

    if hasattr(model, "fit") and hasattr(model, "get_params"):
        return SklearnRecipe(model).task
    found = getattr(model, "task", None)
    return found if isinstance(found, str) else None


def _arguments(function: Callable[..., Any]) -> int | None:
    """How many arguments a function must be given; None where nobody can tell."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.default is one.empty and one.kind in needed for one in listed)


@contextmanager
def _place(folder: Path, save: bool) -> Iterator[Path]:
    """The folder of the run, or one that is gone afterwards."""
    if save:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="lethe-") as place:
        yield Path(place) / "run"
