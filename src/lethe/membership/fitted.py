"""Scores of a model that is fitted already: whatever answers is asked about every record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from lethe.data.columns import as_text
from lethe.data.given import column_of
from lethe.errors import InputError
from lethe.training.fitted import session_answers
from lethe.training.outputs import (
    check_repeated,
    joint_probabilities,
    one_column,
    probabilities_of,
)
from lethe.training.signals import (
    signal_from_logits,
    signal_from_predictions,
    signal_from_probabilities,
    target_sd,
)
from lethe.training.users_code import answer_of, is_keras, users_code

_PART = 4096
_NEAR = 1e-3
_DECIMALS = 4
"""Most decimals that count as rounded."""


@dataclass(frozen=True)
class Answers:
    """What a model says of N records.

    Attributes:
        signal: (N,) phi, higher = better known.
        outputs: (N, C) probabilities; None in regression and where it gives labels alone.
        notes: one sentence for each reading of its answers.
    """

    signal: NDArray[np.float32]
    outputs: NDArray[np.floating] | None
    notes: tuple[str, ...] = ()


def asked(
    model: Any,
    inputs: Any,
    labels: NDArray[Any],
    classes: tuple[str, ...],
    class_labels: NDArray[Any] | None = None,
) -> Answers:
    """What a fitted model says of every record.

    Args:
        model: an estimator; a torch module or Keras model that gives logits or probabilities
            (numbers in regression); an ONNX session; or a function from the records to (N, C)
            probabilities in the order of `classes`, (N,) probabilities of the second of two
            classes, (N,) labels, or (N,) numbers in regression. Probabilities may be rounded, see
            `normalised`.
        inputs: (N, ...) records, as the model takes them.
        labels: (N,) codes of `classes`, or targets in regression.
        classes: their names, by which an estimator's own classes are found; empty in regression.
        class_labels: (classes, outputs) labels of each class, where the model has several outputs.

    Raises InputError: it cannot be asked, knows another class, or gives what is no distribution.
    """
    name = type(model).__name__
    keras = is_keras(model)
    network = keras or (hasattr(model, "state_dict") and hasattr(model, "eval"))
    scored = any(hasattr(model, method) for method in ("predict_proba", "decision_function"))
    session = hasattr(model, "run") and hasattr(model, "get_inputs")
    predict = session_answers(model) if session else getattr(model, "predict", model)
    if not network and not scored and (not callable(predict) or isinstance(model, type)):
        shown = f"the class {model.__name__}" if isinstance(model, type) else f"a {name}"
        shown = f"the text {model!r}" if isinstance(model, str) else shown
        raise InputError(
            f"model is {shown}; with members it must be a fitted estimator, a network or a "
            "function from records to probabilities, labels or numbers. Files are audited by "
            "`lethe audit fitted`."
        )
    is_combined = class_labels is not None and class_labels.ndim == 2

    def ask(some: Any) -> tuple[NDArray[Any], tuple[str, ...]]:
        if class_labels is not None and class_labels.ndim == 2:
            return joint_probabilities(model, some, class_labels), ()
        if network:
            found = model.predict(some, verbose=0) if keras else _of_module(model, some)
            return np.asarray(found).reshape(len(found), -1), ()
        if not classes:
            return one_column(predict, some, name), ()
        if not scored:
            return _answered(np.asarray(predict(some)), len(some), classes, name)
        known = getattr(model, "classes_", None)
        if known is None:
            raise InputError(
                f"model is a {name} that is not fitted: call fit first, or leave members out to "
                "have it trained."
            )
        columns = _places(as_text(column_of(known, "classes_")).tolist(), classes)
        return probabilities_of(model, some, columns, len(classes)), ()

    with users_code(name):
        outputs, notes = ask(inputs)
        # A function may hand out answers that it has, whatever part it is asked about.
        answers = (lambda some: ask(some)[0]) if network or scored or is_combined else predict
        check_repeated(answers, inputs, name)
    if outputs.dtype.kind not in "fiub":
        raise InputError(
            f"{name} answers with {outputs.dtype.name} values such as {outputs.flat[0]!r}; "
            f"{'probabilities' if classes else 'a regression'} must be numbers. Return labels as "
            "one column, or numbers."
        )
    if not classes:
        sd = target_sd(labels, np.zeros(len(labels), bool))
        return Answers(signal_from_predictions(outputs, labels, sd), None, notes)
    if network and not is_combined:
        outputs, notes, is_logits = _read(outputs, classes)
        if is_logits:
            return Answers(signal_from_logits(outputs, labels), softmax(outputs, axis=1), notes)
    outputs, rounded = normalised(np.asarray(outputs, np.float64))
    shares = None if ((outputs == 0) | (outputs == 1)).all() else outputs
    return Answers(signal_from_probabilities(outputs, labels), shares, (*notes, *rounded))


def normalised(probabilities: NDArray[np.float64]) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Rows of rounded probabilities that sum to 1 again, and a note where any was changed.

    Numbers rounded to d decimals may miss 1 by half a unit of the last decimal for each class,
    which is the tolerance; other rows stay as they are, for `check_distributions` to judge.

    Args:
        probabilities: (N, C).

    >>> normalised(np.array([[0.3, 0.3, 0.3]]))[0].round(3).tolist()
    [[0.333, 0.333, 0.333]]
    """
    for decimals in range(_DECIMALS + 1):
        if (np.abs(probabilities - probabilities.round(decimals)) < 1e-6).all():
            break
    else:
        return probabilities, ()
    total = probabilities.sum(axis=1)
    tolerance = probabilities.shape[1] * 0.5 * 10.0**-decimals
    near = (np.abs(total - 1) <= tolerance + 1e-6) & (probabilities >= 0).all(axis=1) & (total > 0)
    changed = near & (np.abs(total - 1) > 1e-6)
    if decimals == 0 or not changed.any():
        return probabilities, ()
    scaled = np.where(changed[:, None], probabilities / np.where(near, total, 1)[:, None], 0)
    note = (
        f"Probabilities are rounded to {decimals} decimals: {int(changed.sum())} rows that sum to "
        f"{total[changed].min():.4g} to {total[changed].max():.4g} (tolerance {tolerance:g}) were "
        "divided by their sum."
    )
    return np.where(changed[:, None], scaled, probabilities), (note,)


def _of_module(model: Any, inputs: NDArray[Any]) -> NDArray[np.floating]:
    """(N, C) outputs of a torch module as it is used, in parts; it is left as it was.

    Whole numbers stay so where the module takes them, as embeddings do; all others become the type
    of its parameters.
    """
    import torch

    training, parts = model.training, []
    first = next(model.parameters(), torch.zeros(0))
    whole = np.asarray(inputs[:1]).dtype.kind in "iu" and (
        answer_of(model, torch.as_tensor(np.asarray(inputs[:1], np.int64), device=first.device))
        is not None
    )
    model.eval()
    try:
        with torch.no_grad():
            for start in range(0, len(inputs), _PART):
                part = torch.as_tensor(np.asarray(inputs[start : start + _PART]))
                answer = model(part.to(first.device, torch.int64 if whole else first.dtype))
                parts.append(getattr(answer, "logits", answer).float().cpu().numpy())
    finally:
        model.train(training)
    return np.concatenate(parts)


def _read(
    outputs: NDArray[np.floating], classes: tuple[str, ...]
) -> tuple[NDArray[np.floating], tuple[str, ...], bool]:
    """(N, C) answers of a network, a note on how they were read, and whether they are logits.

    A network does not say which: numbers from 0 to 1 that sum to 1 are probabilities.
    """
    single = outputs.shape[1] == 1 and len(classes) == 2
    shares = bool(((outputs >= 0) & (outputs <= 1)).all())
    if not single:
        shares = shares and bool((np.abs(outputs.sum(axis=1) - 1) < _NEAR).all())
        note = "The network's answers sum to 1 and are read as probabilities."
        return outputs, (note,) * shares, not shares
    what = "probability" if shares else "logit"
    note = f"One output is read as the {what} of the class {classes[1]!r}."
    first = 1 - outputs if shares else np.zeros_like(outputs)
    return np.hstack([first, outputs]), (note,), not shares


def _answered(
    answers: NDArray[Any], records: int, classes: tuple[str, ...], name: str
) -> tuple[NDArray[Any], tuple[str, ...]]:
    """(N, C) probabilities of a function that gives them, or 1 for the label that it gives."""
    if answers.shape == (records, len(classes)) and (len(classes) > 1 or records == 1):
        return answers, ()
    if answers.size != records:
        raise InputError(
            f"{name} returned shape {answers.shape} for {records} records; expected a label each, "
            f"or ({records}, {len(classes)}) probabilities of {', '.join(classes[:4])}"
            f"{', ...' if len(classes) > 4 else ''} in this order."
        )
    flat = answers.ravel()
    if len(classes) == 2 and flat.dtype.kind == "f" and not (np.floor(flat) == flat).all():
        if not ((flat >= 0) & (flat <= 1)).all():
            raise InputError(
                f"{name} returned numbers from {flat.min():.3g} to {flat.max():.3g}; one number a "
                f"record must be the probability of {classes[1]!r}, from 0 to 1, or a label."
            )
        note = f"One number a record is read as the probability of the class {classes[1]!r}."
        return np.stack([1 - flat, flat], axis=1), (note,)
    return np.eye(len(classes))[_places(as_text(flat).tolist(), classes)], ()


def _places(names: list[str], classes: tuple[str, ...]) -> NDArray[np.int64]:
    """The code of each name."""
    place = {name: code for code, name in enumerate(classes)}
    strange = [name for name in names if name not in place]
    if strange:
        raise InputError(f"the model knows the class {strange[0]!r}, which y does not hold.")
    return np.array([place[name] for name in names])
