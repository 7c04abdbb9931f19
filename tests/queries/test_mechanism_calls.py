"""The order of an audit's calls tells nothing; noise that is used again is told from clocks."""

import datetime
import math
import time

import numpy as np
import pytest

from lethe.evidence.estimate import Estimate
from lethe.queries.mechanism_audit.audit import audit_mechanism, study
from lethe.queries.mechanism_audit.neighbours import Pair
from lethe.queries.mechanism_audit.runs import run_trials
from lethe.queries.mechanism_audit.settings import MOST, Claim, MechanismSettings
from lethe.report.of_answers import Mechanism

PAIR = Pair("one more", [1] * 8, [1] * 7)
CLAIM = Claim("epsilon", 1.0)


def noise(seed: int) -> int:
    rng, stop = np.random.default_rng(seed), -math.expm1(-1)
    return int(rng.geometric(stop) - rng.geometric(stop))


def letters(seed: int) -> str:
    return "ID-" + "".join(np.random.default_rng(seed).choice(list("ABCDEFGH"), size=12))


# Each gets the number of the call and a seed, and looks at no data.
BESIDE = {
    "number of the call": lambda call, seed: call,
    "remainder of the call by 3": lambda call, seed: call % 3,
    "number of the call as text": lambda call, seed: f"req-{call:x}",
    "letters that count": lambda call, seed: "".join(
        chr(97 + call // 26**place % 26) for place in (2, 1, 0)
    ),
    "time of day": lambda call, seed: datetime.datetime.now().isoformat(),
    "seconds since a moment": lambda call, seed: time.perf_counter(),
    "random text": lambda call, seed: letters(seed),
    "first call": lambda call, seed: call == 1,
}


def counting(answer):
    """A mechanism whose answer knows how many calls there were."""
    calls = [0]

    def mechanism(data, seed):
        calls[0] += 1
        return answer(calls[0], len(data), seed)

    return mechanism


@pytest.mark.parametrize("name", BESIDE)
def test_what_counts_calls_accuses_no_right_mechanism(name: str) -> None:
    def answer(call: int, people: int, seed: int):
        return {"beside": BESIDE[name](call, seed), "count": people + noise(seed)}

    found = study(counting(answer), [PAIR], MechanismSettings(runs=700))
    assert found.limit.low <= 1.0, found.worst.found.event
    assert isinstance(found.reuse, Estimate) and found.reuse.low <= MOST
    assert found.reuse.high <= MOST or "time" in name or "moment" in name


@pytest.mark.parametrize("name", BESIDE)
def test_what_looks_at_no_data_fails_no_rule(name: str) -> None:
    mechanism = counting(lambda call, people, seed: BESIDE[name](call, seed))
    findings = audit_mechanism(mechanism, [PAIR], MechanismSettings(CLAIM, runs=400))
    assert findings.verdict["outcome"] != "fail"


def test_the_order_of_the_inputs_is_drawn() -> None:
    order: list[int] = []
    trials = run_trials(lambda data: order.append(len(data)), PAIR, 2000, seed=3)
    calls = np.reshape(order, (-1, 2))
    assert (calls.sum(axis=1) == 15).all()  # runs stay paired
    assert np.array_equal(calls[:, 0] == 7, trials.turned)
    again = list(order)
    order.clear()
    run_trials(lambda data: order.append(len(data)), PAIR, 2000, seed=3)
    assert order == again
    for period in (1, 2, 3, 4, 7, 50):
        for place in range(period):
            share = trials.turned[place::period]
            assert abs(share.mean() - 0.5) < 4.5 * 0.5 / math.sqrt(len(share))


def kept(every: int, offset: int = 0):
    """Noise that serves several calls."""
    held = [0.0]

    def drawn(call: int, seed: int) -> float:
        if (call + offset) % every == 0 or call == 1:
            held[0] = round(float(np.random.default_rng(seed).laplace()), 3)
        return held[0]

    return drawn


def reused():
    twice, later, often = kept(2, 1), kept(2), kept(50)
    held = [""]

    def text(call: int, seed: int) -> str:
        held[0] = letters(seed) if call % 2 else held[0]
        return held[0]

    return {
        "the same noise twice": lambda call, people, seed: people + twice(call, seed),
        "twice, beside a clock": lambda call, people, seed: {
            "time": datetime.datetime.now().isoformat(),
            "count": round(people + twice(call, seed), 3),
        },
        "twice, in the text of a clock": lambda call, people, seed: (
            f"{datetime.datetime.now().isoformat()} count {people + twice(call, seed):.3f}"
        ),
        "twice, beside fresh noise": lambda call, people, seed: [
            noise(seed),
            round(people + twice(call, seed), 3),
        ],
        "twice, from the second call on": lambda call, people, seed: people + later(call, seed),
        "fifty times": lambda call, people, seed: round(people + often(call, seed), 3),
        "a counter as noise": lambda call, people, seed: people + call,
        "noise of both signs": lambda call, people, seed: round(
            people + twice(call, seed) * (-1) ** call, 3
        ),
        "random text twice": lambda call, people, seed: text(call, seed),
    }


@pytest.mark.parametrize("name", reused())
def test_noise_that_is_used_again_fails_and_the_words_say_so_first(name: str) -> None:
    mechanism = counting(reused()[name])
    findings = audit_mechanism(mechanism, [PAIR], MechanismSettings(CLAIM, runs=500))
    (rule,) = (rule for rule in findings.rules if rule["rule"].startswith("reuse"))
    assert findings.verdict["outcome"] == rule["outcome"] == "fail"
    words = findings.verdict["words"]
    contradicted = "contradicts" in " ".join(words)
    assert "share their noise" in words[int(contradicted)]
    assert findings.queries["mechanism"]["limit"]["low"] <= 1.0 or contradicted
    head = Mechanism(findings.to_json()).worst(None)
    assert ("share their noise" in head.headline) is not contradicted


def test_no_number_of_runs_is_promised_where_answers_hardly_vary() -> None:
    """A right thresholded set: one key comes in 1 of 1,000 answers."""

    def mechanism(data, seed):
        return {key for key in set(data) if data.count(key) + noise(seed) > 1 + math.log(1000)}

    pair = Pair("one key of one person", ["a"] * 20 + ["b"], ["a"] * 20)
    settings = MechanismSettings(Claim("epsilon", 1.0, 1e-3), runs=1500)
    findings = audit_mechanism(mechanism, [pair], settings)
    assert findings.verdict["outcome"] == "not-enough-evidence"
    assert "runs on each input would" not in " ".join(findings.verdict["words"])
    assert "none could have been seen" not in " ".join(findings.verdict["words"])
