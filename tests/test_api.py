"""One line of Python: models and tables as people have them."""

from __future__ import annotations

import json

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import scipy.sparse
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import lethe
from lethe.data.given import given_rows
from lethe.errors import InputError

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 4)).astype(np.float32)
Y = (X[:, 0] + RNG.normal(size=120) > 0).astype(int)
WORDS = np.where(Y == 1, "yes", "no")
FEW = {"models": 4, "mitigations": "none", "attack": "lira-online", "workers": 1, "quiet": True}


def people() -> dict[str, list]:
    """A table as people have it: names, text, gaps."""
    town = RNG.choice(["north", "south", "east"], 120).tolist()
    age = RNG.integers(18, 90, 120).astype(float)
    age[3] = np.nan
    return {
        "town": town,
        "age": age.tolist(),
        "x": X[:, 0].tolist(),
        "name": list(map(str, X[:, 1])),
    }


def pipeline():
    """By column names, with its own encoding and its own way to fill gaps."""
    from sklearn.impute import SimpleImputer

    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["town"]),
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "x"]),
    )
    return make_pipeline(columns, LogisticRegression())


def audited(model, rows=X, labels=Y, **more):
    findings = lethe.audit(model, rows, labels, save=False, **{**FEW, **more})
    assert findings.candidates[0]["attacks"]["lira-online"]["auc"]["n"] > 0
    return findings


@pytest.mark.parametrize("kind", [pandas.DataFrame, polars.DataFrame])
def test_a_pipeline_by_column_names_is_fitted_on_the_frame_itself(kind):
    found = audited(pipeline(), kind(people()), WORDS)
    assert found.data["classes"] == ["no", "yes"]
    assert any("'name'" in note for note in found.data["notes"])  # names records: not compared


def test_a_frame_of_numbers_gives_the_numbers_of_its_array():
    names = [f"x{at}" for at in range(4)]
    one = audited(RandomForestClassifier(5), pandas.DataFrame(X, columns=names))
    other = audited(RandomForestClassifier(5), X)
    assert one.candidates[0]["attacks"] == other.candidates[0]["attacks"]


def test_a_changed_cell_is_another_audit(tmp_path):
    table = pandas.DataFrame(people())
    for rows in (table, table.assign(name="all alike")):
        lethe.audit(
            pipeline(), rows, Y, **FEW, name="people", out=tmp_path / str(len(set(rows.name)))
        )
    ids = {json.loads(one.read_text())["audit"] for one in tmp_path.glob("*/manifest.json")}
    assert len(ids) == 2


def test_the_run_is_left_and_computes_nothing_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = lethe.audit(LogisticRegression(), X, Y, **FEW, gate="auc<=0.99")
    (folder,) = (tmp_path / "lethe-runs").iterdir()
    assert {"findings.json", "report.html", "figures"} <= {one.name for one in folder.iterdir()}
    assert (folder / "findings.json").read_bytes() == first.to_bytes()
    assert [rule["fixed"] for rule in first.rules] == [True]
    before = {one: one.stat().st_mtime_ns for one in folder.rglob("*.safetensors")}
    again = lethe.audit(LogisticRegression(), X, Y, **FEW, gate="auc<=0.99")
    assert again.to_bytes() == first.to_bytes()
    assert {one: one.stat().st_mtime_ns for one in folder.rglob("*.safetensors")} == before


def test_nothing_is_left_where_nothing_is_saved(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    audited(LogisticRegression())
    assert not list(tmp_path.iterdir())


def test_torch_by_a_factory_and_training_code_of_ones_own():
    from functools import partial

    net = partial(torch.nn.Linear, 4, 2)
    assert audited(net)

    def train(rows, weights, seed):  # the forest refuses a seed of more than 32 bits
        model = RandomForestClassifier(3, random_state=seed).fit(X[rows], Y[rows])
        return lambda asked: model.predict_proba(X[asked])

    assert audited(train)


def test_numbers_are_predicted_where_the_model_does():
    assert audited(Ridge(), X, X[:, 0] * 2.5, attack=["lira-online"]).data["task"] == "regression"


@pytest.mark.parametrize(
    "rows",
    [
        X.tolist(),
        torch.tensor(X, requires_grad=True),
        torch.tensor(X, dtype=torch.bfloat16),
        scipy.sparse.csr_matrix(X),
        pyarrow.table({f"x{at}": X[:, at] for at in range(4)}),
        polars.DataFrame(X),
        pandas.DataFrame(X).astype("Float32"),
    ],
    ids=lambda rows: type(rows).__name__,
)
def test_rows_of_every_kind_are_records(rows):
    data, frame = given_rows(rows, WORDS.tolist())
    assert data.features.shape == (120, 4) and data.classes == ("no", "yes")
    assert (frame is rows) == isinstance(rows, pandas.DataFrame | polars.DataFrame)


def test_a_torch_data_set_and_its_loader_hold_both():
    pairs = torch.utils.data.TensorDataset(torch.tensor(X), torch.tensor(Y))
    for source in (pairs, torch.utils.data.DataLoader(pairs, batch_size=7)):
        data, _ = given_rows(source)
        assert (data.features == X).all() and (data.labels == Y).all()


@pytest.mark.parametrize(
    ("model", "more", "said"),
    [
        (torch.nn.Linear(4, 2), {}, "lambda: Net()"),
        (3, {}, "hand over an estimator"),
        (LogisticRegression, {}, "LogisticRegression()"),
        (LogisticRegression(), {"modles": 8}, "Did you mean 'models'"),
        (LogisticRegression(), {"attack": "lira"}, "attack='lira' must be one of"),
        (LogisticRegression(), {"y": None}, "y is missing"),
        (LogisticRegression(), {"y": Y[:5]}, "y has 5 values, X has 120 records"),
        (LogisticRegression(), {"y": np.eye(2)[Y]}, "argmax"),
        (LogisticRegression(), {"X": X[:, 0]}, "X[['column']]"),
        (LogisticRegression(), {"X": X.astype(str)}, "a data frame"),
        (LogisticRegression(), {"groups": Y[:5]}, "groups has 5 values"),
    ],
)
def test_what_cannot_be_audited_is_told_with_the_way_out(model, more, said):
    given = {"X": X, "y": Y, "save": False, **FEW, **more}
    with pytest.raises(InputError) as told:
        lethe.audit(model, **given)
    assert said in str(told.value)
