"""A small perceptron that predicts the mean and the spread of a number."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lethe.errors import require
from lethe.training.users_code import build_module

HIDDEN = 64
BATCH = 256
EPOCHS = 300
PATIENCE = 25
VALIDATION = 0.2
RATE = 3e-3
DECAY = 1e-3

Float = NDArray[np.float64]


def fit_normal_net(
    inputs: Float, signal: Float, seed: int
) -> Callable[[NDArray[np.floating]], tuple[Float, Float]]:
    """Fit mean and log deviation by the normal likelihood, with early stopping.

    Two hidden layers of 64 units; inputs are standardised; a fifth of the rows decides when to
    stop, after 25 epochs without a better likelihood, and the best state is taken.

    Args:
        inputs: (n, D).
        signal: (n,) with a mean of about 0 and a deviation of about 1.
        seed: of the split, the first weights and the batches.

    Returns:
        A function of (m, D) inputs that gives (m,) means and (m,) deviations, in [0.02, 50].
    """
    torch = require("torch", "train")
    centre, spread = inputs.mean(axis=0), inputs.std(axis=0)
    spread = np.where(spread > 1e-9, spread, 1.0)

    def tensor(table: NDArray[np.floating]) -> Any:
        return torch.from_numpy(np.ascontiguousarray(table, np.float32))

    def standard(rows: NDArray[np.floating]) -> Any:
        # Rows far from all that were fitted would be extrapolated without end.
        return tensor(np.clip((rows - centre) / spread, -10, 10))

    def make() -> Any:
        return torch.nn.Sequential(
            torch.nn.Linear(inputs.shape[1], HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, HIDDEN),
            torch.nn.ReLU(),
            torch.nn.Linear(HIDDEN, 2),
        )

    def loss(rows: Any, truth: Any) -> Any:
        mean, log_sd = net(rows).unbind(1)
        log_sd = log_sd.clamp(-4, 4)
        return (log_sd + 0.5 * ((truth - mean) * torch.exp(-log_sd)) ** 2).mean()

    rng = np.random.default_rng([seed, 53])
    order = rng.permutation(len(signal))
    held, used = np.split(order, [max(1, round(VALIDATION * len(signal)))])
    net = build_module(make, seed)
    rows, truth = standard(inputs), tensor(signal)
    optimizer = torch.optim.AdamW(net.parameters(), lr=RATE, weight_decay=DECAY)
    best, waited, kept = np.inf, 0, copy.deepcopy(net.state_dict())
    with torch.enable_grad():
        for _ in range(EPOCHS):
            for batch in np.array_split(rng.permutation(used), -(-len(used) // BATCH)):
                optimizer.zero_grad()
                loss(rows[batch], truth[batch]).backward()
                optimizer.step()
            with torch.no_grad():
                now = float(loss(rows[held], truth[held]))
            waited += 1
            if now < best:
                best, waited, kept = now, 0, copy.deepcopy(net.state_dict())
            if waited >= PATIENCE:
                break
    net.load_state_dict(kept)

    def heads(new: NDArray[np.floating]) -> tuple[Float, Float]:
        with torch.no_grad():
            mean, log_sd = net(standard(new)).unbind(1)
            sd = torch.exp(log_sd.clamp(-4, 4))
        return mean.numpy().astype(np.float64), sd.numpy().astype(np.float64)

    return heads
