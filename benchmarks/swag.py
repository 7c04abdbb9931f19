"""SWAG at the size of a small transformer: seconds to collect and draw, memory, and a peer.

    python benchmarks/swag.py [--rank 20] [--rounds 9] [--threads 1] [--peer FOLDER] [--out FILE]

Parameters have the names and shapes of a BERT of 6 layers, 384 wide (22.7 M). The floors are one
pass over the deviations, and the normal numbers of one draw. Peak memory is that of the process
above what it held before SWAG, against K x P x 4 bytes.

With --peer, the folder of an unpacked torch-uncertainty 0.13, the fastest of the libraries, its
draws are timed round by round beside ours. Only its two files of SWAG are loaded: the package
asks for torchvision. swa-gaussian and lightning-uq-box do so too and are left out. The peer draws
the low-rank noise of each tensor apart, which is less work than ours and the wrong covariance.
"""

from __future__ import annotations

import argparse
import importlib
import resource
import statistics
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from common import RESULTS, load, median_ratio, save
from torch import Tensor, nn

from lethe.mitigations.swag import Swag


def parameters_of(layers: int = 6, width: int = 384, words: int = 30522) -> dict[str, Tensor]:
    """Names and shapes of a BERT encoder with a pooler, at the size of its weights."""
    shapes: dict[str, tuple[int, ...]] = {
        "embeddings.word": (words, width),
        "embeddings.position": (512, width),
        "embeddings.type": (2, width),
        "embeddings.norm.weight": (width,),
        "embeddings.norm.bias": (width,),
        "pooler.weight": (width, width),
        "pooler.bias": (width,),
    }
    for layer in range(layers):
        for part in ("query", "key", "value", "output"):
            shapes[f"{layer}.{part}.weight"] = (width, width)
            shapes[f"{layer}.{part}.bias"] = (width,)
        shapes[f"{layer}.up.weight"], shapes[f"{layer}.up.bias"] = (4 * width, width), (4 * width,)
        shapes[f"{layer}.down.weight"], shapes[f"{layer}.down.bias"] = (width, 4 * width), (width,)
        for norm in ("first", "second"):
            shapes[f"{layer}.{norm}.weight"] = shapes[f"{layer}.{norm}.bias"] = (width,)
    generator = torch.Generator().manual_seed(0)
    return {n: 0.05 * torch.randn(shape, generator=generator) for n, shape in shapes.items()}


def peak_bytes() -> int:
    """Largest resident size of this process so far (Linux counts in KiB)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def seconds(call: Callable[[], object], rounds: int) -> list[float]:
    """Wall time of each call."""
    found = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def measure(swag: Swag, parameters: dict[str, Tensor], rounds: int) -> dict[str, Any]:
    """Times of a full SWAG, and of what bounds them from below."""
    model = {name: value.clone() for name, value in parameters.items()}
    scratch = torch.empty(swag.size)
    calls: dict[str, Callable[[], object]] = {
        "one_draw_into_a_model_s": lambda: swag.draw_into(model, 0),
        "one_collection_again_s": lambda: swag.collect(parameters),
        "floor_normals_s": lambda: scratch.normal_(),
        "floor_one_pass_s": lambda: swag._deviations.sum(),
    }
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            found[name] += seconds(call, 1)
    return {name: statistics.median(times) for name, times in found.items()}


class Flat(nn.Module):
    """A model that only has parameters; peers are made for modules."""

    def __init__(self, parameters: dict[str, Tensor]) -> None:
        super().__init__()
        for name, value in parameters.items():
            self.register_parameter(name.replace(".", "_"), nn.Parameter(value.clone()))


def peer_of(folder: Path) -> Any:
    """The class of torch-uncertainty, from its files `methods/swa.py` and `methods/swag.py`."""
    package = types.ModuleType("peer")
    package.__path__ = [str(folder / "methods")]
    sys.modules["peer"] = package
    return importlib.import_module("peer.swag").SWAG


def against_peer(swag: Swag, folder: Path, rank: int, rounds: int) -> dict[str, Any]:
    """Our draws and theirs, round by round; theirs makes a new model, ours writes into one.

    The peer's collections are timed without the 16 draws that it makes at each by default.
    """
    parameters = parameters_of()
    model = Flat(parameters)
    peer = peer_of(folder)(model, 0, 1, max_num_models=rank, num_estimators=0)
    own = Swag(parameters, rank)
    theirs, ours = [], []
    for epoch in range(rank):
        for value, parameter in zip(parameters.values(), model.parameters(), strict=True):
            value.add_(1e-4)
            parameter.data.add_(1e-4)
        theirs += seconds(lambda epoch=epoch: peer.update_wrapper(epoch + 1), 1)
        ours += seconds(lambda: own.collect(parameters), 1)
    into = {name: value.clone() for name, value in parameters.items()}
    found: list[dict[str, float]] = []
    for _ in range(rounds):
        found.append(
            {
                "peer_draw_s": seconds(lambda: peer.sample(0.5), 1)[0],
                "draw_into_a_model_s": seconds(lambda: swag.draw_into(into, 0), 1)[0],
                "load": load(),
            }
        )
    slow = [one["peer_draw_s"] for one in found]
    return {
        "peer": "torch-uncertainty 0.13.0",
        "peer_collections_total_s": sum(theirs),
        "collections_total_s": sum(ours),
        "collection_ratio": sum(theirs) / sum(ours),
        "peer_draw_s": statistics.median(slow),
        "draw_ratio_into_a_model": median_ratio(slow, [o["draw_into_a_model_s"] for o in found]),
        "rounds": found,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--peer", type=Path)
    parser.add_argument("--out", type=Path, default=RESULTS / "swag.json")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    parameters = parameters_of()
    before = peak_bytes()
    start = time.perf_counter()
    swag = Swag(parameters, given.rank)
    for _ in range(given.rank):
        for value in parameters.values():
            value.add_(1e-4)
        swag.collect(parameters)
    made = time.perf_counter() - start
    memory = peak_bytes() - before
    document: dict[str, Any] = {
        "threads": given.threads,
        "torch": torch.__version__,
        "parameters": swag.size,
        "rank": given.rank,
        "collections_with_allocation_s": made,
        "memory_over_k_p_4": memory / (4 * given.rank * swag.size),
        "load": load(),
        **measure(swag, parameters, given.rounds),
    }
    if given.peer is not None:
        document["against"] = against_peer(swag, given.peer, given.rank, given.rounds)
    save(document, given.out)


if __name__ == "__main__":
    main()
