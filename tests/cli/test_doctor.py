"""`lethe doctor`: what is there, and the traps that it knows."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lethe.cli import run
from lethe.cli.doctor import GIB, Machine, cpu_quota, extras, installed, memory_limit, traps

FINE = Machine(
    processor="some",
    cores=4,
    quota=None,
    memory=int(16 * GIB),
    memory_limit=None,
    narrowed=False,
    blas=(),
    gpu="",
    folder="lethe-runs",
    writable=True,
    free=int(50 * GIB),
    browser="",
    variables={"OMP_NUM_THREADS": "4", "OPENBLAS_CORETYPE": "SKYLAKEX"},
)


def test_nothing_wrong() -> None:
    assert traps(FINE) == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (
            {"variables": {"OPENBLAS_CORETYPE": "HASWELL"}, "narrowed": True},
            "OPENBLAS_CORETYPE=HASWELL keeps BLAS from",
        ),
        ({"variables": {"MKL_NUM_THREADS": "5"}}, "MKL_NUM_THREADS=5 is more than the 4 cores"),
        ({"quota": 2.0}, "grants 2 of 4 cores: give --workers 2"),
        ({"quota": 0.5}, "give --workers 1"),
        ({"memory_limit": int(4 * GIB)}, "grants 4.0 of 16.0 GiB of memory: give --memory 2.0"),
        ({"writable": False}, "lethe-runs cannot be written"),
        ({"free": int(GIB / 2)}, "0.50 GiB are left"),
    ],
)
def test_each_trap_is_named(changed: dict[str, object], words: str) -> None:
    assert any(words in told for told in traps(replace(FINE, **changed)))


def test_a_kernel_is_no_trap_where_the_processor_has_no_wider_one() -> None:
    narrow = {"OPENBLAS_CORETYPE": "HASWELL"}
    assert traps(replace(FINE, variables=narrow)) == []


def test_limits_of_a_container(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) is None and memory_limit(tmp_path) is None
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    (tmp_path / "memory.max").write_text(f"{2**31}\n")
    assert cpu_quota(tmp_path) == 1.5 and memory_limit(tmp_path) == 2**31
    (tmp_path / "cpu.max").write_text("max 100000\n")
    (tmp_path / "memory.max").write_text("max\n")
    assert cpu_quota(tmp_path) is None and memory_limit(tmp_path) is None


def test_extras_name_what_is_missing() -> None:
    asked = [
        "numpy>=1",
        'numpy>=1; extra == "fast"',
        'no-such-thing[x]>=2 ; python_version > "3" and extra == "more"',
        'lethe-privacy[fast]; extra == "more"',
        'pytest; extra == "test"',
    ]
    assert extras(asked) == {"fast": {"numpy": np.__version__}, "more": {"no-such-thing": None}}
    assert installed()["numpy"] == np.__version__


def test_as_json_and_as_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--json", "--out", str(tmp_path / "a" / "b")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["writable"] and found["cores"] >= 1 and found["memory"] > GIB / 4
    assert found["packages"]["lethe-privacy"] and "train" in found["extras"]
    assert not (tmp_path / "a").exists()
    assert run(["doctor"]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"memory: [\d.]+ GiB; GPU:", shown) and "extra train: torch" in shown
    assert shown.count("warning: ") == len(found["warnings"]) or "No known trap" in shown
