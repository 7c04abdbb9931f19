"""Models that leak nothing: the upper end of the estimate must lie below 5 %.

Three kinds on the sets that were held out: trained on other people than the supposed members;
strongly regularised; private by noise on the weights of a logistic regression (Chaudhuri,
Monteleoni and Sarwate, JMLR 12, 2011, algorithm 1, epsilon = 0.5).

    python benchmarks/one_model/null.py --data FOLDER
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from make import shares
from sets import HELD_OUT, RECIPES, real_sets
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize
from sklearn.tree import DecisionTreeClassifier

from lethe.evidence.estimate import Refusal
from lethe.membership.one_model.predictor import estimated

RESULTS = Path(__file__).parents[1] / "results"
RECORDS, EPSILON, RIDGE = 2000, 0.5, 0.05
OTHERS = ("forest", "boosting", "tree", "neighbours, 5")


class Private(LogisticRegression):
    """Weights with Laplace-like noise of the size that epsilon = 0.5 needs, on rows of norm 1."""

    def fit(self, rows: Any, labels: Any, sample_weight: Any = None) -> Private:
        super().fit(normalize(rows), labels)
        rng = np.random.default_rng(len(labels))
        for at, weights in enumerate(self.coef_):
            direction = rng.normal(size=len(weights))
            size = rng.gamma(len(weights), 2 / (len(labels) * RIDGE * EPSILON))
            self.coef_[at] = weights + size * direction / np.linalg.norm(direction)
        return self

    def predict_proba(self, rows: Any) -> Any:
        return super().predict_proba(normalize(rows))


def models(data: Path) -> Iterator[tuple[str, str, Any, Any, Any, Any]]:
    """Kind, set, model, records, labels, and who is said to be a member."""
    for number, name in enumerate(HELD_OUT):
        rows, labels = real_sets(data)[name](3 * RECORDS // 2, 100 + number)
        rng = np.random.default_rng(number)
        third = rng.permutation(np.arange(len(labels)) % 3)
        asked, inside = third > 0, (third == 1)[third > 0]
        for recipe in (OTHERS[number % 4], OTHERS[(number + 1) % 4]):
            model = RECIPES[recipe][1](0).fit(rows[~asked], labels[~asked])
            yield "trained on other people", name, model, rows[asked], labels[asked], inside
        members = third == 1
        few = DecisionTreeClassifier(max_depth=2, min_samples_leaf=50, random_state=0)
        for model in (few, RECIPES["logistic, C=0.1"][1](0).set_params(logisticregression__C=1e-4)):
            model.fit(rows[members], labels[members])
            yield "regularised", name, model, rows[asked], labels[asked], inside
        model = Private(C=1 / (members.sum() * RIDGE), max_iter=500)
        model.fit(rows[members], labels[members])
        yield "private, epsilon = 0.5", name, model, rows[asked], labels[asked], inside


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, default=RESULTS / "one_model_null.json")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    kinds: dict[str, dict[str, Any]] = {}
    listed = []
    for kind, name, model, rows, labels, inside in models(arguments.data):
        outputs = shares(model, rows, int(labels.max()) + 1)
        found = estimated(model, outputs, labels, inside, rows)
        entry = kinds.setdefault(kind, {"models": 0, "refused": 0, "below": 0, "highest": 0.0})
        entry["models"] += 1
        if isinstance(found, Refusal):
            entry["refused"] += 1
            listed.append([kind, name, None, None, None])
            continue
        entry["below"] += found.high < 0.05
        entry["highest"] = round(max(entry["highest"], found.high), 4)
        listed.append([kind, name, *(round(x, 4) for x in (found.value, found.low, found.high))])
        print(listed[-1], type(model).__name__, flush=True)
    arguments.out.write_text(json.dumps({"kinds": kinds, "models": listed}, indent=1) + "\n")
    print(json.dumps(kinds, indent=1))


if __name__ == "__main__":
    main()
