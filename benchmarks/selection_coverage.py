"""How often intervals of the membership room and of population uniqueness hold the truth.

    python benchmarks/selection_coverage.py [--parts auc exposure recommended uniqueness]
        [--models 8 16 32 64] [--repetitions 2000] [--seconds 60] [--out FILE]

Simulated audits of 400 records, of which the 1 % most exposed (top-t) and the 20 most exposed
records are looked for; of 200 records and models that differ, of which the AUC and the TPR at
5 % FPR of LiRA are measured, with the references as they are and redrawn; six mitigations of equal
and of falling risk, of which the lowest is recommended; populations of 12,000 people, of which
1,500 are seen. Nominal 95 %; of the top 20 the lower limit alone may miss in 2.5 %. A cell ends
after so many repetitions or seconds and says how many it had; cells in the file are kept.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import family_confidence
from lethe.evidence.roc import auc_of, rate_at, roc
from lethe.evidence.twoway import ClusteredTable, clusters_of, share_estimate, symmetric_estimate
from lethe.linkage.table.population import population_uniqueness
from lethe.membership.exposure import expose
from lethe.membership.scoring import rescored, score
from lethe.training.design import membership
from lethe.training.shadows import Shadows

RECORDS, TOP, BLOCK = 400, 20, 40
FEW, FPR = 200, 0.05
DEFAULT_OUT = Path(__file__).parent / "results" / "selection_coverage.json"
Going = Callable[[int], bool]
Float = NDArray[np.float64]


def _normal(rng: np.random.Generator, models: int) -> Float:
    return rng.normal(size=(models, RECORDS))


def _heavy(rng: np.random.Generator, models: int) -> Float:
    return rng.standard_t(3, size=(models, RECORDS)) / np.sqrt(3)


def _correlated(rng: np.random.Generator, models: int) -> Float:
    shared = np.repeat(rng.normal(size=(models, RECORDS // BLOCK)), BLOCK, axis=1)
    return np.sqrt(0.7) * rng.normal(size=(models, RECORDS)) + np.sqrt(0.3) * shared


NOISE: dict[str, Callable[[np.random.Generator, int], Float]] = {
    "normal": _normal,
    "heavy tails (t3)": _heavy,
    "unequal spread": _normal,
    "correlated records": _correlated,
    "class effects": _correlated,
}


def one_audit(kind: str, models: int, seed: int) -> tuple[Shadows, Float]:
    """An audit and the true t of its records."""
    rng = np.random.default_rng([seed, models])
    members = membership(models, RECORDS, seed)
    t = rng.gamma(1.0, 1.0, RECORDS)
    spread = np.exp(0.5 * rng.normal(size=RECORDS)) if kind == "unequal spread" else 1.0
    if kind == "class effects":  # classes differ in how exposed they are, too
        t = t * np.repeat(rng.gamma(2.0, 0.5, RECORDS // BLOCK), BLOCK)
    phi = spread * (NOISE[kind](rng, models) + np.sqrt(2) * t * members)
    return Shadows(phi.astype(np.float32), members, np.arange(RECORDS)), t


def differing_models(kind: str, models: int, seed: int) -> Shadows:
    """An audit whose models have effects and gains of their own, of few records."""
    rng = np.random.default_rng([seed, models, 1])
    members = membership(models, FEW, seed)
    classes = FEW // BLOCK

    def draw(*shape: int) -> Float:
        heavy = kind == "heavy tails (t3)"
        return rng.standard_t(3, shape) / math.sqrt(3) if heavy else rng.normal(size=shape)

    noise, t = draw(models, FEW), rng.gamma(1.0, 0.5, FEW)
    if kind == "unequal spread":  # of records and of models
        noise = noise * np.exp(0.5 * rng.normal(size=FEW) + 0.5 * rng.normal(size=(models, 1)))
    if kind in ("correlated records", "class effects"):
        shared = np.repeat(rng.normal(size=(models, classes)), BLOCK, axis=1)
        noise = math.sqrt(0.7) * noise + math.sqrt(0.3) * shared
    if kind == "class effects":  # fixed classes, of which some are more exposed
        t = t * np.repeat(np.linspace(0.2, 1.8, classes), BLOCK)
    gain = 1 + 0.3 * draw(models, 1)
    phi = rng.normal(size=FEW) + noise + 0.4 * draw(models, 1) + math.sqrt(2) * t * gain * members
    return Shadows(phi.astype(np.float32), members, np.arange(FEW))


def auc_cell(kind: str, models: int, going: Going) -> dict[str, float | int]:
    """Shares of audits whose limits hold the mean over all of them, for AUC and TPR of LiRA."""
    values, limits = [], []
    seed = 0
    while going(seed):
        audit = differing_models(kind, models, seed)
        table = score(audit, ("lira-online",), seed=seed)["lira-online"]
        clusters = clusters_of(audit.pairs, np.arange(FEW), seed)
        cells = ClusteredTable(audit.members, clusters)
        curve = roc(audit.members.ravel(), table.ravel())
        area, rate = auc_of(curve), rate_at(curve, FPR).tpr
        values.append((area, rate))
        references = rescored(audit, ("lira-online",), seed=seed)["lira-online"]
        found = cells.influence(table.ravel(), np.array([FPR]), curve.outside, references)
        row = []
        for each in (replace(found, references=None), found):
            wide = symmetric_estimate(area, each.spread(0), table.size, 0.95, "", 0.0, 1.0)
            share = share_estimate(rate, each.spread(1), curve.members, FEW, 0.95)
            row.append([(limit.low, limit.high) for limit in (wide, share)])
        limits.append(row)
        seed += 1
    truth = np.mean(values, axis=0)
    low, high = np.moveaxis(np.array(limits, float), 3, 0)
    held, width = ((low <= truth) & (truth <= high)).mean(axis=0), (high - low).mean(axis=0)
    named: dict[str, float | int] = {"repetitions": seed, "auc": truth[0], "tpr": truth[1]}
    for at, how in enumerate(("as_they_are", "redrawn")):
        for place, what in enumerate(("auc", "tpr")):
            named[f"{what}_coverage_{how}"] = float(held[at, place])
            named[f"{what}_width_{how}"] = float(width[at, place])
    return named


def seated(people: int, alpha: float, theta: float, rng: np.random.Generator) -> NDArray[np.intp]:
    """(people,) classes of people who come one by one under Pitman's model.

    Who joins sits with a person drawn at random, less the discount: of a class of size s a share
    alpha/s of such draws is drawn again, which makes its chance s - alpha.
    """
    of_person, sizes = np.zeros(people, np.intp), [1]
    lot = rng.random(people)
    for person in range(1, people):
        if lot[person] * (person + theta) < theta + alpha * len(sizes):
            of_person[person] = len(sizes)
            sizes.append(1)
            continue
        while True:
            joined = of_person[int(rng.random() * person)]
            if rng.random() * sizes[joined] >= alpha:
                break
        of_person[person] = joined
        sizes[joined] += 1
    return of_person


def uniqueness_cell(alpha: float, theta: float, going: Going) -> dict[str, float | int]:
    """Share of samples whose interval holds the share of unique rows that is realised."""
    people, rows, held, below, seed = 12_000, 1_500, 0, 0, 0
    while going(seed):
        of_person = seated(people, alpha, theta, np.random.default_rng([seed, 5]))
        size = np.bincount(of_person)
        sample = np.bincount(of_person[:rows], minlength=len(size))
        truth = float(np.mean(size[sample == 1] == 1))
        found = population_uniqueness(sample[sample > 0], people).of_uniques
        assert found.low is not None and found.high is not None
        held += found.low <= truth <= found.high
        below += truth < found.low
        seed += 1
    return {"repetitions": seed, "coverage": held / seed, "low_misses": below / seed}


def exposure_cell(kind: str, models: int, going: Going) -> dict[str, float | int | None]:
    """Shares of audits, and of the first 20 records, whose limits hold the truth."""
    held, error, low, high, width = [], [], [], [], []
    seed = 0
    while going(seed):
        made, t = one_audit(kind, models, seed)
        found = expose(made)
        if isinstance(found.top_t, Estimate) and found.selected is not None:
            truth = float(t[found.selected].mean())
            held.append((found.top_t.low or 0.0) <= truth <= (found.top_t.high or 0.0))
            error.append((found.top_t.value or 0.0) - truth)
        ranked = found.ranked(0.95)
        top = ranked.order[:TOP]
        low.append(np.mean(ranked.low[top] > t[top]))
        high.append(np.mean(ranked.high[top] < t[top]))
        width.append(np.mean(ranked.high[top] - ranked.low[top]))
        seed += 1
    return {
        "repetitions": seed,
        "top_t_coverage": float(np.mean(held)) if held else None,
        "top_t_bias": float(np.mean(error)) if error else None,
        "top_20_coverage": 1 - float(np.mean(low) + np.mean(high)),
        "top_20_low_misses": float(np.mean(low)),
        "top_20_width": float(np.mean(width)),
    }


def recommended_cell(falling: bool, repetitions: int) -> dict[str, float]:
    """The lowest of six measured shares: limits as if it had been named, simultaneous, split."""
    rng = np.random.default_rng(0)
    candidates, members = 6, 2000
    truth = 0.05 * (0.85 ** np.arange(candidates) if falling else np.ones(candidates))
    names = ("named", "simultaneous", "split")
    missed, width = dict.fromkeys(names, 0), dict.fromkeys(names, 0.0)
    for _ in range(repetitions):
        halves = rng.binomial(members // 2, truth, (2, candidates))
        hits = halves.sum(axis=0)
        best, first = int(hits.argmin()), int(halves[0].argmin())
        level = family_confidence(0.95, candidates)
        for name, found, at in (
            ("named", clopper_pearson(int(hits[best]), members), best),
            ("simultaneous", clopper_pearson(int(hits[best]), members, level), best),
            ("split", clopper_pearson(int(halves[1, first]), members // 2), first),
        ):
            assert found.low is not None and found.high is not None
            missed[name] += not found.low <= truth[at] <= found.high
            width[name] += found.high - found.low
    return {
        **{f"{name}_coverage": 1 - missed[name] / repetitions for name in names},
        **{f"{name}_width": width[name] / repetitions for name in names},
    }


PITMAN = {
    "alpha=0.6, theta=30": (0.6, 30.0),
    "alpha=0.3, theta=200": (0.3, 200.0),
    "alpha=0.8, theta=5": (0.8, 5.0),
}
PARTS = ("auc", "exposure", "recommended", "uniqueness")


def main() -> None:
    """Measure the cells that are asked for, and write the file after each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--models", nargs="+", type=int, default=(8, 16, 32, 64))
    parser.add_argument("--kinds", nargs="+", choices=NOISE, default=tuple(NOISE))
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT)
    options = parser.parse_args()
    document = json.loads(options.out.read_text()) if options.out.exists() else {}
    document |= {"nominal": 0.95, "seed": "0 to repetitions - 1"}

    def keep(part: str, name: str, measure: Callable[[Going], object]) -> None:
        end = time.monotonic() + options.seconds

        def going(done: int) -> bool:
            return done < options.repetitions and (done < 20 or time.monotonic() < end)

        document.setdefault(part, {})[name] = found = measure(going)
        print(part, name, found, flush=True)
        options.out.write_text(json.dumps(document, indent=1) + "\n")

    def audits(part: str, cell: Callable[[str, int, Going], object]) -> None:
        for models in options.models:
            for kind in options.kinds:
                keep(part, f"{kind}, K={models}", lambda going, k=kind, m=models: cell(k, m, going))

    if "recommended" in options.parts:
        for name, falling in (("equal risks", False), ("falling risks", True)):
            keep("recommended", name, lambda _, f=falling: recommended_cell(f, options.repetitions))
    if "uniqueness" in options.parts:
        for name, (alpha, theta) in PITMAN.items():
            keep("uniqueness", name, lambda going, a=alpha, t=theta: uniqueness_cell(a, t, going))
    if "auc" in options.parts:
        audits("auc", auc_cell)
    if "exposure" in options.parts:
        audits("exposure", exposure_cell)


if __name__ == "__main__":
    main()
