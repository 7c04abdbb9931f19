"""The default recipe, and recipes from a file, a module or a notebook."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from lethe.errors import InputError
from lethe.training.chunks import Spec, chunk_jobs, train_chunk
from lethe.training.engines.processes import run_in_processes, stop_processes
from lethe.training.models import default_recipe, load_callable, load_recipe, mlp
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment
from lethe.training.shadows import Shadows

pytestmark = pytest.mark.processes


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name in ("beside", "beside_late"):
            del sys.modules[name]


def write(folder: Path, text: str, name: str = "recipe.py") -> str:
    (folder / name).write_text(text)
    return f"{folder / name}:make"


def refusal(reference: str, data: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        load_recipe(reference, data)
    return str(caught.value)


@pytest.mark.parametrize(
    ("records", "epochs", "batch", "sizes"),
    [
        (10, 60, 32, [20, 128, 5]),
        (1797, 53, 32, [20, 128, 5]),
        (4999, 19, 32, [20, 128, 5]),
        (5000, 60, 128, [20, 128, 64, 5]),
        (100_000, 15, 128, [20, 128, 64, 5]),
    ],
)
def test_default_recipe(records: int, epochs: int, batch: int, sizes: list[int]) -> None:
    """About 1,500 steps: at 1,797 records 28 full batches of 32, so 53 epochs."""
    recipe = default_recipe(records, 20, 5)
    assert (recipe.epochs, recipe.batch_size) == (epochs, batch)
    assert (recipe.optimizer, recipe.learning_rate, recipe.momentum) == ("sgd", 0.05, 0.9)
    linear = [layer for layer in recipe.make_module() if hasattr(layer, "in_features")]
    assert [linear[0].in_features, *(layer.out_features for layer in linear)] == sizes


def test_default_recipe_of_a_regression() -> None:
    recipe = default_recipe(1797, 20, 0)
    assert recipe.task == "regression" and recipe.epochs == default_recipe(1797, 20, 5).epochs
    assert recipe.make_module()(torch.zeros(2, 20)).shape == (2, 1)


@pytest.mark.parametrize("reference", ["recipe.py", ":make", "recipe.py:", "make"])
def test_references_of_another_form_are_refused(reference: str) -> None:
    assert "must be file.py:name or package.module:name" in refusal(reference)


def test_missing_files_modules_and_names_are_said(tmp_path: Path) -> None:
    assert "does not exist" in refusal(f"{tmp_path}/none.py:make")
    assert "module 'no_such_module' cannot be imported" in refusal("no_such_module:make")
    assert "cannot be imported" in refusal(".relative:make")
    reference = write(tmp_path, "def make_model():\n    pass\nRATE = 1\n")
    said = refusal(reference.replace(":make", ":make_modle"))
    assert "has no 'make_modle'. Did you mean 'make_model'?" in said
    assert "is int, expected a TorchRecipe" in refusal(reference.replace(":make", ":RATE"))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1 / 0", "ZeroDivisionError"),
        ("def make(:", "SyntaxError"),
        ("import no_such", "no_such"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_file_that_fails_is_said_and_forgotten(tmp_path: Path, text: str, why: str) -> None:
    reference = write(tmp_path, text)
    said = refusal(reference)
    assert "recipe.py fails: " in said and why in said
    assert not [
        m for m in sys.modules.values() if str(getattr(m, "__file__", "")).startswith(str(tmp_path))
    ]
    write(tmp_path, "def make():\n    from sklearn.svm import SVC\n    return SVC()\n")
    assert isinstance(load_recipe(reference, None), SklearnRecipe)


RECIPES = {
    "estimator": ("from sklearn.svm import SVC\ndef make():\n    return SVC()", SklearnRecipe),
    "class": ("from sklearn.svm import SVC as make", SklearnRecipe),
    "torch": (
        "import torch\nfrom lethe.training.recipe import TorchRecipe\n"
        "def make(data):\n    return TorchRecipe(lambda: torch.nn.Linear(data, 2))",
        TorchRecipe,
    ),
    "callable": (
        "from lethe.training.recipe import CallableRecipe\n"
        "def make(data=None):\n    assert data == 3\n"
        "    return CallableRecipe(lambda rows, weights, seed: data)",
        CallableRecipe,
    ),
    "options": (
        "from sklearn.svm import SVC\ndef make(C=2.0, *, degree=3):\n"
        "    assert C == 2.0\n    return SVC(C=C)",
        SklearnRecipe,
    ),
}


@pytest.mark.parametrize(("text", "kind"), RECIPES.values(), ids=RECIPES)
def test_what_a_recipe_file_may_return(tmp_path: Path, text: str, kind: type) -> None:
    assert isinstance(load_recipe(write(tmp_path, text), 3), kind)


@pytest.mark.parametrize("value", ["3", "None", "object()"])
def test_anything_else_is_refused(tmp_path: Path, value: str) -> None:
    said = refusal(write(tmp_path, f"def make():\n    return {value}\n"))
    assert "expected a TorchRecipe, SklearnRecipe" in said


def test_a_function_of_an_installed_module() -> None:
    assert load_callable("lethe.training.models:mlp") is mlp
    assert isinstance(load_recipe("sklearn.linear_model:LogisticRegression", None), SklearnRecipe)


def test_an_edited_file_is_read_anew(tmp_path: Path) -> None:
    text = "from sklearn.svm import SVC\ndef make():\n    return SVC(C={})\n"
    hashes = set()
    for value in (1.0, 2.0):  # of equal size, within a second: no cached bytecode
        hashes.add(load_recipe(write(tmp_path, text.format(value)), None).code_hash())
    assert len(hashes) == 2


BESIDE = """
from lethe.training.recipe import CallableRecipe, TorchRecipe
import beside
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = beside.layer()
    def forward(self, x):
        return self.layer(x)

def train(rows, weights, seed):
    import beside_late
    return lambda wanted: [[beside_late.VALUE, seed % 2] for _ in wanted]

def make():
    return TorchRecipe(Net, epochs=1)

def other():
    return CallableRecipe(train)
"""


@pytest.mark.slow
def test_a_recipe_with_modules_beside_it_works_in_other_processes(tmp_path: Path) -> None:
    """Its classes travel by value; what it imports is found by the path that workers get."""
    reference = write(tmp_path, BESIDE)
    write(tmp_path, "import torch\ndef layer():\n    return torch.nn.Linear(3, 2)\n", "beside.py")
    write(tmp_path, "VALUE = 0.25\n", "beside_late.py")
    labels = np.arange(20) % 2
    features = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    found = []
    try:
        for name in ("make", "other"):
            recipe = load_recipe(reference.replace(":make", f":{name}"), None)
            spec = Spec(features, labels, 2, np.ones(20, bool), recipe, Treatment(), 0)
            jobs = chunk_jobs(spec, tmp_path / name, 4, 2)
            assert sum(run_in_processes(jobs, train_chunk, 2)) == 4
            found.append(Shadows.from_shards(jobs, labels).signals)
    finally:
        stop_processes()
    assert found[0].shape == found[1].shape == (4, 20)


def test_a_recipe_that_says_data_classes_travels_to_other_processes(tmp_path) -> None:
    # `torch` and `classes` in one function look like the module torch.classes, which cannot
    # be pickled.
    (tmp_path / "mine.py").write_text(
        "import torch\n"
        "from lethe import TorchRecipe\n"
        "def make(data):\n"
        "    def module():\n"
        "        return torch.nn.Sequential(torch.nn.Linear(2, len(data.classes)))\n"
        "    return TorchRecipe(module, epochs=1)\n"
    )
    data = SimpleNamespace(classes=("a", "b"))
    recipe = load_recipe(f"{tmp_path / 'mine.py'}:make", data)
    assert list(run_in_processes([recipe], outputs_of, 1)) == [2]


def outputs_of(recipe: TorchRecipe) -> int:
    return int(recipe.make_module()[0].out_features)


@pytest.mark.parametrize(
    ("made", "way"),
    [
        ("None", "Does the function end with return?"),
        ("__import__('torch').nn.Linear(2, 2)", "makes the module to TorchRecipe"),
        ("__import__('lightning').LightningModule()", "lethe.lightning_recipe"),
        ("lambda rows, weights, seed: None", r"Wrap a function Train\(rows, weights, seed\)"),
    ],
)
def test_a_refused_recipe_names_the_one_to_take(tmp_path: Path, made: str, way: str) -> None:
    with pytest.raises(InputError, match=way):
        load_recipe(write(tmp_path, f"def make():\n    return {made}\n"), None)
