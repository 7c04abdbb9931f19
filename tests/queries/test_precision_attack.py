"""The bits of an answer: textbook noise fails, every mechanism here passes."""

import numpy as np
import pytest
from lattice_units import RECORD, units_of
from precision_attack import has_fine_bits, precision_attack

from lethe.queries.aggregates.counts import noisy_count
from lethe.queries.aggregates.moments import noisy_mean, noisy_sum, noisy_variance
from lethe.queries.lattice import Lattice
from lethe.queries.privacy import Spend

UNIT = Lattice(0, 1)
COARSE = Lattice(0, 1, 2**12)
RHO, MU = 0.125, 0.5
GAUSSIAN = {"epsilon": 2.0, "delta": 1e-4}


def _units(value: float, lattice: Lattice) -> tuple[int, int]:
    unit = units_of(lattice, [value])[0]
    return unit, unit**2


MECHANISMS = {
    "discrete laplace": (
        lambda v: noisy_count(int(v), Spend(epsilon=1.0), RECORD),
        {"epsilon": 1.0},
    ),
    "discrete gaussian": (
        lambda v: noisy_count(int(v), Spend(rho=RHO), RECORD),
        {"epsilon": 2.0, "delta": 0.01},
    ),
    "count mu": (
        lambda v: noisy_count(int(v), Spend(mu=MU), RECORD),
        {"epsilon": 2.0, "delta": 0.01},
    ),
    "count delta": (lambda v: noisy_count(int(v), Spend(**GAUSSIAN), RECORD), GAUSSIAN),
    "sum": (
        lambda v: noisy_sum(1, _units(v, UNIT)[0], UNIT, Spend(epsilon=1.0), RECORD),
        {"epsilon": 1.0},
    ),
    # one row at 0 or at 1: replacing costs twice what adding or removing does
    "mean": (
        lambda v: noisy_mean(1, _units(v, UNIT)[0], UNIT, Spend(epsilon=1.0), RECORD),
        {"epsilon": 2.0},
    ),
    "variance": (
        lambda v: noisy_variance(1, *_units(v, COARSE), COARSE, Spend(epsilon=1.0), RECORD),
        {"epsilon": 2.0},
    ),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_bits_tell_no_more_than_was_claimed(name):
    build, claim = MECHANISMS[name]
    runs = 1500 if name in ("count mu", "count delta") else 500
    found = precision_attack(lambda value: float(build(value).value), runs=runs, **claim)
    assert not found.broken, found


def test_textbook_noise_is_caught():
    rng = np.random.default_rng(0)
    laplace = precision_attack(lambda v: v + rng.laplace(0, 1), epsilon=1.0, runs=2000)
    assert laplace.broken
    assert 0.2 < laplace.at_zero.value < 0.3
    assert laplace.at_one.value == 0
    normal = precision_attack(lambda v: v + rng.normal(), epsilon=2.0, delta=1e-3, runs=2000)
    assert normal.broken


@pytest.mark.parametrize(("number", "fine"), [(0.0, False), (1 + 2**-52, False), (2.0**-54, True)])
def test_fine_bits_by_hand(number, fine):
    assert has_fine_bits(number) == fine
