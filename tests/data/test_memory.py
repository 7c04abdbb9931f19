"""Sizes in words, and when a file is too large to be read whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from lethe.data.large import available, bytes_of, outgrows
from lethe.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 gb", 15 * 10**8), ("512MiB", 2**29), ("1TiB", 2**40)],
)
def test_sizes_are_read(text: str, size: int) -> None:
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["4", "GB", "-1GB", "4 apples", "", "127MiB", "0GB"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="memory="):
        bytes_of(text)


def test_a_file_outgrows_a_twentieth_of_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"x" * 100)
    assert outgrows(path, 1999) and not outgrows(path, 2000)
    assert not outgrows(tmp_path, 1) and not outgrows(tmp_path / "b.csv", 1)
    assert available() >= 2**27
