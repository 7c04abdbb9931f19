"""Audits of models in one line: what is in memory goes in, findings come out."""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lethe.errors import InputError
from lethe.membership.settings import AuditSettings
from lethe.runs.run import perform, scores_name
from lethe.runs.settings import Run, audit_of, keywords_of

if TYPE_CHECKING:
    from lethe.data.dataset import RowsInMemory
    from lethe.evidence.findings import Findings
    from lethe.runs.run import Progress
    from lethe.training.folder import RunFolder
    from lethe.training.recipe import Recipe
    from lethe.training.shadows import Shadows


@audit_of(AuditSettings)
def audit(
    model: Any,
    X: Any,
    y: Any = None,
    *,
    members: Any = None,
    groups: Any = None,
    sample_weight: Any = None,
    ids: Any = None,
    holdout_by: Any = None,
    workers: int | None = None,
    memory: float | None = None,
    engine: str | None = None,
    engine_option: Sequence[str] = (),
    **settings: Any,
) -> Findings:
    """Attack the training of a model, mitigate, attack again, and compare.

    The model is trained many times on random halves of the records; yours is left as it is. With
    `members` nothing is trained, and your fitted model itself is attacked.

    Args:
        model: with `members`, your fitted model: an estimator, a torch module, or a function from
            records to probabilities (in the order of the sorted classes), labels or numbers. Else
            how one model is trained: an estimator or pipeline with scikit-learn's interface
            (it is fitted on your own data frame, by column names); a function without arguments
            that builds a torch module; a function ``train(rows, weights, seed)`` that returns
            ``predict(rows)``, probabilities or numbers; or a recipe, see `lethe.TorchRecipe`,
            `lethe.lightning_recipe` and `lethe.huggingface_recipe`.
        X: (records, ...) pandas or polars frame, Arrow table, NumPy array, texts, sparse matrix,
            tensor; or, without `y`, a torch Dataset or DataLoader of pairs, or what `lethe.load`
            read.
        y: (records,) classes as text, bools or whole numbers; numbers for a regression;
            (records, outputs) labels of an estimator with several outputs, whose combinations are
            then the classes: scores are the sums of log-probabilities, utility is the share of
            records with all labels right.
        members: (records,) whether your fitted model was trained on each record. Members and others
            must be drawn at random from the same people: a split by date measures the date. Only
            attacks that compare it with no other model are run, which an attacker with more means
            exceeds.
        groups: (records,) the person of each record; nobody is trained on in part. Splits such as
            `GroupKFold` inside an estimator are by these.
        sample_weight: (records,) weights above 0 for the estimator's `fit`. Utility has none.
        ids: (records,) unique names of the records.
        holdout_by: records of another time, site or group, that no model trains on and utility is
            judged on: a condition on a column of `X`, such as "year>=2016", or (records,) bools.
            Attacks do not see them, so that drift is not taken for a leak.
        workers: processes, one thread each. [all cores]
        memory: GiB that models trained at the same time may take together. [half of the machine's]
        engine: where models are trained: processes, ray, ray://HOST:PORT, or by-hand, which prints
            the commands for Slurm or any other scheduler. [processes]
        engine_option: KEY=VALUE for the engine; may be repeated. ray: address, store.
        settings: of `AuditSettings`.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> found = audit(LogisticRegression(), X, y, models=4, mitigations="none", save=False,
    ...               quiet=True, workers=1, attack="loss-threshold")
    >>> found.candidates[0]["name"]
    'baseline'
    """
    from lethe.data.dataset import Dataset, RowsInMemory, copies_note
    from lethe.data.given import check_order, given_rows
    from lethe.membership.audit import audit_model, baseline_spec, public_of
    from lethe.membership.candidates import build_candidates
    from lethe.training.engines import choose_engine

    how, chosen = keywords_of(AuditSettings, settings)
    name = how.name or "model"
    beside = (y, groups, sample_weight, ids, holdout_by)
    order = {"y": y, "members": members, "groups": groups, "sample_weight": sample_weight}
    check_order(X=X, **order, ids=ids, holdout_by=holdout_by)
    if isinstance(X, Dataset) and all(part is None for part in beside):
        handed = RowsInMemory(X)
    else:
        from lethe.training.recipe import SklearnRecipe

        estimator = hasattr(model, "fit") and hasattr(model, "get_params")
        task = SklearnRecipe(model).task if estimator else getattr(model, "task", None)
        handed = given_rows(
            X,
            y,
            task=task if isinstance(task, str) else None,  # else the labels say it
            groups=groups,
            weights=sample_weight,
            ids=ids,
            name=name,
            holdout_by=holdout_by,
            public=public_of(chosen) if members is None else None,
        )
    if members is not None:
        for option, value in (("holdout_by", holdout_by), ("sample_weight", sample_weight)):
            if value is not None:
                raise InputError(f"{option} is for models that are trained; members= trains none.")
        return _fitted(model, how, handed, members, chosen)
    if engine == "by-hand" and how.asked is None:
        raise InputError(
            "engine='by-hand' trains by `lethe shadow`, which needs a run that `lethe audit model` "
            "began. In Python use lethe.membership.by_hand."
        )
    data, recipe = handed.data, recipe_of(model, handed)
    build_candidates(chosen, recipe)  # refused before a run folder is there
    notes = models_notes(settings.get("models"), chosen.models)
    if copies := copies_note(data.content, data.labels, data.groups):
        notes.append(f"warning: {copies}")

    def measured(run: RunFolder, progress: Progress) -> Findings:
        place = choose_engine(engine, run.path, workers, engine_option, progress.say)
        return audit_model(data, recipe, chosen, run, progress, workers, place, memory)

    bound = baseline_spec(data, recipe, chosen).hash()
    return perform("audit", how, name, bound, chosen, measured, notes=notes)


@audit_of(AuditSettings)
def audit_scores(
    signals: Any,
    /,
    members: Any = None,
    *,
    signal: str = "logit",
    ids: Any = None,
    labels: Any = None,
    groups: Any = None,
    targets: Any = None,
    **settings: Any,
) -> Findings:
    """Attack models by their scores, computed anywhere; nothing is trained.

    Args:
        signals: (models, records), how well each model knows each record; or (records,) of one
            model, for attacks that compare it with no other; or a file of these and all below.
        members: the same shape, whether the model was trained on the record.
        signal: what the numbers are: "logit" (log of p/(1-p) of the true label), "prob", "loss" or
            "squared-error", of which minus the root is taken.
        ids: (records,) unique names.
        labels: (records,) classes.
        groups: (records,) the person of each record.
        targets: (models,) True for models that are attacked with all others as references; None =
            every model in turn.
        settings: of `AuditSettings`.

    >>> rng, asked = np.random.default_rng(0), {"attack": "lira-online", "save": False}
    >>> inside = rng.random((8, 200)) < 0.5
    >>> found = audit_scores(rng.normal(size=(8, 200)) + inside, inside, quiet=True, **asked)
    >>> found.candidates[0]["attacks"]["lira-online"]["auc"]["low"] > 0.5
    True
    """
    from lethe.data.arrays import as_array
    from lethe.data.given import check_order, column_of
    from lethe.membership.checks import duplicates
    from lethe.training.scores_file import scores_of
    from lethe.training.shadows import models_of, read_models

    how, chosen = keywords_of(AuditSettings, settings)
    if isinstance(signals, str | Path):
        shadows, attacked = read_models(Path(signals), signal)
        title, notes = how.name or Path(signals).stem, models_notes(None, shadows.models)
        if shadows.copies:
            notes.append(f"warning: {duplicates(shadows).detail}")
        return _scored("audit_scores", how, title, shadows, attacked, chosen, notes)
    title = how.name or "scores"
    tables = {"signals": as_array(signals, "signals"), "members": as_array(members, "members")}
    each = {"ids": ids, "labels": labels, "groups": groups, "targets": targets}
    both = {"signals": signals, "members": members}
    check_order(**both)
    check_order(**{key: one.T for key, one in both.items() if hasattr(one, "iloc")}, **each)
    columns = {key: np.atleast_2d(table) for key, table in tables.items()} | {
        key: column_of(values, key) for key, values in each.items() if values is not None
    }
    models = models_of(scores_of(columns, signal, title), signal)
    return _scored("audit_scores", how, title, *models, chosen)


def models_notes(asked: int | None, models: int) -> list[str]:
    """Word notes on a number of models that is unusual.

    Args:
        asked: as it was typed, where it was.
        models: that there are.
    """
    notes = []
    if asked is not None and asked != models:
        notes.append(f"models={asked} is odd; {models} are trained, in complementary pairs.")
    if models == 1:
        notes.append(
            "one model: only attacks that compare it with no other are run; see the limits."
        )
    elif models < 8:
        notes.append(
            f"warning: models={models} gives very wide intervals and no selection of exposed "
            "records; use at least 16."
        )
    return notes


@audit_of(AuditSettings)
def audit_text(
    texts: Sequence[str],
    codes: Any,
    *,
    encoder: str | Path | None = None,
    groups: Any = None,
    ids: Any = None,
    holdout_by: Any = None,
    workers: int | None = None,
    **settings: Any,
) -> Findings:
    """Attack an autocoder: a small head that gives texts a code, on a frozen sentence encoder.

    Args:
        texts: (records,) free text.
        codes: (records,) their classes.
        encoder: folder or package of the encoder; None = the one that is installed. Nothing is
            downloaded.
        groups: (records,) the person of each text.
        ids: (records,) unique names.
        holdout_by: (records,) bools, True for texts of another time, site or group; see `audit`.
        workers: processes of one thread each; all cores by default.
        settings: of `AuditSettings`.

    >>> texts = [f"fell off a {thing} {at}" for at in range(15) for thing in ("ladder", "roof")]
    >>> codes = ["ladder" in text for text in texts]
    >>> found = audit_text(texts, codes, models=4, mitigations="none", attack="loss-threshold",
    ...                    save=False, quiet=True, workers=1)
    >>> found.data["classes"]
    ['False', 'True']
    """
    from lethe.data.given import check_order, column_of, given_rows
    from lethe.data.text import CACHE, encode, find_encoder
    from lethe.membership.audit import public_of
    from lethe.runs.run import Progress
    from lethe.training.text_recipe import head_recipe

    check_order(texts=texts, codes=codes, groups=groups, ids=ids, holdout_by=holdout_by)
    written = tuple(map(str, column_of(texts, "texts")))
    if not all(text.strip() for text in written):
        empty = next(index for index, text in enumerate(written) if not text.strip())
        raise InputError(f"text {empty} is empty. Leave such records out.")
    vectoriser = find_encoder(encoder)
    settings = {"predictions": True, "name": "texts", **settings}
    how, chosen = keywords_of(AuditSettings, {**settings})
    with (
        tempfile.TemporaryDirectory(prefix="lethe-") as there,
        Progress(how.quiet) as progress,
    ):
        vectors = encode(vectoriser, written, CACHE if how.save else Path(there), progress.say)
    data = given_rows(
        vectors,
        codes,
        task="classification",
        groups=groups,
        ids=ids,
        name=str(how.name),
        holdout_by=holdout_by,
        public=public_of(chosen),
    ).data
    recipe = head_recipe(len(data), vectors.shape[1], len(data.classes))
    return audit(recipe, data, workers=workers, **settings)


def recipe_of(model: Any, rows: RowsInMemory) -> Recipe:
    """Make a recipe of a model: how one shadow model is trained.

    Args:
        model: see `audit`.
        rows: the records, and how models see them.

    Raises InputError: it is none of them; the message says what to hand over.
    """
    from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe
    from lethe.training.users_code import check_own_loop, seeded, users_code

    recipe = model
    if hasattr(model, "fit") and hasattr(model, "get_params"):
        return SklearnRecipe(model, rows.frame, rows.class_labels, rows.weights)
    check_own_loop(model)
    if rows.weights is not None:
        raise InputError(
            "sample_weight is for estimators whose fit takes it; any other model multiplies each "
            "record's loss by a weight of its own. Leave it out."
        )
    if rows.class_labels is not None and rows.class_labels.ndim == 2:
        raise InputError(
            f"y has {rows.class_labels.shape[1]} columns, which only estimators with "
            f"scikit-learn's interface take; model is a {type(model).__name__}. Take one column."
        )
    if hasattr(model, "state_dict") and not isinstance(model, type):
        raise InputError(
            f"model is one {type(model).__name__}: every shadow model needs a fresh one. Hand over "
            "a function that builds it, such as lambda: Net()."
        )
    if callable(model):
        regression, wanted = rows.data.task == "regression", _arguments(model)
        if wanted == 0:
            with users_code("model"), seeded(0):
                built = model()
            if hasattr(built, "fit") and hasattr(built, "get_params"):
                return recipe_of(built, rows)
            check_own_loop(built)
            recipe = TorchRecipe(model, loss="squared-error" if regression else "cross-entropy")
        if wanted == 3:
            recipe = CallableRecipe(model, "prediction" if regression else "probabilities")
    if isinstance(recipe, TorchRecipe):
        from lethe.training.wrapped import wrapped

        if isinstance(rows.frame, np.ndarray):
            way_out = "hand over a pipeline with a vectoriser, or use lethe.audit_text"
            raise InputError(f"X holds texts, which a torch module does not read: {way_out}.")
        records = np.asarray(rows.data.features) if rows.array is None else rows.array
        make = wrapped(recipe.make_module, records, len(rows.data.classes))
        return replace(recipe, make_module=make)
    if isinstance(recipe, SklearnRecipe | CallableRecipe):
        return recipe
    raise InputError(
        f"model is a {type(model).__name__}; hand over an estimator with fit and predict_proba, a "
        "function without arguments that builds a torch module, a function train(rows, weights, "
        "seed) that returns predict(rows), or a recipe."
    )


def _fitted(model: Any, how: Run, rows: RowsInMemory, members: Any, chosen: Any) -> Findings:
    """Look into a fitted model, and attack it by its scores on members and others."""
    from lethe.data.given import column_of
    from lethe.membership.audit import audit_scores
    from lethe.membership.fitted import asked
    from lethe.membership.one_model.predictor import estimated
    from lethe.membership.stored import stored
    from lethe.training.scores_file import scores_of
    from lethe.training.shadows import models_of

    # As handed over: a number rounded to single precision is another one.
    data, handed = rows.data, rows.array if rows.frame is None else rows.frame
    inputs = data.features if handed is None else handed
    answers = asked(model, inputs, data.labels, data.classes, rows.class_labels)
    inside = column_of(members, "members")
    columns = {"signals": answers.signal[None], "members": inside[None], "ids": data.ids}
    each = {"labels": data.labels, "groups": data.groups}
    columns |= {key: values for key, values in each.items() if values is not None}
    models = models_of(scores_of(columns, "logit", data.name), "logit")
    people = models[0].people
    kept = list(stored(model, inputs, models[0].members[0], people))
    features = np.asarray(data.features)
    measured = partial(
        audit_scores,
        features=features,
        kept=kept,
        estimate=estimated(model, answers.outputs, data.labels, models[0].members[0], features),
    )
    return _scored("audit", how, data.name, *models, chosen, answers.notes, measured)


def _scored(
    command: str,
    how: Run,
    title: str,
    shadows: Shadows,
    targets: Shadows | None,
    chosen: Any,
    notes: Sequence[str] = (),
    measured: Callable[..., Findings] | None = None,
) -> Findings:
    from lethe.membership.audit import audit_scores as usual

    return perform(
        command,
        how,
        title,
        scores_name(shadows, targets, chosen.seed),
        chosen,
        lambda run, _: (measured or usual)(title, shadows, chosen, run, targets),
        notes=notes,
    )


def _arguments(function: Callable[..., Any]) -> int | None:
    """Count the arguments that a function requires; None if its signature cannot be read."""
    try:
        listed = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    needed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(one.default is one.empty and one.kind in needed for one in listed)
