"""The content hash: whatever a user can change changes it, and nothing else does."""

import atexit
import functools
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from lethe.errors import InputError
from lethe.training.chunks import Spec, chunk_jobs
from lethe.training.fingerprint import digest, hash_array, hash_json, hash_value, versions
from lethe.training.recipe import CallableRecipe, SklearnRecipe, TorchRecipe, Treatment

RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(12, 3)).astype(np.float32)
LABELS = np.arange(12) % 2
POOL = np.arange(12) < 10
SRC = Path(__file__).parents[2] / "src"


def net() -> torch.nn.Module:
    return torch.nn.Linear(3, 2)


def other_net() -> torch.nn.Module:
    return torch.nn.Linear(3, 2, bias=False)


def spec(**changes: Any) -> Spec:
    fields = {
        "features": FEATURES,
        "labels": LABELS,
        "classes": 2,
        "pool": POOL,
        "recipe": TorchRecipe(net, epochs=2),
        "treatment": Treatment(),
        "seed": 0,
    }
    return Spec(**{**fields, **changes})


def one_cell() -> np.ndarray:
    changed = FEATURES.copy()
    changed[7, 1] = np.nextafter(changed[7, 1], np.float32(9))
    return changed


RECIPE = TorchRecipe(net, epochs=2)
CHANGES: dict[str, dict[str, Any]] = {
    "one cell": {"features": one_cell()},
    "features dtype": {"features": FEATURES.astype(np.float64)},
    "features shape": {"features": FEATURES.reshape(12, 3, 1)},
    "label": {"labels": np.where(np.arange(12) == 3, 0, LABELS)},
    "classes": {"classes": 3},
    "pool": {"pool": np.arange(12) < 9},
    "persons": {"groups": np.arange(12) // 2},
    "other persons": {"groups": np.arange(12) // 3},
    "seed": {"seed": 1},
    "factory": {"recipe": replace(RECIPE, make_module=other_net)},
    "epochs": {"recipe": replace(RECIPE, epochs=3)},
    "batch": {"recipe": replace(RECIPE, batch_size=65)},
    "rate": {"recipe": replace(RECIPE, learning_rate=1.1e-3)},
    "optimizer": {"recipe": replace(RECIPE, optimizer="sgd")},
    "momentum": {"recipe": replace(RECIPE, momentum=0.1)},
    "decay": {"recipe": replace(RECIPE, weight_decay=1e-9)},
    "nesterov": {"recipe": replace(RECIPE, optimizer="sgd", momentum=0.1, nesterov=True)},
    "kind of recipe": {"recipe": SklearnRecipe(LogisticRegression())},
    "weights": {"treatment": Treatment(weights=np.ones(12, np.float32))},
    "one weight": {
        "treatment": Treatment(weights=np.where(np.arange(12) == 0, 0, 1).astype(np.float32))
    },
    "noise": {"treatment": Treatment(noise=1e-9)},
    "early": {"treatment": Treatment(epochs=1)},
    "remove": {"treatment": Treatment(remove=True)},
}


def test_every_field_of_a_spec_changes_its_hash_and_each_differently() -> None:
    hashes = {name: spec(**change).hash() for name, change in CHANGES.items()}
    hashes["plain"] = spec().hash()
    hashes["nesterov base"] = spec(recipe=replace(RECIPE, optimizer="sgd", momentum=0.1)).hash()
    assert len(set(hashes.values())) == len(hashes)


def test_the_number_of_models_and_the_chunk_width_do_not_change_it(tmp_path: Path) -> None:
    names = {
        job.spec_hash
        for models, width in ((4, 2), (8, 2), (64, 16))
        for job in chunk_jobs(spec(), tmp_path, models, width)
    }
    assert names == {spec().hash()}


def test_library_versions_are_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = spec().hash()
    monkeypatch.setattr(
        "lethe.training.chunks.versions", lambda *names: {**versions(*names), "scipy": "0.0"}
    )
    assert "scipy" in spec().describe()["versions"]
    assert spec().hash() != before


def test_numpy_scalars_in_settings_hash_like_plain_ones() -> None:
    assert (
        spec(treatment=Treatment(epochs=np.int64(1))).hash()
        == spec(treatment=Treatment(epochs=1)).hash()
    )
    with pytest.raises(InputError, match="no plain JSON value"):
        hash_json({"a": object()})


def test_digest_does_not_collide_by_joining() -> None:
    assert digest("ab", "c") != digest("a", "bc") != digest("abc")
    assert digest("a") == digest(b"a")


def test_arrays_count_with_shape_and_type_not_with_memory_order() -> None:
    table = np.arange(6.0).reshape(2, 3)
    assert hash_array(table) == hash_array(np.asfortranarray(table))
    assert (
        len(
            {
                hash_array(a)
                for a in (table, table.T, table.ravel(), table.astype("f4"), table.astype(">f8"))
            }
        )
        == 5
    )
    assert hash_array(np.float64(3.0).reshape(())) != hash_array(np.array([3.0]))
    with pytest.raises(InputError, match="array of objects"):
        hash_array(np.array([None]))


def partial_net(width: int, other: int = 0) -> int:
    return width + other


class Slotted:
    __slots__ = ("rate",)

    def __init__(self, rate: float) -> None:
        self.rate = rate


class Called:
    def __init__(self, rate: float) -> None:
        self.rate = rate

    def __call__(self) -> float:
        return self.rate

    def method(self) -> float:
        return self.rate


class Sized(list):
    rate = 0.0


def sized(rate: float) -> Sized:
    made = Sized([1])
    made.rate = rate
    return made


def closing_over(value: Any) -> Callable[[], Any]:
    def inner() -> Any:
        return value

    return inner


def defaulting_to(value: Any) -> Callable[..., Any]:
    def inner(a: Any = value, *, b: int = 0) -> Any:
        return a

    return inner


def keyword_default(value: Any) -> Callable[..., Any]:
    def inner(*, b: Any = value) -> Any:
        return b

    return inner


def attributed(value: Any) -> Callable[..., Any]:
    def inner() -> Any:
        return inner.rate

    inner.rate = value
    return inner


def module_with(value: float) -> torch.nn.Module:
    made = torch.nn.Linear(2, 2, bias=False)
    torch.nn.init.constant_(made.weight, value)
    return made


def buffered(value: float) -> torch.nn.Module:
    made = torch.nn.Identity()
    made.register_buffer("mean", torch.tensor(value), persistent=False)
    return made


def hooked(value: float) -> torch.nn.Module:
    made = torch.nn.Identity()
    made.register_forward_hook(closing_over(value))
    return made


def fitted(value: float) -> LogisticRegression:
    return LogisticRegression().fit([[0.0], [value]], [0, 1])


def decorated(value: float) -> Callable[[], Any]:
    return torch.no_grad()(closing_over(value))


@functools.lru_cache
def cached_a() -> int:
    return 1


@functools.lru_cache
def cached_b() -> int:
    return 2


PAIRS: dict[str, tuple[Any, Any]] = {
    "lambda bodies": (lambda x: x + 1, lambda x: x + 2),
    "partial arguments": (functools.partial(partial_net, 1), functools.partial(partial_net, 2)),
    "instances": (Called(1.0), Called(2.0)),
    "bound methods": (Called(1.0).method, Called(2.0).method),
    "builtin methods": (np.random.default_rng(0).normal, np.random.default_rng(1).normal),
    "slots": (Slotted(1.0), Slotted(2.0)),
    "attributes of a list": (sized(1.0), sized(2.0)),
    "closures": (closing_over(1), closing_over(2)),
    "arrays in closures": (closing_over(np.zeros(3)), closing_over(np.eye(1, 3)[0])),
    "defaults": (defaulting_to(1), defaulting_to(2)),
    "keyword defaults": (keyword_default(1), keyword_default(2)),
    "function attributes": (attributed(1), attributed(2)),
    "functions a library wraps": (decorated(1), decorated(2)),
    "cached functions": (cached_a, cached_b),
    "parameters of modules": (module_with(1.0), module_with(2.0)),
    "buffers": (buffered(1.0), buffered(2.0)),
    "hooks": (hooked(1.0), hooked(2.0)),
    "tensors": (torch.zeros(2), torch.zeros(2, dtype=torch.bfloat16)),
    "half tensors": (torch.ones(2).bfloat16(), torch.zeros(2).bfloat16()),
    "fitted estimators": (closing_over(fitted(1.0)), closing_over(fitted(2.0))),
    "nested estimators": (
        make_pipeline(StandardScaler(), LogisticRegression(C=1.0)),
        make_pipeline(StandardScaler(), LogisticRegression(C=2.0)),
    ),
    "functions in estimators": (
        FunctionTransformer(lambda x: x),
        FunctionTransformer(lambda x: 2 * x),
    ),
    "masks": (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0])),
    "arrays of objects": (np.array([None, 1]), np.array([None, 2])),
    "numbers and truth": (1, True),
    "text and bytes": ("a", b"a"),
    "none and its name": (None, "None"),
    "lists and tuples": ([1], (1,)),
    "sets": ({1, 2}, {1, 3}),
    "keys": ({"a": 1}, {"b": 1}),
    "swapped values": ({"a": 1, "b": 2}, {"a": 2, "b": 1}),
    "generators": (np.random.default_rng(0), np.random.default_rng(1)),
    "builtins": (len, max),
    "ufuncs": (np.exp, np.log),
    "classes": (Called, Slotted),
    "grouping": ([[1], [2, 3]], [[1, 2], [3]]),
}


@pytest.mark.parametrize("name", PAIRS)
def test_two_things_that_differ_hash_differently(name: str) -> None:
    left, right = PAIRS[name]
    assert hash_value(left) != hash_value(right)
    assert hash_value(left) == hash_value(left)


MADE: list[Callable[[], Any]] = [
    lambda: {"b": 1, "a": {2, "x"}},
    lambda: Called(0.5),
    lambda: Slotted(1.0),
    lambda: closing_over(np.arange(3)),
    lambda: hooked(1.0),
    lambda: module_with(1.0),
    lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    lambda: fitted(1.0),
    lambda: np.random.default_rng(3),
    lambda: frozenset({"a", ("b", frozenset({"c"}))}),
    lambda: [{"x": [n] * 3} for n in range(50)],
]


@pytest.mark.parametrize("make", MADE)
def test_the_same_made_twice_hashes_the_same(make: Callable[[], Any]) -> None:
    assert hash_value(make()) == hash_value(make())


def test_order_of_keys_does_not_count_and_sharing_does_not_count() -> None:
    assert hash_value({"a": 1, "b": 2}) == hash_value({"b": 2, "a": 1})
    assert hash_json({"a": 1, "b": 2}) == hash_json({"b": 2, "a": 1})
    shared = [1]
    assert hash_value([shared, shared]) == hash_value([[1], [1]])


def test_cycles_end_and_still_differ() -> None:
    def ring(value: int) -> list[Any]:
        made: list[Any] = [value]
        made.append(made)
        return made

    assert hash_value(ring(1)) == hash_value(ring(1)) != hash_value(ring(2))


def test_temporary_objects_do_not_pass_for_one_another() -> None:
    """Freed objects give their id to the next: each of these must be walked, not skipped."""
    many = [Called(float(at)) for at in range(200)]
    changed = [Called(float(at)) for at in range(199)] + [Called(-1.0)]
    assert hash_value(many) != hash_value(changed)
    assert hash_value(many) == hash_value([Called(float(at)) for at in range(200)])


def exp(x: float) -> float:
    return x


@pytest.mark.parametrize(
    "bad",
    [
        lambda: threading.Lock(),
        lambda: (at for at in ()),
        lambda: closing_over(threading.Lock()),
        lambda: np.frompyfunc(lambda x: x, 1, 1),
        lambda: np.frompyfunc(exp, 1, 1),
        lambda: torch.eye(2).to_sparse(),
    ],
)
def test_what_has_no_stable_content_is_refused(bad: Callable[[], Any]) -> None:
    with pytest.raises(InputError):
        hash_value(bad())


def test_a_refusal_names_the_thing_and_the_way_out(tmp_path: Path) -> None:
    with (
        open(tmp_path / "x", "w") as file,
        pytest.raises(
            InputError, match=r"recipe\['log'\] is a TextIOWrapper.*hand over plain values"
        ),
    ):
        hash_value({"log": file}, "recipe")


def test_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InputError, match="nested too deeply"):
        hash_value(deep)


# --- recipe files -------------------------------------------------------------------------

SCRIPT = """
import joblib, json, os, sys
from lethe.training.fingerprint import _distributions
from lethe.training.models import load_recipe
_distributions()  # kept: the names of all libraries take long to read
for line in sys.stdin:
    file, environment = json.loads(line)
    if os.fork() == 0:  # no hash sees the modules that an earlier one loaded
        try:
            os.environ.update(environment)
            print(load_recipe(file + ":make", None).code_hash(), flush=True)
        except BaseException as error:
            print(repr(error), flush=True)
        os._exit(0)
    os.wait()
"""


@functools.cache
def hasher(hash_seed: str) -> subprocess.Popen[str]:
    """A process that computes hashes, each in a child of its own."""
    own = {"PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(SRC)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **own},
        cwd="/",
    )

    def end() -> None:
        process.kill()
        process.communicate(timeout=60)

    atexit.register(end)
    return process


def code_hash(file: Path, hash_seed: str = "0", **env: str) -> str:
    """The hash as a fresh process computes it."""
    process = hasher(hash_seed)
    process.stdin.write(json.dumps([str(file), env]) + "\n")
    process.stdin.flush()
    found = process.stdout.readline().strip()
    assert len(found) == 64, found
    return found


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder / "recipe.py"


PLAIN = """
from lethe.training.recipe import CallableRecipe
RATE = 0.1
NAMES = {"a", "b", "c", "d"}
def train(rows, weights, seed):
    known = seed in {"x", "y", "z"} or NAMES
    return lambda rows: [[RATE, len(NAMES)]]
def make():
    return CallableRecipe(train)
"""
WITH_HELPER = """
from lethe.training.recipe import CallableRecipe
import os
{top}
def train(rows, weights, seed):
    {inside}
    return {used}
def make():
    return CallableRecipe(train)
"""
WAYS = {
    "import": ("import helper", "pass", "helper.build()"),
    "from": ("from helper import build", "pass", "build()"),
    "late": ("", "from helper import build", "build()"),
    "late module": ("", "import helper", "helper.build()"),
    "in a lambda": ("from helper import build", "pass", "(lambda: build())()"),
    "in a method": (
        "from helper import build\nclass Run:\n    def go(self):\n        return build()",
        "pass",
        "Run().go()",
    ),
    "in a package": ("from pack.inner import build", "pass", "build()"),
    "through the package": ("import pack.inner", "pass", "pack.inner.build()"),
}
HELPER = "from deeper import RATE\ndef build():\n    return RATE\n"


def with_helper(folder: Path, way: str, rate: float) -> Path:
    top, inside, used = WAYS[way]
    file = write(
        folder,
        recipe=WITH_HELPER.format(top=top, inside=inside, used=used),
        helper=HELPER,
        deeper=f"RATE = {rate}\n",
    )
    (folder / "pack").mkdir(exist_ok=True)
    (folder / "pack" / "__init__.py").write_text("")
    (folder / "pack" / "inner.py").write_text("from .core import RATE\n" + HELPER[23:])
    (folder / "pack" / "core.py").write_text(f"RATE = {rate}\n")
    return file


def test_the_hash_is_the_same_in_another_process_place_and_hash_seed(tmp_path: Path) -> None:
    """A set's order follows PYTHONHASHSEED; a module's name and file follow its place."""
    hashes = {
        code_hash(write(tmp_path / place, recipe=PLAIN), seed)
        for place, seed in (("a", "0"), ("b/c", "1"))
    }
    assert len(hashes) == 1


def test_one_constant_in_the_recipe_file_changes_it(tmp_path: Path) -> None:
    other = PLAIN.replace("RATE = 0.1", "RATE = 0.2")
    assert code_hash(write(tmp_path, recipe=PLAIN)) != code_hash(write(tmp_path, recipe=other))


@pytest.mark.parametrize("way", WAYS)
def test_a_module_behind_a_module_beside_the_file_changes_it(tmp_path: Path, way: str) -> None:
    one = code_hash(with_helper(tmp_path / "one", way, 0.1))
    two = code_hash(with_helper(tmp_path / "two", way, 0.2))
    assert one != two
    if way == "import":
        assert one == code_hash(with_helper(tmp_path / "three", way, 0.1))


@pytest.mark.parametrize(
    "text",
    [
        'import os\nRATE = float(os.environ["RATE_OF_TEST"])\n'
        "def train(rows, weights, seed):\n    return [RATE for _ in rows]\n",
        "import settings\ndef train(rows, weights, seed):\n    return settings.RATE\n",
        "import settings\nclass Train:\n    rate = settings.RATE\n"
        "    def __call__(self, rows, weights, seed):\n        return self.rate\ntrain = Train()\n",
        "import numpy as np, os\nfrom pathlib import Path\n"
        'TABLE = np.full(3, float(os.environ["RATE_OF_TEST"]))\n'
        "def train(rows, weights, seed):\n    return [t for t in TABLE]\n",
    ],
)
def test_values_that_no_text_shows_count(tmp_path: Path, text: str) -> None:
    file = write(
        tmp_path,
        recipe="from lethe.training.recipe import CallableRecipe\n"
        + text
        + "def make():\n    return CallableRecipe(train)\n",
        settings='import os\nRATE = float(os.environ["RATE_OF_TEST"])\n',
    )
    one, two, again = (code_hash(file, RATE_OF_TEST=rate) for rate in ("1", "2", "1"))
    assert one == again != two


def test_code_that_is_running_counts_even_if_its_file_was_edited_since(tmp_path: Path) -> None:
    """An edited helper that was not loaded anew must not lend its new text to the old code."""

    def load(body: str) -> Any:
        space: dict[str, Any] = {"__name__": "edited"}
        exec(compile(f"def f():\n    return {body}\n", str(tmp_path / "edited.py"), "exec"), space)
        return space["f"]

    (tmp_path / "edited.py").write_text("def f():\n    return 2\n")
    assert hash_value(load("1")) != hash_value(load("2"))


def test_functions_typed_into_a_session_are_hashed_by_code() -> None:
    def typed(body: str) -> Any:
        space: dict[str, Any] = {"__name__": "__nowhere__", "RATE": 3}
        exec(body, space)
        return space["f"]

    one, two = (typed(f"def f(x):\n    return [x * RATE + {n} for _ in 'ab']") for n in (1, 2))
    assert hash_value(one) != hash_value(two)
    one.__globals__["RATE"] = 4
    again = typed("def f(x):\n    return [x * RATE + 1 for _ in 'ab']")
    assert hash_value(one) != hash_value(again)


def test_make_module_counts_with_what_it_builds() -> None:
    """A factory that reads its weights from elsewhere is told apart by the module it makes."""
    content = {"value": 1.0}

    def reading() -> torch.nn.Module:
        return module_with(json.loads(json.dumps(content))["value"])

    before = TorchRecipe(reading).code_hash()
    content["value"] = 2.0
    assert TorchRecipe(reading).code_hash() != before


def test_an_estimator_with_a_function_is_described_without_its_address() -> None:
    recipe = SklearnRecipe(
        make_pipeline(
            FunctionTransformer(np.abs), FunctionTransformer(partial_net), LogisticRegression()
        )
    )
    assert " at 0x" not in str(recipe.describe())
    assert "partial_net" in str(recipe.describe())


def test_callable_recipes_count_outputs_version_and_captured_data() -> None:
    def recipe(data: float = 0.0, **settings: Any) -> Spec:
        return spec(recipe=CallableRecipe(closing_over(np.full(3, data)), **settings))

    hashes = {
        recipe().hash(),
        recipe(1.0).hash(),
        recipe(version="2").hash(),
        recipe(outputs="probabilities").hash(),
    }
    assert len(hashes) == 4


def test_a_recurrent_layer_is_hashed_by_its_weights() -> None:
    """It holds weak references to them, which could not be hashed: no LSTM could be audited."""

    def layer(value: float) -> torch.nn.Module:
        lstm = torch.nn.LSTM(3, 4, batch_first=True)
        for weight in lstm.parameters():
            torch.nn.init.constant_(weight, value)
        return lstm

    assert hash_value(layer(0.5)) == hash_value(layer(0.5)) != hash_value(layer(0.25))
