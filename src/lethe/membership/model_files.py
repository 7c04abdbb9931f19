"""Files of fitted models, of formats that cannot run code when they are read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from lethe.errors import InputError, require

PICKLES = (".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle", ".pt", ".pth", ".ckpt", ".bin")
"""Suffixes of files that run whatever code their writer put in."""
_HOLDS_NUMBERS = re.compile(
    r"sklearn\.(neighbors\._(kd|ball)_tree|metrics\._dist_metrics|_loss\.\w+"
    r"|ensemble\._hist_gradient_boosting\.\w+)\.[A-Z]\w*"
)
"""Classes of scikit-learn beside those that skops knows: trees, distances, losses, bins."""
_SKOPS = "write `skops.io.dump(model, 'model.skops')` where it was trained, and audit that file"
_WEIGHTS = (
    "write `safetensors.torch.save_file(model.state_dict(), 'model.safetensors')` and name the "
    "function that builds the module by --recipe"
)


def load_model(place: str | Path, build: Callable[[], Any] | None = None) -> Any:
    """A fitted model from .skops, .onnx, .safetensors or a Hugging Face folder.

    Guarantee: No code from the file runs: types that skops does not know are refused, ONNX gets no
        operators of its own, a folder none of its Python; a pickle is never opened.
    Assumes: the readers of skops, ONNX Runtime, safetensors and transformers hold what they say;
        `build` is the caller's own code.

    Args:
        place: the file or folder.
        build: builds the torch module that the weights of a .safetensors file belong to.

    Raises:
        InputError: no such file, another format, a pickle, weights that do not fit the module, or
            types that skops does not trust; the message says how to write the file.
        MissingExtra: skops, onnxruntime, torch or transformers are not installed.
    """
    path = Path(place)
    if not path.exists():
        raise InputError(f"model={place} does not exist. Check the name and the folder.")
    kind = "folder" if path.is_dir() else path.suffix.lower()
    if kind in PICKLES:
        way = _WEIGHTS if kind in PICKLES[5:] else _SKOPS
        raise InputError(f"model={place} is a pickle, which runs code when it is read: {way}.")
    readers: dict[str, Callable[[], Any]] = {
        ".skops": lambda: _from_skops(path),
        ".onnx": lambda: _from_onnx(path),
        ".safetensors": lambda: _from_weights(path, build),
        "folder": lambda: _from_folder(path),
    }
    if kind not in readers:
        raise InputError(
            f"model={place} must be .skops, .onnx, .safetensors or a Hugging Face folder; of a "
            f"scikit-learn model {_SKOPS}."
        )
    try:
        return readers[kind]()
    except (InputError, MemoryError):
        raise
    except Exception as error:  # whatever a damaged file makes its reader stumble over
        detail = (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
        raise InputError(f"model={place} cannot be read: {detail}. Write it again.") from error


def _from_skops(path: Path) -> Any:
    skops = require("skops.io", "fitted")
    listed = skops.get_untrusted_types(file=path)
    strange = [name for name in listed if not _HOLDS_NUMBERS.fullmatch(name)]
    if strange:
        raise InputError(
            f"model={path} holds types that skops does not trust: {', '.join(strange[:3])}. Load "
            "it yourself where you trust its writer, and hand the model to lethe.audit(model, X, "
            "y, members=...)."
        )
    return skops.load(path, trusted=listed)


def _from_onnx(path: Path) -> Any:
    runtime = require("onnxruntime", "fitted")
    return runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])


def _from_weights(path: Path, build: Callable[[], Any] | None) -> Any:
    if build is None:
        raise InputError(f"model={path} holds weights only: name --recipe file.py:function too.")
    require("torch", "train")
    from safetensors.torch import load_file

    module = build()
    if not hasattr(module, "load_state_dict"):
        raise InputError(
            f"the recipe returned a {type(module).__name__}; for {path} it must build the torch "
            "module that the weights belong to."
        )
    module.load_state_dict(load_file(path))
    return module.eval()


def _from_folder(path: Path) -> Callable[[Any], Any]:
    """Probabilities of texts, by a folder's classifier and tokenizer."""
    if not (path / "config.json").is_file() or not any(path.glob("*.safetensors")):
        raise InputError(
            f"model={path} must hold config.json and weights as .safetensors: write it by "
            "model.save_pretrained(folder, safe_serialization=True)."
        )
    transformers = require("transformers", "huggingface")
    torch = require("torch", "train")
    safe = {"local_files_only": True, "trust_remote_code": False}
    tokens = transformers.AutoTokenizer.from_pretrained(path, **safe)
    kind = transformers.AutoModelForSequenceClassification
    model = kind.from_pretrained(path, use_safetensors=True, **safe).eval()

    def probabilities(texts: Any) -> Any:
        parts = []
        with torch.no_grad():
            for start in range(0, len(texts), 64):
                batch = [str(text) for text in np.ravel(texts)[start : start + 64]]
                coded = tokens(batch, padding=True, truncation=True, return_tensors="pt")
                parts.append(model(**coded).logits.float().softmax(-1).numpy())
        return np.concatenate(parts)

    return probabilities
