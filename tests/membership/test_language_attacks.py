"""Attacks on token log-probabilities: by hand, and quiet where membership means nothing."""

import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lethe.errors import InputError
from lethe.membership.blind import People, crossfit, folds_of, midranks, null_variances
from lethe.membership.language.attacks import (
    ATTACKS,
    DEFAULT,
    blind_check,
    by_person,
    missing_field,
)
from lethe.membership.language.measure import combined
from lethe.membership.language.tokens import TokenScores


def tokens(logprob, **fields):
    fields = {name: np.asarray(values, np.float32) for name, values in fields.items()}
    return TokenScores.known(np.asarray(logprob, np.float32), **fields)


MODEL = tokens(
    [-1, -4, -2, -3, -5],
    mean=[-3] * 5,
    deviation=[1, 2, 1, 1, 2],
    rank=[0, 3, 0, 2, 5],
    divergence=[0.5, 0, 0, 0.5, 1],
)
BASE = tokens([-2, -5, -1, -2.5, -8], rank=[0, 0, 0, 0, 0])
TEXT = "the worker fell"


def test_each_attack_is_what_its_paper_says_on_five_tokens():
    def score(name):
        return ATTACKS[name].score(MODEL, BASE, TEXT)

    assert score("loss") == pytest.approx(-3)
    assert score("ratio") == pytest.approx((1 + 1 - 1 - 0.5 + 3) / 5)
    assert score("zlib") == pytest.approx(-3 / len(zlib.compress(TEXT.encode())))
    assert score("min-k") == pytest.approx(-5)  # a fifth of five tokens: the least likely one
    # (logprob - mean)/deviation: 2, -0.5, 1, 0, -1; the lowest fifth is -1.
    assert score("min-k++") == pytest.approx(-1)
    # Wrong guesses at tokens 2, 4 and 5: up 1 and 3, down 0.5.
    assert score("error-zone") == pytest.approx(4 / 4.5)
    # Gains 1, 1, -1, -0.5, 3: pairs 2, 0, -1.5, 2.5; triples 1, -0.5, 1.5; fours 0.5, 2.5.
    assert score("wbc") == pytest.approx((2.5 / 4 + 2 / 3 + 1) / 3)
    assert score("informia") == pytest.approx((3.5 + 2) / 5)


def test_the_edges_of_the_error_zone():
    attack = ATTACKS["error-zone"].score
    right = tokens([-1, -1], rank=[0, 0])
    assert attack(right, tokens([-2, -2]), "") == 1.0
    same = tokens([-1, -1], rank=[1, 1])
    assert attack(same, same, "") == 0.5
    assert attack(same, tokens([-0.5, -0.5]), "") == 0.0


def test_an_attack_says_what_it_lacks():
    bare = tokens([-1, -2])
    assert missing_field(ATTACKS["loss"], bare, False) == ""
    assert "no base" in missing_field(ATTACKS["ratio"], bare, False)
    assert "mean, deviation" in missing_field(ATTACKS["min-k++"], bare, True)
    assert "rank" in missing_field(ATTACKS["error-zone"], bare, True)
    assert "divergence" in missing_field(ATTACKS["informia"], bare, True)
    assert "min-k" in ATTACKS and "min-k" not in DEFAULT


@given(st.lists(st.floats(-20, 0, width=32), min_size=1, max_size=60), st.floats(0.01, 5))
@settings(max_examples=50, deadline=None)
def test_window_votes_are_shares_and_take_the_size_of_a_gain_for_nothing(values, factor):
    vote = ATTACKS["wbc"].score
    base = tokens(np.array(values) - 10)
    gain = np.random.default_rng(len(values)).normal(size=len(values))
    model, more = (tokens(base.logprob + scale * gain) for scale in (1, factor))
    assert 0 <= vote(model, base, "") <= 1
    assert vote(model, base, "") == pytest.approx(vote(more, base, ""), abs=0.02)
    assert vote(base, model, "") == pytest.approx(1 - vote(model, base, ""))
    assert vote(base, base, "") == 0.5


def test_equal_values_have_equal_places_whatever_their_order():
    assert midranks(np.array([1.0, 1.0, 0.0])).tolist() == [2 / 3, 2 / 3, 1 / 6]


def test_people_are_in_one_fold_and_too_few_are_refused():
    people = np.repeat(np.arange(40), 3)
    member = people < 20
    fold = folds_of(member, people, 0)
    assert all(len(set(fold[people == who])) == 1 for who in range(40))
    assert np.bincount(fold[member]).tolist() == [12] * 5
    with pytest.raises(InputError, match="too few"):
        folds_of(people < 2, people, 0)


def test_the_combination_is_least_squares_on_other_folds():
    rng = np.random.default_rng(0)
    x, member = rng.normal(size=(60, 3)), np.arange(60) % 2 == 0
    fold = folds_of(member, np.arange(60), 0)
    found = crossfit(x, member[:, None].astype(float), fold)[:, 0]
    z = (x - x.mean(0)) / x.std(0)
    for at in range(5):
        train, test = fold != at, fold == at
        marks = np.where(member[train], 1 / member[train].sum(), -1 / (~member[train]).sum())
        gram = z[train].T @ z[train] / train.sum() + 0.05 * np.eye(3)
        weights = np.linalg.inv(gram) @ (z[train].T @ marks)
        np.testing.assert_allclose(found[test], z[test] @ weights)


def test_a_person_of_many_texts_varies_as_one_of_few():
    rng = np.random.default_rng(0)
    people = np.repeat(np.arange(400), rng.integers(1, 20, 400))
    score = by_person(rng.normal(size=len(people)), people)
    assert np.std(score) == pytest.approx(1, abs=0.1)


def test_intervals_find_nothing_where_membership_is_permuted():
    """60 repetitions of all attacks at once: at most nominal plus Monte Carlo error."""
    rng = np.random.default_rng(0)
    n, repetitions, confidence = 240, 60, 0.9
    truth = rng.normal(size=(n, 6))  # scores with structure, as texts have
    truth[:, 1] += truth[:, 0]
    truth[:, 5] = np.round(truth[:, 5])  # ties, as the error zone has
    people = np.repeat(np.arange(n // 2), 2)
    rejected = np.zeros((2, 7))
    for at in range(repetitions):
        member = np.repeat(rng.permutation(n // 2) < n // 4, 2)
        who = People(member, people, at)
        labels = who.permuted(49, at)
        own, nothing = combined(list(truth.T), who, labels, at)
        floor = null_variances(nothing, labels, (0.1,))
        for place, score in enumerate([*truth.T, own]):
            least = floor if place == 6 else ()
            rates = who.meter.rates("", score, (0.1,), confidence, least=least)
            rejected[0, place] += rates.auc.low > 0.5
            rejected[1, place] += rates.tpr[0.1].low > 0.1
    # One-sided 5 %, and three deviations of 60 coins.
    limit = repetitions * 0.05 + 3 * np.sqrt(repetitions * 0.05 * 0.95)
    assert rejected.max() <= limit


def rates_of(who, score, fprs=(0.1, 0.01)):
    return who.meter.rates("", score, fprs, 0.95)


def test_a_rate_is_found_and_clustering_widens_it():
    rng = np.random.default_rng(1)
    member = np.arange(2000) < 1000
    covered, repetitions = 0, 10
    for at in range(repetitions):
        score = rng.normal(size=2000) + 1.5 * member
        alone = rates_of(People(member, np.arange(2000), at), score)
        # Phi(1.5/sqrt 2), Phi(1.5 - 1.2816), Phi(1.5 - 2.3263)
        for found, truth in zip(
            (alone.auc, *alone.tpr.values()), (0.8556, 0.5871, 0.2046), strict=True
        ):
            covered += found.low < truth < found.high
    assert covered >= 3 * repetitions * 0.95 - 3 * np.sqrt(3 * repetitions * 0.95 * 0.05)
    blocks = np.repeat(rng.normal(size=200), 10) + 1.5 * member
    together = rates_of(People(member, np.repeat(np.arange(200), 10), 0), blocks)
    assert together.tpr[0.1].width > 2 * alone.tpr[0.1].width


WORDS = [f"w{at}" for at in range(300)]


def made_up(rng, count, shift=0.0):
    share = 1 / np.arange(1, 301)
    share[:3] *= 1 + shift
    share /= share.sum()
    return [" ".join(rng.choice(WORDS, 30, p=share)) for _ in range(count)]


def test_the_blind_classifier_is_quiet_on_a_random_hold_out():
    rng = np.random.default_rng(0)
    told = 0
    for at in range(20):
        member = rng.permutation(120) < 60
        told += blind_check(made_up(rng, 120), People(member, np.arange(120)), seed=at).tells
    assert told <= 2  # of 20 at 1 %: more than 2 once in 1,000


@pytest.mark.parametrize("by", ["words", "length", "date", "base"])
def test_the_blind_classifier_tells_members_of_another_kind(by):
    rng = np.random.default_rng(1)
    member = np.arange(400) < 200
    texts = made_up(rng, 400)
    dates, known = np.full(400, np.datetime64("2020-01-01")), []
    if by == "words":
        # Of equal length, so that nothing else tells.
        texts = [one.replace(*WORDS[1:3]) if at < 200 else one for at, one in enumerate(texts)]
    elif by == "length":
        texts = [" ".join(one.split()[:27]) if at < 200 else one for at, one in enumerate(texts)]
    elif by == "date":
        dates = dates + np.where(member, 0, 30) + rng.integers(0, 60, 400)
    else:
        known = [rng.normal(size=400) + 0.6 * member]
    found = blind_check(texts, People(member, np.arange(400)), dates, known)
    assert found.tells and found.rates.auc.low > 0.5
    assert found.rates.name == ("words" if by == "words" else "length, date and base model")
