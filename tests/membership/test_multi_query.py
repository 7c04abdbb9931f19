"""Multi-query LiRA: LiRA itself for one query, plain loops for several."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from simulated import DESIGNS, gaps, paired, signals

from lethe.errors import InputError
from lethe.evidence.roc import auc
from lethe.membership.attacks.lira import PER_RECORD_FROM
from lethe.membership.multi_query import COVARIANCES, multi_query_scores
from lethe.membership.scoring import score_all
from lethe.training.design import partners


def null_sd(members):
    inside = members.sum()
    return math.sqrt((members.size + 1) / (12 * inside * (members.size - inside)))


def queries(members, count=3, seed=0, gap=0.0, shared=0.0, record_sd=1.0):
    """(K, N, A): noise of which a share is common to the queries of a model and record."""
    rng = np.random.default_rng([seed, 2])
    common = math.sqrt(shared) * rng.normal(size=members.shape)
    own = math.sqrt(1 - shared) * rng.normal(size=(*members.shape, count))
    base = record_sd * rng.normal(size=members.shape[1]) + gap * members + common
    return (base[:, :, None] + own).astype(np.float32)


@pytest.mark.parametrize("covariance", COVARIANCES)
@pytest.mark.parametrize("rule", ["auto", "pooled", "per-record"])
@pytest.mark.parametrize("design", DESIGNS)
def test_one_query_is_lira_exactly(design, rule, covariance):
    members = DESIGNS[design](40 + (design == "nearly balanced"), 60, 3)
    phi = signals(members, 4, gap=1.0, record_sd=3).astype(np.float32)
    one = multi_query_scores(phi[:, :, None], members, covariance, rule, seed=5)
    lira = score_all(phi, members, ("lira-online",), rule, seed=5)["lira-online"]
    assert np.array_equal(one, lira, equal_nan=True) and np.isfinite(lira).any()


@pytest.mark.parametrize("models", [PER_RECORD_FROM - 2, PER_RECORD_FROM])
def test_the_variance_rule_changes_where_that_of_lira_does(models):
    members = paired(models, 20, 1)
    phi = signals(members, 1)
    one = multi_query_scores(phi[:, :, None], members)
    assert np.array_equal(one, score_all(phi, members, ("lira-online",))["lira-online"])


@pytest.mark.parametrize("rule", ["pooled", "per-record"])
@pytest.mark.parametrize("models", [8, 9])
def test_full_equals_plain_loops(models, rule):
    members = paired(models, 15, 2)
    phi = queries(members, 3, 2, gap=0.7, shared=0.5).astype(np.float64)
    fast = multi_query_scores(phi, members, "full", rule)
    partner = partners(members)
    for target in range(models):
        if partner[target] < 0:
            assert np.isnan(fast[target]).all()
            continue
        rest = [k for k in range(models) if k not in (target, partner[target]) and partner[k] >= 0]
        logs = []
        for side in (True, False):
            cells = [phi[[k for k in rest if members[k, j] == side], j] for j in range(15)]
            scatter = sum((c - c.mean(0)).T @ (c - c.mean(0)) for c in cells)
            degrees = sum(len(c) - 1 for c in cells)
            sd = np.sqrt(np.diag(scatter))
            weight = max(0.05, 3 / (3 + degrees))
            correlation = (1 - weight) * scatter / np.outer(sd, sd) + weight * np.eye(3)
            log = []
            for record, cell in enumerate(cells):
                own = (
                    np.sqrt(cell.var(axis=0, ddof=1))
                    if rule == "per-record"
                    else sd / math.sqrt(degrees)
                )
                normal = multivariate_normal(cell.mean(0), correlation * np.outer(own, own))
                log.append(normal.logpdf(phi[target, record]))
            logs.append(np.array(log))
        np.testing.assert_allclose(fast[target], logs[0] - logs[1], rtol=1e-6, atol=1e-8)


def test_diagonal_is_the_sum_over_queries():
    members = paired(8, 40, 1)
    phi = queries(members, 4, 1, gap=1.0)
    each = [score_all(phi[:, :, a], members, ("lira-online",))["lira-online"] for a in range(4)]
    np.testing.assert_allclose(multi_query_scores(phi, members), sum(each), rtol=1e-12, atol=1e-12)


def test_uncorrelated_queries_make_both_forms_alike_and_copies_do_not():
    members = paired(12, 2000, 1)
    apart = queries(members, 3, 1, gap=0.5)
    full, diagonal = (multi_query_scores(apart, members, form) for form in ("full", "diagonal"))
    assert np.corrcoef(full.ravel(), diagonal.ravel())[0, 1] > 0.99
    same = np.repeat(apart[:, :, :1], 3, axis=2)
    once = multi_query_scores(apart[:, :, :1], members)
    copied = multi_query_scores(same, members, "full")
    # Correlation 0.95 after shrinkage: three copies count for 3/(1 + 2 x 0.95) = 1.034 of one.
    # The determinants differ by a constant of each target, as the two sides' variances do.
    away = copied - 3 / 2.9 * once
    np.testing.assert_allclose(away - np.median(away, axis=1)[:, None], 0, atol=0.01)
    np.testing.assert_allclose(multi_query_scores(same, members), 3 * once, rtol=1e-9, atol=1e-9)


def test_more_queries_see_more():
    members = paired(12, 2000, 3)
    phi = queries(members, 4, 3, gap=0.5, shared=0.3)
    power = [auc(members, multi_query_scores(phi[:, :, :count], members)) for count in (1, 2, 4)]
    assert power[0] + 4 * null_sd(members) < power[1] < power[2]


def test_full_knows_which_query_adds_nothing():
    """A loud common part, seen alone in one query, is taken off the other."""
    members = paired(16, 2000, 4)
    rng = np.random.default_rng(0)
    common = rng.normal(size=members.shape)
    faint = 0.4 * rng.normal(size=(2, *members.shape))
    phi = np.stack([common + faint[0] + 0.5 * members, common + faint[1]], axis=2)
    full, diagonal = (
        auc(members, multi_query_scores(phi, members, form)) for form in ("full", "diagonal")
    )
    assert full > diagonal + 8 * null_sd(members)


@pytest.mark.parametrize("models", range(4, 13))
@pytest.mark.parametrize("design", DESIGNS)
@pytest.mark.parametrize("covariance", COVARIANCES)
def test_null_signals_give_half(covariance, design, models):
    if design == "nearly balanced" and models % 2 == 0:
        pytest.skip("that is for odd numbers")
    found = []
    for seed in range(3):
        members = DESIGNS[design](models, 500, seed)
        phi = queries(members, 3, seed, shared=0.5)
        try:
            score = multi_query_scores(phi, members, covariance, seed=seed)
        except InputError as error:
            assert covariance == "full" and models < 7 and "at least 6 models" in str(error)
            return
        known = ~np.isnan(score)
        found.append((auc(members[known], score[known]) - 0.5) / null_sd(members[known]))
    # Shared references widen the null to about 1.5: the mean of three is within 4 of its sd.
    assert abs(np.mean(found)) < 4 * 1.5 / math.sqrt(3)


@settings(max_examples=10)
@given(st.integers(0, 1000), st.floats(0.01, 100), st.floats(-100, 100))
def test_order_shift_and_scale_of_queries_change_nothing(seed, scale, shift):
    members = paired(8, 12, seed)
    phi = queries(members, 3, seed, gap=1.0).astype(np.float64)
    order = np.random.default_rng(seed).permutation(3)
    for form in COVARIANCES:
        one = multi_query_scores(phi, members, form)
        other = multi_query_scores((phi * scale + shift)[:, :, order], members, form)
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-6)


def test_exposed_records_stand_out():
    members = paired(16, 500, 5)
    phi = queries(members, 3, 5) + (gaps(500, 5) * members)[:, :, None]
    assert auc(members, multi_query_scores(phi, members, "full")) > 0.7


def test_refusals():
    members = paired(4, 10, 1)
    phi = queries(members, 2).astype(np.float64)
    with pytest.raises(InputError, match=r"signals has shape \(4, 10\); it must be \(models, rec"):
        multi_query_scores(phi[:, :, 0], members)
    with pytest.raises(InputError, match=r"members is bool \(4, 9\); it must be bool \(4, 10\)"):
        multi_query_scores(phi, members[:, :9])
    with pytest.raises(InputError, match="covariance='full' needs at least 2 reference models"):
        multi_query_scores(phi, members, "full")
    with pytest.raises(InputError, match="variance='per-record' needs at least 2 reference mo"):
        multi_query_scores(phi, members, variance="per-record")
    with pytest.raises(InputError, match="covariance='fall'"):
        multi_query_scores(phi, members, "fall")
    with pytest.raises(InputError, match="leave no IN and OUT reference for any record"):
        multi_query_scores(phi[:2], members[:2])
    flat = phi.copy()
    flat[:, :, 1] = 3.0
    with pytest.raises(InputError, match="signals of query 1 are all 3.0; constant signals"):
        multi_query_scores(flat, members)
    flat[1, 2, 1] = -np.inf
    with pytest.raises(InputError, match="signals at models 1, records 2, queries 1 is -inf"):
        multi_query_scores(flat, members)
