"""Verification metrics against hand-worked cases, slow oracles, properties and printed numbers."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reidentification_people import population
from scipy.integrate import quad
from scipy.stats import norm

from lethe.errors import InputError, NotMeasurable
from lethe.reidentification.attackers import Panel
from lethe.reidentification.family import allowed
from lethe.reidentification.gallery import split_rows
from lethe.reidentification.scored import Scorer, adjusted_rand, grouped, pairs_of, singling_out
from lethe.reidentification.sight import folds, sight_of
from lethe.reidentification.smoothing import smooth
from lethe.reidentification.verification import FULL, ScoredPairs, others, profile, verify

SCORES = st.lists(st.integers(-6, 6), min_size=1, max_size=25)


def slow_eer(mated, non_mated):
    """Walk the ROC threshold by threshold and cut it with the diagonal."""
    edges = sorted({*mated, *non_mated})
    points = [(0.0, 1.0)]
    for edge in edges:
        points.append((np.mean([m <= edge for m in mated]), np.mean([n > edge for n in non_mated])))
    for (m0, f0), (m1, f1) in zip(points, points[1:], strict=False):
        if m1 >= f1:
            step = (f0 - m0) / ((f0 - m0) + (m1 - f1))
            return m0 + step * (m1 - m0)
    raise AssertionError


def slow_ratios(mated, non_mated, laplace=False):
    """Isotonic posterior by the minimax formula (Barlow 1972), as likelihood ratios by score."""
    values = sorted({*mated, *non_mated})
    hits = [(sum(m == v for m in mated), sum(n == v for n in non_mated)) for v in values]
    if laplace:
        hits = [(1, 1), *hits, (1, 1)]
    fit = []
    for at in range(len(hits)):
        fit.append(
            max(
                min(
                    sum(a for a, _ in hits[s : t + 1]) / sum(a + b for a, b in hits[s : t + 1])
                    for t in range(at, len(hits))
                )
                for s in range(at + 1)
            )
        )
    if laplace:
        fit = fit[1:-1]
    prior = len(mated) / len(non_mated)
    return {
        v: (math.inf if p == 1 else p / (1 - p) / prior) for v, p in zip(values, fit, strict=True)
    }


def slow_ece(prior, mated, non_mated, ratio):
    """Cross-entropy in bits of an attacker of a prior who believes the ratios."""
    odds = prior / (1 - prior)
    left = np.mean([math.log2(1 + 1 / (ratio[m] * odds)) for m in mated])
    right = np.mean([math.log2(1 + ratio[n] * odds) for n in non_mated])
    return prior * left + (1 - prior) * right


@settings(max_examples=60, deadline=None)
@given(SCORES, SCORES)
def test_metrics_equal_those_written_the_slow_way(mated, non_mated):
    found = profile(mated, non_mated)
    assert found["eer"] == pytest.approx(slow_eer(mated, non_mated), abs=1e-12)
    ratio = slow_ratios(mated, non_mated)
    # The hull's error is the least that a monotone calibration allows at the worst prior.
    hull = max(
        prior * np.mean([ratio[m] * prior < 1 - prior for m in mated])
        + (1 - prior) * np.mean([ratio[n] * prior >= 1 - prior for n in non_mated])
        for prior in np.linspace(0.005, 0.995, 199)
    )
    assert hull - 1e-9 <= found["rocch_eer"] <= hull + 0.01
    slow = slow_ece(0.5, mated, non_mated, ratio)
    assert found["min_cllr"] == pytest.approx(slow, abs=1e-9)
    calibrated = [[_log(ratio[score]) for score in scores] for scores in (mated, non_mated)]
    assert slow == pytest.approx(profile(*calibrated)["cllr"], abs=1e-9)
    entropy = lambda p: -p * math.log2(p) - (1 - p) * math.log2(1 - p)  # noqa: E731
    expected, _ = quad(lambda p: entropy(p) - slow_ece(p, mated, non_mated, ratio), 0, 1, limit=200)
    assert found["expected"] == pytest.approx(expected, abs=1e-6)
    softened = slow_ratios(mated, non_mated, laplace=True)
    worst = max(abs(math.log10(softened[s])) for s in [*mated, *non_mated])
    assert found["worst"] == pytest.approx(worst, abs=1e-9)


def cllr(mated, non_mated):
    """Brümmer and du Preez 2006, equation 4."""
    cost = np.logaddexp(0, -np.asarray(mated)).mean() + np.logaddexp(0, non_mated).mean()
    return cost / (2 * math.log(2))


def _log(ratio):
    return -700.0 if ratio == 0 else 700.0 if ratio == math.inf else math.log(ratio)


@settings(max_examples=40, deadline=None)
@given(SCORES, SCORES)
def test_no_increasing_map_of_the_scores_changes_anything(mated, non_mated):
    moved = [[math.exp(0.7 * s) - 3 for s in scores] for scores in (mated, non_mated)]
    before, after = profile(mated, non_mated), profile(*moved)
    assert {**before, "cllr": 0} == {**after, "cllr": 0}


def test_hand_worked_cases():
    mated, non_mated = [1.0, 3.0], [0.0, 2.0]
    # Blocks {0}, {1, 2}, {3}: half of each kind is certain, the other half at a ratio of 1.
    found = profile(mated, non_mated)
    assert found["min_cllr"] == pytest.approx(0.5)
    assert found["expected"] == pytest.approx(0.25 / math.log(2))
    assert found["eer"] == 0.5
    three = [math.log(3)]
    assert profile(three, three)["cllr"] == pytest.approx((math.log2(4 / 3) + math.log2(4)) / 2)
    # Two bins of equal numbers; shares .75/.25 and .25/.75: D = 2 * 3 / 4 - 1 = .5 on 3 / 4.
    mated, non_mated = [15.0] * 15 + [5.0] * 5, [15.0] * 5 + [5.0] * 14 + [0.0]
    assert profile(mated, non_mated)["linkability"] == pytest.approx(0.375)
    assert adjusted_rand(np.array([[1.0, 1], [0, 2]])) == 0.0


def test_perfect_scores_and_numbers_that_were_printed():
    perfect = profile(range(100, 200), range(100))
    assert perfect["eer"] == 0 and perfect["linkability"] == 1
    assert f"{perfect['expected']:.3f}" == "0.721"  # 1 / ln 4, Nautsch et al. 2020
    rng = np.random.default_rng(0)
    # The example of the ZEBRA toolkit, N(3, 2) against N(0, 1): its figure prints 15.9 %.
    mated, non_mated = 3 + 2 * rng.standard_normal(10**5), rng.standard_normal(10**5)
    assert profile(mated, non_mated)["eer"] == pytest.approx(norm.cdf(-1), abs=0.002)
    # N(1, 1) against N(0, 1) in closed form by quadrature.
    closed, _ = quad(lambda s: max(2 / (1 + math.exp(0.5 - s)) - 1, 0) * norm.pdf(s - 1), -8, 10)
    shifted = 1 + rng.standard_normal(10**5)
    assert profile(shifted, non_mated)["linkability"] == pytest.approx(closed, abs=0.01)


def people_scores(rng, people=40, each=4, shift=1.0, spread=0.7):
    """Scores that carry an effect of the person in both roles."""
    effect, seen = spread * rng.standard_normal((2, people))
    owner = np.repeat(np.arange(people), each)
    mated = shift + effect[owner] + seen[owner] + rng.standard_normal(len(owner))
    first = np.repeat(owner, 5)
    second = others(owner, people, 5, int(rng.integers(1 << 30))).ravel()
    non_mated = effect[first] + seen[second] + rng.standard_normal(len(first))
    return ScoredPairs(mated, owner, non_mated, first, second, (mated, non_mated))


def test_intervals_cover_with_people_in_both_roles():
    rng = np.random.default_rng(1)
    sd = math.sqrt(1 + 2 * 0.49)
    many = 0.5 + sd * rng.standard_normal(200_000), sd * rng.standard_normal(200_000)
    known = profile(*many)
    truth = {name: known[name] for name in ("min_cllr", "linkability", "expected")}
    truth["eer"] = float(norm.cdf(-0.25 / sd))
    runs, held = 80, dict.fromkeys(truth, 0)
    for seed in range(runs):
        made = verify(people_scores(rng, shift=0.5), replicates=40, seed=seed)
        for name, value in truth.items():
            found = getattr(made, name)
            held[name] += found.low <= value <= found.high
            assert found.low <= found.value <= found.high
    # 95 % less 3 standard errors of 80 runs: of what is fitted to its scores as well
    assert min(held.values()) / runs >= 0.88, held


def test_scores_by_chance_are_at_chance_and_perfect_ones_are_not_certain():
    rng = np.random.default_rng(2)
    found = verify(people_scores(rng, people=80, shift=0.0), seed=0, curve=True)
    assert found.eer.low < 0.5 < found.eer.high
    assert found.min_cllr.value > 0.95
    assert 0 <= found.expected.low < found.expected.value < 0.03
    assert found.linkability.low < 0.1
    assert found.cllr is not None and found.cllr.value >= found.min_cllr.value
    assert all(low <= value <= high for value, low, high in found.missed)
    owner = np.arange(12)
    apart = verify(ScoredPairs(10.0 + owner, owner, -1.0 * owner, owner, (owner + 1) % 12))
    assert apart.eer.value == 0 and apart.eer.high > 0.2
    assert apart.expected.value == pytest.approx(FULL) and apart.expected.low < 0.6


def test_refusals():
    with pytest.raises(InputError, match="not finite"):
        profile([np.nan], [0.0])
    with pytest.raises(InputError, match="0 scores"):
        profile([], [0.0])
    owner = np.arange(3)
    with pytest.raises(NotMeasurable, match="5 people"):
        verify(ScoredPairs(1.0 * owner, owner, 0.0 * owner, owner, (owner + 1) % 3))


@pytest.fixture(scope="module")
def people():
    made = population(users=90, spread=0.8)
    split = split_rows(made["user_ids"])
    return made["representations"], split, folds(len(split.users))


def test_scores_and_ranks_of_every_attacker_agree(people):
    vectors, split, fold = people
    sight, panel = sight_of(vectors, split), Panel(allowed(normalised=True), fold)
    every = np.tile(np.arange(90), (90, 1))
    for attacker in panel.attackers:
        seen = panel.seen(attacker, sight, sight)
        fits = panel.fits(attacker, seen)
        some = np.arange(len(seen.owner))[:90]
        scores = panel.scores(attacker, seen, fits, np.tile(every[0], (len(seen.owner), 1)))
        ranked = panel.rank(attacker, seen, fits)
        true = scores[some, seen.owner[some]][:, None]
        assert np.array_equal((scores[some] > true + 1e-9).sum(axis=1), ranked.closer[some])
        guess = np.zeros(len(scores), np.intp)
        panel.credit(attacker, seen, fits, guess)
        assert np.array_equal(scores.argmax(axis=1), guess)


def slow_norm(table, cohort_of, fold_of_probe, between, top):
    """AS-norm pair by pair."""
    out = np.empty_like(table)
    for p in range(len(table)):
        cohort = cohort_of[fold_of_probe[p]]
        mine = sorted(table[p, cohort], reverse=True)[:top]
        for g in range(table.shape[1]):
            theirs = sorted((between[g, c] for c in cohort if c != g), reverse=True)[:top]
            out[p, g] = (
                (table[p, g] - np.mean(mine)) / np.std(mine)
                + (table[p, g] - np.mean(theirs)) / np.std(theirs)
            ) / 2
    return out


def test_score_normalisation_equals_the_definition(people):
    vectors, split, fold = people
    sight = sight_of(vectors, split)
    attacker = next(a for a in allowed(normalised=True) if a.name == "cosine, as-norm")
    some = np.arange(40)
    seen = type(sight)(sight.rows, sight.user, sight.gallery, sight.probes[some], sight.owner[some])
    panel = Panel((attacker,), fold)
    found = panel.scores(attacker, seen, (), np.tile(np.arange(90), (40, 1)))
    unit = lambda v: v / np.linalg.norm(v, axis=1, keepdims=True)  # noqa: E731
    gallery = unit(seen.gallery)
    cohorts = {half: np.flatnonzero(fold != half) for half in (False, True)}
    slow = slow_norm(
        unit(seen.probes) @ gallery.T,
        cohorts,
        fold[seen.owner],
        gallery @ gallery.T,
        min(200, min(map(len, cohorts.values())) - 1),
    )
    assert np.allclose(found, slow)


def test_more_noise_never_lowers_the_error_and_permuted_people_are_at_chance(people):
    vectors, split, fold = people
    panel = Panel(allowed(), fold)
    scorer = Scorer(panel, replicates=20)
    clean, found = sight_of(vectors, split), []
    for sigma in (0.0, 2.0):
        noisy = sight_of(smooth(vectors, sigma, seed=3), split)
        found.append(scorer.scored(noisy, clean))
    for rows in zip(*(one.attacks for one in found), strict=True):
        assert len({row.name for row in rows}) == 1
        errors = [row.eer for row in rows]
        for before, after in zip(errors, errors[1:], strict=False):
            assert after.high >= before.low
        assert errors[-1].value > errors[0].value
    for one in found:
        every, worst = [row.eer for row in one.attacks], one.worst["eer"].measured
        assert worst.low == min(e.low for e in every)
        assert worst.high == min(e.high for e in every)
    for name, (_, low, high) in scorer.controls(clean).items():
        assert low < 0.5 < high, name


def test_pairs_are_calibrated_on_other_people(people):
    vectors, split, fold = people
    sight = sight_of(vectors, split)
    panel = Panel(allowed(), fold)
    attacker = next(a for a in panel.attackers if a.name == "plda")
    pairs = pairs_of(panel, attacker, sight)
    assert (pairs.first != pairs.second).all()
    found = profile(*pairs.ratios)
    assert found["min_cllr"] <= found["cllr"] < 1


def test_singling_out_by_size_equals_drawing_galleries(people):
    vectors, split, fold = people
    sight, panel = sight_of(vectors, split), Panel(allowed(), fold)
    curves = singling_out(panel, ("cosine",), sight)
    found = {row.users: row.top_1.value for row in curves.sizes}
    rng = np.random.default_rng(0)
    unit = lambda v: v / np.linalg.norm(v, axis=1, keepdims=True)  # noqa: E731
    scores = unit(sight.probes) @ unit(sight.gallery).T
    true = scores[np.arange(len(scores)), sight.owner]
    hits = []
    for _ in range(60):
        drawn = np.argsort(rng.random(scores.shape), axis=1)
        place = drawn[np.arange(len(scores))[:, None], np.arange(90)]
        rest = np.array([row[row != own][:19] for row, own in zip(place, sight.owner, strict=True)])
        hits.append(np.mean((np.take_along_axis(scores, rest, 1) < true[:, None]).all(axis=1)))
    assert found[20] == pytest.approx(np.mean(hits), abs=4 * np.std(hits) / math.sqrt(60) + 1e-3)
    shares = [row.top_1.value for row in curves.vectors]
    assert shares[-1] > shares[0]
    assert curves.enrolled[-1].top_1.value >= curves.enrolled[0].top_1.value
    matched = [row.share.value for row in curves.matched]
    assert matched == sorted(matched)


def test_clusters_agree_with_people_and_not_with_chance():
    made = population(users=30, spread=3.0, task=0.1)
    sight = sight_of(made["representations"], split_rows(made["user_ids"]))
    found = grouped(sight)
    assert found.agreement.low > 0.5 and abs(found.permuted) < 0.05
    assert found.agreement.low <= found.agreement.value <= found.agreement.high
