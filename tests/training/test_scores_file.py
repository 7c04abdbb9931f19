"""Scores files: both layouts say the same, and what is wrong with one is said with its place."""

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save_file

from lethe.errors import InputError
from lethe.training.scores_file import log_odds, loss_to_log_odds, read_scores, scores_of

SIGNALS = np.arange(12, dtype=np.float32).reshape(4, 3) / 16
MEMBERS = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 0], [0, 0, 1]], dtype=bool)


def wide(tmp_path: Path, **changes: Any) -> Path:
    arrays = {"signals": SIGNALS, "members": MEMBERS, **changes}
    kept = {name: array for name, array in arrays.items() if array is not None}
    np.savez(tmp_path / "s.npz", **kept)
    return tmp_path / "s.npz"


def long_columns(signals: Any = SIGNALS, members: Any = MEMBERS) -> dict[str, list[Any]]:
    models, records = np.indices(signals.shape)
    return {
        "model": models.ravel().tolist(),
        "record": [f"r{at}" for at in records.ravel()],
        "signal": signals.ravel().tolist(),
        "member": members.ravel().tolist(),
    }


def write_csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def refusal(path: Path, signal: str = "logit") -> str:
    with pytest.raises(InputError) as caught:
        read_scores(path, signal)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("member_dtype", [bool, np.uint8, np.int64, np.float32])
def test_wide(tmp_path: Path, dtype: type, member_dtype: type) -> None:
    table = read_scores(
        wide(tmp_path, signals=SIGNALS.astype(dtype), members=MEMBERS.astype(member_dtype))
    )
    assert table.signals.dtype == np.float32 and table.members.dtype == bool
    assert table.signals.tolist() == SIGNALS.tolist()
    assert table.members.tolist() == MEMBERS.tolist()
    assert table.ids.tolist() == ["0", "1", "2"]
    assert table.labels is None and table.groups is None and table.notes == ()


def test_wide_extras_and_safetensors(tmp_path: Path) -> None:
    table = read_scores(
        wide(tmp_path, ids=np.array([7.0, 8.0, 9.0]), labels=np.array(["a", "b", "a"]))
    )
    assert table.ids.tolist() == ["7", "8", "9"]
    assert table.labels is not None and table.labels.tolist() == ["a", "b", "a"]
    arrays = {"signals": SIGNALS, "members": MEMBERS.astype(np.uint8), "groups": np.arange(3)}
    save_file(arrays, tmp_path / "s.safetensors")
    table = read_scores(tmp_path / "s.safetensors")
    assert table.groups is not None and table.groups.tolist() == [0, 1, 2]
    assert table.members.tolist() == MEMBERS.tolist()


def test_long_orders_models_by_value_and_records_by_appearance(tmp_path: Path) -> None:
    columns = {"model": [], "record": [], "signal": [], "member": [], "label": []}
    for model in (10, 9, 2, 1):
        for record in ("z", "a"):
            row = [model, record, model + (record == "a") / 2, record == "a", record.upper()]
            for name, value in zip(columns, row, strict=True):
                columns[name].append(value)
    table = read_scores(write_csv(tmp_path / "s.csv", columns))
    assert table.ids.tolist() == ["z", "a"]
    assert table.signals.tolist() == [[1, 1.5], [2, 2.5], [9, 9.5], [10, 10.5]]
    assert table.members.tolist() == [[False, True]] * 4
    assert table.labels is not None and table.labels.tolist() == ["Z", "A"]


finite = st.floats(-(2.0**100), 2.0**100, width=32)


@st.composite
def tables(draw: st.DrawFn) -> tuple[Any, Any, list[str], list[int]]:
    models, records = draw(st.integers(4, 6)), draw(st.integers(1, 5))
    signals = draw(hnp.arrays(np.float32, (models, records), elements=finite))
    members = draw(hnp.arrays(np.bool_, (models, records)))
    ids = draw(
        st.lists(
            st.text("ab,\"\n é'", min_size=1, max_size=4),
            min_size=records,
            max_size=records,
            unique=True,
        )
    )
    order = draw(st.permutations(range(models * records)))
    return signals, members, [f"r{text}" for text in ids], order


@given(tables(), st.sampled_from([".csv", ".parquet"]))
def test_long_and_wide_say_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    table: tuple[Any, Any, list[str], list[int]],
    suffix: str,
) -> None:
    signals, members, ids, order = table
    folder = tmp_path_factory.mktemp("scores")
    first = read_scores(wide(folder, signals=signals, members=members, ids=np.array(ids)))
    columns = long_columns(signals, members)
    columns["record"] = [ids[at % len(ids)] for at in range(signals.size)]
    columns["group"] = [f"g{text}" for text in columns["record"]]
    shuffled = {name: [values[at] for at in order] for name, values in columns.items()}
    if suffix == ".csv":
        path = write_csv(folder / "s.csv", shuffled)
    else:
        path = folder / "s.parquet"
        pq.write_table(pa.table(shuffled), path)
    second = read_scores(path)
    assert second.ids.tolist() == list(dict.fromkeys(shuffled["record"]))
    at = [second.ids.tolist().index(name) for name in ids]
    np.testing.assert_array_equal(second.signals[:, at], first.signals)
    np.testing.assert_array_equal(second.members[:, at], first.members)
    assert second.groups[at].tolist() == [f"g{name}" for name in ids]


inside = st.floats(0, 1, exclude_min=True, exclude_max=True)


@given(inside, inside)
def test_log_odds_is_finite_monotone_and_has_its_inverse(p: float, q: float) -> None:
    phi, psi = log_odds(np.array([p, q]))
    assert math.isfinite(phi)
    assert (phi <= psi) if p <= q else (phi >= psi)
    back = 1 / (1 + math.exp(-phi)) if phi > -700 else math.exp(phi)
    # One step of phi moves p by p (1 - p) step(phi).
    assert back == pytest.approx(p, rel=1e-12, abs=5e-324)


positive = st.floats(0, 1e300, exclude_min=True)


@given(positive, positive)
def test_loss_is_finite_monotone_and_agrees_with_probability(a: float, b: float) -> None:
    phi, psi = loss_to_log_odds(np.array([a, b]))
    assert math.isfinite(phi)
    assert (phi >= psi) if a <= b else (phi <= psi)
    if 1e-6 < a < 600:
        p = math.exp(-a)
        assert phi == pytest.approx(float(log_odds(np.array([p]))[0]), rel=1e-9, abs=1e-9)


def test_squared_errors_are_read_as_minus_absolute_errors(tmp_path: Path) -> None:
    errors = np.array([[0.0, 4.0, 1e60]] * 4)
    table = read_scores(wide(tmp_path, signals=errors), "squared-error")
    assert table.signals.tolist() == [[0.0, -2.0, float(np.float32(-1e30))]] * 4
    assert table.notes == ()


@pytest.mark.parametrize("loss", [1e-300, 1e-20, 1e-3, 0.693, 0.694, 5.0, 40.0, 800.0])
def test_loss_against_exact_arithmetic(loss: float) -> None:
    from decimal import Decimal, localcontext

    with localcontext() as context:
        context.prec = 400
        exact = -Decimal(loss) - (1 - (-Decimal(loss)).exp()).ln()
    assert float(loss_to_log_odds(np.array([loss]))[0]) == pytest.approx(float(exact), rel=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_of_0_and_1_are_finite_extremes(tmp_path: Path, dtype: type) -> None:
    p = np.full((4, 3), 0.5, dtype=dtype)
    p[0] = [0, 1, 1]
    p[1] = [np.nextafter(dtype(0), dtype(1)), np.nextafter(dtype(1), dtype(0)), 0.25]
    table = read_scores(wide(tmp_path, signals=p), "prob")
    assert np.isfinite(table.signals).all()
    assert table.signals[0, 0] == table.signals.min()
    assert table.signals[0, 1] == table.signals.max()
    assert table.signals[1, 2] == pytest.approx(-math.log(3))
    assert "1 of 12 signals (prob) are exactly 0" in table.notes[0]
    assert "2 of 12 signals (prob) are exactly 1" in table.notes[1]


@pytest.mark.parametrize("rest", [0.5, 1e-30])
def test_loss_of_0_is_a_finite_extreme(tmp_path: Path, rest: float) -> None:
    loss = np.full((4, 3), rest)
    loss[2, 1] = 0
    table = read_scores(wide(tmp_path, signals=loss), "loss")
    assert np.isfinite(table.signals).all() and table.signals[2, 1] == table.signals.max()
    assert "1 of 12 signals (loss) are exactly 0" in table.notes[0]
    assert np.isfinite(read_scores(wide(tmp_path, signals=loss * 0), "loss").signals).all()


@pytest.mark.parametrize("signal", ["logit", "prob"])
def test_whole_number_signals(tmp_path: Path, signal: str) -> None:
    table = read_scores(wide(tmp_path, signals=MEMBERS.astype(np.int64)), signal)
    assert np.isfinite(table.signals).all()


def with_cells(value: Any, *cells: tuple[int, int], table: Any = SIGNALS) -> Any:
    changed = np.array(table, np.float64)
    for cell in cells:
        changed[cell] = value
    return changed


NAMES = np.array(["a", "b", "c"])
PROBABILITY, SIDES = "probabilities in [0, 1]", "both must be (models, records)"
WIDE_REFUSALS: list[tuple[str, dict[str, Any], tuple[str, ...]]] = [
    ("prob", {"signals": with_cells(1.5, (1, 2))}, (PROBABILITY, "1.5 (model '1', record '2')")),
    ("prob", {"signals": with_cells(-0.5, (1, 2))}, (PROBABILITY, "--signal logit")),
    ("loss", {"signals": with_cells(-0.5, (1, 2))}, ("losses of at least 0", "--signal logit")),
    (
        "squared-error",
        {"signals": with_cells(-1, (2, 1))},
        ("1 signals are no squared errors", "first is -1"),
    ),
    *(
        (
            "logit",
            {"signals": with_cells(value, (1, 1), (1, 2)), "ids": NAMES},
            ("2 signals are", "model '1', record 'b'", way_out),
        )
        for value, way_out in (
            (np.nan, "Score these records again"),
            (np.inf, "Clip them"),
            (-np.inf, "Clip them"),
        )
    ),
    ("logit", {"signals": SIGNALS.astype(float) - 1e300}, ("beyond float32", "Clip them")),
    (
        "logit",
        {"members": with_cells(2, (2, 1), table=MEMBERS)},
        ("1 members are neither 0 nor 1", "(model '2', record '1')", "Write 1"),
    ),
    ("logit", {"ids": np.array(["a", "b", "b"])}, ("'b' stands 2 times", "leave ids out")),
    *(
        ("logit", {name: values}, (f"{name} {words}",))
        for name in ("ids", "labels", "groups")
        for values, words in (
            (np.arange(2), "have shape (2,), signals have 3 records"),
            (np.array(["a", "", "c"]), "are missing for 1 of 3 records, the first at position 1"),
        )
    ),
    *(
        ("logit", changes, (SIDES, "Transpose"))
        for changes in (
            {"members": MEMBERS.T},
            {"signals": SIGNALS[0]},
            {"signals": SIGNALS[..., None]},
            {"signals": np.float32(1)},
        )
    ),
    (
        "logit",
        {"signals": SIGNALS[:3], "members": MEMBERS[:3]},
        ("needs one model or at least 4, got 3", "Train more models"),
    ),
    ("logit", {"signals": SIGNALS[:, :0], "members": MEMBERS[:, :0]}, ("at least one record",)),
    ("logit", {"members": None, "member": MEMBERS}, ("lacks 'members'", "mean 'member'?")),
    ("logit", {"label": np.arange(3)}, ("unknown key 'label'", "Did you mean 'labels'?")),
    ("logits", {}, ("Did you mean 'logit'?",)),
]


@pytest.mark.parametrize(("signal", "changes", "words"), WIDE_REFUSALS)
def test_wide_tables_that_are_refused(
    tmp_path: Path, signal: str, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    message = refusal(wide(tmp_path, **changes), signal)
    assert all(part in message for part in words), message


def rows(chosen: Any) -> dict[str, list[Any]]:
    return {name: [values[at] for at in chosen] for name, values in long_columns().items()}


def cell(name: str, at: int, value: Any) -> dict[str, list[Any]]:
    values = long_columns().get(name) or ["a", "b", "c"] * 4
    return {name: [*values[:at], value, *values[at + 1 :]]}


LONG_REFUSALS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (cell("signal", 4, ""), ("1 signals are NaN, the first is model '1', record 'r1'",)),
    (
        cell("signal", 4, "NA"),
        ("1 signals are not numbers, the first is 'NA' (model '1', record 'r1')",),
    ),
    (cell("member", 0, "maybe"), ("'maybe'",)),
    (cell("member", 0, ""), ("neither 0 nor 1",)),
    (rows([*range(4), *range(6, 12)]), ("2 of 12 pairs", "model '1', record 'r1'", "add these")),
    (rows(range(11)), ("1 of 12 pairs", "model '3', record 'r2'")),
    (rows([*range(12), 5]), ("model '1' and record 'r2'", "Keep one row for each pair")),
    (rows(range(9)), ("one model or at least 4, got 3",)),
    ({"record": None, "records": list(range(12))}, ("lacks 'record'", "mean 'records'?")),
    ({"grup": [0] * 12}, ("unknown key 'grup'", "Did you mean 'group'?")),
    *(
        (
            cell(name, 7, "x"),
            (f"record 'r1' has {name} 'b' in one model and 'x' in another", f"leave '{name}' out"),
        )
        for name in ("label", "group")
    ),
    (cell("model", 0, ""), ("'model' is missing in 1 rows, the first is row 0", "Fill")),
]


@pytest.mark.parametrize(("changes", "words"), LONG_REFUSALS)
def test_long_tables_that_are_refused(
    tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    columns = {**long_columns(), **changes}
    kept = {name: values for name, values in columns.items() if values is not None}
    message = refusal(write_csv(tmp_path / "s.csv", kept))
    assert all(part in message for part in words), message


@pytest.mark.parametrize("words", [("1", "0"), ("true", "False"), ("TRUE", "0")])
def test_words_for_members(tmp_path: Path, words: tuple[str, str]) -> None:
    columns = long_columns()
    columns["member"] = [words[0] if member else words[1] for member in columns["member"]]
    table = read_scores(write_csv(tmp_path / "s.csv", columns))
    assert table.members.tolist() == MEMBERS.tolist()


def test_pairs_are_counted_without_a_full_table(tmp_path: Path) -> None:
    rows = 30_000  # a (models, records) array would hold 900 million cells
    columns = {"model": list(range(rows)), "record": list(range(rows))}
    table = pa.table({**columns, "signal": [0.0] * rows, "member": [True] * rows})
    pq.write_table(table, tmp_path / "s.parquet")
    assert "899970000 of 900000000 pairs" in refusal(tmp_path / "s.parquet")


def test_numbers_that_are_text_are_refused_in_words():
    table = {"signals": np.full((4, 5), "0.5"), "members": np.eye(4, 5)}
    with pytest.raises(InputError, match="written as text"):
        scores_of(table)
