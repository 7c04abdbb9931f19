"""The loss-trajectory attack: against plain loops, silent on null signals, beyond the end."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import DESIGNS, balanced, paired

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership import trajectory as module
from lethe.membership.logistic import fit_logistic
from lethe.membership.scoring import score_all
from lethe.membership.trajectory import trajectory_scores
from lethe.training.design import partners


def pairs(members):
    partner, alone = partners(members), np.arange(len(members))
    return np.where(partner >= 0, np.minimum(partner, alone), alone)


def null_sd(members):
    inside = members.sum()
    return math.sqrt((members.size + 1) / (12 * inside * (members.size - inside)))


def course(members, seed=0, gap=(0.0, 0.4, 0.8), record_sd=2.0):
    """(K, N, E): each epoch has noise of its own, the record's effect stays."""
    rng = np.random.default_rng([seed, 1])
    record = record_sd * rng.normal(size=members.shape[1])
    epochs = [record + g * members + rng.normal(size=members.shape) for g in gap]
    return np.stack(epochs, axis=2).astype(np.float32)


def test_deviations_equal_plain_loops():
    members = paired(8, 30, 1)
    phi = course(members, 1)
    known, table = module._standardised(phi, members, 0)
    assert known.all()
    partner = partners(members)
    for target in (0, 5):
        rest = [k for k in range(8) if k not in (target, partner[target])]
        for epoch in range(3):
            cells = [phi[[k for k in rest if not members[k, j]], j, epoch] for j in range(30)]
            squares = np.array([((c - c.mean()) ** 2).sum() for c in cells])
            pooled = squares.sum() / sum(len(c) - 1 for c in cells)
            for record, cell in enumerate(cells):
                sd = math.sqrt((squares[record] + 4 * pooled) / (len(cell) - 1 + 4))
                expected = (phi[target, record, epoch] - cell.mean()) / sd
                assert table[target, record, epoch] == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_inputs_are_deviations_and_their_bounded_squares():
    assert module._inputs(np.array([[2.0, -9.0]])).tolist() == [[2.0, -9.0, 4.0, 25.0]]


@pytest.mark.parametrize("models", range(4, 13))
@pytest.mark.parametrize("design", DESIGNS)
def test_null_signals_give_half(design, models):
    if design == "nearly balanced" and models % 2 == 0:
        pytest.skip("that is for odd numbers")
    found = []
    for seed in range(3):
        members = DESIGNS[design](models, 600, seed)
        phi = course(members, seed, (0.0, 0.0))
        try:
            score = trajectory_scores(phi, members, pairs(members), seed)
        except InputError:
            assert models < 8
            return
        known = ~np.isnan(score)
        found.append((auc(members[known], score[known]) - 0.5) / null_sd(members[known]))
    # Shared references widen the null to about 1.5: the mean of three is within 4 of its sd.
    assert abs(np.mean(found)) < 4 * 1.5 / math.sqrt(3)


def test_null_signals_give_half_over_many_audits():
    found = []
    for seed in range(60):
        members = paired(8, 200, seed)
        score = trajectory_scores(course(members, seed, (0.0, 0.0)), members, pairs(members), seed)
        found.append((auc(members, score) - 0.5) / null_sd(members))
    assert abs(np.mean(found)) < 3 * np.std(found) / math.sqrt(60)


def test_the_course_says_more_than_its_end():
    members = paired(16, 2000, 3)
    phi = course(members, 3)
    score = trajectory_scores(phi, members, pairs(members))
    end = score_all(phi[:, :, -1], members, ("lira-offline",))["lira-offline"]
    assert auc(members, score) > auc(members, end) + 4 * null_sd(members)
    assert auc(members, score) > 0.6


def test_the_regression_never_hears_of_its_half(monkeypatch):
    members = paired(8, 100, 1)
    phi = course(members, 1)
    taught = []

    def spy(inputs, member, weights):
        fit = fit_logistic(inputs, member, weights)
        taught.append(fit.weights)
        return fit

    monkeypatch.setattr(module, "fit_logistic", spy)
    trajectory_scores(phi, members, pairs(members))
    fold = module.folds(pairs(members), 2, 0)
    changed, moved = members.copy(), phi.copy()
    changed[:2] ^= np.random.default_rng(0).random(100) < 0.5
    moved[:2] += 3 * changed[:2, :, None]
    trajectory_scores(moved, changed, pairs(members))
    for own in range(2):
        assert np.array_equal(taught[own], taught[2 + own]) == (own == fold[0])


def test_shift_and_scale_of_an_epoch_change_nothing():
    members = paired(8, 100, 2)
    phi = course(members, 2).astype(np.float64)
    one = trajectory_scores(phi, members, pairs(members))
    other = trajectory_scores(phi * [1, 10, 0.1] + [5, 0, -3], members, pairs(members))
    np.testing.assert_allclose(other, one, rtol=1e-3, atol=1e-3)


def test_few_cells_are_drawn_by_the_seed():
    members = paired(8, 300, 2)
    phi = course(members, 2)
    one, same, other = (
        trajectory_scores(phi, members, pairs(members), seed, cells=200) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same) and not np.array_equal(one, other)


def test_an_epoch_before_training_may_be_constant():
    members = paired(8, 100, 2)
    phi = course(members, 2)
    phi[:, :, 0] = 1.5
    assert auc(members, trajectory_scores(phi, members, pairs(members))) > 0.55


def test_refusals():
    members = paired(8, 20, 1)
    phi, groups = course(members), pairs(members)
    with pytest.raises(InputError, match=r"signals has shape \(8, 20\); it must be \(models, rec"):
        trajectory_scores(phi[:, :, 0], members, groups)
    bad = phi.copy()
    bad[3, 4, 1] = np.inf
    with pytest.raises(InputError, match="signals at models 3, records 4, epochs 1 is inf"):
        trajectory_scores(bad, members, groups)
    with pytest.raises(InputError, match="constant signals cannot show membership"):
        trajectory_scores(np.ones_like(phi), members, groups)
    with pytest.raises(InputError, match=r"members is bool \(8, 19\)"):
        trajectory_scores(phi, members[:, 1:], groups)
    with pytest.raises(InputError, match=r"groups has shape \(7,\)"):
        trajectory_scores(phi, members, groups[:7])
    with pytest.raises(InputError, match="1 group of targets"):
        trajectory_scores(phi, members, np.zeros(8, int))
    with pytest.raises(InputError, match="0 of 0 cells .* use more models, at least 8"):
        trajectory_scores(phi[:4], members[:4], groups[:4])
    few = balanced(2, 20)
    with pytest.raises(InputError, match="leave no IN and OUT reference"):
        trajectory_scores(course(few), few, np.arange(2))
