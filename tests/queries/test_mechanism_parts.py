"""The parts of the audit of a mechanism: claims, inputs, answers, scores, limits, reach."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from lethe.errors import InputError
from lethe.evidence.estimate import Estimate, Refusal
from lethe.queries.mechanism_audit import bounds as reach
from lethe.queries.mechanism_audit.bounds import bound_pair, bounded_runs, rho_of
from lethe.queries.mechanism_audit.encode import Encoder
from lethe.queries.mechanism_audit.events import Outcomes, Value, learn, lowest_bits, read_outcomes
from lethe.queries.mechanism_audit.neighbours import standard_pairs, users_pairs
from lethe.queries.mechanism_audit.runs import answer_once, reuse, run_trials
from lethe.queries.mechanism_audit.settings import Claim, MechanismSettings, claim_from


def test_claims_in_words_and_from_options() -> None:
    assert str(claim_from(1.0, 1e-5, None, None)) == "(1, 1e-05)-DP"
    assert str(claim_from(None, None, 0.5, None)) == "0.5-zCDP"
    assert str(claim_from(None, None, None, 2.0)) == "2-GDP"
    assert claim_from(None, None, None, None).value is None


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: Claim("epsilon", -1.0), "claimed epsilon=-1.0"),
        (lambda: Claim("epsilon", math.nan), "claimed epsilon=nan"),
        (lambda: Claim("epsilon", 1.0, 1.0), "delta"),
        (lambda: Claim("rho", 1.0, 0.1), "goes with epsilon"),
        (lambda: claim_from(1.0, None, 0.5, None), "both claimed"),
        (lambda: standard_pairs(1, 0), "lower one first"),
        (lambda: standard_pairs(0, math.inf), "finite"),
        (lambda: standard_pairs(0, 1, size=3), "size=3"),
        (lambda: standard_pairs(0, 1, relation="both"), "relation"),
        (lambda: users_pairs(lambda: 3, "p.py:f"), "expected a list of pairs"),
        (lambda: users_pairs(lambda: [([1], [2]), 5], "p.py:f"), "entry 2"),
        (lambda: users_pairs(lambda: [2 * ([1],)], "p.py:f"), "are equal"),
        (lambda: users_pairs(lambda: [(np.eye(2), np.eye(2))], "p.py:f"), "are equal"),
        (lambda: users_pairs(lambda: 1 / 0, "p.py:f"), "p.py:f fails"),
        (lambda: MechanismSettings(runs=99), "runs"),
        (lambda: MechanismSettings(rule=("mu-lower<=1",)), "claim --mu"),
        (lambda: MechanismSettings(rule=("width(reuse)<=1",)), "no width"),
        (lambda: MechanismSettings(rule=("tpr@0.1<=1",)), "unknown metric"),
    ],
)
def test_wrong_input_is_named(made, said: str) -> None:
    with pytest.raises(InputError, match=said):
        made()


def test_the_claim_is_a_rule() -> None:
    texts = [str(rule) for rule in MechanismSettings(Claim("mu", 0.5), rule=("reuse<=1",)).rules()]
    assert texts == ["mu-lower <= 0.5", "reuse <= 1"]
    assert MechanismSettings().rules() == []


@given(st.integers(4, 12), st.floats(-5, 5), st.floats(0.1, 9), st.booleans())
@settings(max_examples=25)
def test_neighbours_differ_in_one_person(size: int, low: float, width: float, remove: bool) -> None:
    high = low + width
    for pair in standard_pairs(low, high, size, "add/remove" if remove else "replace-one"):
        first, second = pair.first, pair.second
        assert first.min() >= low and first.max() <= high
        if remove:
            assert np.array_equal(first[:-1], second)
        else:
            assert np.array_equal(first[:-1], second[:-1]) and first[-1] != second[-1]


def test_a_value_far_outside_is_only_tried_when_asked_for() -> None:
    assert max(pair.first.max() for pair in standard_pairs(0, 2)) == 2
    assert standard_pairs(0, 2, beyond=True)[-1].first.max() == 22


def outcomes(*sides) -> list[Outcomes]:
    encoder = Encoder()
    return read_outcomes(encoder.forms, *([encoder.encode(x) for x in side] for side in sides))


def test_numbers_stand_in_columns_by_their_place() -> None:
    sides = [[{"a": 1, "b": 2.5}] * 6 + ["x"], [{"b": 3.5}] * 7]
    first, second = outcomes(*sides)
    assert first.paths == ["the answer['b']", "the answer['a']"]
    assert first.numbers[0].tolist() == [2.5, 1.0] and np.isnan(first.numbers[6]).all()
    assert second.numbers[0, 0] == 3.5 and np.isnan(second.numbers[0, 1])
    assert len(set(first.exact) | set(second.exact)) == 3


def test_columns_come_from_the_runs_that_are_learned_from() -> None:
    """Places that only later answers have are no columns: a choice by them would be no choice."""
    first, _ = outcomes([1.0] * 10 + [[1.0, 2.0]] * 20, [1.0] * 30)
    assert first.paths == ["the answer"]


def test_ratios_of_cells_by_hand() -> None:
    first, second = outcomes([7] * 6 + [8] * 2, [7] * 2 + [8] * 6)
    cells = next(one for one in learn(first, second, 0) if one.name == "cells")
    assert cells.ratio.tolist() == pytest.approx([math.log(6.5 / 2.5), math.log(2.5 / 6.5)])
    seen = replace(first, numbers=np.array([[8.0], [99.0]]), form=first.form[:2])
    assert cells.scores(seen).tolist() == [cells.ratio[1], 0.0]
    assert cells.words(0.0, True) == "the answer is 7"


def test_numbers_that_repeat_have_cells_of_their_own() -> None:
    rng = np.random.default_rng(0)
    first, second = outcomes(
        [3.0] * 50 + rng.normal(size=50).tolist(), rng.normal(size=100).tolist()
    )
    cells = next(one for one in learn(first, second, 0) if one.name == "cells")
    seen = replace(first, numbers=np.array([[3.0], [3.0000001]]), form=first.form[:2])
    scores = cells.scores(seen)
    assert scores[0] == pytest.approx(math.log(50.5 / 0.5)) and scores[1] < scores[0]


def test_the_score_of_numbers_follows_them() -> None:
    first, second = outcomes([1.0, 2.0, 3.0] * 2, [2.0, 3.0, "none"] * 2)
    value = next(one for one in learn(first, second, 0) if isinstance(one, Value))
    assert value.scores(second).tolist() == [-2.0, -3.0, -4.0] * 2
    assert value.words(-2.5, True) == "the answer is at most 2.5"
    assert value.words(-2.5, False) == "the answer is at least 2.5"


def test_the_lowest_bit_of_a_number() -> None:
    # 0.1 is 0x1.999999999999ap-4: its last hexadecimal digit, a = 1010, ends at bit 2^-55.
    numbers = np.array([1.0, 0.75, -6.0, 0.1, 0.0, 5e-324, np.nan])
    assert lowest_bits(numbers).tolist() == [0, -2, 1, -55, 9999, -1074, 9999]


def renyi(p: float, q: float, order: float) -> float:
    heads = order * math.log(p) + (1 - order) * math.log(q)
    tails = order * math.log(1 - p) + (1 - order) * math.log(1 - q)
    most = max(heads, tails)
    return (most + math.log(math.exp(heads - most) + math.exp(tails - most))) / (order - 1)


@given(st.floats(0.02, 0.98), st.floats(0.02, 0.98))
@settings(max_examples=40)
def test_rho_is_the_largest_divergence_over_order(p: float, q: float) -> None:
    found = rho_of(np.array([p]), np.array([q]))[0]
    if p <= q:
        assert found == 0.0
        return
    orders = np.geomspace(1.001, 300, 400)
    naive = max(max(renyi(p, q, a), renyi(q, p, a)) / a for a in orders)
    assert found == pytest.approx(naive, rel=2e-3, abs=1e-9)


def test_a_limit_by_hand() -> None:
    """A separation that is perfect proves what Clopper and Pearson allow for so many runs."""
    first, second = outcomes(["a"] * 200, ["b"] * 200)
    found = bound_pair(first, second, Claim(), confidence=0.95, relation="add/remove", seed=0)
    n = bounded_runs(200)
    # Both limits at 2.5 %: p^n = 0.025 and (1 - q)^n = 0.025.
    low = 0.025 ** (1 / n)
    assert n == 100 and found.limit.low == pytest.approx(math.log(low / (1 - low)))
    assert found.shares == (1.0, 0.0)
    assert reach.largest(Claim(), 200, 0.05) == pytest.approx(found.limit.low)


def test_what_chose_the_event_is_not_counted_in_its_limit() -> None:
    """Apart in the half that learns and chooses, alike in the half that is bounded."""
    first, second = outcomes(["a"] * 100 + ["c"] * 100, ["b"] * 100 + ["c"] * 100)
    found = bound_pair(first, second, Claim(), confidence=0.95, relation="add/remove", seed=0)
    assert found.limit.low == 0.0 and found.runs == 100


def test_the_limit_holds_as_often_as_it_says() -> None:
    """Coins of probabilities 3/4 and 1/4: epsilon is ln 3, and 1 in 20 limits may be above it."""
    rng, above, times = np.random.default_rng(0), 0, 150
    for at in range(times):
        sides = ((rng.random(400) < p).tolist() for p in (0.75, 0.25))
        first, second = outcomes(*sides)
        found = bound_pair(first, second, Claim(), confidence=0.95, relation="replace-one", seed=at)
        above += found.limit.low > math.log(3)
        assert found.limit.low > 0.2
    assert above <= binom.ppf(1 - 1e-4, times, 0.05)


def test_successive_answers() -> None:
    rng = np.random.default_rng(0)
    turned = rng.random(2000) < 0.5

    def shared(first, second) -> Estimate | Refusal:
        return reuse([outcomes(first.tolist(), second.tolist())], [turned[: len(first)]], 0.95)

    found = shared(*rng.normal(size=(2, 2000)))
    assert isinstance(found, Estimate) and found.low == 0.0 and found.high < 0.15
    noise = rng.normal(size=2000)
    assert shared(noise, noise + 1).low > 0.99
    walk = np.cumsum(rng.normal(size=4000)).reshape(2, -1, order="F")
    assert shared(*walk).low > 0.9
    assert isinstance(shared(np.repeat("a", 50), np.repeat("b", 50)), Refusal)


def test_power_is_that_of_the_counts() -> None:
    claim, runs, level = Claim("epsilon", 1.0), 600, 0.05
    found = reach.power(claim, 2.0, runs, level)
    rng, hits = np.random.default_rng(9), 0
    for at in range(30):
        first, second = outcomes(
            np.round(rng.laplace(1, 0.5, runs), 6).tolist(),
            np.round(rng.laplace(0, 0.5, runs), 6).tolist(),
        )
        limit = bound_pair(
            first, second, claim, confidence=1 - level, relation="add/remove", seed=at
        ).limit
        hits += limit.low > 1.0
    # Choosing the event costs a little against the best one.
    assert binom.cdf(hits, 30, found.low - 0.1) > 1e-3
    assert reach.power(claim, 1.0, runs, level).value < 0.05
    less = reach.smallest(claim, runs, level)
    assert 1.5 < less < 3.0 and reach.power(claim, less, runs, level).value >= 0.94
    assert reach.runs_needed(claim, level) <= runs
    assert reach.runs_needed(Claim("epsilon", 1.0, 1e-5), level) > 30_000
    assert reach.smallest(Claim("epsilon", 50.0), 100, level) is None


def test_seeds_reach_the_mechanism_by_name_or_place() -> None:
    pair = users_pairs(lambda: [([1], [2])], "p")[0]
    seen: list[int] = []

    def by_name(data, scale=3.0, *, seed=None):
        seen.append(seed)
        return scale

    run_trials(by_name, pair, 50, 0)
    assert len(set(seen)) == 100

    def numbers(mechanism, runs: int, seed: int) -> list[float]:
        return [np.frombuffer(x.numbers)[0] for x in run_trials(mechanism, pair, runs, seed).first]

    assert numbers(lambda data, any_name: any_name, 5, 1) != [0] * 5
    assert numbers(lambda data, scale=2.0: scale, 2, 1) == [2.0, 2.0]
    assert answer_once(len, [1, 2]) == 2
    state = np.random.get_state()[1].copy()
    drawn = [numbers(lambda data: np.random.random(), 3, 7) for _ in range(2)]
    assert drawn[0] == drawn[1] and np.array_equal(state, np.random.get_state()[1])
