"""What one model's outputs look like: the numbers from which its true risk is estimated.

Two ideas carry most of it. Members and non-members are compared within their class, and after
taking off what a model that did not see the record would say. That expectation comes from trees
that learn, on non-members, the model's output from how hard a record is: its probability under
surrogate trees that did not see it either (compare Bertran et al., NeurIPS 2023, who regress on the
record itself).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, rankdata, skew
from sklearn.ensemble import ExtraTreesClassifier, RandomForestRegressor
from sklearn.model_selection import KFold, cross_val_predict

from lethe.errors import InputError

MOST = 4000
"""Members, and as many non-members, that are looked at; of more a random part is taken."""

FEWEST = 100
"""Members and non-members below which a rate at 1 % false positives says nothing."""

_QUANTILES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)
_FLOOR = 1e-6  # of a probability
_SURE = 0.01  # the surrogate's probabilities lie between this and 1 less it
_FOLDS = 5

Float = NDArray[np.float64]
Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Look:
    """One model's outputs in numbers.

    Attributes:
        values: by name, finite.
        rows: (R,) records that were looked at.
        exposure: (R,) output above what the same model would say of a non-member like the record,
            in typical errors of that expectation; higher = more exposed.
    """

    values: dict[str, float]
    rows: NDArray[np.intp]
    exposure: Float


def look(
    outputs: NDArray[np.floating],
    labels: NDArray[np.integer],
    members: Bool,
    features: NDArray[np.floating],
    seed: int = 0,
) -> Look:
    """Describe what one model says of its training records and of others.

    Args:
        outputs: (N, C) probabilities.
        labels: (N,) true classes, 0 to C - 1.
        members: (N,) whether the model was trained on the record.
        features: (N, D) the records in numbers; more axes are laid flat.

    Raises InputError: fewer than 100 members or non-members.
    """
    rng, parts = np.random.default_rng(seed), []
    for side, word in ((True, "members"), (False, "non-members")):
        found = np.flatnonzero(members == side)
        if len(found) < FEWEST:
            raise InputError(
                f"{len(found)} {word} are too few for an estimate: {FEWEST} are needed."
            )
        parts.append(rng.permutation(found)[:MOST])
    rows: NDArray[np.intp] = np.sort(np.concatenate(parts))
    outputs = np.asarray(outputs, np.float64)[rows]
    labels, inside = np.asarray(labels)[rows], members[rows]
    records = np.nan_to_num(np.asarray(features)[rows].reshape(len(rows), -1), posinf=0, neginf=0)
    signal = log_odds(outputs, labels)
    values = {
        **_levels(signal, inside),
        **_rates("loss", signal, inside),
        **_rates("class", _within_class(signal, labels, inside), inside),
        **_fit(outputs, labels, inside),
        **_sizes(members, outputs.shape[1], records.shape[1], labels),
        **_ties(signal, inside),
    }
    surrogate = _surrogate(records, labels, outputs.shape[1], seed)
    hardness = log_odds(np.clip(surrogate, _SURE, 1 - _SURE), labels)
    excess, exposure = _excess(signal, surrogate, hardness, labels, inside, seed)
    values |= {
        **_rates("excess", excess, inside),
        **_rates("exposure", exposure, inside),
        **_tails(exposure, inside),
        **_hard_and_easy(signal, hardness, outputs.argmax(1) == labels, inside),
        "surrogate accuracy": float((surrogate.argmax(1) == labels).mean()),
        "surrogate correlation": _correlation(hardness[~inside], signal[~inside]),
        "excess spread": float(excess[~inside].std()),
        "excess gap": float(
            (excess[inside].mean() - excess[~inside].mean()) / (excess[~inside].std() + 0.1)
        ),
    }
    finite = {name: float(np.nan_to_num(value)) for name, value in values.items()}
    return Look(finite, rows, exposure)


def log_odds(outputs: Float, labels: NDArray[np.integer]) -> Float:
    """(N,) log of p/(1-p) of the true class."""
    share = np.clip(outputs[np.arange(len(labels)), labels], _FLOOR, 1 - _FLOOR)
    return np.asarray(np.log(share / (1 - share)))


def tpr_at(scores: Float, inside: Bool, fpr: float) -> float:
    """Share of members above the threshold that ``fpr`` of non-members pass; ties are drawn."""
    outside = np.sort(scores[~inside])[::-1]
    allowed = fpr * len(outside)
    threshold = outside[min(int(allowed), len(outside) - 1)]
    above, tied = (outside > threshold).sum(), (outside == threshold).sum()
    members = scores[inside]
    drawn = (members == threshold).mean() * (allowed - above) / tied
    return float((members > threshold).mean() + drawn)


def _levels(signal: Float, inside: Bool) -> dict[str, float]:
    """Quantiles, spread and skewness of both sides, and how far they lie apart."""
    sides = {"in": signal[inside], "out": signal[~inside]}
    width = float(np.subtract(*np.quantile(sides["out"], [0.75, 0.25]))) + 0.2
    values: dict[str, float] = {}
    for share in _QUANTILES:
        low, high = np.quantile(sides["out"], share), np.quantile(sides["in"], share)
        values |= {f"out {share}": low, f"in {share}": high, f"apart {share}": (high - low) / width}
    for side, part in sides.items():
        values[f"spread {side}"] = part.std()
        values[f"skew {side}"] = float(skew(part)) if np.ptp(part) > 0 else 0.0
    return values


def _rates(name: str, scores: Float, inside: Bool) -> dict[str, float]:
    """AUC and TPR of an attack by these scores."""
    ranks, ins = rankdata(scores), int(inside.sum())
    area = (ranks[inside].sum() - ins * (ins + 1) / 2) / (ins * (len(scores) - ins))
    rates = {f"{name} tpr@{fpr}": tpr_at(scores, inside, fpr) for fpr in (0.1, 0.01)}
    return {f"{name} auc": float(area), **rates}


def _within_class(signal: Float, labels: NDArray[np.integer], inside: Bool) -> Float:
    """The signal in deviations of its class's non-members."""
    scores = signal.copy()
    for label in np.unique(labels):
        outside = signal[(labels == label) & ~inside]
        if len(outside) > 3:
            rows = labels == label
            scores[rows] = (signal[rows] - outside.mean()) / (outside.std() + 0.3)
    return scores


def _fit(outputs: Float, labels: NDArray[np.integer], inside: Bool) -> dict[str, float]:
    """Accuracy, loss, confidence and calibration of both sides."""
    right = outputs.argmax(1) == labels
    loss = -np.log(np.clip(outputs[np.arange(len(labels)), labels], _FLOOR, 1))
    sure = outputs.max(1)
    spread = -(outputs * np.log(np.clip(outputs, 1e-9, 1))).sum(1) / np.log(outputs.shape[1])
    values: dict[str, float] = {}
    for side, rows in (("in", inside), ("out", ~inside)):
        values |= {
            f"accuracy {side}": right[rows].mean(),
            f"loss {side}": loss[rows].mean(),
            f"confidence {side}": sure[rows].mean(),
            f"overconfidence {side}": sure[rows].mean() - right[rows].mean(),
            f"entropy {side}": spread[rows].mean(),
        }
    wrong = {side: 1 - values[f"accuracy {side}"] + 2 / len(labels) for side in ("in", "out")}
    return {
        **values,
        "accuracy gap": values["accuracy in"] - values["accuracy out"],
        "error ratio": np.log(wrong["out"] / wrong["in"]),
        "loss ratio": np.log((values["loss out"] + 0.01) / (values["loss in"] + 0.01)),
        "confidence auc": _rates("", sure, inside)[" auc"],
    }


def _sizes(members: Bool, classes: int, columns: int, labels: Any) -> dict[str, float]:
    shares = np.bincount(labels) / len(labels)
    ins = int(members.sum())
    return {
        "log members": np.log(ins),
        "classes": classes,
        "log members a class": np.log(ins / classes),
        "log columns": np.log(columns),
        "log members a column": np.log(ins / columns),
        "label entropy": -(shares * np.log(shares + 1e-9)).sum(),
    }


def _ties(signal: Float, inside: Bool) -> dict[str, float]:
    """How many different outputs there are, and how many records share the commonest."""
    counts = [
        np.unique(np.round(part, 4), return_counts=True)[1] for part in (signal, signal[inside])
    ]
    return {
        "distinct": len(counts[0]) / len(signal),
        "tied": counts[0].max() / len(signal),
        "tied in": counts[1].max() / inside.sum(),
    }


def _surrogate(records: Any, labels: NDArray[np.integer], classes: int, seed: int) -> Float:
    """(R, C) probabilities of trees that did not see the record."""
    shares = np.zeros((len(labels), classes))
    for train, test in KFold(_FOLDS, shuffle=True, random_state=seed).split(records):
        trees = ExtraTreesClassifier(60, min_samples_leaf=2, random_state=seed)
        trees.fit(records[train], labels[train])
        shares[np.ix_(test, trees.classes_)] = trees.predict_proba(records[test])
    return shares


def _excess(
    signal: Float,
    surrogate: Float,
    hardness: Float,
    labels: NDArray[np.integer],
    inside: Bool,
    seed: int,
) -> tuple[Float, Float]:
    """Signal above that of a non-member as hard, as it is and in typical errors at its level."""
    rows = np.arange(len(labels))
    cases = np.column_stack([hardness, surrogate.max(1), surrogate[rows, labels], labels])
    outside = np.flatnonzero(~inside)
    trees = RandomForestRegressor(60, min_samples_leaf=8, random_state=seed)
    expected = np.empty(len(labels))
    expected[outside] = cross_val_predict(trees, cases[outside], signal[outside], cv=_FOLDS)
    expected[inside] = trees.fit(cases[outside], signal[outside]).predict(cases[inside])
    excess = signal - expected
    errors = RandomForestRegressor(60, min_samples_leaf=15, random_state=seed)
    errors.fit(cases[outside], np.abs(excess[outside]))
    return excess, excess / (errors.predict(cases) + 0.2)


def _tails(exposure: Float, inside: Bool) -> dict[str, float]:
    """TPR if both sides were normal, which few records cannot upset."""
    outside, members = exposure[~inside], exposure[inside]
    values = {}
    for fpr in (0.1, 0.01):
        threshold = outside.mean() + (outside.std() + _FLOOR) * norm.isf(fpr)
        distance = (threshold - members.mean()) / (members.std() + _FLOOR)
        values[f"exposure normal tpr@{fpr}"] = float(norm.sf(distance))
    return values


def _hard_and_easy(signal: Float, hardness: Float, right: Bool, inside: Bool) -> dict[str, float]:
    """The same among the fifth of records that are hardest, and easiest, to predict."""
    values: dict[str, float] = {}
    width = float(np.subtract(*np.quantile(signal[~inside], [0.75, 0.25]))) + 0.2
    low, high = np.quantile(hardness, [0.2, 0.8])
    for name, part in (("hard", hardness <= low), ("easy", hardness >= high)):
        both = (part & inside, part & ~inside)
        if min(both[0].sum(), both[1].sum()) < 5:
            continue
        means = [float(signal[rows].mean()) for rows in both]
        values |= {
            f"{name} auc": _rates("", signal[part], inside[part])[" auc"],
            f"{name} in": means[0],
            f"{name} out": means[1],
            f"{name} apart": (means[0] - means[1]) / width,
            f"{name} accuracy in": float(right[both[0]].mean()),
            f"{name} accuracy out": float(right[both[1]].mean()),
        }
    return values


def _correlation(one: Float, other: Float) -> float:
    return float(np.corrcoef(one, other)[0, 1]) if np.ptp(one) > 0 and np.ptp(other) > 0 else 0.0
