"""The exposure explorer: what it calls exposed, what it shows of a record, how large it is."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import pytest

from lethe.report import explorer as module
from lethe.report.explorer import MOST_BYTES, ExploredRecords, explorer

SCRIPT = (Path(module.__file__).parent / "templates" / "explorer.js").read_text()


def embedded(page):
    packed = re.search(r'id="packed">([^<]+)<', page)[1]
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def records(t, half, **more):
    count = len(t)
    ids = np.array([f"id{at}" for at in range(count)])
    why = np.array(["nothing found"] * count)
    return ExploredRecords(ids, np.array(t, float), np.array(half, float), why, **more)


def test_no_record_is_called_exposed_whose_interval_includes_chance():
    """Rounding never lifts a lower limit above 0, and the most exposed comes first."""
    rng = np.random.default_rng(0)
    t = rng.normal(0, 0.5, 3000)
    half = np.abs(t) * rng.choice([1.0, 1 + 1e-9, 0.999, 1.004, 0.9], 3000)
    found = embedded(explorer("x", records(t, half)))
    place = np.array([int(name[2:]) for name in found["ids"]])
    shown = np.array(found["t"]) - np.array(found["half"])
    assert (shown / 100 <= (t - half)[place] + 1e-12).all()
    assert not (shown > 0)[(t - half)[place] <= 0].any() and (shown > 0).any()
    assert (np.diff(t[place]) <= 0).all()


def test_records_without_exposure_are_counted_and_left_out():
    found = embedded(explorer("x", records([np.nan, 1.0, np.nan], [np.nan, 0.1, 1.0])))
    assert found["unknown"] == 2 and found["ids"] == ["id1"]


def test_text_from_data_stays_text():
    nasty = "</script><script>alert(1)</script>"
    made = records([1.0], [0.1], groups={nasty: np.array([nasty])}, rows={nasty: np.array([nasty])})
    page = explorer(nasty, made)
    assert "alert(1)</script>" not in page
    assert embedded(page)["rows"] == [[nasty, [nasty]]]
    assert "innerHTML" not in SCRIPT


@pytest.mark.slow
def test_rows_are_kept_for_as_many_records_as_the_page_may_hold():
    rng = np.random.default_rng(0)
    noise = {f"x{at}": rng.normal(size=100_000) for at in range(20)}
    page = explorer("x", records(rng.normal(size=100_000), np.full(100_000, 0.5), rows=noise))
    found = embedded(page)
    assert len(page) < MOST_BYTES + 100_000 <= 1_500_000
    assert 100 < found["kept"] < 100_000 == len(found["ids"])
    assert all(len(values) == found["kept"] for _, values in found["rows"])


def test_every_word_of_the_script_is_in_the_catalogue_and_used():
    used = set(re.findall(r'(?:\bwords\.|\bsay\(")(\w+)', SCRIPT))
    assert used == set(module._words())


@pytest.mark.parametrize(
    ("names", "shape"),
    [
        ([f"pixel {row},{column}" for row in range(2) for column in range(3)], [2, 3, 1]),
        ([f"x[{a},{b},{c}]" for a in range(2) for b in range(2) for c in range(3)], [2, 2, 3]),
        ([f"x[{a},{b},{c}]" for a in range(3) for b in range(8) for c in range(8)], []),
        (["x[0,0]", "x[1,1]"], []),
        (["age", "income"], []),
    ],
)
def test_pictures_are_known_by_the_names_of_their_features(names, shape):
    assert module.picture_shape(names) == shape
