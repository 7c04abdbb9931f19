"""Two tables that differ in one private record are prepared alike, whatever that record holds.

Compared: the number and names of columns, the classes, the number of parameters of the default
network, and the numbers of every other record, bit by bit. Nothing may be refused either.
"""

import csv
import datetime
import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.data import preparation
from lethe.data.columns import as_text
from lethe.data.dataset import Dataset
from lethe.data.given import given_rows
from lethe.data.preparation import by_public
from lethe.data.schema import Schema
from lethe.data.tables import load
from lethe.errors import InputError
from lethe.mitigations.dp_sgd.method import scaled_by_held_out
from lethe.training.models import default_recipe

DAYS = [datetime.date(2020, 1, day) for day in (1, 15, 31)]
USUAL: tuple[tuple[Any, ...], ...] = (
    (1, 2, 3, 70),
    (0.5, 1.25, -3.0, 1e6),
    ("f", "m"),
    ("a", "b", "c", "01", "7"),
    (True, False),
    tuple(DAYS),
    tuple(f"{day} 12:30:00" for day in DAYS),
    (Decimal("1.50"), Decimal("2.25")),
    (1, 2.5, None),
    ("x", "y", None),
    (5, 5, 5),
    ("same",),
    (None,),
)
HOSTILE: tuple[Any, ...] = (
    *(None, "", " ", math.nan, math.inf, -math.inf, -0.0, 1e308, -1e308, 5e-324, 2**53 + 1, 2**63),
    *(True, False, "true", "yes", "nan", "inf", "01", "1_000", "1e3", "astronaut", "f", "é", "a,b"),
    *(datetime.date(1, 1, 1), datetime.date(9999, 12, 31), "2020-02-30", "2020-01-01 12:00"),
    *(Decimal("NaN"), Decimal("1e400"), pandas.NA, "9" * 400, 'q"uo,te', "li\nne"),
)
LABELS: tuple[tuple[Any, ...], ...] = (("no", "yes"), (0, 1, 2), (True, False), ("1", "10", "2"))
Table = list[tuple[str, list[Any]]]


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[Table, Table, int]:
    """Columns, the last of them the label; the same with another last record; public records."""
    public, private = draw(st.integers(6, 9)), draw(st.integers(3, 6))
    kinds = [draw(st.sampled_from(USUAL)) for _ in range(draw(st.integers(1, 3)))]
    kinds = [(1, 2, 3), *kinds]  # a column that varies, so that something is left
    label = draw(st.sampled_from(LABELS))
    first: Table = []
    second: Table = []
    gone = draw(st.booleans())
    for at, kind in enumerate([*kinds, label]):
        cells = [kind[row % len(kind)] for row in range(public)]
        cells += [draw(st.sampled_from(kind)) for _ in range(private - 1)]
        usual, odd = draw(st.sampled_from(kind)), draw(st.sampled_from(HOSTILE))
        name = "y" if at == len(kinds) else f"c{at}"
        first.append((name, [*cells, usual]))
        second.append((name, [*cells, *([] if gone else [odd])]))
    return first, second, public


def from_file(folder: Path, table: Table, public: int, schema: Schema | None = None) -> Dataset:
    path = folder / "people.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        written = csv.writer(file)
        written.writerow([name for name, _ in table])
        rows = zip(*(cells for _, cells in table), strict=True)
        written.writerows(["" if cell is None else str(cell) for cell in row] for row in rows)
    return load(path, "y", schema=schema, public=first_rows(public) if public else None)


def first_rows(public: int) -> Callable[..., np.ndarray]:
    return lambda records, groups, external: np.arange(records) < public


def from_frame(table: Table, public: int) -> Dataset:
    frame = pandas.DataFrame({name: pandas.Series(cells) for name, cells in table})
    return given_rows(
        frame.drop(columns="y"), frame["y"], task="classification", public=first_rows(public)
    ).data


def check(first: Dataset, second: Dataset) -> None:
    assert first.feature_names == second.feature_names
    assert first.classes == second.classes
    both = min(len(first), len(second))
    both -= len(first) == len(second)  # the last record is another
    np.testing.assert_array_equal(first.features[:both], second.features[:both])
    np.testing.assert_array_equal(first.labels[:both], second.labels[:both])
    assert first.preparation.read_off == second.preparation.read_off == ()
    assert first.preparation.assumed == second.preparation.assumed
    shapes = [
        [tuple(p.shape) for p in default_recipe(100, d.features.shape[1], len(d.classes))
         .make_module().parameters()]
        for d in (first, second)
    ]  # fmt: skip
    assert shapes[0] == shapes[1]


@settings(max_examples=150)
@given(neighbours())
def test_neighbours_in_memory_are_prepared_alike(pair: Any) -> None:
    first, second, public = pair
    check(from_frame(first, public), from_frame(second, public))


@settings(max_examples=50)
@given(neighbours())
def test_neighbours_in_files_are_prepared_alike(
    tmp_path_factory: pytest.TempPathFactory, pair: Any
) -> None:
    first, second, public = pair
    folder = tmp_path_factory.mktemp("pair")
    check(from_file(folder, first, public), from_file(folder, second, public))


@pytest.mark.slow
@settings(max_examples=2_500)
@given(neighbours())
def test_neighbours_many_times(pair: Any) -> None:
    first, second, public = pair
    check(from_frame(first, public), from_frame(second, public))


DECLARED = (
    {"type": "whole", "bounds": [0, 99]},
    {"type": "whole", "bounds": [0, 9], "outside": "clamp", "missing": False},
    {"type": "number", "bounds": [-1.0, 1.0]},
    {"type": "text", "values": ["f", "m", "a"]},
    {"type": "text", "values": ["x"], "missing": False},
    {"type": "bool"},
    {"type": "date", "bounds": ["2020-01-01", "2020-12-31"]},
)


@settings(max_examples=50)
@given(neighbours(), st.data())
def test_a_schema_prepares_every_record_alone(
    tmp_path_factory: pytest.TempPathFactory, pair: Any, data: st.DataObject
) -> None:
    """Without any public row: one record's numbers are the same beside any others."""
    first, second, _ = pair
    columns = {name: data.draw(st.sampled_from(DECLARED)) for name, _ in first[:-1]}
    schema = Schema.of({**columns, "y": {"type": "text", "values": ["no", "yes"]}})
    for table in (first, second):
        table[-1][1][:2] = ["no", "yes"]
    folder = tmp_path_factory.mktemp("pair")
    check(from_file(folder, first, 0, schema), from_file(folder, second, 0, schema))


def people(rows: int = 40) -> pandas.DataFrame:
    rng = np.random.default_rng(0)
    return pandas.DataFrame(
        {
            "age": np.where(rng.random(rows) < 0.1, np.nan, rng.integers(20, 80, rows)),
            "job": rng.choice(["cook", "clerk"], rows),
            "y": rng.choice(["no", "yes"], rows),
        }
    )


def test_public_rows_decide_categories_fills_scales_and_classes(tmp_path: Path) -> None:
    frame = people()
    frame.loc[0, "age"] = np.nan
    frame.loc[39] = [math.inf, "astronaut", "perhaps"]
    frame.to_csv(tmp_path / "p.csv", index=False)
    data = load(tmp_path / "p.csv", "y", public=first_rows(20))
    assert data.feature_names == ("age", "age missing", "job=clerk", "job=cook", "job=(other)")
    assert data.classes == ("no", "yes")
    assert data.features[39, 2:].tolist() == [0, 0, 1]
    assert abs(data.features[:20, 0].mean()) < 1e-6
    assert abs(data.features[:20, 0].std() - 1) < 1e-6
    assert any("1 records of a class that no public row has count as" in n for n in data.notes)


def test_public_rows_decide_where_targets_are_cut_off(tmp_path: Path) -> None:
    numbers = [*range(20), 10.5, 1e9, -1e9, None]
    frame = pandas.DataFrame({"age": range(24), "y": numbers})
    frame.to_csv(tmp_path / "p.csv", index=False)
    labels = load(tmp_path / "p.csv", "y", task="regression", public=first_rows(20)).labels
    spread = preparation.MOST_DEVIATIONS * np.arange(20).std()
    right = [*range(20), 10.5, 9.5 + spread, 9.5 - spread, 9.5]
    np.testing.assert_allclose(labels, right)


def test_a_schema_alone_decides_and_says_what_was_read_off(tmp_path: Path) -> None:
    people().to_csv(tmp_path / "p.csv", index=False)
    declared = {
        "age": {"type": "whole", "bounds": [0, 100], "read_off": ["bounds"]},
        "y": {"type": "text", "values": ["no", "yes"]},
    }
    data = load(tmp_path / "p.csv", "y", schema=Schema.of(declared))
    ages = people()["age"].to_numpy()
    np.testing.assert_allclose(data.features[:, 0], np.where(np.isnan(ages), 0.5, ages / 100), 1e-6)
    assert data.feature_names == ("age", "age missing")
    assert data.preparation.assumed == (
        "taken to be public although read off the rows: bounds of age",
    )
    open_ended = Schema.of({"age": {"type": "whole"}, "y": declared["y"]})
    with pytest.raises(InputError, match="no values or bounds in the schema, and no rows are pub"):
        load(tmp_path / "p.csv", "y", schema=open_ended)
    with pytest.raises(InputError, match="label 'y' is not in the schema"):
        load(tmp_path / "p.csv", "y", schema=Schema.of({"age": declared["age"]}))


def test_what_was_read_off_all_rows_is_named(tmp_path: Path) -> None:
    frame = people().dropna()
    frame.to_csv(tmp_path / "p.csv", index=False)
    of_file = load(tmp_path / "p.csv", "y").preparation
    of_frame = given_rows(frame[["age", "job"]], frame["y"]).data.preparation
    assert of_file.read_off == of_frame.read_off != ()
    numbers = given_rows(np.eye(6), [0, 1] * 3).data.preparation
    assert numbers.read_off == ("the list of classes",)
    assert load("digits", rows=50).preparation.read_off == ()


@settings(max_examples=50)
@given(st.lists(st.floats(-1e6, 1e6), min_size=6, max_size=30), st.integers(3, 5))
def test_private_training_scales_nothing_anew(numbers: Sequence[float], public: int) -> None:
    """Columns that public rows have scaled stay: else their scale would hang on private rows."""
    mask = np.arange(len(numbers)) < public
    column = by_public(np.array(numbers)[:, None], mask).astype(np.float32)
    np.testing.assert_array_equal(scaled_by_held_out(column, ~mask), column)


def test_persons_are_public_or_private_as_a_whole(tmp_path: Path) -> None:
    from lethe.membership.audit import baseline_spec, public_of
    from lethe.membership.settings import AuditSettings
    from lethe.training.models import default_recipe as network

    frame = people(60).assign(who=[f"p{row // 3}" for row in range(60)])
    frame.to_csv(tmp_path / "p.csv", index=False)
    asked = AuditSettings(epsilon=(8.0,), delta=1e-4)
    data = load(tmp_path / "p.csv", "y", group="who", public=public_of(asked))
    assert data.preparation.public is not None and data.groups is not None
    spec = baseline_spec(data, network(60, data.features.shape[1], 2), asked)
    assert (spec.pool == ~data.preparation.public).all()
    assert not set(data.groups[spec.pool]) & set(data.groups[~spec.pool])
    copies = load(tmp_path / "p.csv", "y", group="identical-records", public=public_of(asked))
    assert copies.groups is not None and copies.preparation.public is not None
    inside = set(as_text(copies.groups[copies.preparation.public]))
    assert not inside & set(as_text(copies.groups[~copies.preparation.public]))


@pytest.mark.parametrize("weight", [0.0, -1.0, np.inf, np.nan, "1"])
def test_a_weight_that_trains_no_model_is_refused(weight: float | str) -> None:
    rows, labels = np.arange(8.0).reshape(4, 2), np.array([0, 1, 0, 1])
    with pytest.raises(InputError, match="sample_weight must be finite numbers above 0"):
        given_rows(rows, labels, weights=np.array([1, 2, 3, weight]))
    weights = given_rows(rows, labels, weights=np.array([1, 2, 3, 4])).weights
    assert weights is not None and weights.tolist() == [1.0, 2.0, 3.0, 4.0]
