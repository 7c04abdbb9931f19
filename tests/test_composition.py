"""Composition against published numbers, naive sums and the exact worst case."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from benchmark_modules import benchmark
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lethe.errors import InputError
from lethe.evidence.gdp import gdp_delta
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


def test_the_distribution_of_gaussians_is_that_of_their_sum():
    parts = [label("gdp", mu=0.3), label("gdp", mu=0.4)]
    assert c.gdp_sum(parts) == pytest.approx(0.5)
    exact = c.tightest(parts, 1e-5).epsilon
    assert exact <= c.pld(parts, 1e-5).epsilon <= exact + 1e-3


def test_advanced_composition_by_hand():
    found = c.advanced([label("approx-dp", epsilon=0.1, delta=1e-8)] * 100, 1e-6 + 100 * 1e-8)
    by_hand = 0.1 * math.sqrt(200 * math.log(1e6)) + 100 * 0.1 * (math.exp(0.1) - 1)
    assert found.epsilon == pytest.approx(by_hand, rel=1e-9)


@pytest.mark.parametrize(("epsilon", "k"), [(0.1, 1), (0.1, 30), (1.0, 5), (0.05, 200)])
def test_the_distribution_is_never_below_the_exact_worst_case(epsilon, k):
    exact = exact_pure(epsilon, k, 1e-6)
    found = c.pld([label("pure-dp", epsilon=epsilon)] * k, 1e-6).epsilon
    assert exact * (1 - 1e-6) <= found <= exact + 1e-3 * k + 1e-3
    laplace = c.pld_of_laplace([1 / epsilon] * k, 1e-6).epsilon
    assert laplace <= found + 1e-4 * k


def test_conversion_of_zcdp_holds_for_the_gaussian_and_beats_the_simple_one():
    from lethe.evidence.gdp import gdp_epsilon

    for rho in (0.005, 0.1, 0.5, 4.0):
        tight = c.zcdp_epsilon(rho, 1e-6)
        assert gdp_epsilon(math.sqrt(2 * rho), 1e-6) <= tight
        assert tight < rho + 2 * math.sqrt(rho * math.log(1e6))


@settings(max_examples=15)
@given(
    st.lists(st.floats(0.01, 2.0), min_size=1, max_size=12),
    st.sampled_from([1e-9, 1e-6, 1e-3]),
)
def test_the_tightest_is_at_most_basic_and_grows_with_answers(epsilons, delta):
    parts = [label("pure-dp", epsilon=e) for e in epsilons]
    found = c.tightest(parts, delta)
    assert found.epsilon <= c.basic(parts).epsilon
    assert found.epsilon <= c.tightest([*parts, parts[0]], delta).epsilon + 1e-4
    assert c.zcdp_sum(parts) == pytest.approx(sum(e * e / 2 for e in epsilons))


@settings(max_examples=30)
@given(st.floats(0.01, 3.0), st.floats(1e-12, 1e-3), st.integers(1, 6))
def test_groups_are_the_telescoped_sum(epsilon, delta, size):
    wide = c.group(label("approx-dp", epsilon=epsilon, delta=delta), size).parameters
    steps = min(1.0, sum(delta * math.exp(i * epsilon) for i in range(size)))
    assert wide["epsilon"] == pytest.approx(size * epsilon)
    assert wide["delta"] == pytest.approx(steps, rel=1e-6)
    assert c.group(label("gdp", mu=0.5), size).parameters["mu"] == 0.5 * size
    assert c.group(label("zcdp", rho=0.5), size).parameters["rho"] == 0.5 * size**2


def test_parallel_is_the_maximum_or_the_two_largest():
    added = [label("pure-dp", epsilon=e) for e in (0.2, 0.5, 0.4)]
    assert c.parallel(added).parameters == {"epsilon": 0.5}
    replaced = [label("pure-dp", "replace-one", epsilon=e) for e in (0.2, 0.5, 0.4)]
    assert c.parallel(replaced).parameters["epsilon"] == pytest.approx(0.9)
    mus = [label("gdp", "replace-one", mu=1.0)] * 3
    assert c.parallel(mus).parameters["mu"] == pytest.approx(math.sqrt(2))
    assert c.parallel(mus[:1]).parameters["mu"] == pytest.approx(1.0)


def test_sequential_keeps_the_kind():
    assert c.sequential([label("zcdp", rho=0.1)] * 3).parameters["rho"] == pytest.approx(0.3)
    both = c.sequential([label("approx-dp", epsilon=0.1, delta=1e-7)] * 2).parameters
    assert both == {"epsilon": pytest.approx(0.2), "delta": pytest.approx(2e-7)}


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [label("pure-dp", epsilon=1.0), label("pure-dp", "replace-one", epsilon=1.0)],
        [label("empirical-only")],
        [label("zcdp", rho=0.1), label("gdp", mu=0.1)],
        [label("approx-dp", epsilon=1.0, delta=1e-3)],
    ],
)
def test_what_cannot_be_composed_is_refused(parts):
    with pytest.raises(InputError):
        c.tightest(parts, 1e-6)


def mixed():
    """Every two kinds that differ, in both orders."""
    one = [
        label("pure-dp", epsilon=0.1),
        label("approx-dp", epsilon=0.1, delta=1e-7),
        label("zcdp", rho=0.1),
        label("gdp", mu=0.1),
    ]
    return list(itertools.permutations(one, 2))


@pytest.mark.parametrize("parts", mixed(), ids=lambda parts: "+".join(p.kind for p in parts))
@pytest.mark.parametrize("compose", [c.sequential, c.parallel])
def test_kinds_that_differ_are_never_one_label(parts, compose):
    """The delta of one would be lost under the kind of the other."""
    with pytest.raises(InputError, match="kind"):
        compose(list(parts))


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


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
def test_the_mu_of_a_pure_epsilon_covers_its_worst_case(epsilon):
    """Randomized response at every e below epsilon; at 0 both curves touch, so no mu is smaller."""
    mu = c.gdp_sum([label("pure-dp", epsilon=epsilon)])
    for smaller in np.linspace(0, epsilon, 9):
        exact = (math.exp(epsilon) - math.exp(smaller)) / (1 + math.exp(epsilon))
        assert gdp_delta(mu, float(smaller)) >= exact * (1 - 1e-9)
    assert gdp_delta(mu, 0.0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-9)
