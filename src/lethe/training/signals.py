"""The membership signal phi of a model's outputs, and the tables it stands in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import InputError

_COLUMNS, _BLOCK = 4096, 256
_BY_CHANCE = np.log(0.1)  # of the number of records that agree with one by chance
_NEAR = 1e-3  # of the usual spread over models: signals that differ by less are equal
_TINY = float(np.finfo(np.float64).tiny)
_LARGEST_ERROR = 1e15
"""In units of the target's sd: float32 holds the sum of the squares of any number of these."""
_ROUNDING = 1e-2
"""How far half-precision probabilities of many classes may be from a distribution."""


def signal_from_logits(
    logits: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """phi from logits.

    Args:
        logits: (n, C) unnormalised log-probabilities, C >= 2, any float type.

    Returns: (n,) float32, higher = the true label is more certain.
    Raises InputError: a logit is NaN, or the true one and another are infinite alike; the message
        names the first record.

    >>> signal_from_logits(np.array([[0.0, 0.0]]), np.array([1])).tolist()
    [0.0]
    """
    wide = np.asarray(logits, dtype=np.float64)
    _check(wide, labels, "logits")
    rows = np.arange(len(wide))
    true = wide[rows, labels]
    others = wide.copy()
    others[rows, labels] = -np.inf
    peak = others.max(axis=1)
    finite = np.isfinite(peak)
    shift = np.where(finite, peak, 0.0)[:, None]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        spread = np.log(np.exp(others - shift).sum(axis=1))
        phi = true - np.where(finite, peak + spread, peak)
    _refuse_nan(np.isnan(phi), "logits", "are infinite on both sides")
    limit = float(np.finfo(np.float32).max)
    return np.asarray(np.clip(phi, -limit, limit), np.float32)


def signal_from_probabilities(
    probabilities: NDArray[np.floating], labels: NDArray[np.integer]
) -> NDArray[np.float32]:
    """phi from class probabilities, in float64 with the other classes summed.

    1 - p_y would lose everything once p_y rounds to 1; the sum of the others does not.

    Args:
        probabilities: (n, C), rows sum to about 1.

    Raises InputError: a value is NaN, or a row is no distribution; the message names the first
        record.
    """
    wide = np.asarray(probabilities, dtype=np.float64)
    _check(wide, labels, "probabilities")
    check_distributions(wide)
    rows = np.arange(len(wide))
    true = wide[rows, labels]
    others = wide.copy()
    others[rows, labels] = 0.0
    ratio = np.log(np.maximum(true, _TINY)) - np.log(np.maximum(others.sum(axis=1), _TINY))
    return np.asarray(ratio, np.float32)


def check_distributions(probabilities: NDArray[np.floating]) -> None:
    """Refuse rows (n, C) that are no distribution, up to the rounding of half precision.

    NaN may stay.

    Raises InputError: a row is none; the message names the first record.
    """
    far = np.abs(probabilities.sum(axis=1) - 1) > _ROUNDING
    odd = (probabilities < -_ROUNDING).any(axis=1) | far
    if odd.any():
        raise InputError(
            f"probabilities of record {int(np.flatnonzero(odd)[0])} are negative or do not sum "
            'to 1; give a distribution over the classes, or say outputs="logits" of a recipe.'
        )


def target_sd(targets: NDArray[np.float64], held: NDArray[np.bool_]) -> float:
    """The unit of a regression's errors: the standard deviation of the target where held out.

    It makes the mean of 1 - phi² over the held-out records the R² of scikit-learn's `r2_score`.

    Args:
        targets: (N,) true values.
        held: (N,) True where no model trains; if there are none, all records count.

    Raises InputError: these targets are all the same.
    """
    seen = targets[held] if held.any() else targets
    variance = float(np.var(seen, dtype=np.float64))
    if not 0 < variance < np.inf:
        raise InputError(
            f"the {len(seen)} targets that R² is measured on have variance {variance:g}; choose a "
            "target that varies, in units that keep its squares finite, or hold out more records."
        )
    return float(np.sqrt(variance))


def signal_from_predictions(
    predictions: NDArray[np.floating], targets: NDArray[np.float64], sd: float
) -> NDArray[np.float32]:
    """phi of a regression model: minus its absolute error, in units of the target's sd.

    It orders the scores of one model as minus the squared error does, and over models is nearer to
    the Gaussian that LiRA takes it for; skew costs power and never validity.

    Args:
        predictions: (N, 1) or (N,), in the target's own units.
        targets: (N,) true values.
        sd: of the target, > 0; see `target_sd`.

    Returns: (N,) float32, at most 0, at least -1e15; 1 - phi² is what the record adds to a mean R².
    Raises InputError: another shape, or a prediction is NaN or infinite; the message names the
        first record.

    >>> signal_from_predictions(np.array([[3.0]]), np.array([1.0]), 4.0).tolist()
    [-0.5]
    """
    wide = np.asarray(predictions, dtype=np.float64)
    if wide.shape not in ((len(targets),), (len(targets), 1)):
        raise InputError(
            f"predictions have shape {wide.shape}, expected ({len(targets)}, 1): one number a "
            "record."
        )
    wide = wide.reshape(-1)
    _refuse_nan(~np.isfinite(wide), "predictions", "are NaN or infinite")
    with np.errstate(over="ignore"):
        phi = -np.abs(wide - targets) / sd
    return np.asarray(np.maximum(phi, -_LARGEST_ERROR), np.float32)


def merit_of_signal(signal: NDArray[np.float32]) -> NDArray[np.float32]:
    """1 - phi², 1 - (squared error)/(variance of the target): what a record adds to R².

    At most 1; its mean over held-out records is R².
    """
    return np.asarray(1 - signal * signal)


def _check(outputs: NDArray[np.float64], labels: NDArray[np.integer], what: str) -> None:
    if outputs.ndim != 2 or outputs.shape[0] != len(labels) or outputs.shape[1] < 2:
        raise InputError(
            f"{what} have shape {outputs.shape}, expected ({len(labels)}, classes) "
            "with at least 2 classes."
        )
    if len(labels) and not 0 <= int(labels.min()) <= int(labels.max()) < outputs.shape[1]:
        raise InputError(
            f"{what} have {outputs.shape[1]} columns, labels run from {labels.min()} to "
            f"{labels.max()}; give one column for each class."
        )
    _refuse_nan(np.any(np.isnan(outputs), axis=1), what, "hold NaN")


def _refuse_nan(bad: NDArray[np.bool_], what: str, how: str) -> None:
    if bad.any():
        raise InputError(
            f"{what} {how} for {int(bad.sum())} records, the first is record "
            f"{int(np.flatnonzero(bad)[0])}; lower the learning rate or look at that record."
        )


def codes_of_copies(
    signals: NDArray[np.floating], members: NDArray[np.bool_] | None
) -> NDArray[np.intp]:
    """(N,) for each record the first with equal signals and membership in all models, else itself.

    They are one record that stands in the file several times; equal up to a thousandth of the usual
    spread over models. Only columns are compared that are unlikely to be met twice: were models
    independent, fewer than a tenth of a record would agree by chance. Where membership differs as
    often as that of any two records, they are ties: records of one leaf of a tree, not one person.

    Args:
        signals: (K, N).
        members: (K, N); None to compare signals alone.
    """
    models, records = signals.shape
    itself = np.arange(records)
    if models < 2:
        return itself
    parts = [slice(start, start + _COLUMNS) for start in range(0, records, _COLUMNS)]
    spread = np.concatenate([signals[:, part].std(axis=0, dtype=np.float64) for part in parts])
    unit = _NEAR * float(np.median(spread))

    def rounded(table: NDArray[np.floating]) -> NDArray[np.floating]:
        return np.round(table / np.float64(unit)) + 0.0 if unit > _TINY else table + 0.0

    alike = np.full(records, np.log(records))  # log number of records that agree by chance
    for row in signals:
        _, value, count = np.unique(rounded(row), return_inverse=True, return_counts=True)
        alike += np.log(count / records)[value]
    same = _first_equal(rounded(signals[:, part]) for part in parts)
    same = np.where(alike < _BY_CHANCE, same, itself)
    if members is None or np.array_equal(same, itself):
        return same
    inside = _first_equal(members[:, part] for part in parts)
    both = _first_equal([np.stack([same, inside])])
    sizes = (np.bincount(code, minlength=records) for code in (same, both, inside))
    pairs, equal, chance = (size * (size - 1.0) for size in sizes)
    # Copies share their membership always, ties by chance: the limit is half way of the orders.
    usual = np.sqrt(chance.sum() / (records * (records - 1)))
    return np.where((np.bincount(same, equal, records) > usual * pairs)[same], both, itself)


def _first_equal(parts: Iterable[NDArray[Any]]) -> NDArray[np.intp]:
    """(N,) for each column of a table, which comes in parts, the first that equals it."""
    first: dict[bytes, int] = {}
    codes: list[int] = []
    for part in parts:
        for column in np.ascontiguousarray(part.T):
            name = hashlib.blake2b(column.tobytes(), digest_size=16).digest()
            codes.append(first.setdefault(name, len(codes)))
    return np.array(codes, np.intp)


def check_table(name: str, table: NDArray[Any], axes: tuple[str, ...]) -> None:
    """Refuse a table that is empty, of another shape, or holds numbers that are not finite.

    Args:
        name: of the table, for the message.
        axes: what its axes stand for, such as ``("models", "records")``.

    Raises InputError: the message names the first place that is not finite.
    """
    if table.ndim != len(axes) or 0 in table.shape:
        raise InputError(
            f"{name} has shape {table.shape}; it must be ({', '.join(axes)}), none of them 0."
        )
    if table.dtype.kind not in "fc":
        return
    for start in range(0, len(table), _BLOCK):
        wrong = np.argwhere(~np.isfinite(table[start : start + _BLOCK]))
        if len(wrong):
            place = [int(at) for at in wrong[0]]
            place[0] += start
            where = ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=True))
            raise InputError(
                f"{name} at {where} is {table[tuple(place)]}; every number must be finite: "
                "compute signals from logits, which stay finite where probabilities round to 1."
            )
