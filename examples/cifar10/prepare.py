"""CIFAR-10 as a parquet of JPEG files becomes the archive that `lethe audit model` reads.

    python examples/cifar10/prepare.py PARQUET cifar10.npz [--rows 60000]

The parquet has the columns `image` (bytes of one JPEG of 32 x 32), `label` (0 to 9) and `split`
(train or test). Both splits are taken: an audit draws its own halves and its own hold-out.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from pyarrow import parquet

SHAPE = (3, 32, 32)


def decode(image: bytes) -> NDArray[np.uint8]:
    """One JPEG as (channels, height, width)."""
    pixels = np.asarray(Image.open(io.BytesIO(image)).convert("RGB")).transpose(2, 0, 1)
    if pixels.shape != SHAPE:
        raise SystemExit(f"an image has shape {pixels.shape}, expected {SHAPE}.")
    return pixels


def prepare(source: Path, target: Path, rows: int | None = None) -> int:
    """Write `features` uint8 (n, 3, 32, 32) and `labels` (n,); returns n.

    Args:
        source: the parquet.
        target: the npz.
        rows: only so many, from the start, which is a fair sample if the parquet is shuffled.
    """
    table = parquet.read_table(source, columns=["image", "label"]).slice(0, rows)
    images = table.column("image").to_pylist()
    features = np.stack([decode(image) for image in images])
    labels = table.column("label").to_numpy().astype(np.int64)
    np.savez_compressed(target, features=features, labels=labels)
    return len(labels)


def main() -> None:
    """Read the command line, write the archive."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("source", type=Path, help="the parquet")
    parser.add_argument("target", type=Path, help="the npz to write")
    parser.add_argument("--rows", type=int, help="only the first so many")
    options = parser.parse_args()
    print(f"{options.target}: {prepare(options.source, options.target, options.rows)} images")


if __name__ == "__main__":
    main()
