"""Flips, windows and holes by hand, and against a loop over images."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.training.augment import Augment


def slowly(augment: Augment, image: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """One image by plain slices."""
    _, height, width = augment.shape
    flip, top, left, row, column = (int(v) for v in drawn)
    wide = np.pad(image, ((0, 0), *[(augment.crop, augment.crop)] * 2), mode="reflect")
    cut = wide[:, top : top + height, left : left + width]
    cut = cut[:, :, ::-1].copy() if flip else cut.copy()
    for y in range(row - augment.cutout // 2, row - augment.cutout // 2 + augment.cutout):
        for x in range(column - augment.cutout // 2, column - augment.cutout // 2 + augment.cutout):
            if 0 <= y < height and 0 <= x < width:
                cut[:, y, x] = 0
    return cut


@settings(max_examples=40)
@given(
    shape=st.tuples(st.integers(1, 3), st.integers(3, 8), st.integers(3, 8)),
    flip=st.booleans(),
    crop=st.integers(0, 2),
    cutout=st.integers(0, 4),
    seed=st.integers(0, 99),
)
def test_a_batch_is_what_a_loop_over_images_gives(
    shape: tuple[int, int, int], flip: bool, crop: int, cutout: int, seed: int
) -> None:
    augment = Augment(shape, flip, crop, cutout)
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(5, *shape)).astype(np.float32)
    drawn = augment.draw(rng, 1, 5)[0]
    ours = augment.apply(torch.from_numpy(images), torch.from_numpy(drawn)).numpy()
    wanted = [slowly(augment, one, choice) for one, choice in zip(images, drawn, strict=True)]
    assert np.array_equal(ours, np.stack(wanted))
    flat = augment.apply(torch.from_numpy(images.reshape(5, -1)), torch.from_numpy(drawn))
    assert np.array_equal(flat.numpy(), ours.reshape(5, -1))


def test_draws_cover_what_they_may() -> None:
    augment = Augment((1, 4, 6), flip=True, crop=2, cutout=1)
    drawn = augment.draw(np.random.default_rng(0), 10, 200).reshape(-1, 5)
    assert drawn.min(axis=0).tolist() == [0, 0, 0, 0, 0]
    assert drawn.max(axis=0).tolist() == [1, 4, 4, 3, 5]
    still = Augment((1, 4, 6)).draw(np.random.default_rng(0), 1, 200)[0]
    assert not still[:, :3].any()


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({"shape": (28, 28)}, "shape"),
        ({"shape": (0, 2, 2)}, "shape"),
        ({"shape": (1, 4, 4), "crop": 4}, "crop=4 must be below"),
        ({"shape": (1, 4, 4), "crop": -1}, "crop=-1"),
        ({"shape": (1, 4, 4), "cutout": -1}, "cutout=-1"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict, why: str) -> None:
    with pytest.raises(InputError, match=why):
        Augment(**settings)
