"""Noise against its exact law. OpenDP takes no seed: tolerances make a false alarm < 1e-6."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, kstest, norm

from lethe.errors import InputError
from lethe.evidence.gdp import gdp_delta
from lethe.queries.mechanisms import additive
from lethe.queries.mechanisms.additive import Law
from lethe.queries.privacy import Neighbours, Spend

FALSE_ALARM = 1e-7
WIDE = np.arange(-4000, 4001)


def mass(law: Law) -> np.ndarray:
    """Naive: the mass by its formula, normalised by a sum."""
    power = np.abs(WIDE) / law.scale if "laplace" in law.name else (WIDE / law.scale) ** 2 / 2
    raw = np.exp(-power)
    return raw / raw.sum()


@pytest.mark.parametrize(
    ("spend", "name"),
    [(Spend(epsilon=0.7), "discrete laplace"), (Spend(rho=0.08), "discrete gaussian")],
)
def test_whole_number_noise_has_its_law(spend, name):
    n = 20_000
    drawn = additive.noised([5] * n, l1=2, l2=2.0, spend=spend)
    assert drawn.law.name == name
    shift = np.asarray(drawn.values, dtype=np.int64) - 5
    edges = np.arange(-6, 8)  # cells: below -6, -6, ..., 6, above 6
    seen = np.bincount(np.searchsorted(edges, shift, side="right"), minlength=15)
    where = np.searchsorted(edges, WIDE, side="right")
    expected = n * np.bincount(where, weights=mass(drawn.law), minlength=15)
    assert expected.min() > 20
    assert float(((seen - expected) ** 2 / expected).sum()) < chi2.isf(FALSE_ALARM, 14)


@pytest.mark.parametrize(
    ("spend", "scale"), [(Spend(mu=0.5), 4.0), (Spend(epsilon=0.8, delta=1e-6), None)]
)
def test_real_noise_has_its_law(spend, scale):
    drawn = additive.noised([3] * 2000, l1=2, l2=2.0, spend=spend)
    assert drawn.law.name == "gaussian" and (
        scale is None or drawn.law.scale == pytest.approx(scale)
    )
    assert kstest(drawn.values, norm(3, drawn.law.scale).cdf).pvalue > FALSE_ALARM


@settings(max_examples=60)
@given(
    st.sampled_from(["discrete laplace", "discrete gaussian"]),
    st.floats(0.2, 60.0),
    st.sampled_from([0.5, 0.9, 0.95, 0.99]),
)
def test_reach_is_the_exact_quantile(name, scale, confidence):
    law = Law(name, scale)
    weights = mass(law)
    tails = [weights[np.abs(WIDE) > q].sum() for q in range(int(law.reach(confidence)) + 1)]
    assert tails[-1] <= (1 - confidence) * (1 + 1e-9)
    if len(tails) > 1:
        assert tails[-2] > (1 - confidence) * (1 - 1e-9)


def test_reach_of_a_large_discrete_gaussian_is_outside_and_close():
    law = Law("discrete gaussian", 1e6)
    assert 0 <= law.reach(0.95) - 1e6 * norm.isf(0.025) <= 2


@pytest.mark.parametrize("weights", [[1.0], [0.5, 0.5], [0.9, 0.1], [0.3, -0.3, 0.4], [1, 1, 0]])
@pytest.mark.parametrize("name", ["discrete laplace", "gaussian"])
def test_reach_of_sums_covers_and_is_near(weights, name):
    n = 400_000
    rng = np.random.default_rng(1)
    unit = (
        rng.laplace(size=(n, len(weights)))
        if name == "discrete laplace"
        else rng.normal(size=(n, len(weights)))
    )
    seen = float(np.quantile(np.abs(unit @ np.asarray(weights)), 0.95))
    reach = Law(name, 1000.0).reach_of_sum(weights, 0.95) / 1000
    assert seen * 0.99 <= reach <= seen * 1.05


@settings(max_examples=40)
@given(st.floats(1e-3, 20.0), st.integers(1, 1000))
def test_what_is_recorded_is_at_least_what_the_scale_costs(epsilon, moved):
    laplace = additive.noised([0], l1=moved, l2=moved, spend=Spend(epsilon=epsilon)).law
    assert moved / laplace.scale <= epsilon * (1 + 1e-15)
    rho = additive.noised([0], l1=moved, l2=moved, spend=Spend(rho=epsilon)).law
    assert moved**2 / (2 * rho.scale**2) <= epsilon * (1 + 1e-15)
    assert laplace.scale == pytest.approx(moved / epsilon)  # and no more noise than that
    assert rho.scale == pytest.approx(moved / math.sqrt(2 * epsilon))


def test_the_analytic_calibration_meets_its_delta():
    law = additive.noised([0], l1=3, l2=3.0, spend=Spend(epsilon=0.8, delta=1e-6)).law
    assert gdp_delta(3.0 / law.scale, 0.8) == pytest.approx(1e-6, rel=1e-6)
    textbook = 3.0 * math.sqrt(2 * math.log(1.25e6)) / 0.8
    assert law.scale < textbook


def test_values_beyond_the_machine_are_clamped_not_wrapped():
    assert additive.noised([10**30], l1=1, l2=1.0, spend=Spend(epsilon=1.0)).values[0] > 2**61


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("cost", [{"mu": 1.0}, {"epsilon": 1.0, "delta": 1e-6}])
def test_whole_numbers_that_no_float_holds_are_clamped(cost, sign):
    """Beyond 2^53 a float moves by 2 or more where the number moved by 1."""
    values = additive.noised(
        [sign * (2**53 + 1), sign * 10**30], l1=2, l2=2.0, spend=Spend(**cost)
    ).values
    for value in values:
        assert abs(value - sign * 2**53) < 100


def test_bad_input():
    with pytest.raises(InputError, match="whole numbers"):
        additive.noised([math.nan], l1=1, l2=1.0, spend=Spend(epsilon=1.0))
    with pytest.raises(InputError, match="l1"):
        additive.noised([0], l1=0, l2=1.0, spend=Spend(epsilon=1.0))
    with pytest.raises(InputError, match="l2"):
        additive.noised([0], l1=1, l2=0.0, spend=Spend(rho=1.0))
    with pytest.raises(InputError):
        Neighbours(rows=2)


def test_shares_never_add_up_to_more():
    whole = Spend(epsilon=0.1)
    assert whole.share(0.3).epsilon + whole.share(0.7).epsilon <= 0.1
    mus = Spend(mu=1.0).in_groups("replace-one")
    assert 2 * mus.mu**2 <= 1
    assert Spend(epsilon=1.0).in_groups("add/remove").epsilon == 1.0
