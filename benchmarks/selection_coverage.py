"""How often intervals of what was chosen for being extreme hold the truth.

    python benchmarks/selection_coverage.py [repetitions] > selection_coverage.json

Simulated audits of 400 records, of which the 1 % most exposed (top-t) and the 20 most exposed
records are looked for, and of six mitigations of equal and of falling risk, of which the lowest is
recommended. Nominal 95 %; of the top 20 the lower limit alone may miss in 2.5 %.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from lethe.evidence.estimate import Estimate
from lethe.evidence.intervals import clopper_pearson
from lethe.evidence.risk import family_confidence
from lethe.membership.exposure import expose
from lethe.training.design import membership
from lethe.training.shadows import Shadows

RECORDS, TOP, BLOCK = 400, 20, 40
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


def exposure_cell(kind: str, models: int, repetitions: int) -> dict[str, float | None]:
    """Shares of audits, and of the first 20 records, whose limits hold the truth."""
    held, error, low, high, width = [], [], [], [], []
    for seed in range(repetitions):
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
    return {
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


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    out: dict[str, object] = {
        "repetitions": repetitions,
        "records": RECORDS,
        "seed": "0 to repetitions - 1",
        "recommended": {
            "equal risks": recommended_cell(False, repetitions),
            "falling risks": recommended_cell(True, repetitions),
        },
    }
    cells: dict[str, dict[str, float | None]] = {}
    for models in (8, 16, 32, 64):
        for kind in NOISE:
            start = time.process_time()
            name = f"{kind}, K={models}"
            cells[name] = exposure_cell(kind, models, repetitions)
            spent = time.process_time() - start
            print(f"{name}: {spent:.0f} s {cells[name]}", file=sys.stderr, flush=True)
    out["exposure"] = cells
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
