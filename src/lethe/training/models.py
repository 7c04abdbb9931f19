"""The default recipe, and recipes from the user's own file."""

from __future__ import annotations

import copyreg
import functools
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from lethe.errors import InputError, did_you_mean, require
from lethe.training.fingerprint import digest
from lethe.training.recipe import CallableRecipe, Recipe, SklearnRecipe, TorchRecipe
from lethe.training.users_code import check_own_loop, users_code


def mlp(inputs: int, hidden: tuple[int, ...], classes: int) -> Any:
    """A plain multi-layer perceptron: Linear and ReLU, logits or a prediction at the end."""
    nn = require("torch", "train").nn
    widths = [inputs, *hidden]
    layers: list[Any] = []
    for before, after in zip(widths[:-1], widths[1:], strict=True):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(widths[-1], classes))


def default_recipe(records: int, features: int, classes: int) -> TorchRecipe:
    """A small network that fits its training data closely, as released models do.

    One hidden layer for small data, two from 5,000 records on; about 1,500 SGD steps or 15
    passes, whichever is more.

    Args:
        records: number of records; half of them train a model.
        features: values a record.
        classes: number of classes; 0 for a regression.
    """
    require("torch", "train")
    hidden = (128,) if records < 5000 else (128, 64)
    batch = 32 if records < 5000 else 128
    steps = max(1, records // 2 // batch)
    epochs = min(60, max(15, 1500 // steps))
    if classes == 0:
        # The slope of squared errors has no limit: SGD at 0.05 diverges on 300 features.
        return TorchRecipe(
            functools.partial(mlp, features, hidden, 1),
            epochs=epochs,
            batch_size=batch,
            learning_rate=0.003,
            optimizer="adam",
            loss="squared-error",
        )
    return TorchRecipe(
        functools.partial(mlp, features, hidden, classes),
        epochs=epochs,
        batch_size=batch,
        learning_rate=0.05,
        optimizer="sgd",
        momentum=0.9,
    )


def load_callable(reference: str) -> Callable[..., Any]:
    """The function behind ``file.py:name`` or ``package.module:name``.

    Raises InputError: not of that form, no such file or module, or no such name in it.
    """
    function: Callable[..., Any] = _named(reference)
    if not callable(function):
        raise InputError(f"{reference} is a {type(function).__name__}, expected a function.")
    return function


def _named(reference: str) -> Any:
    """Load the object of that name."""
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise InputError(f"recipe {reference!r} must be file.py:name or package.module:name.")
    if place.endswith(".py"):
        module = _load_file(Path(place))
    else:
        try:
            module = importlib.import_module(place)
        except (Exception, SystemExit) as error:
            raise InputError(
                f"module {place!r} cannot be imported: {type(error).__name__}: {error}."
            ) from error
    if not hasattr(module, name):
        public = [key for key, value in vars(module).items() if callable(value)]
        raise InputError(f"{place} has no {name!r}.{did_you_mean(name, public)}")
    return getattr(module, name)


class _Fresh(SourceFileLoader):
    """Reads the file itself: bytecode kept beside it would hide an edit of the same second."""

    def get_code(self, fullname: str) -> CodeType:
        """The source as it is now, compiled."""
        return self.source_to_code(self.get_data(self.path), self.path)


def _load_file(path: Path) -> Any:
    if not path.is_file():
        raise InputError(f"recipe file {path} does not exist.")
    name = f"lethe_recipe_{digest(str(path.resolve()))[:12]}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Fresh(name, str(path)))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Modules beside the file are importable, as when it is run as a script.
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InputError(f"recipe file {path} fails: {type(error).__name__}: {error}") from error
    # Worker processes cannot import it by name, so its functions travel by value.
    joblibs_cloudpickle().register_pickle_by_value(module)
    # Modules of a class of their own travel by name, as plain modules do.
    for kind in {type(loaded) for loaded in list(sys.modules.values())} - {ModuleType}:
        if issubclass(kind, ModuleType):
            copyreg.pickle(kind, lambda known: (importlib.import_module, (known.__name__,)))
    return module


def load_recipe(reference: str, data: Any) -> Recipe:
    """Build the user's recipe.

    It is a recipe, an estimator with scikit-learn's interface, or a function that returns one. The
    function is called with the data set if it asks for an argument: one without a default, or one
    named `data`.

    Args:
        reference: ``file.py:name`` or ``package.module:name``.
    """
    recipe = _named(reference)
    if callable(recipe) and (isinstance(recipe, type) or not hasattr(recipe, "get_params")):
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        with users_code(reference):
            listed = inspect.signature(recipe).parameters.values()
            first = next((value for value in listed if value.kind in positional), None)
            asks = first is not None and (first.default is first.empty or first.name == "data")
            recipe = recipe(data) if asks else recipe()
    check_own_loop(recipe)
    if isinstance(recipe, TorchRecipe) and hasattr(data, "features"):
        from lethe.training.wrapped import wrapped

        make = wrapped(recipe.make_module, np.asarray(data.features), len(data.classes))
        return replace(recipe, make_module=make)
    if isinstance(recipe, (TorchRecipe, SklearnRecipe, CallableRecipe)):
        return recipe
    if hasattr(recipe, "fit") and hasattr(recipe, "get_params"):
        return SklearnRecipe(recipe)
    kinds = {kind.__name__ for kind in type(recipe).__mro__}
    way_out = "Wrap a function Train(rows, weights, seed) in CallableRecipe."
    if recipe is None:
        way_out = "Does the function end with return?"
    elif "Module" in kinds:
        way_out = "Hand a function that makes the module to TorchRecipe."
    raise InputError(
        f"{reference} {'returned' if callable(_named(reference)) else 'is'} "
        f"{type(recipe).__name__}, expected a TorchRecipe, SklearnRecipe, "
        "CallableRecipe or an estimator with scikit-learn's interface, as XGBoost, LightGBM and "
        f"skorch have it. {way_out}"
    )


def joblibs_cloudpickle() -> Any:
    """The pickler that joblib sends work with: its own copy, or from joblib 1.6 on the package."""
    try:
        return importlib.import_module("joblib.externals.cloudpickle")
    except ModuleNotFoundError:
        return importlib.import_module("cloudpickle")
