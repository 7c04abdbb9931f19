"""Plans by a supposed rate: small honest audits are as narrow and as decided as was promised."""

from __future__ import annotations

import numpy as np
import pytest
from simulated import audit as simulated
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from lethe.evidence.estimate import Estimate
from lethe.evidence.risk import family_confidence
from lethe.evidence.rules import FAIL, PASS, Rule, judge, parse_precision, parse_rule
from lethe.membership.attacks.attack import Available
from lethe.membership.measure import run_attacks, strongest_metric
from lethe.membership.settings import AuditSettings
from lethe.membership.widths import MOST_MODELS, Supposed, answer
from lethe.training.design import membership
from lethe.training.shadows import Shadows

WIDTH = Rule("tpr", 0.01, 1.0, True)
MAKERS = (
    lambda: LogisticRegression(max_iter=300),
    lambda: LogisticRegression(C=100, max_iter=300),
    lambda: DecisionTreeClassifier(min_samples_leaf=10),
    lambda: RandomForestClassifier(30, min_samples_leaf=8),
    lambda: KNeighborsClassifier(9),
)


def supposed(rate: float, people: int = 1000, attacks: int = 5) -> Supposed:
    return Supposed(rate, 0.01, people, people / 2, family_confidence(0.95, attacks))


def world(seed: int) -> Shadows:
    """64 models of one recipe on records that nothing here was fitted on."""
    rng = np.random.default_rng([seed, 77])
    size, columns = int(rng.choice([500, 800, 1200])), int(rng.choice([10, 25, 60]))
    rows, labels = make_classification(
        size, columns, n_informative=8, n_redundant=0, flip_y=0.1, random_state=seed
    )
    inside, make = membership(64, size, seed), MAKERS[seed % len(MAKERS)]
    signals = np.empty(inside.shape, np.float32)
    for place, member in enumerate(inside):
        model = make().set_params(**({"random_state": place} if seed % 5 in (2, 3) else {}))
        shares = model.fit(rows[member], labels[member]).predict_proba(rows)
        share = np.clip(shares[np.arange(size), labels], 1e-6, 1 - 1e-6)
        signals[place] = np.log(share / (1 - share))
    return Shadows(signals, inside, np.arange(size).astype(str), labels)


def audited(shadows: Shadows, models: int) -> Estimate:
    shadows = shadows.first(models)
    attacks = AuditSettings().attacks(Available.of(shadows))
    rate = strongest_metric(run_attacks(shadows, attacks, (0.01,)), 0.01)
    assert isinstance(rate, Estimate)
    return rate


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_four_audits_of_five_are_as_narrow_and_as_decided_as_was_promised() -> None:
    """The rate supposed is the one that 64 models find, as an estimate without error would say."""
    narrow, decided = [], []
    for seed in range(30):
        shadows = world(seed)
        rate = audited(shadows, 64)
        plan = supposed(rate.value or 0.0, shadows.records)
        for models in (16, 32, 64):
            interval = rate if models == 64 else audited(shadows, models)
            narrow.append(interval.width <= plan.of(WIDTH, models).high)
        for limit in (2 * plan.rate, plan.rate / 2):
            settled = plan.settle(rule := Rule("tpr", 0.01, limit))
            if limit > 0.01 and settled.sure is not None and settled.sure <= 64:
                wanted = FAIL if limit < plan.rate else PASS
                decided.append(judge(rule, audited(shadows, settled.sure)) == wanted)
    assert np.mean(narrow) >= 0.8
    assert np.mean(decided) >= 0.8 and len(decided) >= 30


def test_simulated_audits_are_as_narrow_as_was_promised() -> None:
    models, narrow = 16, []
    for seed in range(10):
        shadows = simulated(models, 400, seed, scale=0.7)
        rate = strongest_metric(run_attacks(shadows, ("lira-online",), (0.01,)), 0.01)
        promised = supposed(rate.value, 400, attacks=1).of(WIDTH, models)
        narrow.append(rate.width <= promised.high)
    assert np.mean(narrow) >= 0.8


def test_rates_far_from_the_limit_take_few_models_and_those_at_it_none() -> None:
    rule = parse_rule("tpr@0.01<=0.1")
    far, near = supposed(0.03).settle(rule), supposed(0.07).settle(rule)
    assert far.models <= far.sure < near.sure and near.models <= near.sure <= MOST_MODELS
    assert (
        "to pass at 7.0%" in near.asked and "to fail at 30.0%" in supposed(0.3).settle(rule).asked
    )
    at_it = supposed(0.1).settle(rule)
    assert at_it.models is None and "because records differ" in at_it.why
    few = supposed(0.03, people=80).settle(rule)
    assert few.models is None and "100 distinct records" in few.why
    other = supposed(0.03).settle(parse_rule("auc<=0.6"))
    assert other.models is None and "tpr@0.01 of all records" in other.why


def test_a_width_is_planned_by_a_supposed_rate_too() -> None:
    found = answer(supposed(0.1), parse_precision("width(tpr@0.01)<=0.06"))
    assert found.models is not None and found.sure is not None and found.models <= found.sure
    assert answer(supposed(0.1), parse_precision("auc within 0.01")).models is None


@pytest.mark.parametrize("rate", [0.02, 0.09, 0.099, 0.101, 0.11, 0.13, 0.3])
def test_models_that_settle_a_rule_show_what_is_promised(rate: float) -> None:
    """Near the limit few models find so much less that the rule would pass."""
    rule, plan = parse_rule("tpr@0.01<=0.1"), supposed(rate, 4000)
    promise = plan.settle(rule)
    for models in (promise.models, promise.sure):
        if models is not None:
            less = 3 / models * (rate - 0.01) if rate > 0.1 else 0.0
            outcome = judge(rule, supposed(rate - less, 4000).limits(models))
            assert outcome == (FAIL if rate > 0.1 else PASS), (rate, models)
