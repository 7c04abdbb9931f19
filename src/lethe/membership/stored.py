"""What lies in a model file itself, found without an attack: rows, leaves, words of one person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.assess.input_checks import InputCheck
from lethe.data.columns import as_text

FEW = 5
"""People below which a leaf of a tree speaks about persons rather than about a group."""
_ROWS = ("_fit_X", "support_vectors_", "X_train_", "X_fit_", "_X_fit", "X_")
_DEPTH, _OBJECTS = 12, 20_000


def stored(
    model: Any, inputs: Any, members: NDArray[np.bool_], people: NDArray[Any]
) -> Iterator[InputCheck]:
    """What a fitted model keeps of its training, the gravest first.

    Rows are those of nearest neighbours, support vectors, kernels and Gaussian processes, and any
    other table in the model that holds training rows exactly, as the model saw them. A function
    that answers is asked, not opened: hand over `model.predict_proba` where the file stays at home.

    Guarantee: A model that keeps training rows under one of the names above, or of tables whose
        rows equal records of X, never passes a rule.
    Assumes: nothing about rows that a model keeps encoded, compressed or in memory of another
        process.

    Args:
        model: fitted; an estimator, pipeline or torch module.
        inputs: (N, ...) records as the model takes them.
        members: (N,) the records that it was trained on.
        people: (N,) the person of each record.
    """
    parts = list(_parts(model))
    rows = [f"{len(table):,} rows in {name}" for name, table in _row_tables(parts, inputs)]
    if rows:
        yield InputCheck(
            "stored-rows",
            "stops",
            f"The model file holds training rows themselves: {', '.join(rows[:4])}. Whoever has "
            "the file reads them without an attack.",
            "Release a model that keeps no rows; if only its answers leave the house, audit the "
            "function that answers, such as model.predict_proba.",
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
    alone = list(_single(model, inputs, members, people))
    if alone:
        yield InputCheck(
            "stored-vocabulary",
            "asks",
            f"The model file names what only one person of the training has: {', '.join(alone)}.",
            "Set min_df or min_frequency to several people, or fix the list beforehand.",
        )


def _parts(model: Any) -> Iterator[tuple[str, Any]]:
    """The model and all that it holds, with the path of attributes to each."""
    todo: list[tuple[str, Any, int]] = [(type(model).__name__, model, 0)]
    seen: set[int] = set()
    while todo and len(seen) < _OBJECTS:
        name, part, depth = todo.pop()
        if id(part) in seen or callable(part) and not hasattr(part, "__dict__"):
            continue
        seen.add(id(part))
        yield name, part
        if depth == _DEPTH or isinstance(part, type):
            continue
        if hasattr(part, "named_buffers"):
            listed = [*part.named_parameters(), *part.named_buffers()]
            inside = {key: value.detach().cpu().numpy() for key, value in listed}
        elif isinstance(part, Mapping):
            inside = {str(key): value for key, value in part.items()}
        elif isinstance(part, list | tuple) or (
            isinstance(part, np.ndarray) and part.dtype == object
        ):
            inside = {str(place): value for place, value in enumerate(list(part)[:_OBJECTS])}
        else:
            inside = getattr(part, "__dict__", {}) if not isinstance(part, np.ndarray) else {}
        for key, value in inside.items():
            if not isinstance(value, str | bytes | int | float | bool | None):
                todo.append((f"{name}.{key}", value, depth + 1))


def _row_tables(parts: list[tuple[str, Any]], inputs: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Tables in a model that hold rows: by their name in scikit-learn, or by equal records."""
    table = inputs.toarray() if hasattr(inputs, "toarray") else np.asarray(inputs)
    known: set[bytes] = set()
    if table.dtype.kind in "fiu" and table.ndim == 2 and table.shape[1] > 1:
        varied = table.astype(np.float32)
        known = {row.tobytes() for row in varied if len(np.unique(row)) > 1}
    for name, part in parts:
        attribute = name.rpartition(".")[2]
        array = part.toarray() if hasattr(part, "toarray") else part
        if attribute in _ROWS and np.ndim(array) == 2 and len(array):
            yield name, np.asarray(array)
        elif isinstance(array, np.ndarray) and array.dtype.kind in "fiu" and array.ndim == 2:
            if known and array.shape[1] == table.shape[1]:
                equal = [row.tobytes() in known for row in array.astype(np.float32)]
                if sum(equal):
                    yield name, array[equal]


def _leaves(part: Any) -> Iterator[float]:
    """Training records behind each leaf of a tree of scikit-learn."""
    if hasattr(part, "n_node_samples") and hasattr(part, "children_left"):
        yield from part.n_node_samples[part.children_left == -1].tolist()
    elif type(part).__name__ == "TreePredictor":
        yield from part.nodes["count"][part.nodes["is_leaf"] == 1].tolist()


def _single(
    model: Any, inputs: Any, members: NDArray[np.bool_], people: NDArray[Any]
) -> Iterator[str]:
    """Words, categories and embedding rows that one person of the training alone uses."""
    rows = np.flatnonzero(members)
    for part, records in _steps(model, inputs):
        name = type(part).__name__
        if hasattr(part, "vocabulary_") and hasattr(part, "transform"):
            counts = part.transform(_take(records, rows)).tocoo()
            count = _of_one(counts.col, people[rows][counts.row])
            if count:
                yield f"{count:,} of {len(part.vocabulary_):,} words of {name}"
        elif hasattr(part, "categories_"):
            table = np.asarray(_take(records, rows), dtype=object).reshape(len(rows), -1)
            columns = [as_text(column) for column in table.T]
            count = sum(_of_one(column, people[rows]) for column in columns)
            if count:
                yield f"{count:,} of {sum(map(len, part.categories_)):,} categories of {name}"
    if hasattr(model, "named_modules"):
        yield from _embedded(model, inputs, rows, people)


def _of_one(entries: NDArray[Any], people: NDArray[Any]) -> int:
    """How many entries belong to one person alone."""
    code = np.unique(entries, return_inverse=True)[1]
    person = np.unique(people, return_inverse=True)[1]
    pairs = np.unique(np.stack([code, person], axis=1), axis=0)
    return int((np.bincount(pairs[:, 0]) == 1).sum()) if len(pairs) else 0


def _steps(model: Any, inputs: Any) -> Iterator[tuple[Any, Any]]:
    """Each fitted part of pipelines, searches and column transformers, with what it is given."""
    model = getattr(model, "best_estimator_", model)
    if isinstance(getattr(model, "steps", None), list):
        for _, step in model.steps:
            yield from _steps(step, inputs)
            if hasattr(step, "transform"):
                inputs = step.transform(inputs)
    elif hasattr(model, "transformers_"):
        for _, part, columns in model.transformers_:
            if hasattr(part, "transform"):
                some = inputs.iloc[:, columns] if _by_place(inputs, columns) else inputs[columns]
                yield from _steps(part, some)
    else:
        yield model, inputs


def _by_place(inputs: Any, columns: Any) -> bool:
    return hasattr(inputs, "iloc") and not isinstance(np.atleast_1d(columns)[0], str)


def _take(given: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(given, "iloc"):
        return given.iloc[rows]
    return [given[row] for row in rows] if isinstance(given, list) else given[rows]


def _embedded(
    model: Any, inputs: Any, rows: NDArray[np.intp], people: NDArray[Any]
) -> Iterator[str]:
    """Rows of embeddings that records of one person alone look up."""
    import torch

    used: dict[str, Any] = {}
    hooks = [
        part.register_forward_pre_hook(
            lambda _, given, name=name: used.update({name: given[0].reshape(len(rows), -1)})
        )
        for name, part in model.named_modules()
        if isinstance(part, torch.nn.Embedding)
    ]
    if not hooks:
        return
    training = model.training
    try:
        with torch.no_grad():
            model.eval()(torch.as_tensor(np.asarray(inputs)[rows]))
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    for name, index in used.items():
        person = np.repeat(people[rows], index.shape[1])
        if count := _of_one(index.cpu().numpy().ravel(), person):
            yield f"{count:,} rows of the embedding {name!r}"
