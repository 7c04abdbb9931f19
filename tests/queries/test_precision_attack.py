"""The bits of an answer: textbook noise fails, every mechanism here passes.

Floating-point numbers near 0 have finer bits than those near 1. A sampler that adds ordinary
floating-point noise to the exact value hands out an answer with bits finer than 2^-53 only where
the value was 0: one such answer tells which (Mironov 2012).
"""

import math

import numpy as np
import pytest
from lattice_units import RECORD, noisy, units_of

from lethe.evidence.intervals import clopper_pearson
from lethe.queries.aggregates.counts import noisy_count
from lethe.queries.aggregates.moments import Mean, Sum, Variance
from lethe.queries.lattice import Lattice
from lethe.queries.mechanism_audit.events import lowest_bits
from lethe.queries.privacy import Spend

FINEST = -53  # an exponent of two
UNIT = Lattice(0, 1)
COARSE = Lattice(0, 1, 2**12)
GAUSSIAN = {"epsilon": 2.0, "delta": 1e-4}


def _units(value, lattice):
    unit = units_of(lattice, [value])[0]
    return unit, unit**2


# Of one row at 0 or at 1 replacing costs twice what adding or removing does.
MECHANISMS = {
    "discrete laplace": (lambda v: noisy_count(int(v), Spend(epsilon=1.0), RECORD), (1.0, 0.0)),
    "discrete gaussian": (lambda v: noisy_count(int(v), Spend(rho=0.125), RECORD), (2.0, 0.01)),
    "count mu": (lambda v: noisy_count(int(v), Spend(mu=0.5), RECORD), (2.0, 0.01)),
    "count delta": (lambda v: noisy_count(int(v), Spend(**GAUSSIAN), RECORD), (2.0, 1e-4)),
    "sum": (lambda v: noisy(Sum, 1, _units(v, UNIT)[:1], [UNIT], Spend(epsilon=1.0)), (1.0, 0.0)),
    "mean": (lambda v: noisy(Mean, 1, _units(v, UNIT)[:1], [UNIT], Spend(epsilon=1.0)), (2.0, 0.0)),
    "variance": (
        lambda v: noisy(Variance, 1, _units(v, COARSE), [COARSE], Spend(epsilon=1.0)),
        (2.0, 0.0),
    ),
}


def broken(mechanism, runs, epsilon, delta):
    """Whether shares of finer bits at 0 and at 1 contradict the claim; a right one 1 in 10^6."""
    drawn = (np.array([float(mechanism(v)) for _ in range(runs)]) for v in (0.0, 1.0))
    fine = [int((lowest_bits(numbers) < FINEST).sum()) for numbers in drawn]
    ends = [clopper_pearson(count, runs, 1 - 5e-7) for count in fine]
    return any(
        more.low > math.exp(epsilon) * less.high + delta for more, less in (ends, ends[::-1])
    )


@pytest.mark.parametrize("name", MECHANISMS)
def test_bits_tell_no_more_than_was_claimed(name):
    build, claim = MECHANISMS[name]
    assert not broken(lambda value: build(value).value, 250, *claim)


@pytest.mark.parametrize(
    ("law", "claim"), [("laplace", (1.0, 0.0)), ("normal", (2.0, 1e-3))], ids=str
)
def test_textbook_noise_is_caught(law, claim):
    draw = getattr(np.random.default_rng(0), law)
    assert broken(lambda value: value + draw(), 2000, *claim)
