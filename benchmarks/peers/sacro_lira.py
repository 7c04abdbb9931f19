"""Runs in the environment of SACRO-ML: its LiRA on a network of scikit-learn, seconds on stdout.

python sacro_lira.py TABLE.npz MODELS EPOCHS BATCH RATE WIDTH,WIDTH,...

The target and the shadow models are scikit-learn's MLPClassifier of the same widths, epochs, batch
and rate as Lethe's: SACRO-ML clones the target's estimator for them.
"""

import json
import sys
import tempfile
import time
import warnings

import numpy as np
from sacroml.attacks.likelihood_attack import LIRAAttack
from sacroml.attacks.target import Target
from sklearn.neural_network import MLPClassifier

file, models, epochs, batch, rate, widths = sys.argv[1:]
began = time.perf_counter()
warnings.simplefilter("ignore")  # that so few epochs have not converged
data = np.load(file)
inside = np.arange(len(data["y"])) % 2 == 0
rows = data["X"].astype(float)  # in float32 its logits are infinite, and it ends with NaN
sides = [(rows[side], data["y"][side]) for side in (inside, ~inside)]
(train, train_labels), (test, test_labels) = sides
model = MLPClassifier(
    tuple(map(int, widths.split(","))),
    batch_size=int(batch),
    learning_rate_init=float(rate),
    max_iter=int(epochs),
    n_iter_no_change=int(epochs),
    random_state=0,
).fit(train, train_labels)
target = Target(model=model, dataset_name="table")
target.X_train, target.y_train = train, train_labels
target.X_test, target.y_test = test, test_labels
with tempfile.TemporaryDirectory() as folder:
    attack = LIRAAttack(output_dir=folder, n_shadow_models=int(models))
    found = attack.attack(target)
metrics = found["attack_experiment_logger"]["attack_instance_logger"]["instance_0"]
print(json.dumps({"seconds": time.perf_counter() - began, "auc": metrics["AUC"]}))
