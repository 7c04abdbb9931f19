"""Fit the predictor on the corpus, judge it on sets it never saw, and write both.

Writes `src/lethe/membership/one_model/trees.safetensors` and `results/one_model.json`.

    python benchmarks/one_model/fit.py --looks one_model.parquet
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from numpy.typing import NDArray
from safetensors.numpy import save_file
from scipy.stats import beta
from sklearn.ensemble import ExtraTreesRegressor, GradientBoostingRegressor
from sklearn.model_selection import GroupKFold

from lethe.membership.one_model.predictor import FARTHEST, FILE, KINDS, Predictor

Float = NDArray[np.float64]
RESULTS = Path(__file__).parents[1] / "results"
FPR = 0.01
LEAST = 1e-3
"""Rates are held between this and 1 less it before their log odds are taken."""


LEVELS = [0.05, 0.15, 0.5]
"""Estimates between which the mean error is taken by itself: it grows with the rate."""


def odds(rate: Any) -> Float:
    share = np.clip(np.asarray(rate, float), LEAST, 1 - LEAST)
    return np.asarray(np.log(share / (1 - share)))


def share(logs: Float) -> Float:
    return np.asarray(1 / (1 + np.exp(-logs)))


def columns_of(table: pandas.DataFrame) -> list[str]:
    described = {"set", "recipe", "kind", "held_out", "null", "model", "records", "top_found"}
    return [name for name in table if name not in described and not name.startswith("true ")]


def fitted(cases: Float, target: Float) -> tuple[Any, Any]:
    """Randomised trees and boosted ones; the estimate is their mean."""
    forest = ExtraTreesRegressor(
        100, min_samples_leaf=4, max_features=0.4, random_state=0, n_jobs=2
    )
    boosted = GradientBoostingRegressor(
        n_estimators=250, max_depth=3, learning_rate=0.04, subsample=0.6, max_features=0.3,
        random_state=0,
    )  # fmt: skip
    return forest.fit(cases, target), boosted.fit(cases, target)


def mean_of(models: tuple[Any, Any], cases: Float) -> Float:
    return np.asarray(np.mean([model.predict(cases) for model in models], 0))


def left_out(cases: Float, target: Float, sets: NDArray[Any]) -> Float:
    """What trees fitted on the other sets say of each model."""
    found = np.empty(len(target))
    for train, test in GroupKFold(10).split(cases, groups=sets):
        found[test] = mean_of(fitted(cases[train], target[train]), cases[test])
    return found


def quantile(errors: Float) -> float:
    """The conformal 90 % quantile."""
    place = int(np.ceil((len(errors) + 1) * 0.9)) - 1
    return float(np.sort(np.abs(errors))[min(place, len(errors) - 1)])


def as_arrays(models: tuple[Any, Any]) -> tuple[dict[str, NDArray[Any]], float]:
    """Both ensembles as one list of trees, and what their weighted sum is added to."""
    forest, boosted = models
    trees = [(tree.tree_, 0.5 / len(forest.estimators_)) for tree in forest.estimators_]
    rate = boosted.learning_rate / 2
    trees += [(tree.tree_, rate) for tree in boosted.estimators_[:, 0]]
    starts = np.cumsum([0, *(tree.node_count for tree, _ in trees)])

    def joined(name: str, kind: Any, moved: bool = False) -> NDArray[Any]:
        parts = [
            np.where(tree.children_left >= 0, getattr(tree, name) + start * moved, -1)
            for (tree, _), start in zip(trees, starts, strict=False)
        ]
        return np.concatenate(parts).astype(kind)

    arrays = {
        "roots": starts[:-1].astype(np.int32),
        "weights": np.array([weight for _, weight in trees], np.float32),
        "column": joined("feature", np.int16),
        "threshold": _rounded_down(joined("threshold", np.float64)),
        "left": joined("children_left", np.int32, True),
        "right": joined("children_right", np.int32, True),
        "value": np.concatenate([tree.value[:, 0, 0] for tree, _ in trees]).astype(np.float32),
    }
    return arrays, float(boosted.init_.constant_.ravel()[0]) / 2


def _rounded_down(thresholds: Float) -> NDArray[np.float32]:
    """In single precision, so that single-precision values stay on their side."""
    short = thresholds.astype(np.float32)
    return np.where(short > thresholds, np.nextafter(short, np.float32(-np.inf)), short)


def near_corpus(cases: Float, sets: NDArray[Any]) -> tuple[dict[str, NDArray[Any]], float]:
    """The corpus in deviations, and how far a set lies from all others at most (99 %)."""
    centre = np.median(cases, 0)
    scale = np.subtract(*np.quantile(cases, [0.9, 0.1], axis=0)) / 2.5 + 1e-3
    scaled = (cases - centre) / scale
    apart = [
        np.minimum(np.abs(scaled[sets != name] - row), FARTHEST).mean(1).min()
        for row, name in zip(scaled, sets, strict=True)
    ]
    arrays = {"centre": centre, "scale": scale, "corpus": scaled.astype(np.float16)}
    return arrays, float(np.quantile(apart, 0.99))


def judged(table: pandas.DataFrame, middle: Float, errors: Float, refused: Any) -> dict[str, Any]:
    """How near the estimate and the two blind baselines come, over pairs that are not refused."""
    spoken = table[~refused].copy()
    truth, value = odds(spoken["truth"]), middle[~refused]
    covered = np.abs(truth - value) <= errors[~refused]
    whole = spoken.assign(covered=covered).groupby(["set", "recipe"])["covered"].all()
    ratio = np.abs(np.log(share(value) / share(truth)))
    blind = {
        name: np.abs(np.log(np.clip(spoken[column], LEAST, 1) / share(truth)))
        for name, column in (("loss", "loss tpr@0.01"), ("accuracy gap", "accuracy gap"))
    }
    return {
        "pairs": len(spoken[["set", "recipe"]].drop_duplicates()),
        "models": len(spoken),
        "refused": int(refused.sum()),
        "covered": float(covered.mean()),
        # both models of a pair, with the exact lower limit (95 %, one-sided)
        "pairs_covered": int(whole.sum()),
        "pairs_covered_low": float(beta.ppf(0.05, whole.sum(), len(whole) - whole.sum() + 1)),
        "median_ratio": float(np.exp(np.median(ratio))),
        "median_width": float(np.median(errors[~refused])),
        "nearer_than": {
            name: float(np.median(other) / np.median(ratio)) for name, other in blind.items()
        },
        "median_ratio_of": {name: float(np.exp(np.median(other))) for name, other in blind.items()},
        "top_found": float(spoken["top_found"].mean()),
    }


def points(
    table: pandas.DataFrame, middle: Float, widths: Float, refused: NDArray[np.bool_]
) -> list[list[Any]]:
    """Set, recipe, truth, estimate, its limits, and whether it was refused, of each model."""
    ends = share(middle + np.stack([0 * widths, -widths, widths])).round(4)
    known = zip(table["set"], table["recipe"], table["truth"].round(4), strict=True)
    return [
        [*row, *map(float, limits), bool(no)]
        for row, limits, no in zip(known, ends.T, refused, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--looks", type=Path, required=True)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--out", type=Path, default=RESULTS / "one_model.json")
    arguments = parser.parse_args()
    table = pandas.read_parquet(arguments.looks)
    true = [name for name in table if name.startswith("true ") and name.endswith(f"@{FPR}")]
    table["truth"] = table[true].max(axis=1)
    names = columns_of(table.drop(columns="truth"))
    cases, target = table[names].fillna(0).to_numpy(float), odds(table["truth"])
    learn, null = ~table["held_out"].to_numpy(), table["null"].to_numpy()
    held = ~learn & ~null
    sets, kinds = table["set"].to_numpy(), table["kind"].to_numpy()

    before = left_out(cases[learn], target[learn], sets[learn])
    # Models that leak nothing by construction are learned from; errors are of the others alone.
    real = ~null[learn]
    apart, levels = (target[learn] - before)[real], list(map(float, odds(LEVELS)))
    level = np.searchsorted(levels, before[real])
    spreads = [float(np.abs(apart[level == at]).mean()) for at in range(len(levels) + 1)]
    scaled = apart / np.array(spreads)[level]
    errors = {kind: quantile(scaled[kinds[learn][real] == kind]) for kind in KINDS}
    models = fitted(cases[learn], target[learn])
    trees, start = as_arrays(models)
    near, farthest = near_corpus(cases[learn], sets[learn])
    arrays = {**trees, **near}
    told = {
        "levels": levels, "spreads": spreads, "errors": errors, "start": start,
        "farthest": farthest, "models": int(learn.sum()),
    }  # fmt: skip
    predictor = Predictor(tuple(names), arrays, **told)
    middle = np.array([predictor.log_odds(row) for row in cases])
    assert np.allclose(middle, mean_of(models, cases), atol=1e-3)

    save_file(arrays, arguments.file, {"predictor": json.dumps({"names": names, **told})})
    refused = np.array([predictor.distance(row) for row in cases]) > farthest
    widths = np.array([predictor.error(*pair) for pair in zip(middle.tolist(), kinds, strict=True)])
    own = table[learn & ~null]
    wide = np.array(
        [predictor.error(*pair) for pair in zip(before[real].tolist(), own["kind"], strict=True)]
    )
    result: dict[str, Any] = {
        "corpus": {"sets": len(set(sets[learn])), "models": int(learn.sum()),
                   "null": int((learn & null).sum()),
                   "pairs": len(table[learn][["set", "recipe"]].drop_duplicates())},
        "levels": LEVELS,
        "spreads": spreads,
        "errors": errors,
        "farthest": farthest,
        "bytes": arguments.file.stat().st_size,
        "left out": judged(own, before[real], wide, np.zeros(len(own), bool)),
        "held out": judged(table[held], middle[held], widths[held], refused[held]),
        "by set": {
            name: judged(table[chosen], middle[chosen], widths[chosen], refused[chosen])
            for name in sorted(set(sets[held]))
            for chosen in [held & (sets == name)]
        },
        "by kind": {
            kind: judged(table[chosen], middle[chosen], widths[chosen], refused[chosen])
            for kind in KINDS
            if (chosen := held & (kinds == kind)).any()
        },
        "points": points(table[held], middle[held], widths[held], refused[held]),
    }  # fmt: skip
    arguments.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({key: value for key, value in result.items() if key != "points"}, indent=1))


if __name__ == "__main__":
    main()
