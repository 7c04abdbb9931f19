"""Vectors in every format, under any names: one reading, and refusals that say the way out."""

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
import torch
from reidentification_people import audit_embeddings, few_attackers
from safetensors.torch import save_file

from lethe.data.arrays import as_array
from lethe.data.vectors import Cut, Names, read_embeddings
from lethe.errors import InputError
from lethe.reidentification.settings import EmbeddingSettings

RNG = np.random.default_rng(5)
USERS = np.repeat(np.arange(8), 5) + 100
VECTORS = RNG.normal(size=(8, 6))[USERS - 100] + 0.5 * RNG.normal(size=(40, 6))
VECTORS = (np.round(VECTORS * 64) / 64).astype(np.float32)  # exact as text and as float16
LABELS = (VECTORS[:, 0] > 0).astype(np.int64)
DAYS = np.datetime64("2024-01-01") + np.arange(40) % 5 * 30
NAMES = Names("emb", "who", "churned")
WIDE = {f"emb_{k}": VECTORS[:, k] for k in range(6)}
PEOPLE = {"who": USERS, "churned": LABELS}
HEAD = (np.eye(6)[0], 0.0)
LISTED = {"emb": VECTORS.tolist(), **PEOPLE}

Write = Callable[[Path], Path]
FILES: dict[str, Write] = {}


def file(name: str) -> Callable[[Callable[[Path], Any]], Callable[[Path], Any]]:
    def kept(write: Callable[[Path], Any]) -> Callable[[Path], Any]:
        def made(folder: Path) -> Path:
            write(folder / name)
            return folder / name

        FILES[write.__name__] = made
        return write

    return kept


@file("a.npz")
def npz(path: Path) -> None:
    np.savez(path, emb=VECTORS, **PEOPLE)


@file("a.safetensors")
def safetensors(path: Path) -> None:
    save_file({"emb": torch.tensor(VECTORS), **as_tensors()}, path)


@file("a.pt")
def checkpoint(path: Path) -> None:
    torch.save({"emb": torch.tensor(VECTORS), **as_tensors()}, path)


@file("a.pt")
def checkpoint_with_gradients(path: Path) -> None:
    torch.save({"emb": torch.nn.Parameter(torch.tensor(VECTORS)), **as_tensors()}, path)


@file("a.csv")
def csv_by_dimension(path: Path) -> None:
    pd.DataFrame({**WIDE, **PEOPLE}).to_csv(path, index=False)


@file("a.csv")
def csv_of_lists(path: Path) -> None:
    pd.DataFrame(LISTED).to_csv(path, index=False)


@file("a.csv")
def csv_of_arrays(path: Path) -> None:
    pd.DataFrame({"emb": list(VECTORS), **PEOPLE}).to_csv(path, index=False)


@file("a.parquet")
def parquet_by_dimension(path: Path) -> None:
    pd.DataFrame({**WIDE, **PEOPLE}).to_parquet(path)


@file("a.parquet")
def parquet_of_pandas(path: Path) -> None:
    pd.DataFrame({"emb": list(VECTORS), **PEOPLE}).to_parquet(path)


@file("a.parquet")
def parquet_of_polars_lists(path: Path) -> None:
    frame = pl.DataFrame(PEOPLE).with_columns(emb=pl.Series(VECTORS.tolist(), dtype=FLOAT_LIST))
    frame.write_parquet(path)


@file("a.parquet")
def parquet_of_polars_arrays(path: Path) -> None:
    pl.DataFrame(
        {"emb": pl.Series(VECTORS, dtype=pl.Array(pl.Float32, 6)), **PEOPLE}
    ).write_parquet(path)


@file("a.feather")
def feather_of_pandas(path: Path) -> None:
    pd.DataFrame({"emb": list(VECTORS), **PEOPLE}).to_feather(path)


@file("a.arrow")
def ipc_of_polars(path: Path) -> None:
    pl.DataFrame({"emb": pl.Series(VECTORS, dtype=pl.Array(pl.Float32, 6)), **PEOPLE}).write_ipc(
        path
    )


@file("a.arrow")
def ipc_of_tensors(path: Path) -> None:
    shaped = pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(VECTORS))
    table = pa.table({"emb": shaped, **PEOPLE})
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=7)


FLOAT_LIST = pl.List(pl.Float32)


def as_tensors() -> dict[str, torch.Tensor]:
    return {name: torch.tensor(array) for name, array in PEOPLE.items()}


def few(**changed: Any) -> EmbeddingSettings:
    small = {"sigmas": (1.0,), "surface": (), "averaged": (1,), "draws": 1, "plays": 0}
    return EmbeddingSettings(**{**small, "refine": 0, "radius_draws": 50, **changed})


@pytest.mark.parametrize("name", FILES)
def test_every_format_gives_the_same_arrays(name: str, tmp_path: Path) -> None:
    read = read_embeddings(FILES[name](tmp_path), NAMES)
    assert read.representations.tolist() == VECTORS.tolist()
    assert read.user_ids.tolist() == USERS.tolist()
    assert read.labels is not None and read.labels.tolist() == LABELS.tolist()
    assert read.notes == () and read.name == "a" and read.period is None and read.features is None


@pytest.mark.parametrize("kind", ["csv", "parquet", "feather", "npz"])
@pytest.mark.parametrize("vectors", ["npy", "pt"])
def test_vectors_alone_with_a_table_beside(kind: str, vectors: str, tmp_path: Path) -> None:
    beside, file = tmp_path / f"people.{kind}", tmp_path / f"a.{vectors}"
    frame = pd.DataFrame({**PEOPLE, "town": "Ash"})
    if kind == "csv":
        frame.to_csv(beside, index=False)
    elif kind == "npz":
        np.savez(beside, **PEOPLE)
    else:
        getattr(frame, f"to_{kind}")(beside)
    if vectors == "npy":
        np.save(file, VECTORS)
    else:
        torch.save(torch.tensor(VECTORS, requires_grad=True), file)
    read = read_embeddings(file, Names(user="who", label="churned", table=beside))
    assert read.representations.tolist() == VECTORS.tolist() and read.notes == ()
    assert read.user_ids.tolist() == USERS.tolist()
    short = tmp_path / "short.csv"
    frame[:39].to_csv(short, index=False)
    with pytest.raises(InputError, match="short.csv: who has 39 rows, representations 40"):
        read_embeddings(file, Names(user="who", table=short))
    with pytest.raises(InputError, match="Did you mean 'who'"):
        read_embeddings(file, Names(user="whom", table=beside))
    with pytest.raises(InputError, match="lacks 'user_ids'.*--table.*--user.*'representations'"):
        read_embeddings(file)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("save", [torch.save, save_file])
def test_every_floating_type_is_read_as_it_is(kind: Any, save: Any, tmp_path: Path) -> None:
    given = torch.tensor(VECTORS).to(kind)
    path = tmp_path / ("a.pt" if save is torch.save else "a.safetensors")
    save({"emb": given, **as_tensors()}, path)
    read = read_embeddings(path, NAMES)
    assert read.representations.tolist() == given.tolist()
    assert read.representations.dtype in (np.float32, np.float64)


@pytest.mark.parametrize("name", FILES)
def test_the_only_vectors_are_taken_and_said(name: str, tmp_path: Path) -> None:
    read = read_embeddings(FILES[name](tmp_path), Names(user="who"))
    assert read.representations.tolist() == VECTORS.tolist()
    taken, rest = read.notes
    assert re.fullmatch(r"Taken as vectors: 'emb_?', as nothing else fits\.", taken)
    assert rest == "Not used: 'churned'."


def test_odd_columns_matter_only_if_they_are_chosen(tmp_path: Path) -> None:
    table = pa.table({**LISTED, "odd": [{"x": 1}] * 40, "tags": [["a"], []] * 20})
    pq.write_table(table, tmp_path / "a.parquet")
    assert read_embeddings(tmp_path / "a.parquet", NAMES).notes == ("Not used: 'odd', 'tags'.",)
    with pytest.raises(InputError, match="column 'odd' has the type struct") as caught:
        read_embeddings(tmp_path / "a.parquet", Names("emb", "odd"))
    assert "--drop" not in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "names", "words"),
    [
        (
            {**LISTED, "more": LISTED["emb"]},
            Names(user="who"),
            "'emb', 'more' could all be.*--vectors",
        ),
        (
            {**WIDE, **PEOPLE, "x_1": VECTORS[:, 0], "x_2": VECTORS[:, 1]},
            Names(),
            "'emb_', 'x_' could",
        ),
        (PEOPLE, Names(user="who"), "lacks 'representations'.*--vectors"),
        (LISTED, Names("emd", "who"), "vectors='emd' is no array.*Did you mean 'emb'"),
        (LISTED, Names("1", "who"), "--joined 1"),
        ({**WIDE, **PEOPLE, "emb_03": LABELS}, NAMES, "'emb_3' and 'emb_03' are columns of one"),
        (LISTED, Names("emb", "when"), "user='when' is not a column"),
        (LISTED, Names("emb"), "lacks 'user_ids'.*--user"),
        (LISTED, Names("who", "who"), "must be \\(rows, dimensions\\)"),
        ({k: v for k, v in {**WIDE, **PEOPLE}.items() if k != "emb_3"}, NAMES, "lack 'emb_3'"),
        ({"emb": [[1.0, 2.0]] * 39 + [[1.0]], **PEOPLE}, NAMES, "not all as long"),
        ({"emb": [[1.0, 2.0]] * 39 + [None], **PEOPLE}, NAMES, "missing"),
        ({"emb": [[1.0, None]] * 40, **PEOPLE}, NAMES, "NaN or infinite"),
        ({"emb": [["a", "b"]] * 40, **PEOPLE}, NAMES, "a list of numbers"),
        ({"emb": ["[1, 2]"] * 39 + ["[1 ... 2]"], **PEOPLE}, NAMES, "row 39 was cut by its writer"),
        ({"emb": ["[1, 2]"] * 39 + ["[1, b]"], **PEOPLE}, NAMES, "row 39 is '\\[1, b\\]'"),
        ({"emb": ["[1, 2]"] * 39 + ["[1]"], **PEOPLE}, NAMES, "not all as long"),
        ({**LISTED, "churned": ["a"] * 40}, NAMES, "churned has shape"),
        (LISTED, Names("emb", "who", cut=Cut("2024")), "Name the column with --period"),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_odd_tables_are_refused(
    columns: Any, names: Names, words: str, kind: str, tmp_path: Path
) -> None:
    path = tmp_path / f"a.{kind}"
    write = pq.write_table if kind == "parquet" else pyarrow.feather.write_feather
    write(pa.table(columns), path)
    with pytest.raises(InputError, match=words):
        read_embeddings(path, names)


@pytest.mark.parametrize(
    "name", [f"a.{kind}" for kind in "npy npz safetensors feather arrow parquet pt csv".split()]
)
@pytest.mark.parametrize("content", [b"", b"rubbish", b"ARROW1 rubbish", b"\x93NUMPY\x01\x00"])
def test_damaged_files_are_refused(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match="a\\."):
        read_embeddings(tmp_path / name)


def test_files_that_may_not_be_read_and_names_that_stand_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pa.Table.from_arrays([pa.array(USERS)] * 2, names=["who", "who"])
    pyarrow.feather.write_feather(table, tmp_path / "a.feather")
    with pytest.raises(InputError, match="two columns named 'who'"):
        read_embeddings(tmp_path / "a.feather")
    np.savez(tmp_path / "b.npz", emb=VECTORS)
    (tmp_path / "b.npz").rename(tmp_path / "b.npy")
    with pytest.raises(InputError, match="Rename it to .npz"):
        read_embeddings(tmp_path / "b.npy")

    def refuse(*asked: Any, **how: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("numpy.load", refuse)
    with pytest.raises(InputError, match="b.npy cannot be read: Permission denied"):
        read_embeddings(tmp_path / "b.npy")


def test_an_npy_file_is_never_unpickled(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(InputError, match="never read"):
        read_embeddings(tmp_path / "a.npy")


def test_names_of_people_in_a_checkpoint_are_a_list(tmp_path: Path) -> None:
    names = [f"reader {user}" for user in USERS]
    torch.save({"emb": torch.tensor(VECTORS), "who": names, "step": 3}, tmp_path / "a.pt")
    assert read_embeddings(tmp_path / "a.pt", Names(user="who")).user_ids.tolist() == names


@pytest.mark.parametrize("kind", [pl.String, pl.Categorical, pl.Enum(["a", "b"])])
@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.feather"])
def test_people_by_every_kind_of_text_of_polars(kind: Any, name: str, tmp_path: Path) -> None:
    who = ["a", "b"] * 20
    frame = pl.DataFrame({"emb": pl.Series(VECTORS), "who": pl.Series(who, dtype=kind)})
    write = frame.write_parquet if name == "a.parquet" else frame.write_ipc
    write(tmp_path / name)
    assert read_embeddings(tmp_path / name, Names(user="who")).user_ids.tolist() == who
    assert as_array(frame["who"], "who").tolist() == who


# One function for files and for Python.

GIVEN = {
    "tensor": torch.tensor(VECTORS, requires_grad=True),
    "half": torch.tensor(VECTORS, dtype=torch.float16),
    "sparse": torch.tensor(VECTORS).to_sparse(),
    "pandas": pd.DataFrame(VECTORS),
    "pandas lists": pd.Series(list(VECTORS)),
    "polars": pl.DataFrame(VECTORS),
    "polars lists": pl.Series(VECTORS.tolist(), dtype=FLOAT_LIST),
    "polars arrays": pl.Series(VECTORS, dtype=pl.Array(pl.Float32, 6)),
    "arrow": pa.table(WIDE),
    "arrow lists": pa.chunked_array([VECTORS[:9].tolist(), VECTORS[9:].tolist()]),
    "lists": VECTORS.tolist(),
}


@pytest.mark.parametrize("name", GIVEN)
def test_whatever_holds_vectors_is_taken(name: str) -> None:
    found = as_array(GIVEN[name], "vectors")
    assert found.shape == (40, 6) and found.tolist() == VECTORS.tolist()


@functools.cache
def plain_findings(dtype: Any) -> bytes:
    with few_attackers():
        made = audit_embeddings(VECTORS.astype(dtype), USERS, LABELS, HEAD, settings=few())
    return made.to_bytes()


@pytest.mark.parametrize(
    ("vectors", "users", "labels"),
    [
        ("tensor", torch.tensor(USERS), torch.tensor(LABELS)),
        ("pandas", pd.Series(USERS), pd.Series(LABELS, dtype="Int64")),
        ("polars arrays", pl.Series(USERS), pl.Series(LABELS)),
        ("arrow lists", pa.array(USERS), pa.array(LABELS)),
    ],
)
def test_the_audit_takes_tensors_and_frames(vectors: str, users: Any, labels: Any) -> None:
    given = GIVEN[vectors]
    with few_attackers():
        made = audit_embeddings(given, users, labels, HEAD, settings=few())
    assert made.to_bytes() == plain_findings(as_array(given, "vectors").dtype)


@pytest.mark.parametrize(
    ("users", "words"),
    [
        (pd.Series(["a", None] * 20), "missing in 20 rows"),
        (pl.Series(["a", None] * 20), "missing in 20 rows"),
        (["a", 7] * 20, "mixes types"),
        (torch.tensor(USERS)[:-1], "user_ids has 39 rows"),
    ],
)
def test_odd_users_of_any_library_are_refused(users: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        audit_embeddings(VECTORS, users)


# Periods.

MOMENTS = DAYS.astype("datetime64[us]")
WHEN = {
    "date": (pa.array(DAYS), "2024-03-01", ()),
    "time": (pa.array(MOMENTS), "2024-03-01T00:00", ()),
    "zone": (pa.array(MOMENTS, pa.timestamp("us", "Europe/Paris")), "2024-03-01", ("of UTC",)),
    "zone on both": (pa.array(MOMENTS, pa.timestamp("us", "UTC")), "2024-03-01T01:00+01:00", ()),
    "text": (pa.array(DAYS.astype(str).tolist()), "2024-03-01", ()),
    "text with a zone": (
        pa.array([f"{day}T00:00:00Z" for day in DAYS.tolist()]),
        "2024-03-01",
        ("of UTC",),
    ),
}


@pytest.mark.parametrize("name", WHEN)
def test_a_date_makes_two_periods(name: str, tmp_path: Path) -> None:
    column, date, said = WHEN[name]
    pq.write_table(pa.table({**LISTED, "day": column}), tmp_path / "a.parquet")
    read = read_embeddings(tmp_path / "a.parquet", Names("emb", "who", "churned", "day", Cut(date)))
    later = np.datetime64("2024-03-01") <= DAYS
    assert read.period.tolist() == [f"from {date}" if x else f"before {date}" for x in later]
    assert len(read.notes) == len(said) and all(map(str.__contains__, read.notes, said))


@pytest.mark.parametrize("years", [DAYS.astype("datetime64[Y]").astype(int) % 2 + 2023, "text"])
def test_plain_years(years: Any) -> None:
    when = np.arange(40) % 4 + 2021
    given = when if not isinstance(years, str) else when.astype(str)
    found, _ = Cut("2023").periods(given, "a.csv: year", False)
    assert (found == "from 2023").tolist() == (when >= 2023).tolist()


@pytest.mark.parametrize(
    "text", ["March", "2024-13-01", "01/02/2024", "2024-3-1", "", "1700000000"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=f"from={text!r} is no date. Write year-month-day"):
        Cut(text)


@pytest.mark.parametrize(
    ("when", "zoned", "date", "words"),
    [
        (
            np.array(["2024-01-01", "soon"]),
            False,
            "2024-02-01",
            "'soon', which is no date.*--known",
        ),
        (np.array(["2024-01-01", "2024-03-01T00:00Z"]), False, "2024-02-01", "with and without a"),
        (DAYS, False, "2024-02-01T00:00Z", "have none. Leave the zone out"),
        (DAYS, False, "2025", "leaves no row after it.*from 2024-01-01 to 2024-04-30"),
        (DAYS, False, "2023", "leaves no row before it"),
        (np.array([2022, 2024]), False, "2023-05-01", "plain years.*such as 2023"),
        (np.array([1_700_000_000, 1_800_000_000]), False, "2024", "neither a date nor a year"),
        (np.array([True, False]), False, "2024", "neither a date nor a year"),
    ],
)
def test_odd_periods_are_refused(when: Any, zoned: bool, date: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Cut(date).periods(when, "a.csv: day", zoned)
