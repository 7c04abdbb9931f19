"""One fitted model: what lies in it, and what shadow models are estimated to find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lethe
from lethe.cli import run
from lethe.errors import InputError
from lethe.evidence.estimate import Refusal
from lethe.evidence.rules import parse_rule
from lethe.membership.one_model.looks import look, tpr_at
from lethe.membership.one_model.predictor import estimated, kind_of, predictor

pytestmark = pytest.mark.usefixtures("no_page")

ROWS, LABELS = (part[:320] for part in load_breast_cancer(return_X_y=True))
MEMBERS = np.random.default_rng(0).random(len(LABELS)) < 0.5
OPEN = "not-enough-evidence"
QUIET = {"save": False, "quiet": True}


def fit(model: Any) -> Any:
    return model.fit(ROWS[MEMBERS], LABELS[MEMBERS])


@pytest.mark.parametrize(
    ("model", "limit", "outcome", "held"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression(C=0.01)), 0.3, OPEN, False),
        (make_pipeline(StandardScaler(), KNeighborsClassifier(80)), 0.3, OPEN, True),
        (RandomForestClassifier(40, random_state=0), 0.02, "fail", False),
    ],
    ids=["safe", "holds its training rows", "leaky"],
)
def test_an_estimate_may_fail_a_rule_passes_none_and_is_the_pilot_of_a_plan(
    model: Any, limit: float, outcome: str, held: bool, tmp_path: Path, capsys: Any
) -> None:
    rule = f"estimated(tpr@0.01)<={limit}"
    findings = lethe.audit(fit(model), ROWS, LABELS, members=MEMBERS, rule=rule, **QUIET)
    assert findings.verdict["outcome"] == outcome
    # A share of pairs is never called a share of records.
    assert ("of pairs;" in str(findings)) == ("of pairs distinguished" in str(findings))
    assert any("training rows themselves" in words for words in findings.verdict["words"]) == held
    assert any("lethe plan findings.json" in words for words in findings.verdict["words"])
    findings.save(tmp_path)
    assert run(["plan", str(tmp_path / "findings.json"), "--rule", "auc<=0.7", "--rule", rule]) == 0
    plan = capsys.readouterr().out
    assert f"tpr@0.01 <= {limit}, to " in plan and "auc <= 0.7: no number of models" in plan
    assert f"--rule 'tpr@0.01<={limit}'" in plan.splitlines()[-1]
    assert (f"{limit}, to fail at" in plan) == (outcome == "fail")


@pytest.mark.parametrize(
    ("outputs", "members", "said"),
    [
        (None, MEMBERS, "probabilities"),
        (np.full((len(LABELS), 2), 0.5), np.arange(len(LABELS)) < 40, "has 40"),
    ],
)
def test_what_cannot_be_estimated_is_refused_with_the_reason(
    outputs: Any, members: Any, said: str
) -> None:
    found = estimated(None, outputs, LABELS, members, ROWS)
    assert isinstance(found, Refusal) and said in found.reason


def test_a_model_unlike_the_corpus_is_refused() -> None:
    classes = np.arange(len(LABELS)) % 100
    outputs = np.random.default_rng(0).dirichlet(np.full(100, 1e-3), len(LABELS))
    found = estimated(None, outputs, classes, MEMBERS, np.repeat(ROWS, 9, axis=1))
    assert isinstance(found, Refusal) and "unlike" in found.reason


def test_the_predictor_walks_trees_as_their_library_would() -> None:
    known = predictor()
    trees = known.arrays
    values = np.zeros(len(known.names))

    def walk(node: int) -> float:
        if trees["column"][node] < 0:
            return float(trees["value"][node])
        below = values[trees["column"][node]] <= trees["threshold"][node]
        return walk(int(trees["left" if below else "right"][node]))

    each = [walk(int(root)) for root in trees["roots"]]
    assert known.log_odds(values) == pytest.approx(known.start + trees["weights"] @ each, abs=1e-5)


def test_a_rate_at_a_threshold_gives_ties_their_share() -> None:
    inside = np.arange(400) < 200
    assert tpr_at(np.zeros(400), inside, 0.1) == pytest.approx(0.1)
    assert tpr_at(inside.astype(float), inside, 0.01) == 1.0


@pytest.mark.slow
def test_the_look_does_not_change_with_the_order_of_the_records() -> None:
    rows, labels = (part[:300] for part in load_digits(return_X_y=True))
    model = RandomForestClassifier(10, random_state=0).fit(rows[::2], labels[::2])
    members = np.arange(len(labels)) % 2 == 0
    one = look(model.predict_proba(rows), labels, members, rows).values
    assert one == look(model.predict_proba(rows), labels, members, rows).values
    order = np.random.default_rng(1).permutation(len(labels))
    other = look(
        model.predict_proba(rows[order]), labels[order], members[order], rows[order]
    ).values
    steady = [name for name in one if not name.startswith(("surrogate", "ex", "hard", "easy"))]
    assert all(one[name] == pytest.approx(other[name], abs=1e-9) for name in steady)


@pytest.mark.parametrize(
    ("text", "said"),
    [("estimated(tpr@0.1)<=0.2", "tpr@0.01"), ("estimated<=0.1", "estimated@0.01")],
)
def test_a_rule_on_an_estimate_names_its_rate(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        parse_rule(text)
    assert str(parse_rule("estimated(tpr@0.01) <= 0.1")) == "estimated(tpr@0.01) <= 0.1"


@pytest.mark.parametrize(
    ("model", "kind"),
    [
        (make_pipeline(StandardScaler(), LogisticRegression()), "linear"),
        (RandomForestClassifier(), "forest"),
        (KNeighborsClassifier(), "neighbours"),
        (lambda rows: rows, "unknown"),
    ],
)
def test_the_kind_of_a_model_is_read_off_its_last_step(model: Any, kind: str) -> None:
    assert kind_of(model) == kind
