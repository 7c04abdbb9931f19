"""Convolutional networks on MNIST: Lethe's engine against the DataLoader loop, default threads.

    LETHE_DATA=... python benchmarks/cnn.py [--models 16] [--rounds 5] [--out FILE]

Two networks of two convolutions on 5,000 images of 28x28, half of them a model. The loop is that of
tutorials (`DataLoader(TensorDataset, shuffle=True, num_workers=0)`, Adam, one model after another)
in a fresh process with as many threads as torch takes by default. Lethe trains the same networks in
two worker processes, laid out as its calibration on this recipe decides (`--layout default` skips
that), every model evaluated on every image, shards hashed and written. Ratios are per model, within
a round; the accuracies on images not trained on show that both train equally well.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, calibrated, engine, save, side_by_side, spec_with, torch_recipe

RECORDS, BATCH, RATE = 5_000, 64, 1e-3


def network(name: str) -> Any:
    """`lenet` (5x5, 6 and 16 channels) or `wide` (3x3, 16 and 32 channels), 784 values in."""
    from torch import nn

    shape = nn.Unflatten(1, (1, 28, 28))
    if name == "lenet":
        return nn.Sequential(
            shape,
            nn.Conv2d(1, 6, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 16, 5),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(400, 120),
            nn.ReLU(),
            nn.Linear(120, 84),
            nn.ReLU(),
            nn.Linear(84, 10),
        )
    return nn.Sequential(
        shape,
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(1568, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


NETWORKS = ("lenet", "wide")


def images() -> tuple[Any, Any]:
    """5,000 images as rows of 784 values in [0, 1], and their digits."""
    with np.load(Path(os.environ["LETHE_DATA"]) / "mnist" / "mnist.npz") as data:
        chosen = np.random.default_rng(0).permutation(len(data["y_train"]))[:RECORDS]
        features = data["x_train"][chosen].reshape(RECORDS, -1).astype(np.float32) / 255
        return features, data["y_train"][chosen].astype(np.int64)


def loop(name: str, models: int, epochs: int) -> dict[str, Any]:
    """Seconds a model of the tutorial's loop; to be called in a fresh process."""
    import torch
    from torch.nn.functional import cross_entropy
    from torch.utils.data import DataLoader, TensorDataset

    features, labels = (torch.from_numpy(part) for part in images())

    def train(inside: Any, epochs: int) -> Any:
        model = network(name)
        batches = DataLoader(
            TensorDataset(features[inside], labels[inside]), BATCH, shuffle=True, num_workers=0
        )
        optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
        for _ in range(epochs):
            for x, y in batches:
                optimizer.zero_grad()
                cross_entropy(model(x), y).backward()
                optimizer.step()
        return model

    seconds, accuracies = [], []
    train(torch.arange(RECORDS // 2), 1)
    for number in range(models):
        torch.manual_seed(number)
        inside = torch.zeros(RECORDS, dtype=torch.bool)
        inside[torch.randperm(RECORDS)[: RECORDS // 2]] = True
        start = time.perf_counter()
        model = train(inside, epochs)
        seconds.append(time.perf_counter() - start)
        with torch.no_grad():
            right = (model(features).argmax(dim=1) == labels).double()
        accuracies.append(right[~inside].mean().item())
    return {
        "seconds_per_model": float(np.mean(seconds)),
        "test_accuracy": float(np.mean(accuracies)),
        "threads": torch.get_num_threads(),
    }


def fresh(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """`loop` in a process of its own, with the threads that torch takes by itself."""
    command = [
        sys.executable,
        __file__,
        "--loop",
        name,
        "--epochs",
        str(options.epochs),
        "--loop-models",
        str(options.loop_models),
    ]
    plain = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, env=plain)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """Run all rounds of both networks, print ratios, write the JSON file."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", type=int, default=16)
    parser.add_argument("--loop-models", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--width", type=int, default=4, help="models a chunk")
    parser.add_argument("--networks", nargs="+", choices=NETWORKS, default=list(NETWORKS))
    parser.add_argument("--layout", choices=("calibrated", "default"), default="calibrated")
    parser.add_argument("--out", type=Path, default=RESULTS / "cnn.json")
    parser.add_argument("--loop", choices=NETWORKS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.loop:
        print(json.dumps(loop(options.loop, options.loop_models, options.epochs)))
        return
    features, labels = images()
    summary, rounds = {}, {}
    for name in options.networks:
        recipe = torch_recipe(functools.partial(network, name), options.epochs, BATCH, RATE)
        spec = spec_with(features, labels, 10, recipe)
        layout = calibrated(spec) if options.layout == "calibrated" else None
        rounds[name], times, accuracies = side_by_side(
            functools.partial(fresh, name, options),
            functools.partial(engine, spec, options.models, options.width, layout),
            options.rounds,
        )
        summary[name] = {
            "times_dataloader": times,
            "target": 4,
            "test_accuracy": accuracies,
            "layout": None if layout is None else layout.to_json(),
        }
    settings = {"models": options.models, "epochs": options.epochs, "width": options.width}
    save({**settings, **summary, "rounds": rounds}, options.out)


if __name__ == "__main__":
    main()
