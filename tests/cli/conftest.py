"""A small audit that every test of the command shares."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits


@pytest.fixture(scope="session")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """301 real digits, an odd number, as CSV with string classes."""
    data = load_digits()
    path = tmp_path_factory.mktemp("table") / "digits301.csv"
    kept = np.flatnonzero(data.images.reshape(len(data.images), -1).std(axis=0) > 0)
    names = ",".join(f"pixel{at}" for at in kept)
    with path.open("w") as file:
        file.write(f"{names},digit\n")
        for row, digit in zip(data.data[:301, kept], data.target[:301], strict=True):
            file.write(",".join(f"{value:g}" for value in row) + f",d{digit}\n")
    return path
