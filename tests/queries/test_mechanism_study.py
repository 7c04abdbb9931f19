"""The audit on mechanisms of which it is known whether they are right."""

import math
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from benchmark_modules import benchmark
from scipy.stats import binom

from lethe.errors import InputError, NotMeasurable
from lethe.evidence.estimate import Estimate
from lethe.evidence.of_answers import OddAnswer
from lethe.queries.mechanism_audit.audit import Study, study
from lethe.queries.mechanism_audit.neighbours import Pair, standard_pairs
from lethe.queries.mechanism_audit.settings import MOST, Claim, MechanismSettings

CASES = benchmark("known_mechanisms")
LONGER = {
    "threshold one too low": 3_000,
    "sparse vector 3, tells the answer": 6_000,
    "sparse vector 4, noise not by the cut-off": 3_000,
    "sparse vector 6, no cut-off": 2_500,
}


def audited(known, seed: int, less: float = 1.0, runs: int = 500) -> Study:
    mechanism = known.make(np.random.default_rng(seed), less)
    measure = replace(known.claim, value=None)  # without a claim nothing is planted, which is slow
    settings = MechanismSettings(measure, known.relation, runs, seed=seed)
    return study(mechanism, known.pairs, settings)


def shares_noise(found: Study) -> bool:
    return isinstance(found.reuse, Estimate) and found.reuse.low > MOST


@pytest.mark.parametrize("name", ["Laplace", "discrete Laplace", "randomized response"])
def test_right_mechanisms_are_seldom_flagged_and_half_the_noise_is(name: str) -> None:
    known, times = CASES.KNOWN[name], 20
    flags = sum(audited(known, seed, runs=200).limit.low > 1.0 for seed in range(times))
    # If 5 % were flagged, more than this happens once in 10,000 seeds.
    assert flags <= binom.ppf(1 - 1e-4, times, 0.05)
    found = sum(audited(known, seed, 2.0, 200).limit.low > 1.0 for seed in range(10))
    assert found >= binom.ppf(1e-4, 10, 0.95)


@pytest.mark.parametrize("name", ["Gaussian, mu", "Gaussian, rho", "exponential"])
def test_other_measures_and_categories(name: str) -> None:
    known = CASES.KNOWN[name]
    right, half = (audited(known, 1, less, 1000).limit for less in (1.0, 2.0))
    assert right.low <= known.claim.value < half.low


def test_several_numbers_at_once_are_scored_together() -> None:
    known = CASES.KNOWN["histogram of three cells"]
    pair = Pair("all move", np.array([0, 1, 2.0]), np.array([0, 0, 0.0]))
    found = study(
        known.make(np.random.default_rng(1), 1.0),
        [pair],
        MechanismSettings(Claim("epsilon", 1.0), runs=1500),
    )
    # The cells move by 2, 1 and 1: 4-DP for this pair, and no single cell shows more than 2.
    assert 2.0 < found.limit.low <= 4.0


@pytest.mark.parametrize("name", [name for name in CASES.WRONG if "private" not in name])  # below
def test_wrong_mechanisms_are_flagged(name: str) -> None:
    known = CASES.WRONG[name]
    found = audited(known, 3, runs=LONGER.get(name, 500))
    if name == "the same noise twice":
        assert shares_noise(found) and found.limit.low <= known.claim.value
    else:
        assert found.limit.low > known.claim.value


def test_plain_floating_point_noise_is_flagged_and_opendps_is_not() -> None:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    noise = dp.m.make_laplace(
        dp.atom_domain(T=float, nan=False), dp.absolute_distance(T=float), scale=1.0
    )
    pair, settings = Pair("nobody", np.ones(0), np.ones(1)), MechanismSettings(runs=1000)
    rng = np.random.default_rng(0)
    plain = study(lambda data: float(data.sum()) + rng.laplace(), [pair], settings)
    assert plain.limit.low > 1.5 and "lowest bit" in plain.worst.found.event
    # Drawn from the system's entropy: a limit above the truth is far rarer than 1 in 20.
    assert study(lambda data: noise(float(data.sum())), [pair], settings).limit.low <= 1.05


def test_what_never_varies_is_told() -> None:
    found = audited(CASES.WRONG["the same seed each time"], 0, runs=200)
    assert found.repeats
    constant = study(lambda data: 1.0, [Pair("any", [1], [2])], MechanismSettings(runs=200))
    assert not constant.repeats and constant.limit.low == 0.0


def test_errors_and_nan_are_answers() -> None:
    def mechanism(data: list[float]) -> float:
        if not data:
            raise ZeroDivisionError
        return math.nan if data[0] > 1 else 0.0

    pairs = [Pair("empty", [1.0], []), Pair("NaN", [1.0], [2.0])]
    found = study(mechanism, pairs, MechanismSettings(runs=300))
    assert [one.found.limit.low > 2 for one in found.measured] == [True, True]
    assert found.measured[0].others == [OddAnswer("raises ZeroDivisionError", [0.0, 1.0])]
    assert found.measured[1].others == [OddAnswer("nan", [0.0, 1.0])]


def test_the_same_seed_gives_the_same_study_and_the_data_are_not_touched() -> None:
    def mechanism(data, seed):
        data[0] = 5.0  # a mechanism that spoils its input
        return data.sum() + np.random.default_rng(seed).laplace() + np.random.random() / 8

    pair = Pair("two", np.array([1.0, 0.0]), np.array([0.0, 0.0]))
    settings = MechanismSettings(runs=200, seed=4)
    first, second = (study(mechanism, [pair], settings) for _ in range(2))
    assert first.limit == second.limit and pair.first[0] == 1.0
    other = study(mechanism, [pair], MechanismSettings(runs=200, seed=5))
    assert other.reuse != first.reuse


def test_noise_that_follows_the_private_number_shows_on_tiny_tables() -> None:
    """Of ten people one more or fewer hardly moves it; of one, two or three it does."""
    make = CASES.PRIVATE_NUMBER["a mean, noise by the private number"]
    settings = MechanismSettings(Claim("epsilon", 1.0), runs=1200, seed=0)
    pairs = standard_pairs(0, 1)
    assert {len(pair.second) for pair in pairs} == {0, 1, 2, 9}
    mechanism = make(np.random.default_rng([0, 1]), 1.0)
    found = study(mechanism, pairs, settings)
    lows = {1: 0.0, 2: 0.0, 3: 0.0, 10: 0.0}
    for one in found.measured:
        size = len(one.pair.first)
        lows[size] = max(lows[size], one.found.limit.low)
    assert lows[10] < 1.0 and lows[1] < 1.0  # the pairs that were tried before
    assert lows[2] > 1.0 and found.limit.low == max(lows.values())
    # The budget is split: every pair has its share of the 5 %, and says so.
    assert found.limit.confidence == pytest.approx(1 - 0.05 / len(pairs))
    assert f"highest of {len(pairs)} pairs, Bonferroni" in found.limit.method


@pytest.mark.parametrize(
    ("mechanism", "pairs", "said"),
    [
        (lambda data: 1 / 0, [Pair("x", [1], [2])], "ZeroDivisionError"),
        (lambda data: sys.exit(0), [Pair("x", [1], [2])], "it exits with 0"),
        (lambda data: threading.Lock(), [Pair("x", [1], [2])], "expected a number, a category"),
        (lambda data: lambda: data, [Pair("x", [1], [2])], "it may hold anything"),
        (lambda data: type("Made", (), {"n": data})(), [Pair("x", [1], [2])], "anew in each call"),
        (lambda a, b, c: 1, [Pair("x", [1], [2])], r"takes 3 arguments"),
        (lambda data: 1, [], "no neighbouring inputs"),
    ],
)
def test_what_cannot_be_audited_is_refused(mechanism, pairs, said: str) -> None:
    with pytest.raises(InputError, match=said):
        study(mechanism, pairs, MechanismSettings(runs=100))


def test_too_few_runs_for_a_delta_are_refused() -> None:
    settings = MechanismSettings(Claim("epsilon", 1.0, 0.99), runs=100)
    with pytest.raises(NotMeasurable, match="run more trials"):
        study(lambda data: 1, [Pair("x", [1], [2])], settings)
