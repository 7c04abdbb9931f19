"""Files of arrays, tensors and columns, and NumPy from whatever holds them; never a pickle."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.data.cells import is_gap, text_column
from lethe.data.columns import (
    arrow_table,
    check_arrow_type,
    check_file,
    from_arrow,
    is_text,
    read_columns,
    stored_type,
)
from lethe.errors import InputError, require

Held = Mapping[str, Any]  # arrays, tensors or Arrow columns by name
ALONE = "representations"
"""Name of the array of a file that holds one without a name."""
_FLOATS = ("torch.float16", "torch.float32", "torch.float64")


def read_values(path: Path) -> Held:
    """Read a file's arrays by name; `as_array` converts each to NumPy when it is chosen.

    A column of a kind that cannot be read matters only if it is chosen. Nothing is ever unpickled.

    Raises:
        InputError: no such file, none of `FORMATS`, damaged, or empty.
        MissingExtra: .pt without torch.
    """
    check_file(path, tuple(FORMATS))
    try:
        held = FORMATS[path.suffix.lower()](path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror or error}. Check the file and its rights."
        ) from error
    if not held:
        raise InputError(f"{path} holds no arrays or columns. Save it again.")
    return held


def _read_npy(path: Path) -> Held:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        if "allow_pickle" in str(error) or "pickled" in str(error):
            raise InputError(
                f"{path} holds Python objects, which are pickles and are never read, or is "
                "damaged. Save an array of numbers with numpy.save."
            ) from error
        raise InputError(f"{path} is no readable .npy file. Save it with numpy.save.") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path} is no .npy file but an archive. Rename it to .npz.")
    return {ALONE: array}


def _read_arrow(path: Path) -> Held:
    table = arrow_table(path)
    if not len(table):
        raise InputError(f"{path} has a header but no rows. Save it again with its rows.")
    return {name: table[name] for name in table.column_names}


def _read_checkpoint(path: Path) -> Held:
    torch = require("torch", "train")
    try:
        held = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds Python objects besides tensors, which are pickles and are never read, "
            "or is damaged. Save a dict of tensors, such as model.state_dict()."
        ) from error
    except Exception as error:  # whatever a damaged file makes torch's reader stumble over
        raise InputError(f"{path} is no readable checkpoint. Save it again.") from error
    if isinstance(held, torch.Tensor):
        return {ALONE: held}
    if isinstance(held, Mapping):
        for inner in ("state_dict", "model_state_dict", "model"):
            if isinstance(held.get(inner), Mapping):
                held = held[inner]
                break
    if not isinstance(held, Mapping) or not held:
        raise InputError(f"{path} holds no dict of tensors. Save one, such as a state_dict.")
    return {
        str(name): text_column(value) if all_text(value) else value
        for name, value in held.items()
        if isinstance(value, torch.Tensor) or all_text(value)
    }


def all_text(value: Any) -> bool:
    """Whether this is a list of text, as names of people in a checkpoint, which no tensor holds."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, str) for item in value)


FORMATS: dict[str, Callable[[Path], Held]] = {
    ".npy": _read_npy,
    ".npz": read_columns,
    ".safetensors": read_columns,
    ".csv": read_columns,
    ".parquet": _read_arrow,
    ".feather": _read_arrow,
    ".arrow": _read_arrow,
    ".pt": _read_checkpoint,
    ".pth": _read_checkpoint,
}


def as_array(value: Any, where: str) -> NDArray[Any]:
    """Vectors, ids, classes or periods as NumPy, from whatever holds them.

    Args:
        value: an array; a torch tensor on any device, of any floating type, with or without
            gradients; a column or frame of pandas, polars or Arrow, vectors as lists too; a list.
        where: what it is, for messages.

    Returns: (n,), or (n, d) of vectors. Text is an object array of `str`, '' where it is missing.
    Raises InputError: lists that are missing or not all as long, or values that are no numbers.

    >>> as_array([[1, 2], [3, 4]], "vectors").shape
    (2, 2)
    """
    kind = type(value).__module__.partition(".")[0]
    try:
        if hasattr(value, "detach"):
            value = value.detach().cpu()
            if str(value.layout) != "torch.strided":
                value = value.to_dense()
            if value.is_floating_point() and str(value.dtype) not in _FLOATS:
                value = value.float()  # bfloat16 and smaller ones, which NumPy does not have
            return np.asarray(value.resolve_conj().resolve_neg().numpy())
        if kind == "pyarrow":
            return _from_arrow(value, where)
        array = np.asarray(value.to_numpy() if hasattr(value, "to_numpy") else value)
        if isinstance(value, list) and is_text(array) and not all_text(value):
            array = np.asarray(value, object)  # 7 and "7" are not one person
    except InputError:
        raise
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise InputError(
            f"{where} is no array: {str(error).splitlines()[0]} Give numbers or text, one row a "
            "vector."
        ) from error
    if array.dtype != object or array.ndim != 1:
        return array
    cells = array.tolist()
    if any(isinstance(cell, list | tuple | np.ndarray) for cell in cells):
        return _stacked(cells, where)
    gaps = [is_gap(cell) for cell in cells]
    if any(gaps) and all(
        gap or isinstance(cell, str) for gap, cell in zip(gaps, cells, strict=True)
    ):
        return text_column("" if gap else cell for gap, cell in zip(gaps, cells, strict=True))
    return array


def _from_arrow(value: Any, where: str) -> NDArray[Any]:
    import pyarrow as pa

    if isinstance(value, pa.Table | pa.RecordBatch):
        parts = [_from_arrow(column, where) for column in value.columns]
        return np.stack(parts, axis=1) if len(parts) != 1 else parts[0]
    column = value.combine_chunks() if isinstance(value, pa.ChunkedArray) else value
    if isinstance(column, pa.ChunkedArray):  # of an extension type, in several parts
        column = pa.concat_arrays(column.chunks)
    if isinstance(column, pa.ExtensionArray):
        column = column.storage
    kind = column.type
    if not _is_list(kind):
        path, _, name = where.partition(": ")
        check_arrow_type(Path(path), name or path, kind)
        return from_arrow(pa.chunked_array([column]))
    flat = column.flatten()
    width, left = divmod(len(flat), max(len(column), 1))
    lengths = np.asarray(column.value_lengths())
    if column.null_count or left or not (lengths == width).all():
        raise InputError(f"{where}: the vectors are missing or not all as long.")
    if not (pa.types.is_floating(flat.type) or pa.types.is_integer(flat.type)):
        raise InputError(f"{where}: the lists hold {flat.type}; a vector is a list of numbers.")
    return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(column), width)


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _stacked(cells: list[Any], where: str) -> NDArray[Any]:
    """Lists of numbers, one a row, as (n, d)."""
    lengths = {len(cell) if isinstance(cell, list | tuple | np.ndarray) else -1 for cell in cells}
    if len(lengths) > 1:
        raise InputError(f"{where}: the vectors are missing or not all as long.")
    try:
        table = np.asarray([np.asarray(cell) for cell in cells])
        return table if table.dtype.kind in "fiub" else table.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{where}: a vector is a list of numbers. Save it so.") from error


def from_text(cells: list[str], where: str) -> NDArray[np.float64]:
    """Lists that were written as text, such as '[0.1, 0.2]', which is how a .csv file has them.

    Raises InputError: cut by its writer, no numbers, or not all as long.
    """
    rows = []
    for place, cell in enumerate(cells):
        if "..." in cell:
            raise InputError(
                f"{where}: row {place} was cut by its writer ({cell[:20]!r} has '...'). Write one "
                "column a dimension, or save as .npy or .parquet."
            )
        try:
            rows.append([float(number) for number in re.sub(r"[\[\](),;]", " ", cell).split()])
        except ValueError:
            raise InputError(
                f"{where}: row {place} is {cell[:40]!r}, which is no list of numbers such as "
                "[0.1, 0.2]."
            ) from None
    return np.asarray(_stacked(rows, where), np.float64)


def dimensions_of(value: Any) -> int:
    """Count the dimensions of an array, tensor or Arrow column; 2 for a column of lists."""
    if not hasattr(value, "ndim"):
        return 2 if _is_list(stored_type(value.type)) else 1
    if is_listed_text(value):
        return 2
    return int(value.ndim)


def is_listed_text(value: Any) -> bool:
    """Whether a column of text has lists of numbers, as a .csv file holds them."""
    if isinstance(value, np.ndarray) and value.ndim == 1 and is_text(value) and len(value):
        return str(value[0]).lstrip().startswith("[")
    return False


def is_float(value: Any) -> bool:
    """Whether an array, tensor or Arrow column holds floating numbers, in lists or not."""
    if hasattr(value, "is_floating_point"):
        return bool(value.is_floating_point())
    if hasattr(value, "dtype"):
        return bool(value.dtype.kind == "f" or is_listed_text(value))
    from pyarrow import types

    kind = stored_type(value.type)
    return bool(types.is_floating(kind.value_type if _is_list(kind) else kind))
