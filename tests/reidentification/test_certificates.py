"""Limits on every attacker: printed values, brute force, and no nearest row above them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import ndtr, ndtri

from lethe.errors import InputError
from lethe.evidence.gdp import gdp_epsilon
from lethe.reidentification.certificates import (
    clip_diameter,
    closed_form,
    exact_limit,
    known,
    layer_norm_diameter,
    noise_dp,
    optimal_attacker,
)
from lethe.reidentification.vectors import geometric_median


def test_the_release_of_the_reference_study_is_no_protection():
    proof = noise_dp(14.6, sigma=1.0, source="a last LayerNorm")
    assert proof.kind == "gdp" and proof.proven and proof.unit == "vector"
    assert proof.parameters["epsilon"] == pytest.approx(168, abs=0.5)
    assert noise_dp(14.58, 2.0).parameters["epsilon"] == pytest.approx(57, abs=0.5)
    assert noise_dp(14.58, 3.0).parameters["epsilon"] == pytest.approx(32, abs=0.5)
    assert any("real numbers" in text for text in proof.assumptions)


def test_mu_is_the_diameter_over_sigma():
    proof = noise_dp(clip_diameter(0.5), sigma=0.5)
    assert proof.parameters["mu"] == pytest.approx(2.0)
    assert proof.parameters["epsilon"] == pytest.approx(gdp_epsilon(2.0, 1e-5))


def test_a_layer_norm_reaches_its_diameter_and_never_exceeds_it():
    rng = np.random.default_rng([0, 1])
    gain = rng.uniform(0.2, 1.5, 8)
    diameter = layer_norm_diameter(gain)
    inputs = rng.normal(size=(4000, 8))
    unit = inputs - inputs.mean(axis=1, keepdims=True)
    out = gain * unit / unit.std(axis=1, keepdims=True)
    assert 2 * np.linalg.norm(out, axis=1).max() <= diameter
    centring = np.eye(8) - 1 / 8
    worst = np.linalg.eigh(centring @ np.diag(gain**2) @ centring)[1][:, -1]
    reached = gain * (worst - worst.mean()) / (worst - worst.mean()).std()
    assert 2 * np.linalg.norm(reached) == pytest.approx(diameter)
    assert diameter <= 2 * math.sqrt(8) * gain.max()


def brute(shift, prior):
    """max sum pi Phi(Phi^-1(q) + m) by a general optimiser, from several starts."""
    shift, prior = np.asarray(shift, float), np.asarray(prior, float)
    count = len(shift)
    best = 0.0
    rng = np.random.default_rng([0, 2])
    for start in [np.full(count, 1 / count), *rng.dirichlet(np.ones(count), 4)]:
        found = minimize(
            lambda q: -float(prior @ ndtr(ndtri(np.clip(q, 1e-12, 1 - 1e-12)) + shift)),
            np.clip(start, 1e-3, 0.999),
            bounds=[(1e-12, 1 - 1e-12)] * count,
            constraints=[{"type": "ineq", "fun": lambda q: 1 - q.sum()}],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        if found.x.sum() <= 1 + 1e-9:
            best = max(best, -found.fun)
    return best


def test_the_closed_form_equals_a_brute_force_optimum():
    rng = np.random.default_rng([0, 3])
    for shift in (
        rng.uniform(0.1, 3, 6),
        [0.0, 0.0, 0.0, 1.0, 0.5, 2.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.3],
        [0.01, 0.02, 6.0, 0.4, 0.4, 0.4],
    ):
        rows = np.asarray(shift, float)[:, None] * [1.0, 0.0]
        for weights in (None, rng.dirichlet(np.ones(6) * 5)):
            game = known(rows, weights=weights)
            bound = closed_form(game, sigma=1.0, centre=[0.0, 0.0])
            assert bound.success == pytest.approx(brute(shift, game.prior), abs=2e-6)


def test_two_users_have_a_bound_that_is_reached():
    game = known([[-1.0, 0.0], [1.0, 0.0]])
    for sigma in (0.3, 1.0, 5.0):
        assert closed_form(game, sigma).success == pytest.approx(float(ndtr(1 / sigma)), abs=1e-9)


def test_ends_of_the_closed_form():
    game = known(np.random.default_rng([0, 4]).normal(size=(20, 3)))
    assert closed_form(game, 1e9).success == pytest.approx(1 / 20, abs=1e-6)
    assert closed_form(game, 0.0).success == pytest.approx(1.0)
    assert closed_form(game, 1e-200).success == pytest.approx(1.0)
    same = known(np.zeros((20, 3)))
    assert closed_form(same, 0.5).success == pytest.approx(1 / 20)
    assert closed_form(same, 0.0).success == pytest.approx(1 / 20)


def test_the_optimal_attacker_of_two_users_is_phi():
    for mu in (0.5, 1.0, 2.0):
        limit = optimal_attacker(known([[0.0], [2.0]]), 1 / mu, trials=40_000, seed=3)
        truth = float(ndtr(mu))
        error = math.sqrt(truth * (1 - truth) / 40_000)
        assert limit.estimate.value == pytest.approx(truth, abs=4 * error)
        assert limit.success - limit.estimate.value == pytest.approx(1.645 * error, rel=0.2)


@pytest.mark.parametrize("adaptive", [False, True])
def test_the_decoder_is_that_of_all_draws_played_one_by_one(adaptive):
    """Plays against a decoder of densities, several rows, unequal chances; M draws of one size."""
    rng = np.random.default_rng([0, 6])
    rows, users = rng.normal(size=(6, 2)), [0, 0, 1, 2, 2, 3]
    game = known(rows, users, weights=[0.1, 0.2, 0.25, 0.05, 0.1, 0.3])
    level = np.array([0.5, 1.0, 1.5, 2.5]) if adaptive else np.full(4, 1.2)
    draws, plays, hits = 1 if adaptive else 3, 3000, 0
    for _ in range(plays):
        row = rng.choice(6, p=game.weight)
        owner = game.owner[row]
        seen = game.rows[row] + level[owner] * rng.normal(size=(draws, 2))
        hits += int(np.argmax(posterior_fast(game, seen, level)) == owner)
    even = 1.2 / math.sqrt(draws)
    limit = optimal_attacker(game, level if adaptive else even, trials=40_000, seed=1)
    naive = hits / plays
    error = math.sqrt(naive * (1 - naive) * (1 / plays + 1 / 40_000))
    assert limit.estimate.value == pytest.approx(naive, abs=4 * error)


def posterior_fast(game, seen, level):
    away = ((seen[None] - game.rows[:, None]) ** 2).sum(axis=(1, 2))
    own = level[game.owner]
    density = game.weight * np.exp(-away / (2 * own**2)) / own**seen.size
    return np.bincount(game.owner, density)


def test_the_size_of_the_noise_gives_people_away():
    """Identical vectors, 64 dimensions, 20 people: 0.43 in place of 0.05 (published shape)."""
    game = known(np.zeros((20, 64)))
    even = optimal_attacker(game, 1.0, trials=4000)
    uneven = optimal_attacker(game, np.geomspace(0.5, 2.0, 20), trials=4000)
    assert even.estimate.value == pytest.approx(0.05, abs=4 * math.sqrt(0.05 * 0.95 / 4000))
    assert uneven.estimate.value > 0.3


@settings(max_examples=60)
@given(
    st.integers(0, 10_000), st.floats(-8, 9), st.floats(0, 20), st.sampled_from(["even", "by user"])
)
def test_no_scale_of_the_vectors_hides_people_from_the_best_decoder(seed, scale, apart, sizes):
    """Tight groups 1 to 1e20 sigma apart, twins among them: the plain nearest row is no better."""
    rng = np.random.default_rng([seed, 10])
    users, sigma, trials = 12, 10**scale, 800
    rows = sigma * rng.choice([0.5, 2.0, 20.0]) * rng.normal(size=(users, 3))
    rows[:, 0] = sigma * 10**apart * rng.integers(0, 3, users)
    rows[:, 1] += rng.choice([0.0, 1.0, 10**apart]) * sigma
    rows[rng.random(users) < 0.2] = rows[0]
    level = np.full(users, sigma) if sizes == "even" else sigma * rng.uniform(0.5, 2, users)
    game, noise = known(rows), level if sizes == "by user" else sigma
    best = optimal_attacker(game, noise, trials=trials, confidence=0.99999, seed=seed)
    play = rng.integers(0, users, trials)
    seen = rows[play] + level[play][:, None] * rng.normal(size=(trials, 3))
    away = (((seen[:, None] - rows) / sigma) ** 2).sum(axis=2)
    nearest = away == away.min(axis=1, keepdims=True)
    share = float((nearest[np.arange(trials), play] / nearest.sum(axis=1)).mean())
    lowest = share - 4.5 * math.sqrt(max(share * (1 - share), 1 / trials) / trials)
    assert lowest <= best.success
    if sizes == "even":
        assert lowest <= closed_form(game, sigma).success


@settings(max_examples=30)
@given(st.integers(0, 1000), st.floats(0.05, 10), st.floats(1.01, 4))
def test_more_noise_never_raises_the_bound_and_any_centre_is_above_the_best(seed, sigma, factor):
    rng = np.random.default_rng([seed, 10])
    game = known(rng.normal(size=(15, 3)), rng.integers(0, 6, 15) if seed % 2 else None)
    base = closed_form(game, sigma)
    assert closed_form(game, sigma * factor).success <= base.success + 1e-9
    # A far centre is a valid, worse bound: it is never below what the best decoder reaches.
    far = closed_form(game, sigma, centre=rng.normal(size=3) * 3)
    reached = optimal_attacker(game, sigma, trials=2000, seed=seed).estimate.value
    assert far.success >= reached - 4.5 * math.sqrt(0.25 / 2000)


def test_rows_of_a_person_take_the_worst_and_prior_is_by_row():
    game = known([[0.0], [4.0], [1.0]], ["a", "a", "b"])
    assert game.prior.tolist() == [0.5, 0.5]
    assert known([[0.0], [4.0], [1.0]], ["a", "a", "b"], [1 / 3] * 3).prior[0] == pytest.approx(
        2 / 3
    )
    single = known([[4.0], [1.0]])
    both = closed_form(game, 2.0, centre=[0.0]).success
    assert both == closed_form(single, 2.0, centre=[0.0]).success


def test_exact_limit_of_what_has_no_noise():
    game = known([[0.0], [0.0], [1.0], [2.0]], ["a", "b", "c", "d"], [0.4, 0.3, 0.2, 0.1])
    assert exact_limit(game, game.rows).success == pytest.approx(0.7)
    assert optimal_attacker(game, 0.0).success == pytest.approx(0.7)
    assert exact_limit(game, [1, 1, 1, 1]).success == pytest.approx(0.4)
    with_sign = [[0.0, 1.0], [-0.0, 1.0], [math.nan, 1.0], [-math.nan, 1.0]]
    assert exact_limit(game, with_sign).success == pytest.approx(1.0)
    assert exact_limit(game, ["a", "a", "a", "a "]).success == pytest.approx(0.5)
    several = known([[0.0], [1.0], [0.0], [0.0]], ["a", "a", "b", "b"])
    assert exact_limit(several, several.rows).success == pytest.approx(0.5 + 0.25)


def test_the_limits_say_what_they_assume():
    game = known([[0.0], [1.0]])
    for limit in (closed_form(game, 1.0), optimal_attacker(game, 1.0, trials=100)):
        assert limit.guarantee.kind == "identification-bound" and limit.guarantee.proven
        assert limit.guarantee.parameters["success"] == limit.success
        assert any("real numbers" in text for text in limit.guarantee.assumptions)


def test_the_geometric_median_of_a_triangle():
    """Equilateral: the centre; a majority on one point: that point."""
    corners = [[0.0, 0.0], [1.0, 0.0], [0.5, math.sqrt(3) / 2]]
    np.testing.assert_allclose(geometric_median(corners), [0.5, math.sqrt(3) / 6], atol=1e-6)
    np.testing.assert_allclose(geometric_median([[1.0]] * 3 + [[9.0]]), [1.0], atol=1e-6)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: known([[1.0]]), "at least 2 users"),
        (lambda: known([[1.0], [math.nan]]), "NaN"),
        (lambda: known([[1.0], [2.0]], weights=[0.5, 0.6]), "sum to"),
        (lambda: known([[1.0], [2.0]], users=["a"]), "one for each row"),
        (lambda: closed_form(known([[1.0], [2.0]]), -1.0), "sigma"),
        (lambda: closed_form(known([[1.0], [2.0]]), 1.0, centre=[1.0, 2.0]), "dimensions"),
        (lambda: optimal_attacker(known([[1.0], [2.0]]), [1.0, 0.0]), "above 0"),
        (lambda: optimal_attacker(known([[1.0], [2.0]]), [1.0, 1.0, 1.0]), "must be a number"),
        (lambda: noise_dp(1.0, 0.0), "sigma"),
        (lambda: layer_norm_diameter([1.0]), "1 dimension"),
        (lambda: clip_diameter(0.0), "norm"),
        (lambda: exact_limit(known([[1.0], [2.0]]), [1]), "one for each row"),
        (lambda: exact_limit(known([[1.0], [2.0]]), [None, "a"]), "bit by bit"),
    ],
)
def test_bad_input_is_refused_in_words(call, words):
    with pytest.raises(InputError, match=words):
        call()
