"""Before and after each mitigation, from finished run folders, for docs/benchmarks.md.

    lethe audit model digits --out runs/digits
    lethe audit model $LETHE_DATA/adult/adult.parquet --label income --drop split --out runs/adult
    lethe audit model $LETHE_DATA/mnist/mnist.npz --rows 5000 --out runs/mnist5000
    python benchmarks/study_tables.py runs/digits runs/adult runs/mnist5000

Writes results/study.json: of each candidate's strongest attack AUC, TPR and ln(TPR/FPR) at 1 % and
0.1 % FPR, the largest and the top 1 % of t, accuracy, what is lost of it, and the change of TPR.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lethe import Findings

OUT = Path(__file__).parent / "results" / "study.json"


def limits(measured: dict[str, Any] | None) -> dict[str, float] | None:
    """The estimate without its method."""
    return measured and {key: measured[key] for key in ("value", "low", "high")}


def measured(findings: Findings) -> dict[str, Any]:
    """One run."""
    rows = {}
    for candidate in findings.candidates:
        best = candidate["attacks"][candidate["strongest_attack"]]
        exposed = candidate["vulnerability"]
        rows[candidate["name"]] = {
            "auc": limits(best["auc"]),
            **{f"tpr_{rate}": limits(best["tpr"][rate]) for rate in ("0.01", "0.001")},
            **{f"tau_{rate}": limits(best["tau"][rate]) for rate in ("0.01", "0.001")},
            "max_t": limits(exposed["max_t"]),
            "top_t": limits(exposed["top_t"]),
            "baseline_top_t": limits(exposed.get("baseline_records_t", exposed["top_t"])),
            "accuracy": limits(candidate["utility"]),
            "accuracy_lost": limits(candidate["utility_loss"]),
            "tpr_0.01_change": limits(candidate["risk_change"]),
        }
    return {
        "records": findings.data["pool"],
        "held_out": findings.data["holdout"],
        "candidates": rows,
    }


def main() -> None:
    """Read the folders, write the file."""
    runs = [Findings.load(Path(folder) / "findings.json") for folder in sys.argv[1:]]
    how = runs[0].reproduction
    sets = {run.subject["name"]: measured(run) for run in runs}
    document = {
        "what": "strongest attack of each candidate, --attack auto",
        "models": how["models"],
        "seed": how["seed"],
        "sets": sets,
    }
    OUT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
