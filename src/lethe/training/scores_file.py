"""A scores file: what K models say about N records, and which of them each model was trained on.

Wide (.npz, .safetensors): arrays `signals` and `members` (models, records), perhaps `ids`,
`labels`, `groups` (records,) and `targets` (models,). Long (.parquet, .csv): columns `model,
record, signal, member`, perhaps `label`, `group` and `target`, one row for each pair of model and
record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, is_text, list_names, missing, read_columns
from lethe.errors import InputError, check_choice, check_known_keys, did_you_mean

SIGNALS = ("logit", "prob", "loss", "squared-error")
MIN_MODELS = 4  # leave-one-out also leaves out the partner, which must leave a pair
_WIDE = ("signals", "members", "ids", "labels", "groups", "targets")
_LONG = ("model", "record", "signal", "member", "label", "group", "target")


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Signals of K models on N records, as `read_scores` checked them.

    Attributes:
        signals: float32 (models, records), finite; the log-odds phi = log(p / (1 - p)) of the
            true label, or minus the absolute error; higher means member.
        members: bool (models, records); whether the model was trained on the record.
        targets: bool (models,), True for models that are attacked and are no references, or None
            where every model is both in turn.
    """

    signals: NDArray[np.float32]
    members: NDArray[np.bool_]
    ids: NDArray[np.str_]  # text (records,), unique
    labels: NDArray[Any] | None  # (records,), or None
    groups: NDArray[Any] | None  # (records,), or None
    notes: tuple[str, ...]  # what was converted or set
    targets: NDArray[np.bool_] | None


def read_scores(path: str | Path, signal: str = "logit") -> ScoreTable:
    """Read a wide or long scores file; models sorted by value, records by first appearance.

    Args:
        path: .npz, .safetensors (wide), .parquet or .csv (long).
        signal: what the signals are: "logit", log(p / (1 - p)) taken as it is; "prob", the
            probability p of the true label, in [0, 1]; "loss", its cross-entropy -log(p) >= 0;
            "squared-error", of a regression, >= 0, of which minus the root is taken: the
            absolute error, as `signal_from_predictions` has it but for the unit.

    Raises:
        InputError: an array or column is missing or unknown, shapes differ, a signal is NaN,
            infinite or out of range, members are not 0 or 1, pairs are missing or stand twice,
            or 2 or 3 models.
    """
    check_choice("signal", signal, SIGNALS)
    path = Path(path)
    columns = read_columns(path)
    if path.suffix.lower() in (".npz", ".safetensors"):
        return scores_of(columns, signal, path)
    _check_columns(path, columns, _LONG, required=4)
    models, ids, wide = _pivot(path, columns)
    labels, groups = (_one_a_record(path, name, wide.get(name), ids) for name in ("label", "group"))
    found = {"signals": wide["signal"], "members": wide["member"], "labels": labels}
    found |= {"ids": ids, "groups": groups, "targets": wide.get("target")}
    present = {name: column for name, column in found.items() if column is not None}
    return scores_of(present, signal, path, models)


def scores_of(
    columns: Columns,
    signal: str = "logit",
    path: str | Path = "scores",
    models: NDArray[np.str_] | None = None,
) -> ScoreTable:
    """Check tables of scores that are wide.

    Args:
        columns: ``signals`` and ``members`` (models, records); perhaps ``ids``, ``labels`` and
            ``groups`` (records,) and ``targets`` (models,).
        signal: see `read_scores`.
        path: what messages call them.
        models: (models,) names; None = numbers from 0.

    Raises InputError: see `read_scores`.
    """
    check_choice("signal", signal, SIGNALS)
    _check_columns(path, columns, _WIDE, required=2)
    signals, members = columns["signals"], columns["members"]
    labels, groups, marked = (columns.get(name) for name in ("labels", "groups", "targets"))
    count = signals.shape[-1] if signals.ndim else 0
    ids = as_text(columns["ids"]) if "ids" in columns else np.arange(count).astype(np.str_)
    each = {"ids": ids, "labels": labels, "groups": groups}
    _check_table(str(path), signals, members, each)
    names = np.arange(len(signals)).astype(np.str_) if models is None else models
    _check_signals(path, signals, names, ids)
    phi, notes = _to_phi(path, signals, signal, names, ids)
    with np.errstate(over="ignore"):
        narrow = phi.astype(np.float32)
    _check_signals(path, narrow, names, ids, "beyond float32")
    bits = _check_members(path, members, names, ids)
    targets = None if marked is None else _check_targets(path, marked, names)
    return ScoreTable(narrow, bits, ids, labels, groups, notes, targets)


def log_odds(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """phi = log(p / (1 - p)) for p in (0, 1), without loss near either end.

    >>> log_odds(np.array([0.5])).tolist()
    [0.0]
    """
    return np.asarray(np.log(p) - np.log1p(-p), dtype=np.float64)


def loss_to_log_odds(loss: NDArray[np.float64]) -> NDArray[np.float64]:
    """phi = -loss - log(1 - exp(-loss)) for loss > 0, where loss = -log(p).

    log(1 - exp(-x)) is taken in two branches (Maechler, "Accurately computing log(1 - exp(-|a|))",
    2012): each alone loses all digits at one end.

    >>> abs(float(loss_to_log_odds(np.array([np.log(2)]))[0])) < 1e-15
    True
    """
    small = loss < np.log(2)
    rest = np.empty_like(loss)
    rest[small] = np.log(-np.expm1(-loss[small]))
    rest[~small] = np.log1p(-np.exp(-loss[~small]))
    return -loss - rest


def _check_table(
    where: str,
    signals: NDArray[Any],
    members: NDArray[Any],
    each: Mapping[str, NDArray[Any] | None],
) -> None:
    """Shapes fit, there are models enough, and what belongs to a record is there for each."""
    shape = signals.shape
    if len(shape) != 2 or members.shape != shape:
        raise InputError(
            f"{where}: signals have shape {shape} and members {members.shape}, both must be "
            "(models, records). Transpose or cut one of them."
        )
    if shape[0] != 1 and shape[0] < MIN_MODELS:
        raise InputError(
            f"{where} needs one model or at least {MIN_MODELS}, got {shape[0]}: fewer cannot be "
            "audited by leave-one-out. Train more models, each on another random half; or hand "
            "over one, for attacks that compare it with no other."
        )
    if not shape[1]:
        raise InputError(f"{where} needs at least one record, got 0. Save it again.")
    for name, column in each.items():
        if column is None:
            continue
        if column.shape != shape[1:]:
            raise InputError(
                f"{where}: {name} have shape {column.shape}, signals have {shape[1]} records. "
                "Give one for each record."
            )
        gaps = missing(column)
        if gaps.any():
            raise InputError(
                f"{where}: {name} are missing for {gaps.sum()} of {shape[1]} records, the first "
                f"at position {int(np.argmax(gaps))}. Fill them, or leave {name} out."
            )
        if name == "ids":
            values, counts = np.unique(column, return_counts=True)
            if counts.max() > 1:
                at = np.argmax(counts > 1)
                raise InputError(
                    f"{where}: ids are not unique, {str(values[at])!r} stands {counts[at]} times. "
                    "Give each record its own, or leave ids out."
                )


def _check_columns(
    path: str | Path, columns: Columns, known: tuple[str, ...], required: int
) -> None:
    for name in known[:required]:
        if name not in columns:
            raise InputError(
                f"{path} lacks {name!r}.{did_you_mean(name, columns)} It has "
                f"{list_names(columns)} and needs {list_names(known[:required])}."
            )
    check_known_keys(str(path), columns, known)


def _pivot(
    path: str | Path, columns: Columns
) -> tuple[NDArray[np.str_], NDArray[np.str_], Columns]:
    """Long columns as (models, records) arrays, with the names of models and records."""
    for name in ("model", "record"):
        gaps = missing(columns[name])
        if gaps.any():
            raise InputError(
                f"{path}: {name!r} is missing in {gaps.sum()} rows, the first is row "
                f"{int(np.argmax(gaps))}. Fill them or remove these rows."
            )
    models, _, model = _distinct(columns["model"])
    found, first, record = _distinct(columns["record"])
    order = np.argsort(first)  # records keep the order in which the file names them
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    ids = as_text(found[order])
    names = as_text(models)
    # Counted without a (models, records) array, which is huge if a column is not what it says.
    cell = model.astype(np.int64) * len(ids) + rank[record]
    by_cell = np.argsort(cell, kind="stable")
    ordered = cell[by_cell]
    twice = np.flatnonzero(ordered[1:] == ordered[:-1])
    if len(twice):
        k, n = divmod(int(ordered[twice[0]]), len(ids))
        raise InputError(
            f"{path}: model {str(names[k])!r} and record {str(ids[n])!r} stand together more than "
            f"once ({len(twice)} rows too many). Keep one row for each pair."
        )
    lacking = len(names) * len(ids) - len(cell)
    if lacking:
        gap = np.flatnonzero(ordered != np.arange(len(ordered)))
        k, n = divmod(int(gap[0]) if len(gap) else len(ordered), len(ids))
        raise InputError(
            f"{path}: {lacking} of {len(names) * len(ids)} pairs of model and record are missing, "
            f"the first is model {str(names[k])!r}, record {str(ids[n])!r}. Every model must "
            "score every record: add these rows, or remove the record or model."
        )
    shape = (len(names), len(ids))
    wide: Columns = {
        name: columns[name][by_cell].reshape(shape)
        for name in ("signal", "member", "label", "group", "target")
        if name in columns
    }
    return names, ids, wide


def _distinct(column: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.intp], NDArray[np.intp]]:
    """Sorted distinct values, where each stands first, and the value of each row."""
    names = as_text(column) if is_text(column) else column  # NumPy text sorts faster
    return np.unique(names, return_index=True, return_inverse=True)


def _one_a_record(
    path: str | Path, name: str, wide: NDArray[Any] | None, ids: NDArray[np.str_]
) -> NDArray[Any] | None:
    """The value of each record, if all models agree on it."""
    if wide is None:
        return None
    differs = (wide != wide[0]) & ~(missing(wide) & missing(wide)[0])
    if differs.any():
        n = int(np.argmax(differs.any(axis=0)))
        k = int(np.argmax(differs[:, n]))
        was, now = as_text(np.array([wide[0, n], wide[k, n]])).tolist()
        raise InputError(
            f"{path}: record {str(ids[n])!r} has {name} {was!r} in one model and {now!r} in "
            f"another. A {name} belongs to the record: make them equal, or leave {name!r} out."
        )
    return np.array(as_text(wide[0]) if is_text(wide) else wide[0])


def _is_number(text: str) -> bool:
    try:
        return bool(np.isfinite(float(text)))
    except ValueError:
        return False


def _where(flags: NDArray[np.bool_], names: NDArray[np.str_], ids: NDArray[np.str_]) -> str:
    k, n = np.argwhere(flags)[0]
    return f"model {str(names[k])!r}, record {str(ids[n])!r}"


def _check_signals(
    path: str | Path,
    signals: NDArray[Any],
    names: NDArray[np.str_],
    ids: NDArray[np.str_],
    infinite: str = "infinite",
) -> None:
    if signals.dtype.kind not in "fiub":
        odd = as_text(signals)
        flags = ~np.vectorize(_is_number, otypes=[bool])(odd)
        if not flags.any():
            raise InputError(f"{path}: signals are numbers written as text. Save them as float32.")
        raise InputError(
            f"{path}: {flags.sum()} signals are not numbers, the first is "
            f"{str(odd[flags][0])!r} ({_where(flags, names, ids)}). Save them as float32."
        )
    for what, flags, out in (
        ("NaN", np.isnan(signals), "Score these records again, or remove them."),
        (infinite, np.isinf(signals), "Clip them to a finite value of your choice."),
    ):
        if flags.any():
            raise InputError(
                f"{path}: {flags.sum()} signals are {what}, the first is "
                f"{_where(flags, names, ids)}. {out}"
            )


def _to_phi(
    path: str | Path,
    signals: NDArray[Any],
    signal: str,
    names: NDArray[np.str_],
    ids: NDArray[np.str_],
) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Signals as phi in float64, and a note on values at the ends of their range."""
    x = signals.astype(np.float64)
    if signal == "logit":
        return x, ()
    high = 1.0 if signal == "prob" else np.inf
    outside = (x < 0) | (x > high)
    if outside.any():
        rule = {
            "prob": "probabilities in [0, 1]",
            "loss": "losses of at least 0",
            "squared-error": "squared errors, which are at least 0",
        }[signal]
        raise InputError(
            f"{path}: {outside.sum()} signals are no {rule}, the first is {x[outside][0]:g} "
            f"({_where(outside, names, ids)}). If they are log-odds, say --signal logit."
        )
    if signal == "squared-error":
        return -np.sqrt(x), ()
    # A value at an end of its range was rounded there: by at most half a step of its type.
    kind = signals.dtype.type if signals.dtype.kind == "f" else np.float64
    half_step = float(np.finfo(kind).eps) / 2
    zeros, ones = x == 0, x == 1
    if signal == "prob":
        x[zeros] = float(np.nextafter(kind(0), kind(1)))
        x[ones] = 1 - half_step
        ends = {"0": int(zeros.sum()), "1": int(ones.sum())}
        phi = log_odds(x)
    else:
        # Not above the smallest loss there is, so that less loss never means smaller log-odds.
        x[zeros] = min(half_step, float(x[~zeros].min(initial=np.inf)))
        ends = {"0": int(zeros.sum())}
        phi = loss_to_log_odds(x)
    notes = tuple(
        f"{count} of {x.size} signals ({signal}) are exactly {end} and were set to the nearest "
        "value with finite log-odds; log-odds made from the logits would tell them apart."
        for end, count in ends.items()
        if count
    )
    return phi, notes


def _check_members(
    path: str | Path, members: NDArray[Any], names: NDArray[np.str_], ids: NDArray[np.str_]
) -> NDArray[np.bool_]:
    if is_text(members):
        text = np.char.lower(as_text(members))
        yes, no = np.isin(text, ("1", "true")), np.isin(text, ("0", "false"))
    else:
        yes, no = members == 1, members == 0
    odd = ~(yes | no)
    if odd.any():
        raise InputError(
            f"{path}: {odd.sum()} members are neither 0 nor 1, the first is "
            f"{str(members[odd][0])!r} ({_where(odd, names, ids)}). "
            "Write 1 where the model was trained on the record and 0 where not."
        )
    return np.asarray(yes, dtype=np.bool_)


def _check_targets(
    path: str | Path, marked: NDArray[Any], names: NDArray[np.str_]
) -> NDArray[np.bool_] | None:
    """(K,) which models are targets; None where none is marked."""
    table = marked if marked.ndim == 2 else marked[:, None]
    if len(table) != len(names) or not (table == table[:, :1]).all():
        raise InputError(
            f"{path}: targets must say 0 or 1 once for each of the {len(names)} models, the same "
            "in all of its rows."
        )
    flags = _check_members(path, table[:, :1], names, np.array(["any"]))[:, 0]
    references = int((~flags).sum())
    if len(flags) == 1:
        return None
    if flags.any() and references < MIN_MODELS:
        raise InputError(
            f"{path}: {int(flags.sum())} models are targets, which leaves {references} as "
            f"references; at least {MIN_MODELS} are needed."
        )
    return flags if flags.any() else None
