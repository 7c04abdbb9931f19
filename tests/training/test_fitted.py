"""Models from files: what may be read, what is refused, and that a damaged tree is not walked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from lethe.errors import InputError
from lethe.training.fitted import load_fitted, session_answers

io = pytest.importorskip("skops.io")
ROWS, LABELS = load_iris(return_X_y=True)


@pytest.mark.parametrize(
    "model",
    [
        DecisionTreeClassifier(),
        RandomForestClassifier(4),
        GradientBoostingClassifier(n_estimators=3),
        HistGradientBoostingClassifier(max_iter=3),
        GridSearchCV(LogisticRegression(max_iter=200), {"C": [1.0]}),
        KNeighborsClassifier(),
        KNeighborsClassifier(algorithm="ball_tree", metric="manhattan"),
        make_pipeline(StandardScaler(), MLPClassifier((4,), max_iter=300, tol=1e-2)),
        make_pipeline(StandardScaler(), SVC()),
        CalibratedClassifierCV(LinearSVC(), cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_skops_file_answers_as_the_model_did(model: Any, tmp_path: Path) -> None:
    model.fit(ROWS, LABELS)
    io.dump(model, tmp_path / "model.skops")
    read = load_fitted(tmp_path / "model.skops")
    assert (read.predict(ROWS) == model.predict(ROWS)).all()


@pytest.mark.parametrize("name", ["m.pkl", "m.joblib", "m.pt", "m.bin", "m.ckpt"])
def test_pickles_are_refused_unread_with_the_way_out(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"cos\nsystem\n(S'echo'\ntR.")
    with pytest.raises(InputError, match=r"pickle.*(skops\.io\.dump|safetensors)"):
        load_fitted(tmp_path / name)


def test_a_function_in_a_skops_file_is_refused_by_name(tmp_path: Path) -> None:
    import os

    model = make_pipeline(FunctionTransformer(os.system), LogisticRegression())
    io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match=r"posix\.system|nt\.system|os\.system"):
        load_fitted(tmp_path / "model.skops")


@pytest.mark.parametrize("step", [10**6, 0])
def test_a_tree_that_leads_out_of_its_nodes_is_refused(step: int, tmp_path: Path) -> None:
    tree = DecisionTreeClassifier(max_depth=3).fit(ROWS, LABELS)
    state = tree.tree_.__getstate__()
    nodes = state["nodes"].copy()
    nodes["left_child"][0] = step
    tree.tree_.__setstate__({**state, "nodes": nodes})
    io.dump(tree, tmp_path / "model.skops")
    with pytest.raises(InputError, match="leads out of its own nodes"):
        load_fitted(tmp_path / "model.skops")


def test_a_boosted_tree_of_another_table_is_refused(tmp_path: Path) -> None:
    model = HistGradientBoostingClassifier(max_iter=2).fit(ROWS, LABELS)
    nodes = model._predictors[0][0].nodes
    nodes["feature_idx"][0] = 4000
    io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match="leads out of its own nodes"):
        load_fitted(tmp_path / "model.skops")


@pytest.mark.parametrize("wide", ["tree", "member of a forest", "stage of boosting"])
def test_a_tree_of_a_wider_table_is_refused(wide: str, tmp_path: Path) -> None:
    """Such a tree fits its own numbers, and would read past the end of each record."""
    rows = np.hstack([ROWS, ROWS + LABELS[:, None]])
    other = DecisionTreeClassifier(max_depth=3).fit(rows[:, [0, 0, 0, 0, 4, 5, 6, 7]], LABELS)
    if wide == "tree":
        model: Any = DecisionTreeClassifier().fit(ROWS, LABELS)
        model.tree_ = other.tree_
    elif wide == "member of a forest":
        model = RandomForestClassifier(2).fit(ROWS, LABELS)
        model.estimators_[1] = other
    else:
        model = GradientBoostingClassifier(n_estimators=2).fit(ROWS, LABELS)
        model.estimators_[0, 0].tree_ = other.tree_
    io.dump(model, tmp_path / "model.skops")
    with pytest.raises(InputError, match="leads out of its own nodes"):
        load_fitted(tmp_path / "model.skops")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("model.skops", b"nothing", "not a readable skops file"),
        ("model.onnx", b"nothing", "not a readable ONNX model"),
        ("model.txt", b"nothing", "no model that can be read"),
        ("model.safetensors", b"nothing", "--recipe"),
    ],
)
def test_what_is_no_model_is_refused(name: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=said):
        load_fitted(tmp_path / name)


def test_weights_go_into_the_module_of_a_recipe(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    recipe = tmp_path / "mine.py"
    recipe.write_text("from torch import nn\ndef Net():\n    return nn.Linear(4, 3)\n")
    weights = {"weight": torch.ones(3, 4), "bias": torch.zeros(3)}
    save_file(weights, tmp_path / "model.safetensors")
    module = load_fitted(tmp_path / "model.safetensors", f"{recipe}:Net")
    assert module(torch.ones(1, 4)).tolist() == [[4.0, 4.0, 4.0]]
    save_file({"weight": torch.ones(3, 5)}, tmp_path / "model.safetensors")
    with pytest.raises(InputError, match="does not fit"):
        load_fitted(tmp_path / "model.safetensors", f"{recipe}:Net")


def test_probabilities_of_a_session_come_in_the_order_of_the_classes() -> None:
    class Input:
        name, type = "X", "tensor(float)"

    class Session:
        def get_inputs(self) -> list[Any]:
            return [Input()]

        def run(self, _: None, feed: dict[str, Any]) -> list[Any]:
            assert feed["X"].dtype == np.float32
            return [np.array(["b"]), [{"b": 0.7, "a": 0.3}]]

    assert session_answers(Session())(np.ones((1, 2))).tolist() == [[0.3, 0.7]]
