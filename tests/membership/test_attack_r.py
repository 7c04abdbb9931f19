"""Attack R: ranks among OUT models, against a loop over targets."""

import numpy as np
import pytest
from simulated import paired, signals

from lethe.membership.attacks.rmia import attack_r
from lethe.training.design import partners


def naive(phi, members):
    """One target and one record after the other, in a design of complementary pairs."""
    partner = partners(members)
    scores = np.full(phi.shape, np.nan)
    for target in range(len(phi)):
        for record in range(phi.shape[1]):
            others = [
                k
                for k in range(len(phi))
                if k not in (target, partner[target]) and not members[k, record]
            ]
            if others:
                own, seen = phi[target, record], phi[others, record]
                scores[target, record] = np.mean((seen < own) + (seen == own) / 2)
    return scores


@pytest.mark.parametrize("models", [4, 6, 10])
@pytest.mark.parametrize("digits", [0, 8])
def test_all_targets_at_once_as_a_loop_would(models, digits):
    """With signals rounded to whole numbers most of them tie."""
    members = paired(models, 60, 3)
    phi = np.round(signals(members, 3, 1.0), digits)
    assert attack_r(phi, members) == pytest.approx(naive(phi, members))
