"""Data of people stored in a model file, which needs no attack: rows, leaves, rare words."""

from __future__ import annotations

import functools
import inspect
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from sklearn.utils import _safe_indexing

from lethe.assess.verdict import InputCheck
from lethe.data.columns import as_text
from lethe.errors import LetheError
from lethe.training.chunks import Spec
from lethe.training.recipe import SklearnRecipe, TorchRecipe
from lethe.training.users_code import build_module, seeded, users_code

FEW = 5
"""Fewest people in a leaf of a tree for it to describe a group rather than persons."""
_ROWS = (
    *("_fit_X", "support_vectors_", "X_train_", "X_fit_", "_X_fit", "X_", "training_data_"),
    "_x_scores",
)
_WRAPPED = ("best_estimator_", "estimator_", "regressor_")
_DEPTH, _OBJECTS, _CELLS = 20, 200_000, 10**8
_SAMPLE = 500
"""Records that a training function gets here, to see what its model keeps of them."""


def stored_by(spec: Spec) -> list[InputCheck]:
    """Check what a model trained by the audit's recipe stores of its training data; see `stored`.

    Fits an estimator once more, on all records that can be members. Inspects a torch module as
    built: what it writes down while it is trained, beside its parameters, is not seen. Trains one
    model of 500 records by a training function and inspects the estimators and modules behind its
    predictions. Does not inspect the adapters for Lightning and transformers, and says so.

    Guarantee: as `stored`, of estimators.
    Assumes: the release is made by this recipe.
    """
    recipe, pool, seed = spec.recipe, np.flatnonzero(spec.pool), spec.seed % 2**31
    people = np.arange(len(spec.pool)) if spec.groups is None else np.asarray(spec.groups)
    features, models = np.asarray(spec.features), []
    checks: list[InputCheck] = []
    try:
        with users_code("the recipe"), seeded(seed):
            if isinstance(recipe, SklearnRecipe):
                from lethe.training.outputs import fit_rows, inputs_of

                inputs = inputs_of(recipe, features)
                model, _ = fit_rows(recipe, inputs, np.array(spec.labels), pool, spec.groups, seed)
                for check in stored(model, inputs, spec.pool, people):
                    checks.append(check)  # what was seen before an error counts
                return checks
            if isinstance(recipe, TorchRecipe):
                models = [build_module(recipe.make_module, seed)]
            elif not hasattr(recipe.train, "describe"):
                pool = np.sort(np.random.default_rng(seed).permutation(pool)[:_SAMPLE])
                answers = recipe.train(pool, np.ones(len(pool), np.float32), seed)
                models = [part for _, part in _parts(answers) if _is_model(part)]
            else:
                return [unseen("models of Lightning and transformers are not looked into")]
    except LetheError as error:  # whose text can hold a cell
        kind = type(error.__cause__ or error).__name__
        return [*checks, unseen(f"its code ended in {kind} when it was looked into")]
    parts = [part for model in models for part in _parts(model)]
    return list(_rows_and_leaves(parts, [features[pool]]))


def unseen(why: str) -> InputCheck:
    """What is said where nobody looked for training rows."""
    return InputCheck("stored-unseen", "asks", f"What the model file keeps was not seen: {why}.")


def _is_model(part: Any) -> bool:
    fitted = hasattr(part, "get_params") or hasattr(part, "state_dict")
    return fitted and not isinstance(part, type)


def stored(
    model: Any, inputs: Any, members: NDArray[np.bool_], people: NDArray[Any]
) -> Iterator[InputCheck]:
    """Check what a fitted model stores of its training data, the gravest first.

    Finds the rows of nearest neighbours, support vectors, kernels, Gaussian processes and search
    trees, and any other table in the model that holds training rows exactly, as the model or one
    of its steps saw them. Functions are not inspected: pass `model.predict_proba` if the model
    file will not be released.

    Guarantee: A model that keeps training rows under one of the names above, or of tables whose
        rows equal records of X, passes a rule only where this check is waived by name.
    Assumes: nothing about rows that are encoded, compressed, in the memory of another process,
        shared by five or more records, or beyond the first 10^8 numbers of a table.

    Args:
        model: fitted; an estimator, pipeline or torch module.
        inputs: (N, ...) records as the model takes them.
        members: (N,) whether the model was trained on each record.
        people: (N,) the person of each record.
    """
    if callable(model) and not any(hasattr(model, name) for name in ("predict", "state_dict")):
        return
    inputs, people = _safe_indexing(inputs, np.flatnonzero(members)), people[members]
    steps = list(_steps(model, inputs))
    yield from _rows_and_leaves(list(_parts(model)), [inputs, *(seen for _, seen in steps)])
    alone = dict.fromkeys(_single(model, steps, inputs, people))
    if alone:
        yield InputCheck(
            "stored-vocabulary",
            "asks",
            f"The model file names what only one person of the training has: {', '.join(alone)}.",
            "Set min_df or min_frequency to several people, or fix the list beforehand.",
        )


def _rows_and_leaves(parts: Sequence[tuple[str, Any]], seen: Iterable[Any]) -> Iterator[InputCheck]:
    """Check the parts of a model for rows and small leaves; `seen` holds its records by step."""
    rows = [f"{count:,} rows in {name}" for name, count in _row_tables(parts, seen)]
    if rows:
        yield InputCheck(
            "stored-rows",
            "stops",
            f"The model file holds training rows themselves: {', '.join(rows[:4])}. Whoever has "
            "the file reads them without an attack.",
            "Release a model that keeps no rows, or nothing but the answers of a function such as "
            "model.predict_proba.",
        )
    leaves = [count for _, part in parts for count in _leaves(part)]
    small = sum(count < FEW for count in leaves)
    if small:
        yield InputCheck(
            "stored-leaves",
            "asks",
            f"{small:,} of {len(leaves):,} leaves of its trees were made of fewer than {FEW} "
            f"training records, the smallest of {min(leaves):g}: the model file tells their "
            "classes or targets.",
            "Set min_samples_leaf higher.",
        )


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """Name and value of the model and of everything in it, breadth first."""
    waiting: deque[tuple[str, Any, int]] = deque([(type(model).__name__, model, 0)])
    seen: dict[int, Any] = {}  # keeps temporary tables alive, so that no id is reused
    while waiting and len(seen) < _OBJECTS:
        name, part, depth = waiting.popleft()
        if hasattr(part, "detach"):
            part = part.detach().cpu().numpy()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        yield name, part
        if depth == _DEPTH or isinstance(part, type):
            continue
        for key, value in _inside(part).items():
            if not isinstance(value, str | bytes | int | float | bool | None):
                waiting.append((f"{name}.{key}", value, depth + 1))


def _inside(part: Any) -> Mapping[str, Any]:
    """The attributes or items of a part, by name."""
    if isinstance(part, Mapping):
        return {str(key): value for key, value in part.items()}
    if isinstance(part, list | tuple | set) or getattr(part, "dtype", "") == "O":
        return {str(place): value for place, value in enumerate(list(part)[:_OBJECTS])}
    if isinstance(part, functools.partial):
        return {"func": part.func, "args": part.args, "keywords": part.keywords}
    if inspect.ismethod(part):
        return {"self": part.__self__}
    if inspect.isfunction(part):
        return {**inspect.getclosurevars(part).nonlocals, "defaults": part.__defaults__}
    if hasattr(part, "query_ball_point"):  # a search tree of SciPy
        return {"data": part.data}
    return {} if isinstance(part, np.ndarray) else getattr(part, "__dict__", {})


def _row_tables(parts: Iterable[tuple[str, Any]], seen: Iterable[Any]) -> Iterator[tuple[str, int]]:
    """Names of tables that hold training rows, by name in scikit-learn or by value, with counts."""
    known: set[Any] = set()
    for records in {id(records): records for records in seen}.values():
        counts = Counter(_rows(records))
        known |= {row for row, count in counts.items() if row and count < FEW}
    for name, part in parts:
        if name.rpartition(".")[2] in _ROWS and len(np.shape(part)) == 2 and part.shape[0]:
            yield name, part.shape[0]
        elif hasattr(part, "get_arrays"):  # a search tree over rows
            yield name, len(part.get_arrays()[0])
        elif known and (count := sum(row in known for row in _rows(part))):
            yield name, count


def _rows(table: Any) -> list[Any]:
    """Hashable rows of a table of two or more columns; 0 for a row whose cells are all equal.

    A list or a mapping of vectors of equal length counts as a table.
    """
    table = list(table.values()) if isinstance(table, Mapping) else table
    if isinstance(table, list | tuple):
        try:
            table = np.array([row for row in table if isinstance(row, np.ndarray | list)])
        except Exception:  # rows of several lengths, or of things that are no numbers
            return []
    elif hasattr(table, "columns") and hasattr(table, "to_numpy"):
        table = table.to_numpy()
    elif hasattr(table, "toarray"):
        table = table.toarray() if np.prod(table.shape) <= _CELLS else None
    if not isinstance(table, np.ndarray) or table.ndim < 2 or not table.size:
        return []
    flat = table.reshape(len(table), -1)[: max(1, _CELLS * len(table) // table.size)]
    if flat.shape[1] < 2 or flat.dtype.kind not in "fiubO":
        return []
    if flat.dtype.kind == "O":
        return [repr(row) if len({*map(repr, row)}) > 1 else 0 for row in flat.tolist()]
    flat = np.ascontiguousarray(flat, np.float32)
    varied = (flat != flat[:, :1]).any(axis=1)
    return [hash(row.tobytes()) * bool(differs) for row, differs in zip(flat, varied, strict=True)]


def _leaves(part: Any) -> Iterator[float]:
    """Number of training records in each leaf of a scikit-learn tree."""
    if hasattr(part, "n_node_samples") and hasattr(part, "children_left"):
        yield from part.n_node_samples[part.children_left == -1].tolist()
    elif type(part).__name__ == "TreePredictor":
        yield from part.nodes["count"][part.nodes["is_leaf"] == 1].tolist()


def _single(
    model: Any, steps: Iterable[tuple[Any, Any]], inputs: Any, people: NDArray[Any]
) -> Iterator[str]:
    """Words, categories and embedding rows that a single training person uses."""
    for part, records in steps:
        name = type(part).__name__
        if hasattr(part, "vocabulary_") and hasattr(part, "transform"):
            counts = coo_matrix(part.transform(records))
            count = _of_one(counts.col, people[counts.row])
            if count:
                yield f"{count:,} of {len(part.vocabulary_):,} words of {name}"
        elif hasattr(part, "categories_"):
            table = np.asarray(records, dtype=object).reshape(len(people), -1)
            columns = [as_text(column) for column in table.T]
            count = sum(_of_one(column, people) for column in columns)
            if count:
                yield f"{count:,} of {sum(map(len, part.categories_)):,} categories of {name}"
    if hasattr(model, "named_modules"):
        yield from _embedded(model, inputs, people)


def _of_one(entries: NDArray[Any], people: NDArray[Any]) -> int:
    """Number of distinct entries that belong to a single person."""
    code = np.unique(entries, return_inverse=True)[1]
    person = np.unique(people, return_inverse=True)[1]
    pairs = np.unique(np.stack([code, person], axis=1), axis=0)
    return int((np.bincount(pairs[:, 0]) == 1).sum()) if len(pairs) else 0


def _steps(model: Any, inputs: Any) -> Iterator[tuple[Any, Any]]:
    """Each fitted part of pipelines, column transformers and wrappers, with its input."""
    if isinstance(getattr(model, "steps", None), list):
        for _, step in model.steps:
            yield from _steps(step, inputs)
            if hasattr(step, "transform"):
                inputs = step.transform(inputs)
    elif hasattr(model, "transformers_"):
        for _, part, columns in model.transformers_:
            if hasattr(part, "transform"):
                yield from _steps(part, _safe_indexing(inputs, columns, axis=1))
    else:
        yield model, inputs
        several = getattr(model, "estimators_", [])
        wrapped = list(several.ravel() if isinstance(several, np.ndarray) else several)
        wrapped += [part.estimator for part in getattr(model, "calibrated_classifiers_", ())]
        wrapped += [getattr(model, name, None) for name in _WRAPPED]
        for part in filter(_is_model, wrapped):
            # With another number of columns the part was fitted on other records.
            if getattr(part, "n_features_in_", None) in (None, np.shape(inputs)[-1]):
                yield from _steps(part, inputs)


def _embedded(model: Any, inputs: Any, people: NDArray[Any]) -> Iterator[str]:
    """Rows of embeddings that only records of a single person look up."""
    import torch

    used: dict[str, Any] = {}
    hooks = [
        part.register_forward_pre_hook(
            lambda _, args, name=name: used.update({name: args[0].reshape(len(people), -1)})
        )
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Embedding)
    ]
    if not hooks:
        return
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.as_tensor(np.asarray(inputs)))
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    for name, index in used.items():
        person = np.repeat(people, index.shape[1])
        if count := _of_one(index.cpu().numpy().ravel(), person):
            yield f"{count:,} rows of the embedding {name!r}"
