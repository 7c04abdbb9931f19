"""Your own models, whatever they are made with: audit their scores, train nothing here.

Measured on random forests for breast cancer (64 forests, seed 0; n = 569 patients): an attacker who
may be wrong about 1 outsider in 100 finds 12.0 % (9.9 to 14.0) of the patients in the training;
one model alone gives an AUC of 0.76. 7 s on one core of an AMD EPYC. LETHE_QUICK=1 takes 8
forests.
"""

import os

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import lethe
from lethe.evidence.roc import auc, tpr_at_fpr
from lethe.membership.scoring import score_all

MODELS = 8 if os.environ.get("LETHE_QUICK") == "1" else 64

# %% Models on random halves
# Any library will do. Each model learns from a random half of the patients; the second of a pair
# learns from the other half, so that every patient is in exactly half of the models.

rows, diagnosis = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
members = np.zeros((MODELS, len(rows)), bool)
for at in range(0, MODELS, 2):
    members[at, rng.permutation(len(rows))[: len(rows) // 2]] = True
    members[at + 1] = ~members[at]

# %% One number a model and patient
# The signal is what the model thinks of the right answer, as log-odds: higher = better known.

signals = np.empty(members.shape, np.float32)
for at, inside in enumerate(members):
    forest = RandomForestClassifier(50, random_state=at, n_jobs=1)
    forest.fit(rows[inside], diagnosis[inside])
    right = forest.predict_proba(rows)[np.arange(len(rows)), diagnosis].clip(0.005, 0.995)
    signals[at] = np.log(right / (1 - right))

# %% Attacks on the scores
# Every model is the target in turn, the others are the attacker's reference. The names of the
# patients are their row numbers here; `labels` lets the report tell classes apart.

attacks = ("lira-online", "bavaria-n", "loss-threshold")
findings = lethe.audit_scores(
    signals, members, labels=diagnosis, name="random forest", attack=attacks, save=False
)
print("\n".join(findings.verdict["words"]))

# %% The same by hand, for one model
# `score_all` gives the scores of an attack for every pair of model and patient, and these are
# measured like any scores of any attack: higher = member.

scores = score_all(signals, members, ["bavaria-n"])["bavaria-n"]
print("one model, AUC of BaVarIA:", round(auc(members[0], scores[0]), 3))
found = tpr_at_fpr(members.ravel(), scores.ravel(), 0.1)
print(f"all models, found at 10 % false alarms: {found.tpr:.1%}")

# %% Who is most exposed?
# The difference that one patient's presence makes to what models think of that patient.

exposure = signals.mean(axis=0, where=members) - signals.mean(axis=0, where=~members)
print("most exposed rows:", np.argsort(-exposure)[:5].tolist())
