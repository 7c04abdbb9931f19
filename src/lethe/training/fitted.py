"""A model that is fitted already, from a file that can hold no code."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError

from lethe.data.text import from_folder
from lethe.errors import InputError, require
from lethe.training.models import load_callable
from lethe.training.recipe import TorchRecipe
from lethe.training.users_code import users_code

_PICKLES = (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".bin", ".ckpt", ".sav")
_WAY_OUT = {
    ".pt": "save its weights with safetensors.torch.save_file and name the class with --recipe",
    "": 'write it with skops.io.dump(model, "model.skops"), or as ONNX',
}


_TRUSTED = (
    "numpy.dtype",
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.model_selection._split.StratifiedKFold",
    "sklearn.model_selection._split.KFold",
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.neighbors._kd_tree.KDTree",
    "sklearn.neighbors._ball_tree.BallTree",
    *(
        f"sklearn.metrics._dist_metrics.{name}Distance64"
        for name in ("Euclidean", "Manhattan", "Minkowski", "Chebyshev")
    ),
)
"""Types that hold numbers or say their type. Trees of decisions are checked before they are walked,
those of neighbours are left aside."""


def load_fitted(path: Path, recipe: str | None = None) -> Any:
    """The model of a file.

    Guarantee: no code in the file is run. Formats that may hold code are refused, and so are skops
    files with types that neither scikit-learn nor skops vouches for.
    Assumes: the compiled parts of the libraries withstand arrays of a wrong size; for trees this is
    checked here.

    Args:
        path: .skops of scikit-learn, .onnx, .safetensors of a torch module, or the folder of a text
            classifier as `save_pretrained` writes it.
        recipe: file.py:name of what builds the module of a .safetensors file.

    Returns: an estimator, a torch module, or a function from records to probabilities.
    Raises InputError: another format, damaged, or weights that do not fit the module.
    """
    suffix = path.suffix.lower()
    if suffix in _PICKLES:
        way = _WAY_OUT[".pt" if suffix in (".pt", ".pth", ".bin", ".ckpt") else ""]
        raise InputError(f"{path} is a pickle, which can run any code when it is read: {way}.")
    if path.is_dir():
        return _from_folder(path)
    if not path.is_file():
        raise InputError(f"{path} does not exist. Check the name and the folder.")
    readers: dict[str, Callable[[Path], Any]] = {".skops": _skops, ".onnx": _onnx}
    if suffix in readers:
        return readers[suffix](path)
    if suffix != ".safetensors":
        raise InputError(
            f"{path} is no model that can be read: .skops, .onnx or .safetensors with --recipe."
        )
    if recipe is None:
        raise InputError(
            f"{path} holds weights alone: name what builds the module, --recipe mine.py:Net."
        )
    return _module(path, recipe)


def _skops(path: Path) -> Any:
    require("skops", "fitted")
    from skops import io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        if not _plain_types(path):
            raise InputError(f"{path} is damaged: it builds a type of numbers by other means.")
        model = io.load(path, trusted=[*_TRUSTED])
    except InputError:
        raise
    except UntrustedTypesFoundException as error:
        listed = sorted(set(io.get_untrusted_types(file=path)) - set(_TRUSTED))
        raise InputError(
            f"{path} holds types that nobody vouches for: {', '.join(listed[:4])}. Hand the fitted "
            "model to lethe.audit(model, X, y, members=...) in Python instead."
        ) from error
    except Exception as error:  # a damaged archive fails in many ways
        raise InputError(f"{path} is not a readable skops file: {error}.") from error
    for part in parts_of(model):
        if getattr(part, "_tree", None) is not None and hasattr(part, "_fit_X"):
            part._tree, part._fit_method = None, "brute"  # the rows themselves are searched
        if not _sound(part):
            raise InputError(f"{path} is damaged: a tree of it leads out of its own nodes.")
    return model


def _plain_types(path: Path) -> bool:
    """Whether every type of numbers in a skops file is read off an empty array."""
    with zipfile.ZipFile(path) as archive:
        waiting: list[Any] = [json.loads(archive.read("schema.json"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            named = node.get("__module__"), node.get("__class__")
            if named == ("numpy", "dtype") and node.get("__loader__") != "DTypeNode":
                return False
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node
    return True


def parts_of(model: Any) -> Iterator[Any]:
    """The model and all that it holds, each once."""
    waiting, seen = [model], set()
    while waiting:
        part = waiting.pop()
        if id(part) in seen or isinstance(part, str | bytes | int | float | type(None)):
            continue
        seen.add(id(part))
        yield part
        if isinstance(part, Mapping):
            waiting += part.values()
        elif isinstance(part, list | tuple | set) or getattr(part, "dtype", "") == "O":
            waiting += list(part.ravel() if hasattr(part, "ravel") else part)
        else:
            waiting += getattr(part, "__dict__", {}).values()


def _sound(part: Any) -> bool:
    """Whether each step of a tree leads to a later node of the same tree.

    Compiled code follows these numbers without looking.
    """
    name = type(part).__name__
    if name == "Tree":
        nodes = part.__getstate__()["nodes"]
        inner = nodes["left_child"] != -1
        steps = (nodes["left_child"], nodes["right_child"])
        columns, most = nodes["feature"], part.n_features
    elif name == "TreePredictor":
        nodes = part.nodes
        inner = nodes["is_leaf"] == 0
        steps, columns = (nodes["left"], nodes["right"]), nodes["feature_idx"]
        most = np.inf  # its estimator knows
        sets = nodes["bitset_idx"][inner & (nodes["is_categorical"] == 1)]
        if (sets >= len(part.raw_left_cat_bitsets)).any():
            return False
    else:
        return _fits_its_trees(part)
    place = np.flatnonzero(inner)
    later = all(
        (step[inner].astype(np.int64) > place).all()
        and (step[inner].astype(np.int64) < len(nodes)).all()
        for step in steps
    )
    return bool(later and (columns[inner] >= 0).all() and (columns[inner] < most).all())


def _fits_its_trees(part: Any) -> bool:
    """Whether the trees of an estimator read only columns that it checks its records to have.

    What a tree says of its own width is a number of the file like any other.
    """
    columns = getattr(part, "n_features_in_", None)
    if columns is None:
        return True
    members = [] if hasattr(part, "estimators_features_") else getattr(part, "estimators_", [])
    trees = [getattr(member, "tree_", None) for member in [part, *np.ravel(members)]]
    read = [tree.feature.max() for tree in trees if tree is not None and tree.node_count]
    boosted = [tree.nodes for trees in getattr(part, "_predictors", ()) for tree in trees]
    read += [nodes["feature_idx"].max() for nodes in boosted if len(nodes)]
    if any(column >= columns for column in read):
        return False
    chosen = [nodes["feature_idx"][nodes["is_categorical"] == 1] for nodes in boosted]
    if not any(map(len, chosen)):
        return True
    categorical = np.asarray(part._bin_mapper.is_categorical_)
    return len(categorical) == columns and bool(categorical[np.concatenate(chosen)].all())


def _onnx(path: Path) -> Callable[[Any], NDArray[Any]]:
    require("onnxruntime", "fitted")
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    except Exception as error:  # the library's errors have no class of their own
        raise InputError(f"{path} is not a readable ONNX model: {error}.") from error
    return session_answers(session)


def session_answers(session: Any) -> Callable[[Any], NDArray[Any]]:
    """A function from records to what an ONNX session says of them.

    Args:
        session: an `onnxruntime.InferenceSession`. Several inputs are fed columns by their names,
            one input the table as float32.

    Returns: a function to (N, C) probabilities, their columns in the order of the sorted classes,
        or (N,) labels if the model gives nothing else; with `columns` where it reads them by name.
    """
    inputs = session.get_inputs()

    def answers(records: Any) -> NDArray[Any]:
        if len(inputs) == 1:
            table = np.asarray(records)
            kind = np.float64 if "double" in inputs[0].type else np.float32
            feed = {inputs[0].name: table.astype(kind)}
        else:
            feed = {entry.name: _column(records, entry.name, entry.type) for entry in inputs}
        size = getattr(inputs[0], "shape", None) or [None]
        step = size[0] if isinstance(size[0], int) else len(records)  # else: exported for so many
        parts = []
        for start in range(0, len(records), step):
            rows = np.minimum(np.arange(start, start + step), len(records) - 1)
            last = session.run(None, {name: cells[rows] for name, cells in feed.items()})[-1]
            if isinstance(last, list):  # one dictionary a record, from each class to its share
                last = [[row[name] for name in sorted(row)] for row in last]
            parts.append(np.asarray(last))
        return np.concatenate(parts)[: len(records)]

    if len(inputs) > 1:
        answers.columns = [entry.name for entry in inputs]  # type: ignore[attr-defined]
    return answers


def _column(records: Any, name: str, kind: str) -> NDArray[Any]:
    if name not in getattr(records, "columns", ()):
        raise InputError(f"the ONNX model wants a column {name!r}, which the records lack.")
    column = np.asarray(records[name])[:, None]
    return column.astype(
        object if "string" in kind else np.int64 if "int64" in kind else np.float32
    )


def _module(path: Path, recipe: str) -> Any:
    from safetensors.torch import load_file

    make = load_callable(recipe)
    with users_code(recipe):
        built = make()
        module = built.make_module() if isinstance(built, TorchRecipe) else built
    if not hasattr(module, "load_state_dict"):
        raise InputError(
            f"recipe {recipe} returned a {type(module).__name__}; for weights it must return a "
            "torch module."
        )
    try:
        module.load_state_dict(load_file(path))
    except (RuntimeError, SafetensorError) as error:
        first = str(error).strip().splitlines()
        raise InputError(f"{path} does not fit {recipe}: {' '.join(first[:2])}") from error
    return module


def _from_folder(path: Path) -> Callable[[Any], Any]:
    """Probabilities of texts, by a folder's classifier and tokenizer."""
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise InputError(
            f"model={path} must hold config.json and weights as .safetensors: write it by "
            "model.save_pretrained(folder, safe_serialization=True)."
        )
    torch = require("torch", "train")
    tokens = from_folder("AutoTokenizer", path)
    kind = "AutoModelForSequenceClassification"
    model = from_folder(kind, path, use_safetensors=True).eval()

    def probabilities(texts: Any) -> Any:
        parts = []
        with torch.no_grad():
            for start in range(0, len(texts), 64):
                batch = [str(text) for text in np.ravel(texts)[start : start + 64]]
                coded = tokens(batch, padding=True, truncation=True, return_tensors="pt")
                parts.append(model(**coded).logits.float().softmax(-1).numpy())
        return np.concatenate(parts)

    return probabilities
