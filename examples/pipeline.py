"""A model and its mechanism in one document, and what moved since the version before.

Measured on breast cancer (64 logistic regressions each, seed 0; n = 456 audited patients): at 10
false positives in 100 an attacker finds 13.5 % (11.7 to 15.1) in version 1 and 12.2 % (10.7 to
13.7) in version 2, so nothing moved but the score of the most exposed 1 %. 10 s on 2 cores of an
AMD EPYC.
LETHE_QUICK=1 takes 300 patients and 8 models.
"""

import os
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import lethe
from lethe.report import render_several
from lethe.report.markdown import markdown

QUICK = os.environ.get("LETHE_QUICK") == "1"
ROWS = 300 if QUICK else None
out = Path("lethe-runs/example-pipeline-quick" if QUICK else "lethe-runs/example-pipeline")
people, ill = load_breast_cancer(return_X_y=True, as_frame=True)

# %% Two versions of a classifier
# Version 2 hardly penalises large coefficients. The rule was agreed before either was trained: of
# the patients that were used, at most 3 in 10 may be found at 10 false alarms in 100.


def audited(version, penalty):
    return lethe.audit(
        make_pipeline(StandardScaler(), LogisticRegression(C=1 / penalty, max_iter=2000)),
        people[:ROWS],
        ill[:ROWS],
        name=version,
        out=out / version,
        models=8 if QUICK else 64,
        mitigations="none",
        attack=("lira-online", "loss-threshold"),
        rule="tpr@0.1<=0.3",
    )


before, after = audited("version-1", penalty=1.0), audited("version-2", penalty=0.001)

# %% What moved?
# Only what moved by more than both intervals allow counts as a change.

for change in lethe.compare_runs(before, after).changes:
    if change.difference is not None:
        print(f"{change.quantity}: {change.difference}, {change.verdict}")

# %% What else is released
# The same people are counted in public, with noise. Two releases of one system are one decision.


def patients(data, seed):
    return round(len(data) + np.random.default_rng(seed).laplace(scale=2), 3)


runs = 500 if QUICK else 10_000
counted = lethe.audit_mechanism(patients, bounds=(0, 1), epsilon=0.5, runs=runs, save=False)

# %% One document for both
# HTML for people, Markdown for a merge request; at its head stands one verdict, and one release
# that fails makes the whole fail.

runs = [(after, None), (counted, None)]
(out / "report.html").write_text(render_several(runs, "Triage 2"), encoding="utf-8")
print("\n".join(markdown(runs, "Triage 2").splitlines()[:8]))
print("report:", out / "report.html")

# %% The gate
# A pipeline stops here unless every rule holds; `lethe check` says the same of finished runs.

outcomes = [findings.verdict["outcome"] for findings, _ in runs]
print("may be released:", all(outcome == "pass" for outcome in outcomes), outcomes)
