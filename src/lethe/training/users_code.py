"""The user's code as Lethe runs it: errors in one voice, seeded generators, fresh modules."""

from __future__ import annotations

import contextlib
import random
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lethe.errors import InputError, LetheError, require
from lethe.training.fingerprint import library_version


@contextlib.contextmanager
def users_code(what: str) -> Iterator[None]:
    """Turn any exception into an `InputError` that names the user's line.

    Lack of memory is left alone: it is no mistake in the code.

    Args:
        what: what runs, the subject of the message.
    """
    try:
        yield
    except (LetheError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            f"{what} fails: {type(error).__name__}: {' '.join(str(error).split()).rstrip('.')}"
            f"{_place(error)}. "
            "--debug shows the whole traceback."
        ) from error


def _place(error: BaseException) -> str:
    """The innermost line that is no library's, if there is one."""
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        if library_version(str(frame.f_globals.get("__name__"))) is None:
            return f" ({Path(frame.f_code.co_filename).name}, line {line})"
    return ""


def seed_torch(seed: int) -> None:
    """Seed torch; without an accelerator its CPU generator alone, which needs no stack traces."""
    torch = sys.modules["torch"]
    (torch if torch.accelerator.is_available() else torch.default_generator).manual_seed(seed)


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch, and put them back afterwards.

    torch is seeded if it is loaded by then.
    """
    torch, seed = sys.modules.get("torch"), int(seed)  # generators refuse NumPy's integers
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        if torch:
            seed_torch(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)


def build_module(make_module: Callable[[], Any], seed: int) -> Any:
    """A fresh module whose initial weights are a function of `seed` alone.

    Raises:
        InputError: the factory fails, or returned no module, or one without trainable parameters.
    """
    torch = require("torch", "train")
    with seeded(seed), users_code("make_module"):
        module = make_module()
    if not isinstance(module, torch.nn.Module):
        raise InputError(
            f"make_module returned {type(module).__name__}, expected a torch.nn.Module."
        )
    if any(map(torch.nn.parameter.is_lazy, module.parameters())):
        raise InputError(
            "make_module returned lazy layers: give their sizes, as in nn.Linear(8, 2)."
        )
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise InputError("make_module returned a module without trainable parameters.")
    return module


def is_from(item: Any, *libraries: str) -> bool:
    """Whether a class, or that of an object, comes from a library, itself or by inheritance.

    Nothing is imported: an object of a library that is absent cannot exist.
    """
    kind = item if isinstance(item, type) else type(item)
    return any(
        str(getattr(base, "__module__", "")).partition(".")[0] in libraries for base in kind.__mro__
    )


def is_keras(item: Any) -> bool:
    """Whether it is a Keras model, which may be a torch module too, but no estimator."""
    return is_from(item, "keras", "tf_keras", "tensorflow") and not hasattr(item, "get_params")


_OWN_LOOPS = {
    "LightningModule": "lethe.lightning_recipe(build, X, y, epochs=...)",
    "PreTrainedModel": "lethe.huggingface_recipe(build, encodings, y)",
    "keras": "def train(rows, weights, seed): model = build(); model.compile(...); "
    "model.fit(X[rows], y[rows], sample_weight=weights, verbose=0); "
    "return lambda rows: model.predict(X[rows], verbose=0)",
}
"""By kind of model, the recipe that trains it by its library's own loop; build() makes one."""


def check_own_loop(item: Any) -> None:
    """Refuse models that a library of their own trains; the message has the recipe to use.

    Raises InputError: a model of Keras, Lightning or transformers, or a class of them.
    """
    kind = item if isinstance(item, type) else type(item)
    kinds = {base.__name__ for base in kind.__mro__} | ({"keras"} if is_keras(item) else set())
    for library in kinds & _OWN_LOOPS.keys():
        raise InputError(
            f"{kind.__name__} is a {library} model, trained by its own fit or Trainer: hand over "
            f"{_OWN_LOOPS[library]}."
        )


def answer_of(module: Any, inputs: Any) -> Any:
    """Return a torch module's output in evaluation mode; None where it fails."""
    torch = require("torch", "train")
    mode = module.training
    try:
        with torch.no_grad():
            answer = module.eval()(inputs)
    except Exception:
        return None
    finally:
        module.train(mode)
    return answer if isinstance(answer, torch.Tensor) else None


def parameter_count(make_module: Callable[[], Any]) -> int:
    """Numbers that training can change, in a module that the factory builds."""
    module = build_module(make_module, 0)
    return sum(part.numel() for part in module.parameters() if part.requires_grad)
