"""Shard files: whole or absent, the same bytes for the same results, one format for good."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load, save

from lethe.training.chunks import Shard, read_shard, shard_path, write_shard

GOLDEN = Path(__file__).parent / "golden" / "00000.safetensors"
MEMBERS = np.array([[1, 0, 1], [0, 1, 0]], np.uint8)
SHARD = Shard(
    first=2,
    signals=np.array([[0.5, -1.25, 3.0e38], [0.0, -0.0, -7.5]], np.float32),
    members=MEMBERS,
    correct=np.array([[1, 1, 0], [0, 0, 1]], np.uint8),
    utility=np.array([0.75, 0.5], np.float32),
    seeds=np.array([2**62 + 1, 7], np.int64),
)


def written(folder: Path, shard: Shard = SHARD, spec: str = "abc") -> Path:
    path = shard_path(folder, 0)
    write_shard(path, shard, spec)
    return path


def read(
    path: Path, spec: str = "abc", first: int = 2, models: int = 2, records: int = 3
) -> Shard | None:
    return read_shard(path, spec, first, models, records)


def assert_same(shard: Shard | None) -> None:
    assert shard is not None and shard.first == SHARD.first
    for name in ("signals", "members", "correct", "utility", "seeds"):
        one, two = getattr(shard, name), getattr(SHARD, name)
        assert one.dtype == two.dtype and one.tobytes() == two.tobytes()


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return written(tmp_path_factory.mktemp("shard")).read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("damaged") / "00000.safetensors"


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path.name == "00000.safetensors"
    assert_same(read(path))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_the_format_on_disk_cannot_change_unnoticed(raw: bytes) -> None:
    """If this fails, old run folders become unreadable: raise FORMAT and say so."""
    assert_same(read(GOLDEN))
    assert GOLDEN.read_bytes() == raw


def test_a_regression_has_no_right_answers(tmp_path: Path) -> None:
    shard = replace(SHARD, correct=None, utility=np.array([-0.25, 0.5], np.float32))
    content = written(tmp_path, shard).read_bytes()
    assert (GOLDEN.parent / "regression.safetensors").read_bytes() == content
    assert set(load(content)) == {"signals", "members", "utility", "seeds"}
    back = read(shard_path(tmp_path, 0))
    assert back is not None and back.correct is None
    assert back.signals.tobytes() == SHARD.signals.tobytes()
    assert back.utility.tobytes() == shard.utility.tobytes()


def test_predicted_classes_are_kept_where_asked(tmp_path: Path) -> None:
    shard = replace(SHARD, predicted=np.array([[1, 0, 140], [2, 2, 70_000]], np.int32))
    path = written(tmp_path, shard)
    back = read(path)
    assert back.predicted.dtype == np.int32
    assert back.predicted.tobytes() == shard.predicted.tobytes()
    assert_same(back)
    assert read(resaved(path, predicted=shard.predicted[:, :2].copy())) is None
    assert read(resaved(written(tmp_path, shard), predicted=shard.predicted + 1)) is None
    without = read(written(tmp_path))
    assert without is not None and without.predicted is None


def test_identical_results_are_identical_bytes(tmp_path: Path, raw: bytes) -> None:
    """safetensors writes metadata in random order: twenty times would show it."""
    for _ in range(20):
        assert written(tmp_path).read_bytes() == raw


def test_arrays_of_other_layout_are_written_alike(tmp_path: Path, raw: bytes) -> None:
    other = replace(SHARD, signals=np.asfortranarray(SHARD.signals), members=MEMBERS.astype(bool))
    assert written(tmp_path, other).read_bytes() == raw


@given(data=st.data())
@settings(max_examples=150)
def test_a_truncated_file_is_absent(data: st.DataObject, raw: bytes, place: Path) -> None:
    cut = data.draw(st.integers(0, len(raw) - 1))
    place.write_bytes(raw[:cut])
    assert read(place) is None


@given(data=st.data(), flip=st.integers(1, 255))
@settings(max_examples=300)
def test_a_flipped_byte_is_never_taken_for_a_result(
    data: st.DataObject, flip: int, raw: bytes, place: Path
) -> None:
    at = data.draw(st.integers(0, len(raw) - 1))
    changed = bytearray(raw)
    changed[at] ^= flip
    place.write_bytes(changed)
    found = read(place)
    if found is not None:  # only blanks around the header may change without harm
        assert_same(found)
        assert raw[at : at + 1] == b" "


@pytest.mark.parametrize(
    "asked",
    [{"spec": "abd"}, {"spec": ""}, {"first": 0}, {"models": 1}, {"models": 3}, {"records": 4}],
)
def test_a_shard_of_something_else_is_absent(tmp_path: Path, asked: dict[str, Any]) -> None:
    assert read(written(tmp_path), **asked) is None


def resaved(path: Path, metadata: dict[str, str] | None = None, **arrays: Any) -> Path:
    """The same content digest, other arrays: checks that types and shapes are looked at."""
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])["__metadata__"]
    kept = {name: a for name, a in {**load(raw), **arrays}.items() if a is not None}
    path.write_bytes(save(kept, metadata={**header, **(metadata or {})}))
    return path


@pytest.mark.parametrize(
    "arrays",
    [
        {"signals": SHARD.signals.astype(np.float64)},
        {"members": MEMBERS.astype(bool)},
        {"seeds": SHARD.seeds.astype(np.int32)},
        {"signals": SHARD.signals.T.copy()},
        {"utility": SHARD.utility[:, None]},
        {"correct": None},
        {"signals": SHARD.signals + 1},
    ],
)
def test_arrays_of_other_type_shape_or_content_are_absent(
    tmp_path: Path, arrays: dict[str, Any]
) -> None:
    path = written(tmp_path)
    assert_same(read(resaved(path)))
    assert read(resaved(path, **arrays)) is None
    assert read(resaved(written(tmp_path), {"content": "0" * 64})) is None


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no shard at all",
        b"\x02" + bytes(7) + b"{}",
        b"\x02" + bytes(7) + b"[]",
        b"\x04" + bytes(7) + b"null",
        b"\xff" * 64,
        b"\x15" + bytes(7) + b'{"__metadata__": null}'[:21],
    ],
)
def test_files_of_another_kind_are_absent(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    assert read(place) is None and read(place.parent) is None
    assert read(place.with_name("nothing")) is None
