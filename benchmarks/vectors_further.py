"""Verification, attributes, further options and two releases, on news readers and at scale.

    LETHE_DATA=... python benchmarks/vectors_further.py globo [--users 2000] [--epochs 8]
    python benchmarks/vectors_further.py cost

`globo` trains the networks of `globo_study.py` on Globo.com clicks, and audits the MLP's vectors of
the readers seen in training, enrolled in the first period and looked for in the second: every
option, every attacker, every metric. The attribute is the reader's device group (most clicks),
which no input holds. The other release is the BiLSTM's vectors of the same readers.

`cost` audits 20,000 made-up vectors of 64 dimensions of 2,000 people with everything switched on,
through the command line, and says what it took.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

MITIGATIONS = ("pca-16", "random-projection-16", "quantised-1", "quantised-4", "k-same-5")
MITIGATIONS += ("leace", "shaped-noise-0.5", "shaped-noise-2")


def devices(path: Path, users: Any) -> Any:
    """Device group of most clicks of each row's reader, as text."""
    import pyarrow.parquet as parquet

    table = parquet.read_table(path, columns=["user_id", "click_deviceGroup"])
    who, kind = (column.to_numpy() for column in table.columns)
    names, place = np.unique(who, return_inverse=True)
    counts = np.zeros((len(names), int(kind.max()) + 1), np.int64)
    np.add.at(counts, (place, kind), 1)
    return counts.argmax(axis=1)[np.searchsorted(names, users)].astype(str)


def short(measured: Any) -> Any:
    """Value and limits, or why there is none."""
    if measured is None or "refused" in measured:
        return measured
    return [measured[key] for key in ("value", "low", "high")]


def table(findings: Any) -> list[dict[str, Any]]:
    """Options by attackers by metrics."""
    rows = []
    for one in findings.candidates:
        found = one["verification"]
        lifts = {
            f"{r['attack']} on {r['view']}": short(r["estimate"])
            for r in one["risk_from"]["results"]
        }
        rows.append(
            {
                "option": one["name"],
                "utility": short(one["utility"]),
                "utility_loss": short(one["utility_loss"]),
                "lift": short(one["risk"]),
                "top_1": short(one["top_1"]),
                "bound": one["bound"],
                "guarantee": one["guarantee"]["kind"],
                "strongest": one["risk_from"]["attack"],
                "lifts": lifts,
                "worst": {k: [v.get("attack"), short(v)] for k, v in found["worst"].items()},
                "eer": {a["name"]: short(a["eer"]) for a in found["attacks"]},
                "attributes": [
                    {
                        "gain": short(a["gain"]),
                        "strongest": a["strongest"],
                        "kind": a["kind"],
                        "attacks": {
                            x["name"]: [short(x["gain"]), short(x["balanced_gain"]), x["auc"]]
                            for x in a["attacks"]
                        },
                        "raw": None if a["raw"] is None else short(a["raw"]["gain"]),
                        "majority": a["majority"],
                        "people": a["people"],
                    }
                    for a in one.get("attributes", ())
                ],
            }
        )
    return rows


def globo(asked: argparse.Namespace) -> dict[str, Any]:
    """Train, represent, audit."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "reader_engagement"))
    from globo_study import FILE
    from readers.globo import load_globo
    from training import SETTINGS, held_out, represent, train

    from lethe.reidentification.audit import audit_released
    from lethe.reidentification.released import Released
    from lethe.reidentification.settings import EmbeddingSettings

    path = Path(os.environ["LETHE_DATA"]) / FILE
    data = load_globo(path, users=asked.users or None, seed=asked.seed)
    everybody = np.unique(data.user_ids)
    main = everybody[~held_out(everybody, 0.2, asked.seed + 1)]
    data = data.fitted(data.rows(1, main))
    first = data.rows(1, main)
    apart = held_out(data.user_ids[first], 0.1, asked.seed)
    rows = np.concatenate([data.rows(1, main), data.rows(2, main)])
    made = {}
    for name in ("mlp", "lstm"):
        settings = replace(SETTINGS[name], epochs=asked.epochs)
        network = train(name, data, first[~apart], (data, first[apart]), settings, asked.seed)
        vectors, _, labels, users = represent(network, data, rows)
        head = network.head.weight.detach().numpy()[0], network.head.bias.detach().numpy()[0]
        made[name] = (vectors, users, labels, head)
    raw = np.concatenate([data.batch(part).raw() for part in np.array_split(rows, 32)])
    vectors, users, labels, head = made["mlp"]
    released = Released(
        "mlp",
        vectors,
        users,
        labels.astype(int),
        head,
        data.period[rows],
        raw,
        attributes={"device": devices(path, users)},
    )
    other = Released("lstm", made["lstm"][0], users)
    settings = EmbeddingSettings(
        sigmas=(0.1, 0.25, 0.5, 1.0, 2.0),
        surface=(),
        averaged=(),
        draws=4,
        refine=2,
        known="1",
        later="2",
        min_rows=4,
        seed=asked.seed,
        verification=True,
        mitigations=MITIGATIONS,
        radius_points=200,
        plays=1000,
    )
    begun = time.perf_counter()
    findings = audit_released([released], settings, print, other=other)
    model = findings.representations["models"][0]
    if asked.report is not None:
        findings.save(asked.report)
    return {
        "people": len(main),
        "in_the_attack": findings.data["people_in_the_attack"],
        "probes": findings.data["probes"],
        "seconds": round(time.perf_counter() - begun, 1),
        "options": table(findings),
        "singling_out": model["singling_out"],
        "clusters": model["clusters"],
        "two_releases": model["two_releases"],
        "controls": model["verification_controls"],
        "checks": [[c["name"], c["status"]] for c in findings.checks],
        "skipped": model["skipped"],
    }


def cost(asked: argparse.Namespace) -> dict[str, Any]:
    """One command with everything, timed from outside."""
    rng = np.random.default_rng(asked.seed)
    people, each, d = 2000, 10, 64
    owner = np.repeat(np.arange(people), each)
    centre = np.geomspace(1, 0.2, d) * rng.standard_normal((people, d))
    vectors = centre[owner] + 0.8 * rng.standard_normal((len(owner), d))
    weight = rng.standard_normal(d)
    labels = (vectors @ weight + 2 * rng.standard_normal(len(owner)) > 0).astype(int)
    features = np.hstack([vectors[:, :20], rng.standard_normal((len(owner), 4))])
    sex = np.where(centre[owner, 3] + 0.3 * rng.standard_normal(people)[owner] > 0, "f", "m")
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    words = ["--head", "head.npz", "--verification", "--attribute", "sex", "--other", "v2.npz"]
    words += ["--mitigations", "all", "--rule", "eer>=0.4", "--quiet", "--out", "run"]
    with tempfile.TemporaryDirectory() as place:
        np.savez(
            Path(place) / "v1.npz",
            representations=vectors.astype(np.float32),
            user_ids=owner,
            labels=labels,
            features=features,
            sex=sex,
        )
        np.savez(Path(place) / "head.npz", w=weight, b=0.0)
        again = (vectors @ turn + 0.3 * rng.standard_normal(vectors.shape)).astype(np.float32)
        np.savez(Path(place) / "v2.npz", representations=again, user_ids=owner)
        found = []
        for more in ([], ["--score-norm"]):
            before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            out = [*words[:-1], f"run{len(more)}"]
            done = subprocess.run(
                [sys.executable, "-m", "lethe", "audit", "embeddings", "v1.npz", *out, *more],
                cwd=place,
                check=False,
            )
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            found.append(
                {
                    "options": " ".join([*words[2:-1], *more]),
                    "wall_seconds": round(time.perf_counter() - begun, 1),
                    "processor_seconds": round(
                        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1
                    ),
                    "exit": done.returncode,
                    "load": load(),
                }
            )
    return {"people": people, "vectors": len(owner), "dimensions": d, "runs": found}


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("globo", "cost"))
    parser.add_argument("--users", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path)
    asked = parser.parse_args()
    found = {"globo": globo, "cost": cost}[asked.what](asked)
    document = {"seed": asked.seed, **found, "load": load()}
    save(document, RESULTS / f"vectors_further_{asked.what}.json")


if __name__ == "__main__":
    main()
