"""Released vectors and their owners, and the linear head that reads them, from files."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.columns import Columns, as_text, is_text, list_names, missing, read_columns
from lethe.errors import InputError, did_you_mean, require

ARRAYS = ("representations", "user_ids", "labels", "period", "features")
CHECKPOINTS = (".pt", ".pth")
_TABLES = ("representations", "features")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors that a model made of rows, checked when read.

    Attributes:
        features: floating (n, p), what the model was given, or None.
    """

    name: str  # of the file, without its ending
    representations: NDArray[np.floating[Any]]  # floating (n, d), finite
    user_ids: NDArray[Any]  # (n,) whole numbers or text; whose row it is
    labels: NDArray[np.int64] | None = None  # (n,) whole numbers, or None
    period: NDArray[Any] | None = None  # (n,) text or numbers, or None
    features: NDArray[np.floating[Any]] | None = None
    notes: tuple[str, ...] = ()  # what was left out or converted


@dataclass(frozen=True, eq=False)
class HeadWeights:
    """A linear head."""

    weights: NDArray[np.float64]  # float64 (d,) for a binary head, (C, d) for C > 2 classes
    bias: NDArray[np.float64]  # float64 () or (C,)


def read_embeddings(path: str | Path) -> Embeddings:
    """Read vectors and their owners; nothing in a file is ever unpickled.

    Args:
        path: .npz, .safetensors or .pt with arrays `representations` (n, d) and `user_ids` (n,),
            perhaps `labels`, `period` (n,) and `features` (n, p); or .parquet with these as
            columns, vectors as lists of numbers or as columns `representations_0`, `_1` and on.

    Raises:
        InputError: an array is missing, unknown, of Python objects, or of another shape; NaN or
            infinity; ids of mixed types or missing; labels that are no whole numbers.
        MissingExtra: .parquet without pyarrow, .pt without torch.
    """
    path = Path(path)
    arrays = _arrays(path)
    for name in ARRAYS[:2]:
        if name not in arrays:
            raise InputError(
                f"{path} lacks {name!r}.{did_you_mean(name, arrays)} It has {list_names(arrays)} "
                f"and needs {list_names(ARRAYS[:2])}."
            )
    unread = [name for name in arrays if name not in ARRAYS]
    vectors = _table(path, "representations", arrays["representations"])
    for name in ARRAYS[1:]:
        if name in arrays and len(arrays[name]) != len(vectors):
            raise InputError(
                f"{path}: {name} has {len(arrays[name])} rows, representations {len(vectors)}. "
                "Save one of each row."
            )
    period = arrays.get("period")
    if period is not None and (period.ndim != 1 or missing(period).any()):
        raise InputError(f"{path}: period must be one value for each row, none missing.")
    return Embeddings(
        path.stem,
        vectors,
        _ids(path, arrays["user_ids"]),
        _labels(path, arrays["labels"]) if "labels" in arrays else None,
        period,
        _table(path, "features", arrays["features"]) if "features" in arrays else None,
        (f"Not used: {list_names(unread)}.",) if unread else (),
    )


def read_head(path: str | Path, dimensions: int, layer: str | None = None) -> HeadWeights:
    """Read a linear head: `w` (d,) and `b`, or `W` (C, d) and `b` (C,).

    Args:
        path: .npz, .safetensors or .pt.
        layer: in a checkpoint, the name of the layer whose `.weight` and `.bias` are taken; not
            needed where a file holds one layer only.

    Raises:
        InputError: no head or several, or a shape that does not fit the vectors.
        MissingExtra: .pt without torch.
    """
    path = Path(path)
    arrays = _arrays(path)
    weights, bias = _find_head(path, arrays, layer)
    try:
        w, b = (np.asarray(array, dtype=np.float64) for array in (weights, bias))
    except (TypeError, ValueError):
        raise InputError(f"{path}: the head is no array of numbers. Save it as float32.") from None
    if w.ndim == 2 and len(w) == 1:
        w = w[0]  # torch.nn.Linear(d, 1)
    if w.ndim == 1:
        b = b.reshape(()) if b.size == 1 else b
    if w.ndim not in (1, 2) or w.shape[-1] != dimensions or b.shape != w.shape[:-1]:
        raise InputError(
            f"{path}: the head has weights of shape {w.shape} and a bias of shape {b.shape}; for "
            f"vectors of {dimensions} dimensions it must be ({dimensions},) and (), or "
            f"(C, {dimensions}) and (C,). Take head and vectors from one model."
        )
    if not (np.isfinite(w).all() and np.isfinite(b).all()):
        raise InputError(f"{path}: the head has NaN or infinite values. Save it again.")
    if not np.any(w):
        raise InputError(f"{path}: the weights of the head are all 0, so it predicts nothing.")
    return HeadWeights(w, b)


def _find_head(path: Path, arrays: Columns, layer: str | None) -> tuple[Any, Any]:
    for name in ("w", "W"):
        if layer is None and name in arrays and "b" in arrays:
            return arrays[name], arrays["b"]
    layers = [
        name.removesuffix("weight")
        for name, array in arrays.items()
        if (name == "weight" or name.endswith(".weight"))
        and array.ndim == 2
        and f"{name.removesuffix('weight')}bias" in arrays
    ]
    if layer is not None:
        layers = [one for one in layers if one == f"{layer}."]
    if len(layers) == 1:
        return arrays[f"{layers[0]}weight"], arrays[f"{layers[0]}bias"]
    listed = list_names([name.removesuffix(".") for name in layers]) if layers else "none"
    asked = "" if layer is None else f" called {layer!r}"
    raise InputError(
        f"{path} has no single head{asked}: it needs w and b, W and b, or one layer with weight "
        f"and bias (found: {listed}; arrays: {list_names(arrays)}). Name the layer."
    )


def _arrays(path: Path) -> Columns:
    suffix = path.suffix.lower()
    if suffix in CHECKPOINTS:
        return _read_checkpoint(path)
    if suffix == ".parquet" and path.is_file():
        return _read_parquet(path)
    if suffix == ".csv":
        raise InputError(f"{path}: vectors are read from .npz, .safetensors, .parquet or .pt.")
    return read_columns(path)


def _read_checkpoint(path: Path) -> Columns:
    torch = require("torch", "train")
    if not path.is_file():
        raise InputError(f"{path} is not a file. Check the path.")
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds Python objects besides tensors, which are pickles and are never read, "
            "or is damaged. Save a dict of tensors, such as model.state_dict()."
        ) from error
    except Exception as error:  # whatever a damaged file makes torch's reader stumble over
        raise InputError(f"{path} is no readable checkpoint. Save it again.") from error
    if isinstance(held, Mapping):
        for inner in ("state_dict", "model_state_dict", "model"):
            if isinstance(held.get(inner), Mapping):
                held = held[inner]
                break
    if not isinstance(held, Mapping) or not held:
        raise InputError(f"{path} holds no dict of tensors. Save one, such as a state_dict.")
    return {
        str(name): (value.float() if value.is_floating_point() else value).detach().numpy()
        for name, value in held.items()
        if isinstance(value, torch.Tensor)
    }


def _read_parquet(path: Path) -> Columns:
    parquet = require("pyarrow.parquet", "tables")
    arrow = require("pyarrow", "tables")
    try:
        schema = parquet.read_schema(path)
    except (arrow.ArrowInvalid, OSError) as error:
        raise InputError(f"{path} is not a readable parquet file. Save it again.") from error
    lists = [name for name in _TABLES if name in schema.names]
    rest = read_columns(path, drop=lists)
    for name in lists:
        column = parquet.read_table(path, columns=[name])[name].combine_chunks()
        kind = column.type
        if not (
            arrow.types.is_list(kind)
            or arrow.types.is_large_list(kind)
            or arrow.types.is_fixed_size_list(kind)
        ):
            raise InputError(
                f"{path}: column {name!r} is {kind}; a vector is a list of numbers in one column, "
                f"or columns {name}_0, {name}_1 and so on."
            )
        flat = column.flatten()
        width, left = divmod(len(flat), max(len(column), 1))
        lengths = np.asarray(column.value_lengths())
        if column.null_count or left or not (lengths == width).all():
            raise InputError(f"{path}: the vectors in {name!r} are missing or not all as long.")
        rest[name] = np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), width)
    for name in _TABLES:
        parts: list[NDArray[Any]] = []
        while f"{name}_{len(parts)}" in rest:
            parts.append(rest.pop(f"{name}_{len(parts)}"))
        if parts:
            rest[name] = np.stack(parts, axis=1)
    return rest


def _table(path: Path, name: str, given: NDArray[Any]) -> NDArray[np.floating[Any]]:
    if given.ndim != 2 or not given.size or given.dtype.kind not in "fiub":
        raise InputError(
            f"{path}: {name} has shape {given.shape} and dtype {given.dtype}; it must be (rows, "
            "dimensions) of numbers. Save one row a vector, as float32."
        )
    table = given if given.dtype in (np.float32, np.float64) else given.astype(np.float64)
    bad = ~np.isfinite(table).all(axis=1)
    if bad.any():
        raise InputError(
            f"{path}: {name} has NaN or infinite values in {bad.sum()} rows, the first is row "
            f"{int(np.argmax(bad))}. Compute them again, or remove these rows."
        )
    return np.asarray(table)


def _ids(path: Path, given: NDArray[Any]) -> NDArray[Any]:
    whole = given.dtype.kind in "iu" or is_text(given)
    if given.ndim != 1 or not whole or missing(given).any():
        raise InputError(
            f"{path}: user_ids has shape {given.shape} and dtype {given.dtype}; it must be one "
            "whole number or text for each row, none missing. Save it with .astype(str)."
        )
    return as_text(given) if is_text(given) else given


def _labels(path: Path, given: NDArray[Any]) -> NDArray[np.int64]:
    if given.ndim == 2 and given.shape[1] == 1:
        given = given[:, 0]
    if given.ndim != 1 or given.dtype.kind not in "biuf":
        raise InputError(
            f"{path}: labels have shape {given.shape} and dtype {given.dtype}; they must be one "
            "whole number from 0 for each row."
        )
    with np.errstate(invalid="ignore"):
        whole = np.isfinite(given) & (given == np.floor(given)) & (given >= 0)
    if not whole.all():
        raise InputError(
            f"{path}: {int((~whole).sum())} labels are no whole numbers from 0, the first is "
            f"{given[~whole][0]!r}. Number the classes, or leave labels out (then no utility)."
        )
    return given.astype(np.int64)
