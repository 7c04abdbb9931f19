"""The composition of `benchmarks/` against published numbers and the exact worst case."""

import math

import numpy as np
import pytest
from benchmark_modules import benchmark
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lethe.evidence.guarantee import Guarantee

c = benchmark("composition")


def label(kind: str, relation: str = "add/remove", **parameters: float) -> Guarantee:
    return Guarantee(kind, parameters, relation, "record")


def exact_pure(epsilon: float, k: int, delta: float) -> float:
    """Randomized response k times: the exact curve of k-fold pure DP (Kairouz et al. 2015)."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    right = np.arange(k + 1)
    mass = binom.pmf(right, k, p)
    loss = epsilon * (2 * right - k)

    def delta_at(e: float) -> float:
        return float(np.sum(mass * np.maximum(0, 1 - np.exp(e - loss))))

    low, high = 0.0, k * epsilon
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
    return high


@pytest.mark.parametrize(
    ("mu", "epsilon"),
    [(0.5, 1.993), (1, 4.377), (2, 9.997), (3, 16.68), (4, 24.38), (7, 53.6), (16, 195)],
)
def test_the_published_table_of_the_gaussian_curve(mu, epsilon):
    for bound in c.bounds([label("gdp", mu=float(mu))], 1e-5):
        assert bound.epsilon == pytest.approx(epsilon, rel=3e-3)


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 1), (0.1, 30), (1.0, 5), (0.05, 200)])
def test_the_distribution_is_never_below_the_exact_worst_case(epsilon, k):
    exact = exact_pure(epsilon, k, 1e-6)
    found = c.pld([label("pure-dp", epsilon=epsilon)] * k, 1e-6).epsilon
    assert exact * (1 - 1e-6) <= found <= exact + 1e-3 * k + 1e-3
    laplace = c.pld_of_laplace([1 / epsilon] * k, 1e-6).epsilon
    assert laplace <= found + 1e-4 * k


NUMBERS = {
    "pure-dp": ("epsilon",),
    "approx-dp": ("epsilon", "delta"),
    "zcdp": ("rho",),
    "gdp": ("mu",),
}


@settings(max_examples=60)
@given(st.data(), st.sampled_from(sorted(NUMBERS)), st.integers(1, 4), st.booleans())
def test_a_label_of_several_loses_nothing(data, kind, count, swapped):
    """No number is below that of a part, and every assumption and every end is kept."""
    relation = "replace-one" if swapped else "add/remove"
    parts = []
    for at in range(count):
        numbers = {name: data.draw(st.floats(1e-9, 0.1)) for name in NUMBERS[kind]}
        said = (f"a{at}", "all"), (f"v{at}",)
        parts.append(Guarantee(kind, numbers, relation, "user", *said))
    for made in (c.sequential(parts), c.parallel(parts), c.group(c.sequential(parts), 2)):
        assert (made.kind, made.relation, made.unit) == (kind, relation, "user")
        assert set(made.parameters) == set(NUMBERS[kind])
        for part in parts:
            assert set(part.assumptions) <= set(made.assumptions)
            assert set(part.voided_by) <= set(made.voided_by)
            for name in NUMBERS[kind]:
                assert made.parameters[name] >= part.parameters[name]
    sums = c.sequential(parts).parameters
    for name in {"epsilon", "delta", "rho"} & set(sums):
        assert sums[name] >= math.fsum(p.parameters[name] for p in parts) * (1 - 1e-15)
    most = c.parallel(parts).parameters
    tops = {n: sorted((p.parameters[n] for p in parts), reverse=True) for n in NUMBERS[kind]}
    for name, top in tops.items():
        two = top[:2] if swapped else top[:1]
        exact = math.hypot(*two) if name == "mu" else math.fsum(two)
        assert most[name] == pytest.approx(exact, rel=1e-9)
