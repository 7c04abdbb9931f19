"""Noisy counts and what they cost; the synthetic rows made of them."""

import math

import numpy as np
import pytest

from lethe.data.schema import Schema
from lethe.errors import MissingExtra
from lethe.linkage.table import dp_rows as rows_module
from lethe.linkage.table.dp_rows import epsilon_of, measure, promise, rho_of


def test_rho_and_epsilon_are_inverse_and_below_the_simple_bound() -> None:
    rho = rho_of(1.0, 1e-6)
    assert epsilon_of(rho, 1e-6) == pytest.approx(1.0, rel=1e-6)
    assert epsilon_of(rho, 1e-6) <= 1.0
    # Bun and Steinke 2016, proposition 1.3: rho + 2 sqrt(rho ln(1 / delta)) always holds.
    assert 1.0 <= rho + 2 * math.sqrt(rho * math.log(1e6))
    assert epsilon_of(0.1, 1e-6) < epsilon_of(0.2, 1e-6) < epsilon_of(0.2, 1e-9)


def test_what_is_spent_adds_up_to_what_was_allowed() -> None:
    rng = np.random.default_rng(0)
    sizes = [4, 3, 5]
    cells = [rng.integers(0, size, 300) for size in sizes]
    found = measure(cells, sizes, 0.05)
    assert 0.05 * (1 - 1e-6) < found.rho <= 0.05
    assert [one.columns for one in found.marginals[:3]] == [(0,), (1,), (2,)]
    pairs = [one.columns for one in found.marginals[3:]]
    assert len(pairs) == 2 and len({at for pair in pairs for at in pair}) == 3
    # Of the Gaussian: rho = 1 / (2 scale^2) for each; the choice costs the rest, a third.
    counted = sum(1 / (2 * one.scale**2) for one in found.marginals)
    assert counted == pytest.approx(0.05 * 2 / 3, rel=1e-6)
    alone = measure(cells[:1], sizes[:1], 0.05)
    assert len(alone.marginals) == 1 and alone.marginals[0].scale == pytest.approx(
        math.sqrt(10), rel=1e-6
    )


def test_noise_has_the_scale_it_says() -> None:
    cells = [np.zeros(1000, int)]
    found = measure(cells, [4000], 0.005)
    noise = found.marginals[0].counts.copy()
    noise[0] -= 1000
    assert found.marginals[0].scale == pytest.approx(10, rel=1e-6)
    # Five standard errors of a standard deviation of 4,000 draws; whole numbers only.
    assert abs(noise.std() - 10) < 5 * 10 / math.sqrt(2 * 4000)
    assert abs(noise.mean()) < 5 * 10 / math.sqrt(4000)
    assert np.array_equal(noise, np.rint(noise))


def test_columns_that_belong_together_are_counted_together() -> None:
    rng = np.random.default_rng(0)
    first, third = rng.integers(0, 4, 5000), rng.integers(0, 4, 5000)
    cells = [first, third, first.copy(), third.copy()]
    found = measure(cells, [4] * 4, 5.0)
    pairs = {one.columns for one in found.marginals if len(one.columns) == 2}
    assert {(0, 2), (1, 3)} <= pairs
    assert abs(found.rows - 5000) < 100


def test_the_guarantee_says_what_it_rests_on() -> None:
    age = {"type": "whole", "bounds": [0, 99]}
    found = measure([np.zeros(50, int)], [2], 0.1)
    off_the_rows = {"age": {**age, "read_off": ["type", "bounds"]}, "flag": {"type": "bool"}}
    read = promise(found, 1.0, 1e-6, Schema.of(off_the_rows))
    assert read.proven and read.kind == "approx-dp" and read.relation == "add/remove"
    assert read.parameters["rho"] == found.rho <= 0.1
    assert any("type and bounds of age" in text for text in read.assumptions)
    for label in ("number of rows is not public", "seed only draws", "no floating-point"):
        assert any(label in text for text in read.assumptions)
    assert any("without noise" in text for text in read.voided_by)
    known = promise(found, 1.0, 1e-6, Schema.of({"age": age}))
    assert not any("read off" in text for text in known.assumptions)


def test_nothing_is_spent_where_the_model_is_missing(monkeypatch) -> None:
    def absent(module: str, extra: str):
        raise MissingExtra(f"{module} [{extra}]")

    monkeypatch.setattr(rows_module, "require", absent)
    with pytest.raises(MissingExtra, match="synthetic"):
        rows_module.dp_rows({"age": np.arange(5)}, Schema.of({"age": {"type": "bool"}}), 1.0)
