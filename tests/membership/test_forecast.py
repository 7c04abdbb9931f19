"""Forecasts of a two-way variance: exact where it can be worked out, calibrated elsewhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lethe.evidence.twoway import Replicates
from lethe.membership.widths import Forecast

PARTS = st.floats(0, 1)


def test_by_hand():
    """a/P = 0.4, b/N = 0.1, c/(PN) = 0.2; twice the models, half the records."""
    forecast = Forecast(0.4, 0.1, 0.2, 10, 100)
    assert forecast.spread().variance == pytest.approx(0.7)
    assert forecast.spread(2, 0.5).variance == pytest.approx(0.4 / 2 + 0.1 / 0.5 + 0.2)
    assert forecast.spread(1e9).variance == pytest.approx(0.1)


@given(PARTS, PARTS, PARTS, st.floats(1, 50), st.floats(1, 50))
def test_more_of_anything_never_widens(targets, records, both, models, people):
    forecast = Forecast(targets, records, both, 8, 100)
    there = forecast.spread(models, people).variance
    assert there <= forecast.spread().variance + 1e-12
    assert there >= records / people - 1e-12
    low, high = forecast.limits(models, people)
    assert low.variance <= there + 1e-12 and there <= high.variance + 1e-12


@given(PARTS, PARTS, PARTS)
def test_at_the_size_of_the_pilot_it_is_the_pilots_own_variance(targets, records, cells):
    rng = np.random.default_rng(0)
    draws = rng.normal(size=(3, 400, 1))
    draws /= draws.std(axis=1, keepdims=True)
    scale = np.sqrt([targets, records, cells])[:, None, None]
    replicates = Replicates(draws * scale, (9, 50, 450))
    own = replicates.spread(0)
    assert Forecast.of(replicates, 0).spread().variance == pytest.approx(own.variance, abs=1e-12)


def test_limits_hold_in_the_share_of_cases_they_say():
    """Variances of a pilot of 8 and of an audit of 32 models drawn anew: 80 %, within 4 sd."""
    rng = np.random.default_rng(5)
    inside = 0
    for _ in range(500):
        pilot = rng.normal(size=8).var(ddof=1) / 8
        seen = rng.normal(size=32).var(ddof=1) / 32
        low, high = Forecast(pilot, 0.0, 0.0, 8, 1000).limits(4)
        inside += low.variance <= seen <= high.variance
    assert abs(inside / 500 - 0.8) < 4 * np.sqrt(0.8 * 0.2 / 500)


def test_without_any_spread_there_is_nothing_to_foresee():
    low, high = Forecast(0.0, 0.0, 0.0, 8, 100).limits(4)
    assert low.variance == high.variance == 0
