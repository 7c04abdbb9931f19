"""Ten models that people have: the lines that an audit of each takes, and its seconds.

    python benchmarks/ten_models.py [--models 16] [--out FILE]

Breast cancer (569 records) or digits (1,797 images), the default attacks, no mitigation but private
training where that is what is asked. Lines are those of the function's body: the model as its
library wants it, and the audit. Seconds are of the whole call in a process that has imported
nothing but the data, each model once; see the load average beside them.
"""

from __future__ import annotations

import argparse
import inspect
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, save

import lethe

audit = partial(lethe.audit, mitigations="none", quiet=True)
FEW: dict[str, Any] = {}


def table() -> Any:
    """Breast cancer as a data frame with a column of text, and whether it is benign."""
    from sklearn.datasets import load_breast_cancer

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X["size"] = np.where(X["mean area"] > 600, "large", "small")
    return X, y


def arrays() -> Any:
    """The same as standardised numbers."""
    data = lethe.load("breast-cancer")
    return data.features, data.labels


def images() -> Any:
    """Digits as pictures of one channel."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return digits.images[:, None].astype(np.float32) / 16, digits.target


def pipeline_by_column_names(X: Any, y: Any) -> Any:
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    columns = make_column_transformer(
        (OneHotEncoder(), ["size"]), (StandardScaler(), ["mean area", "mean texture"])
    )
    return audit(make_pipeline(columns, LogisticRegression()), X, y, **FEW)


def random_forest(X: Any, y: Any) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return audit(RandomForestClassifier(100), X, y, **FEW)


def xgboost(X: Any, y: Any) -> Any:
    from xgboost import XGBClassifier

    return audit(XGBClassifier(n_estimators=50), X, y, **FEW)


def lightgbm(X: Any, y: Any) -> Any:
    from lightgbm import LGBMClassifier

    return audit(LGBMClassifier(n_estimators=50, verbose=-1), X, y, **FEW)


def linear_svc(X: Any, y: Any) -> Any:
    from sklearn.svm import LinearSVC

    return audit(LinearSVC(), X, y, **FEW)


def torch_cnn(X: Any, y: Any) -> Any:
    from torch import nn

    def net() -> Any:
        return nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))

    return audit(net, X, y, **FEW)


def lightning(X: Any, y: Any) -> Any:
    import lightning
    import torch

    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(30, 2)

        def forward(self, x: Any) -> Any:
            return self.layer(x)

        def training_step(self, batch: Any, index: int) -> Any:
            return torch.nn.functional.cross_entropy(self(batch[0]), batch[1])

        def configure_optimizers(self) -> Any:
            return torch.optim.Adam(self.parameters(), lr=0.01)

    return audit(lethe.lightning_recipe(Net, X, y, epochs=5, batch_size=32), X, y, **FEW)


def hugging_face_text(X: Any, y: Any) -> Any:
    from transformers import BertConfig, BertForSequenceClassification

    words = X.argsort(axis=0).argsort(axis=0) * 10 // len(y) + 10 * np.arange(30)

    def model() -> Any:
        small = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        return BertForSequenceClassification(
            BertConfig(vocab_size=300, intermediate_size=16, **small)
        )

    arguments = {"num_train_epochs": 3, "learning_rate": 3e-3}
    recipe = lethe.huggingface_recipe(model, {"input_ids": words}, y, arguments=arguments)
    return audit(recipe, X, y, **FEW)


def private_training(X: Any, y: Any) -> Any:
    from torch import nn

    def net() -> Any:
        return nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))

    return audit(net, X, y, **{**FEW, "epsilon": 8, "delta": 1e-3, "mitigations": "dp-sgd"})


def scores_only(X: Any, y: Any) -> Any:
    from sklearn.linear_model import LogisticRegression

    members = np.random.default_rng(0).random((16, len(y))) < 0.5
    models = [LogisticRegression().fit(X[rows], y[rows]) for rows in members]
    right = np.array([model.predict_proba(X)[np.arange(len(y)), y] for model in models])
    return lethe.audit_scores(right, members, signal="prob", quiet=True, save=False)


MODELS: dict[str, tuple[Callable[[Any, Any], Any], Callable[[], Any]]] = {
    "scikit-learn pipeline by column names": (pipeline_by_column_names, table),
    "random forest": (random_forest, arrays),
    "XGBoost": (xgboost, arrays),
    "LightGBM": (lightgbm, arrays),
    "LinearSVC": (linear_svc, arrays),
    "torch CNN": (torch_cnn, images),
    "Lightning": (lightning, arrays),
    "Hugging Face text": (hugging_face_text, arrays),
    "private training": (private_training, arrays),
    "scores only": (scores_only, arrays),
}


def lines_of(function: Callable[..., Any]) -> int:
    """Lines of a function's body that are not blank."""
    body = inspect.getsource(function).split("\n", 1)[1]
    return sum(bool(line.strip()) for line in body.splitlines())


def main() -> None:
    """Audit each model in a process of its own; print and write the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--one", choices=MODELS)
    parser.add_argument("--out", type=Path, default=RESULTS / "ten_models.json")
    given = parser.parse_args()
    if given.one:
        function, data = MODELS[given.one]
        FEW.update(models=given.models, save=False)
        X, y = data()
        start = time.perf_counter()
        found = function(X, y)
        risk = found.candidates[-1]["risk"]
        print(time.perf_counter() - start, risk["value"], risk["low"], risk["high"])
        return
    rows = {}
    for name, (function, _) in MODELS.items():
        with tempfile.TemporaryDirectory() as place:
            command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
            done = subprocess.run(
                [*command, "--models", str(given.models)],
                cwd=place,
                capture_output=True,
                text=True,
                check=True,
            )
        seconds, value, low, high = map(float, done.stdout.split()[-4:])
        rows[name] = {"lines": lines_of(function), "seconds": seconds}
        rows[name] |= {"risk": {"value": value, "low": low, "high": high}}
        print(f"{name:40} {rows[name]['lines']:3} lines {seconds:6.1f} s", flush=True)
    save({"models": given.models, "rows": rows}, given.out)


if __name__ == "__main__":
    main()
