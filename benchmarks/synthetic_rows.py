"""Private synthetic rows: our noisy counts beside OpenDP's `extras.mbi` (MST and AIM).

    LETHE_DATA=FOLDER python benchmarks/synthetic_rows.py ours|mst|aim2|table
        [--data adult acs] [--epsilons 0.5 1 4] [--repeats 3] [--every] [--out FILE]

Methods: `ours`, `mst`, `aim2` (AIM over pairs, 200 steps of mirror
descent a round where 1,000 are usual; `aim3`: over triples, its default), `independent` (each
column drawn from its exact counts: no privacy, no pair) and `original` (the training rows). OpenDP
0.16.0 pins mbi 1.1.0 and polars 1.36.1, so `mst` and `aim` run in an environment of their own; the
file collects what each run adds. All get the same cells (one schema a data set, 32 bins), the same
rho (of epsilon at delta 1e-6 by OpenDP's conversion), the same 70 % of the rows (split seed 0).

Measured: mean total variation distance to the training rows over all columns (`tvd1`) and all
pairs of columns (`tvd2`), in cells; macro F1 of boosted trees trained on the synthetic rows and
tested on the other 30 % (adult: income; acs: PINCP_DECILE, 11 classes); seconds, everything
included. Noise has no seed. `docs/benchmarks.md` has the table.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lethe.data.columns import read_columns
from lethe.data.schema import Schema
from lethe.linkage.table.domains import Domain, columns_of, domains_of
from lethe.linkage.table.dp_rows import draw_cells, measure, rho_of

RESULTS = Path(__file__).parent / "results" / "synthetic_rows.json"
DELTA = 1e-6
FEW = {  # of the 15 and 24 columns; with all of them a run of AIM takes hours
    "adult": "age education marital-status occupation relationship sex hours-per-week income",
    "acs": "AGEP SEX MSP RAC1P EDU INDP_CAT PINCP_DECILE DVET",
}
FILES = {
    "adult": ("adult/adult.parquet", "income"),
    "acs": ("acs_nist_national2019/national2019.parquet", "PINCP_DECILE"),
}
NUMBERS: dict[str, dict[str, Any]] = {
    "adult": {
        "age": {"type": "whole", "bounds": [17, 90]},
        "fnlwgt": {"type": "whole", "bounds": [0, 1_500_000]},
        "capital-gain": {"type": "whole", "bounds": [0, 99_999]},
        "capital-loss": {"type": "whole", "bounds": [0, 4_999]},
        "hours-per-week": {"type": "whole", "bounds": [1, 99]},
    },
    "acs": {
        "AGEP": {"type": "whole", "bounds": [0, 99]},
        "PINCP": {"type": "number", "bounds": [-20_000, 300_000], "outside": "clamp"},
        "POVPIP": {"type": "whole", "bounds": [0, 501]},
        "PWGTP": {"type": "whole", "bounds": [1, 2_100]},
        "WGTP": {"type": "whole", "bounds": [0, 1_700]},
    },
}
WITH_GAPS = ("PINCP", "POVPIP")


def prepared(name: str, every: bool) -> tuple[tuple[Domain, ...], list[np.ndarray], int]:
    """Domains, the cells of each column, and the place of the column that is predicted."""
    file, label = FILES[name]
    columns = read_columns(Path(os.environ["LETHE_DATA"]) / file)
    columns.pop("split", None)
    if not every:
        columns = {column: columns[column] for column in FEW[name].split()}
    declared = {}
    for column, cells in columns.items():
        # The code book of the other columns; it is public for both data sets.
        given = NUMBERS[name].get(column) or {
            "type": "text",
            "values": sorted({str(cell) for cell in cells.tolist()}),
        }
        declared[column] = {**given, "missing": column in WITH_GAPS}
    schema = Schema.of(declared)
    domains = domains_of(schema)
    typed = columns_of(schema, columns)
    cells = [domain.place(typed[domain.name]) for domain in domains]
    return domains, cells, list(schema).index(label)


def ours(cells: list[np.ndarray], sizes: list[int], rho: float, seed: int) -> list[np.ndarray]:
    return draw_cells(measure(cells, sizes, rho), sizes, seed)


def theirs(method: str, cells: list[np.ndarray], sizes: list[int], rho: float) -> list[np.ndarray]:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    names = [f"c{at}" for at in range(len(sizes))]
    frame = pl.LazyFrame(dict(zip(names, cells, strict=True)))
    algorithm: Any = dp.mbi.MST()
    if method != "mst":
        algorithm = dp.mbi.AIM(queries=int(method[-1]), estimator=fitted_in_short)
    keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
    for attempt in range(20):  # noqa: B007
        # Of some budgets the parts add up to a rounding error more than the whole, which OpenDP
        # then refuses before it measures; a little less is tried.
        context = dp.Context.compositor(
            data=frame,
            privacy_unit=dp.unit_of(contributions=1),
            privacy_loss=dp.loss_of(rho=rho * (1 - attempt * 1e-6)),
            split_evenly_over=1,
        )
        try:
            table = context.query().contingency_table(keys=keys, algorithm=algorithm).release()
            break
        except dp.OpenDPException as error:
            if "insufficient budget" not in str(error):
                raise
    rows = table.synthesize()
    # The key that OpenDP adds for unknown values is drawn too; it is taken for the first cell.
    return [rows[name].fill_null(0).to_numpy().astype(np.int64) for name in names]


def fitted_in_short(domain: Any, measured: Any, *, potentials: Any = None) -> Any:
    """AIM fits anew in each of its rounds, from where the last one ended."""
    from mbi.estimation import mirror_descent

    return mirror_descent(domain, measured, potentials=potentials, iters=200)


def drawn(
    method: str, cells: list[np.ndarray], sizes: list[int], rho: float, seed: int
) -> list[np.ndarray]:
    if method == "original":
        return cells
    if method == "independent":
        rng = np.random.default_rng([seed, 1])
        return [rng.permutation(column) for column in cells]
    return ours(cells, sizes, rho, seed) if method == "ours" else theirs(method, cells, sizes, rho)


def distances(one: list[np.ndarray], two: list[np.ndarray], sizes: list[int], k: int) -> float:
    found = []
    for places in itertools.combinations(range(len(sizes)), k):
        shape = [sizes[at] for at in places]
        shares = [
            np.bincount(np.ravel_multi_index([rows[at] for at in places], shape), minlength=1)
            / len(rows[0])
            for rows in (one, two)
        ]
        width = max(map(len, shares))
        left, right = (np.pad(share, (0, width - len(share))) for share in shares)
        found.append(0.5 * float(np.abs(left - right).sum()))
    return float(np.mean(found))


def f1_of(made: list[np.ndarray], test: list[np.ndarray], label: int) -> float:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import f1_score

    def features(rows: list[np.ndarray]) -> np.ndarray:
        return np.column_stack([column for at, column in enumerate(rows) if at != label])

    if len(np.unique(made[label])) < 2:
        return 0.0
    model = HistGradientBoostingClassifier(max_iter=50, early_stopping=False, random_state=0)
    guess = model.fit(features(made), made[label]).predict(features(test))
    return float(f1_score(test[label], guess, average="macro"))


def table(runs: list[dict[str, Any]]) -> str:
    """Means over the repeats, and the standard deviation where there are several."""
    lines = ["| data | epsilon | method | runs | tvd1 | tvd2 | F1 | seconds |", "|" + " --- |" * 8]
    of = ("data", "columns", "epsilon", "method")
    keys = sorted({tuple(run[key] for key in of) for run in runs}, key=str)
    for data, columns, epsilon, method in keys:
        same = [
            run for run in runs if tuple(run[key] for key in of) == (data, columns, epsilon, method)
        ]
        cells = []
        for measure_of, digits in (("tvd1", 4), ("tvd2", 4), ("f1", 3), ("seconds", 0)):
            values = np.array([run[measure_of] for run in same])
            spread = f" ± {values.std(ddof=1):.{digits}f}" if len(values) > 1 else ""
            cells.append(f"{values.mean():.{digits}f}{spread}")
        name = f"{data}, {columns} columns"
        lines.append(f"| {name} | {epsilon:g} | {method} | {len(same)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("method")
    parser.add_argument("--data", nargs="+", default=list(FILES))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 4.0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--every", action="store_true", help="all columns, not 8 of them")
    parser.add_argument("--out", type=Path, default=RESULTS)
    asked = parser.parse_args()
    kept = json.loads(asked.out.read_text()) if asked.out.exists() else {"runs": []}
    if asked.method == "table":
        print(table(kept["runs"]))
        return
    for name, epsilon in itertools.product(asked.data, asked.epsilons):
        domains, cells, label = prepared(name, asked.every)
        sizes = [domain.cells for domain in domains]
        out = np.zeros(len(cells[0]), bool)
        out[np.random.default_rng(0).permutation(len(out))[: round(0.3 * len(out))]] = True
        train, test = ([column[side] for column in cells] for side in (~out, out))
        for repeat in range(asked.repeats):
            key = {"data": name, "method": asked.method, "epsilon": epsilon, "repeat": repeat}
            key["columns"] = len(sizes)
            if any(key.items() <= run.items() for run in kept["runs"]):
                continue
            start = time.perf_counter()
            made = drawn(asked.method, train, sizes, rho_of(epsilon, DELTA), repeat)
            seconds = time.perf_counter() - start
            run = {
                **key,
                "delta": DELTA,
                "rows": len(train[0]),
                "made": len(made[0]),
                "tvd1": distances(train, made, sizes, 1),
                "tvd2": distances(train, made, sizes, 2),
                "f1": f1_of(made, test, label),
                "seconds": round(seconds, 1),
                "versions": {one: version(one) for one in ("opendp", "mbi", "jax", "numpy")},
                "load": round(os.getloadavg()[0], 1),
            }
            print(json.dumps(run), flush=True)
            kept = json.loads(asked.out.read_text()) if asked.out.exists() else kept
            kept["runs"].append(run)
            asked.out.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
