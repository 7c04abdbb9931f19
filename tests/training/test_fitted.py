"""Models from files: what may be read, what is refused, and that a damaged tree is not walked."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
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
        make_pipeline(SimpleImputer(), LogisticRegression(max_iter=200)),
        CalibratedClassifierCV(LinearSVC(), cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_skops_file_answers_as_the_model_did(model: Any, tmp_path: Path) -> None:
    model.fit(ROWS, LABELS)
    io.dump(model, tmp_path / "model.skops")
    read = load_fitted(tmp_path / "model.skops")
    assert (read.predict(ROWS) == model.predict(ROWS)).all()


@pytest.mark.parametrize("loader", ["ObjectNode", "ReduceNode", "TypeNode"])
def test_a_type_of_numbers_that_is_built_otherwise_is_refused(tmp_path: Path, loader: str) -> None:
    path = tmp_path / "model.skops"
    io.dump(make_pipeline(SimpleImputer(), SVC()).fit(ROWS, LABELS), path)
    with zipfile.ZipFile(path) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    files["schema.json"] = files["schema.json"].replace(b"DTypeNode", loader.encode())
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    with pytest.raises(InputError, match="builds a type of numbers by other means"):
        load_fitted(path)


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


def entry(number: int, *parts: bytes | str | int) -> bytes:
    """A field of a protocol buffer: a whole number, or text or messages."""

    def packed(value: int) -> bytes:
        return bytes([value & 127 | 128]) + packed(value >> 7) if value > 127 else bytes([value])

    if isinstance(parts[0], int):
        return packed(number << 3) + packed(parts[0])
    whole = b"".join(part.encode() if isinstance(part, str) else bytes(part) for part in parts)
    return packed(number << 3 | 2) + packed(len(whole)) + whole


def onnx_of_columns(path: Path, *names: str) -> Path:
    """An ONNX file of one float input a column, whose answer is their softmax."""
    joined = entry(5, entry(1, "axis"), entry(3, 1), entry(20, 2))
    nodes = [
        entry(1, *(entry(1, name) for name in names), entry(2, "all"), entry(4, "Concat"), joined),
        entry(1, entry(1, "all"), entry(2, "p"), entry(4, "Softmax"), joined),
    ]

    def value(name: str, width: int) -> bytes:
        shape = entry(2, entry(1, entry(2, "rows")), entry(1, entry(1, width)))
        return entry(1, name) + entry(2, entry(1, entry(1, 1), shape))

    inputs = [entry(11, value(name, 1)) for name in names]
    graph = entry(7, *nodes, entry(2, "g"), *inputs, entry(12, value("p", len(names))))
    path.write_bytes(entry(1, 8) + graph + entry(8, entry(1, ""), entry(2, 13)))
    return path


def test_an_onnx_file_of_one_input_and_of_a_fixed_number_of_records_is_asked() -> None:
    """The file is of scikit-learn's logistic regression, and takes three records at a time."""
    onnxruntime = pytest.importorskip("onnxruntime")
    path = pytest.importorskip("onnxruntime.datasets").get_example("logreg_iris.onnx")
    answers = load_fitted(Path(path))
    shares = answers(ROWS[:, :2])
    assert shares.shape == (150, 3) and shares.sum(axis=1) == pytest.approx(np.ones(150), abs=1e-5)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    for place in (0, 76, 148):
        three = np.repeat(ROWS[[place], :2], 3, axis=0).astype(np.float32)
        assert shares[place].tolist() == [*session.run(None, {"float_input": three})[1][0].values()]
    assert (answers(ROWS[:149, :2]) == shares[:149]).all()


def test_an_onnx_file_that_reads_columns_by_name_is_audited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from lethe.cli import run

    pandas = pytest.importorskip("pandas")
    pytest.importorskip("onnxruntime")
    monkeypatch.chdir(tmp_path)
    onnx_of_columns(Path("model.onnx"), "no", "yes")
    rng = np.random.default_rng(0)
    yes, no, target = rng.normal(size=200), rng.normal(size=200), rng.integers(0, 2, 200)
    columns = np.column_stack([yes, no])
    shares = load_fitted(Path("model.onnx"))(pandas.DataFrame({"no": no, "yes": yes}))
    assert shares == pytest.approx(softmax(columns[:, ::-1], axis=1), abs=1e-6)
    rows = [f"{y},{n},{t},{m}" for y, n, t, m in zip(yes, no, target, no > 0, strict=True)]
    Path("people.csv").write_text("\n".join(["yes,no,target,member", *rows]))
    audit = ["audit", "fitted", "model.onnx", "people.csv", "--members", "member", "--quiet"]
    assert run(audit) in (0, 3), capsys.readouterr().err
    assert run([*audit, "--drop", "no"]) == 2
    assert "wants a column 'no'" in capsys.readouterr().err


def test_a_folder_of_save_pretrained_answers_as_its_model_does(tmp_path: Path) -> None:
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    from tiny_encoder import tiny_encoder

    folder = tiny_encoder(tmp_path / "model", pooling=None)
    config = transformers.BertConfig.from_pretrained(folder, num_labels=3)
    model = transformers.BertForSequenceClassification(config).eval()
    model.save_pretrained(folder)
    texts = [*["hand cut by saw", "burn"] * 40, "eye"]
    shares = load_fitted(folder)(np.array(texts, object))
    tokens = transformers.AutoTokenizer.from_pretrained(folder)
    for place in (0, 1, 80):
        with torch.no_grad():
            logits = model(**tokens(texts[place], return_tensors="pt")).logits
        assert shares[place] == pytest.approx(logits.softmax(-1).numpy()[0], abs=1e-5)
    assert shares.shape == (81, 3)
    (folder / "model.safetensors").unlink()
    torch.save(model.state_dict(), folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="safetensors"):
        load_fitted(folder)
