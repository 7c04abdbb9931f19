"""Verification metrics beside published ones: the same scores, one run.

    python benchmarks/verification_peers.py PEER_PYTHON ZEBRA_FOLDER

PEER_PYTHON is the interpreter of an environment that holds voice-anonymization-legal-eval;
ZEBRA_FOLDER holds performance.py and plo_plots.py of the ZEBRA toolkit (LGPL; neither is part of
this repository). Scores of made-up people are written to one file, which both sides read.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, load, save

from lethe.reidentification.attack import measure
from lethe.reidentification.ranks import ranks
from lethe.reidentification.verification import profile, tag_of

PEER = """
import json, sys, time
import numpy as np
from legal_eval.metrics import rocch_eer, linkability
from legal_eval.io import ScoreMatrix
z = np.load(sys.argv[1])
found = {}
for name in ("gauss", "people"):
    begun = time.perf_counter()
    found[name] = {"rocch_eer": rocch_eer(z[name + "_mated"], z[name + "_non"]),
                   "seconds": time.perf_counter() - begun}
table = z["table"]
names = [str(i) for i in range(len(table))]
labels = [str(i) for i in z["owner"]]
begun = time.perf_counter()
matrix = ScoreMatrix(scores=table, enroll_speakers=names, test_speakers=labels, metadata={})
found["linkability"] = {str(size): linkability(matrix, size, estimator="exact")[0]
                        for size in (2, 10, 100, 500)}
found["linkability_seconds"] = time.perf_counter() - begun
print(json.dumps(found))
"""
ZEBRA = """
import json, sys, time
sys.path.insert(0, sys.argv[2])
import numpy as np
from performance import cllr, optimal_llr
z = np.load(sys.argv[1])
found = {}
for name in ("gauss", "people"):
    mated, non = z[name + "_mated"], z[name + "_non"]
    begun = time.perf_counter()
    a, b, eer = optimal_llr(mated, non, compute_eer=True)
    soft = np.hstack(optimal_llr(mated, non, laplace=True))

    def saved(x):
        ok = ~np.isinf(x) & (abs(x) > 1e-6)
        part = np.zeros(len(x))
        less = np.exp(x[ok]) - 1
        part[ok] = (x[ok] - less) / less**2
        part[abs(x) <= 1e-6] = -0.5
        return 0.25 + part.mean() / 2

    found[name] = {"rocch_eer": float(eer), "min_cllr": float(cllr(a, b)),
                   "expected": float((saved(a) + saved(-b)) / np.log(2)),
                   "worst": float(abs(soft).max() / np.log(10)),
                   "seconds": time.perf_counter() - begun}
print(json.dumps(found))
"""


def people(rng: np.random.Generator) -> dict[str, Any]:
    """Cosine scores of 500 people, 4 probes each, with everybody."""
    centre = rng.standard_normal((500, 32))
    owner = np.repeat(np.arange(500), 4)
    gallery = centre + 0.7 * rng.standard_normal(centre.shape)
    probes = centre[owner] + 1.5 * rng.standard_normal((2000, 32))
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (gallery, probes)]
    table = unit[0] @ unit[1].T
    mine = owner == np.arange(500)[:, None]
    return {
        "people_mated": table[mine],
        "people_non": table[~mine][::10],
        "table": table,
        "owner": owner,
        "gallery": gallery,
        "probes": probes,
    }


def other(python: str, code: str, *words: str) -> Any:
    """What a script of another environment prints."""
    done = subprocess.run(
        [python, "-c", code, *words], capture_output=True, text=True, check=True, timeout=900
    )
    return json.loads(done.stdout)


def main() -> None:
    """The command line."""
    peer, folder = sys.argv[1:3]
    rng = np.random.default_rng(0)
    scores = people(rng)
    # The example of the ZEBRA toolkit: N(3, 2) against N(0, 1), 100,000 of each.
    scores["gauss_mated"] = 3 + 2 * rng.standard_normal(10**5)
    scores["gauss_non"] = rng.standard_normal(10**5)
    with tempfile.TemporaryDirectory() as place:
        file = Path(place) / "scores.npz"
        np.savez(file, **scores)
        legal = other(peer, PEER, str(file))
        toolkit = other(peer, ZEBRA, str(file), folder)
    ours: dict[str, Any] = {}
    for name in ("gauss", "people"):
        mated, non = scores[f"{name}_mated"], scores[f"{name}_non"]
        begun = time.perf_counter()
        found = profile(mated, non)
        ours[name] = {
            **found,
            "tag": tag_of(found["worst"]),
            "seconds": time.perf_counter() - begun,
        }
    begun = time.perf_counter()
    named = ranks(scores["probes"], scores["gallery"], scores["owner"])
    shares = measure(named, scores["owner"], common=(2, 10, 100, 500)).common
    ours["linkability"] = {str(size): share.value for size, share in shares.items()}
    ours["linkability_seconds"] = time.perf_counter() - begun
    save(
        {
            "seed": 0,
            "lethe": ours,
            "voice-anonymization-legal-eval": legal,
            "zebra": toolkit,
            "printed": {
                "zebra example, EER": 0.159,
                "zebra, nothing hidden (bits)": round(1 / math.log(4), 3),
            },
            "load": load(),
        },
        RESULTS / "verification_peers.json",
    )


if __name__ == "__main__":
    main()
