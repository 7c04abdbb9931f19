"""The CIFAR-10 example: the archive is what the loader reads; the recipe trains, stacked or not."""

from __future__ import annotations

import importlib.util
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from lethe.data.tables import load
from lethe.training.chunks import Spec
from lethe.training.loop import default_layout
from lethe.training.models import load_recipe
from lethe.training.recipe import TorchRecipe, Treatment

FOLDER = Path(__file__).parents[2] / "examples" / "cifar10"
RNG = np.random.default_rng(0)


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"cifar10_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def picture(colour: tuple[int, int, int]) -> Image.Image:
    """The left half of one colour, the right half black."""
    pixels = np.zeros((32, 32, 3), np.uint8)
    pixels[:, :16] = colour
    return Image.fromarray(pixels)


def jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.save(file, "JPEG", quality=95, subsampling=0)
    return file.getvalue()


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Twelve red, green and blue pictures, as the script writes them."""
    import pyarrow as pa
    from pyarrow import parquet

    colours = [(255, 0, 0), (0, 255, 0), (0, 0, 255)]
    table = {
        "image": [jpeg(picture(colours[at % 3])) for at in range(12)],
        "label": [at % 3 for at in range(12)],
        "split": ["train"] * 8 + ["test"] * 4,
    }
    parquet.write_table(pa.table(table), tmp_path / "images.parquet")
    target = tmp_path / "images.npz"
    command = [sys.executable, str(FOLDER / "prepare.py"), "images.parquet", "images.npz"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=600
    )
    assert done.stdout == "images.npz: 12 images\n"
    return target


def test_the_loader_reads_channels_rows_columns(archive: Path) -> None:
    data = load(archive)
    assert data.features.shape == (12, 3 * 32 * 32) and list(data.labels) == [0, 1, 2] * 4
    images = data.features.reshape(12, 3, 32, 32)
    for at, image in enumerate(images):
        others = [channel for channel in range(3) if channel != at % 3]
        assert image[at % 3, :, :8].min() > 0.9
        assert image[others, :, :8].max() < 0.1 and image[:, :, 24:].max() < 0.1


def test_only_the_first_rows_are_taken(archive: Path) -> None:
    prepare = example("prepare").prepare
    target = archive.with_name("some.npz")
    assert prepare(archive.with_suffix(".parquet"), target, 5) == 5
    assert np.array_equal(np.load(target)["features"], np.load(archive)["features"][:5])


def test_an_image_of_another_size_is_refused() -> None:
    with pytest.raises(SystemExit, match=r"\(3, 16, 16\)"):
        example("prepare").decode(jpeg(picture((9, 9, 9)).resize((16, 16))))


def test_the_recipe_is_found_hashed_and_trained_by_autograd(archive: Path) -> None:
    data = load(archive)
    for name in ("make", "make_fast"):
        recipe = load_recipe(f"{FOLDER / 'recipe.py'}:{name}", data)
        assert isinstance(recipe, TorchRecipe)
        pool = np.ones(12, bool)
        spec = Spec(data.features, data.labels, 3, pool, recipe, Treatment(), 0)
        assert spec.hash() == spec.hash()
        assert default_layout(recipe).kind == "alone"  # residual: no plain chain


def test_the_network_is_the_one_described() -> None:
    make = example("recipe").ResNet9
    net = make(64, 10)
    convolutions = [part for part in net.modules() if isinstance(part, torch.nn.Conv2d)]
    widths = [part.out_channels for part in convolutions]
    assert widths == [64, 128, 128, 128, 256, 512, 512, 512]
    # 3x3 kernels, two values of each normalisation's channel, the last matrix.
    kernels = sum(9 * part.in_channels * part.out_channels for part in convolutions)
    parameters = kernels + 2 * sum(widths) + 512 * 10
    assert sum(p.numel() for p in net.parameters()) == parameters
    # Standardised inside: the mean colour is a picture of zeros, whose convolutions are zeros.
    mean = torch.tensor(example("recipe").MEAN).repeat_interleave(1024)[None]
    assert net.eval()(mean).abs().max() < 1e-5
