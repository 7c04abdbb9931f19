"""Training and export for both networks, as the reader-engagement study did it.

Binary cross-entropy with targets 0.05 and 0.95 and a weight on positives, AdamW, one-cycle cosine
schedule, batches of 512, gradients clipped to norm 1, early stopping on AUC. One thing differs by
default: stopping looks at people of the TRAIN week who are held out for it, not at the validation
rows on which privacy is measured afterwards.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from networks import REPRESENTATION, Inputs, Network, Shape, make
from numpy.typing import NDArray
from readers.store import Batch
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from lethe.files import whole_file

Rows = NDArray[np.int64]
SMOOTHING = 0.05


class Source(Protocol):
    """Whatever gives batches by row number."""

    def batch(self, rows: Rows) -> Batch:
        """Inputs and labels of some rows."""
        ...


@dataclass(frozen=True)
class Settings:
    """How one network is trained.

    Attributes:
        rate: peak learning rate.
        decay: weight decay.
        warm_up: share of the steps in which the rate rises.
        epochs: of the schedule; stopping early leaves the rest of it out.
        batch: rows a step.
        patience: epochs without a better AUC before stopping.
    """

    rate: float
    decay: float
    warm_up: float
    epochs: int = 50
    batch: int = 512
    patience: int = 8


SETTINGS = {"mlp": Settings(1e-3, 5e-4, 0.1), "lstm": Settings(8e-4, 3e-4, 0.3)}


def tensors(batch: Batch) -> Inputs:
    """The inputs of a batch for a network."""
    names = ("aggregates", "sequence", "length", "category", "kind", "article", "context")
    return Inputs(*(torch.from_numpy(np.ascontiguousarray(getattr(batch, n))) for n in names))


def chunks(rows: Rows, size: int) -> Iterator[Rows]:
    """Consecutive parts of at most `size` rows."""
    for first in range(0, len(rows), size):
        yield rows[first : first + size]


def shape_of(source: Source, rows: Rows) -> Shape:
    """Widths of what a source gives."""
    one = source.batch(rows[:1])
    widths = (one.aggregates, one.article, one.context, one.sequence)
    return Shape(*(part.shape[-1] for part in widths))


def held_out(user_ids: NDArray[np.integer], share: float, seed: int) -> NDArray[np.bool_]:
    """Which rows (n,) belong to a random share of the people, for stopping early."""
    people = np.unique(user_ids)
    count = max(1, round(share * len(people)))
    drawn = np.random.default_rng([seed, 81]).choice(people, count, replace=False)
    return np.isin(user_ids, drawn)


def train(
    name: str,
    source: Source,
    rows: Rows,
    stop: tuple[Source, Rows],
    settings: Settings,
    seed: int = 0,
    say: Callable[[str], None] = print,
) -> Network:
    """Train a network and keep its best epoch.

    Args:
        name: "mlp" or "lstm".
        source: of the training rows.
        rows: which rows to train on.
        stop: source and rows whose AUC decides when to stop.
        settings: see `Settings`.
        seed: of weights, order and dropout.
        say: told the AUC after each epoch.
    """
    labels = np.concatenate([source.batch(part).label for part in chunks(rows, 65_536)])
    share = float(labels.mean())
    network = make(name, shape_of(source, rows), seed)
    optimiser = torch.optim.AdamW(
        network.parameters(), lr=settings.rate, weight_decay=settings.decay
    )
    per_epoch = -(-len(rows) // settings.batch)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimiser,
        settings.rate,
        total_steps=settings.epochs * per_epoch,
        pct_start=settings.warm_up,
        anneal_strategy="cos",
    )
    loss_of = nn.BCEWithLogitsLoss(pos_weight=torch.tensor((1 - share) / share))
    best, kept, worse = -1.0, network.state_dict(), 0
    torch.manual_seed(seed)
    for epoch in range(settings.epochs):
        network.train()
        order = np.random.default_rng([seed, 82, epoch]).permutation(rows)
        for part in chunks(order, settings.batch):
            batch = source.batch(part)
            target = torch.from_numpy(batch.label) * (1 - 2 * SMOOTHING) + SMOOTHING
            optimiser.zero_grad()
            loss: Tensor = loss_of(network(tensors(batch)), target)
            loss.backward()
            nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimiser.step()
            schedule.step()
        _, logits, true, _ = represent(network, *stop)
        auc = float(roc_auc_score(true, logits))
        say(f"{name} epoch {epoch + 1}: AUC {auc:.4f}")
        if auc > best:
            best, worse = auc, 0
            kept = {key: value.clone() for key, value in network.state_dict().items()}
        else:
            worse += 1
            if worse >= settings.patience:
                break
    network.load_state_dict(kept)
    return network


def represent(
    network: Network, source: Source, rows: Rows, size: int = 4096
) -> tuple[NDArray[np.float32], NDArray[np.float32], NDArray[np.float32], Rows]:
    """Representations (n, 64), logits (n,), labels (n,) and users (n,) of some rows."""
    network.train(False)
    found: list[list[NDArray[np.float32]]] = [[], [], []]
    users = []
    with torch.no_grad():
        for part in chunks(rows, size):
            batch = source.batch(part)
            vectors = network.represent(tensors(batch))
            found[0].append(vectors.numpy())
            found[1].append(network.head(vectors)[:, 0].numpy())
            found[2].append(batch.label)
            users.append(batch.user_ids)
    vectors, logits, labels = (np.concatenate(one) for one in found)
    return vectors, logits, labels, np.concatenate(users)


def save_head(network: Network, path: Path) -> None:
    """Write the linear head as `w` (64,) and `b`, as `lethe audit embeddings --head` reads it."""
    weight, bias = network.head.weight.detach().numpy()[0], network.head.bias.detach().numpy()[0]
    with whole_file(path) as file:
        np.savez(file, w=weight, b=bias)


def export(
    network: Network,
    parts: dict[str, tuple[Source, Rows]],
    path: Path,
    size: int = 4096,
) -> int:
    """Write representations, users, labels, periods and raw inputs, a batch at a time.

    Args:
        network: trained.
        parts: period to source and rows; with one period no `period` is written.
        path: the .npz.
        size: rows held in memory.

    Returns:
        number of rows.
    """
    network.train(False)
    total = sum(len(rows) for _, rows in parts.values())
    source, rows = next(iter(parts.values()))
    raw = source.batch(rows[:1]).raw().shape[1]
    kinds: dict[str, tuple[str, tuple[int, ...]]] = {
        "representations": ("<f4", (REPRESENTATION,)),
        "user_ids": ("<i8", ()),
        "labels": ("|u1", ()),
        "features": ("<f4", (raw,)),
    }
    if len(parts) > 1:
        kinds["period"] = (f"<U{max(map(len, parts))}", ())
    places = {name: path.with_name(f".{path.stem}-{name}.npy") for name in kinds}
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        arrays = {
            name: np.lib.format.open_memmap(places[name], "w+", np.dtype(kind), (total, *width))
            for name, (kind, width) in kinds.items()
        }
        at = 0
        with torch.no_grad():
            for period, (source, rows) in parts.items():
                for part in chunks(rows, size):
                    batch = source.batch(part)
                    here = slice(at, at + len(part))
                    arrays["representations"][here] = network.represent(tensors(batch)).numpy()
                    arrays["user_ids"][here] = batch.user_ids
                    arrays["labels"][here] = batch.label.astype(np.uint8)
                    arrays["features"][here] = batch.raw()
                    if "period" in arrays:
                        arrays["period"][here] = period
                    at += len(part)
        for array in arrays.values():
            array.flush()
        with whole_file(path) as file, zipfile.ZipFile(file, "w") as archive:
            for name, place in places.items():
                archive.write(place, f"{name}.npy")
    finally:
        for place in places.values():
            place.unlink(missing_ok=True)
    return total
