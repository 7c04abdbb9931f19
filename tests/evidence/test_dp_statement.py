"""The label that a DP-SGD training earns, and how it drops when a condition is broken."""

import math

import numpy as np
import pytest

from lethe.errors import InputError
from lethe.evidence.accounting import dp_sgd_epsilon
from lethe.evidence.dp_statement import DpSgdRun, dp_statement
from lethe.evidence.gdp import gdp_epsilon


def epsilon(sigma, rate, steps, **others):
    return dp_sgd_epsilon(
        noise_multiplier=sigma,
        sampling_rate=rate,
        steps=steps,
        delta=1e-5,
        sensitivity=1.0,
        **others,
    )


def run(**changes):
    told = {
        "noise_multiplier": 1.0,
        "sampling_rate": 0.02,
        "steps": 200,
        "delta": 1e-5,
        "records": 5000,
        "sensitivity": 1.0,
    }
    return DpSgdRun(**{**told, **changes})


def test_a_clean_run_is_proven_and_says_what_it_assumes():
    made = dp_statement(run())
    assert made.guarantee.kind == "approx-dp" and made.guarantee.proven and not made.dropped
    assert made.guarantee.parameters["epsilon"] == epsilon(1.0, 0.02, 200)
    assert made.guarantee.relation == "add/remove" and made.guarantee.unit == "record"
    assert any("floating point" in word for word in made.guarantee.assumptions)
    assert made.guarantee.voided_by
    assert str(made).startswith("approx-dp: epsilon = ")
    users = dp_statement(run(unit="user", relation="replace-one")).guarantee
    assert (users.unit, users.relation) == ("user", "replace-one")
    assert users.parameters["epsilon"] == epsilon(1.0, 0.02, 200, relation="replace-one")


@pytest.mark.parametrize("sampling", ["shuffled", "fixed-size"])
def test_other_samplers_lose_amplification(sampling):
    made = dp_statement(run(sampling=sampling))
    assert made.guarantee.kind == "approx-dp"
    squares = 5 * 4 if sampling == "shuffled" else 4 * 200
    assert made.guarantee.parameters["epsilon"] == pytest.approx(
        gdp_epsilon(math.sqrt(squares), 1e-5)
    )
    assert made.guarantee.parameters["epsilon"] > 5 * epsilon(1.0, 0.02, 200)
    assert any("without amplification" in reason for reason in made.dropped)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"sampling": "weighted"}, "weighted"),
        ({"delta": 1 / 5000}, "1/5000"),
        ({"delta": 0.1}, "1/5000"),
        ({"delta": 1 / 49, "records": 49}, "1/49"),  # times 49 that is a little below 1
        ({"weights": np.full(5000, 0.5), "weights_from": "private"}, "private data"),
        ({"tuning": "uncounted"}, "not counted"),
        ({"batch_norm": True}, "batch normalisation"),
        ({"noise_multiplier": 0.0}, "no noise"),
    ],
)
def test_a_broken_condition_ends_the_proof_and_is_named(change, word):
    made = dp_statement(run(**change))
    assert made.guarantee.kind == "empirical-only" and not made.guarantee.proven
    assert "epsilon" not in made.guarantee.parameters and made.epsilons is None
    assert len(made.dropped) == 1 and word in made.dropped[0]
    assert made.guarantee.voided_by[:1] == made.dropped
    assert word in str(made) and str(made).startswith("empirical-only: no epsilon")


def test_all_broken_conditions_are_named_together():
    made = dp_statement(run(batch_norm=True, tuning="uncounted", delta=0.01))
    assert len(made.dropped) == 3


def test_counted_trainings_are_charged():
    made = dp_statement(run(tuning="counted", runs=5, steps=40)).guarantee
    assert made.parameters["epsilon"] == (whole := epsilon(1.0, 0.02, 200))
    assert any("5 trainings" in word for word in made.assumptions)
    own = dp_statement(run(tuning="counted", runs=5, steps=40, weights=np.ones(9), records=9))
    assert own.guarantee.parameters["epsilon"] == pytest.approx(whole, rel=2.5e-3)
    # A last epoch that is cut short counts in each training: 75 steps are two epochs, not 1.5.
    cut = dp_statement(run(sampling="shuffled", steps=75, runs=2)).guarantee
    assert cut.parameters["epsilon"] == pytest.approx(gdp_epsilon(math.sqrt(5 * 4), 1e-5))


def test_public_weights_give_each_record_its_own():
    weights = np.linspace(0.1, 0.8, 6)
    made = dp_statement(run(weights=weights, records=6, delta=1e-5))
    assert made.guarantee.kind == "individual-dp" and made.guarantee.proven
    assert made.epsilons is not None and made.epsilons.shape == (6,)
    assert made.guarantee.parameters["epsilon"] == made.epsilons.max()
    assert made.epsilons.max() == pytest.approx(epsilon(1.0 / 0.8, 0.02, 200), rel=2.5e-3)
    assert made.guarantee.parameters["epsilon_min"] == made.epsilons.min() < made.epsilons.max()
    assert "at most" in str(made)


def test_what_nobody_can_check_is_among_the_assumptions():
    words = " ".join(dp_statement(run()).guarantee.assumptions)
    assert "fixed in advance" in words
    counted = dp_statement(run(tuning="counted", runs=2)).guarantee
    assert "fixed in advance" not in " ".join(counted.assumptions)
    assert any("choice among several" in word for word in counted.voided_by)
    weights = np.full(30, 0.5)
    own = dp_statement(run(weights=weights, records=30)).guarantee
    assert any("public data alone" in word for word in own.assumptions)
    assert not any("same weight" in word for word in own.assumptions)
    replaced = dp_statement(run(weights=weights, records=30, relation="replace-one")).guarantee
    assert any("same weight" in word for word in replaced.assumptions)


def test_weights_without_poisson_drop_to_one_epsilon_for_all():
    weights = np.linspace(0.1, 0.8, 30)
    made = dp_statement(run(weights=weights, records=30, sampling="shuffled"))
    assert made.guarantee.kind == "approx-dp" and made.epsilons is None
    assert made.guarantee.parameters["epsilon"] == pytest.approx(
        gdp_epsilon(0.8 * math.sqrt(5 * 4), 1e-5)
    )
    assert len(made.dropped) == 2
    replaced = dp_statement(
        run(weights=weights, records=30, sampling="shuffled", relation="replace-one")
    )
    assert replaced.guarantee.kind == "individual-dp"
    assert replaced.epsilons[-1] == pytest.approx(gdp_epsilon(0.8 * math.sqrt(4 * 4), 1e-5))


@pytest.mark.parametrize(
    "change",
    [
        {"delta": None},
        {"records": 0},
        {"runs": 0},
        {"steps": 0},
        {"noise_multiplier": -1.0},
        {"tuning": "some"},
        {"unit": "query"},
        {"relation": "none"},
        {"weights": np.ones(3)},
        {"weights": np.full(5000, 1.5)},
    ],
)
def test_a_run_that_cannot_have_been_is_refused(change):
    with pytest.raises(InputError):
        dp_statement(run(**change))
