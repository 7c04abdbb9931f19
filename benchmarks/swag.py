"""SWAG at the size of a small transformer: seconds to collect and draw, and memory beside it.

    python benchmarks/swag.py [--rank 20] [--rounds 5] [--threads 1] [--out FILE]

Parameters have the names and shapes of a BERT of 6 layers, 384 wide (22.7 M). The floors are one
pass over the deviations, and the normal numbers of one draw. Peak memory is that of the process
above what it held before SWAG, against K x P x 4 bytes.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

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


def measure(rank: int, rounds: int, precision: str) -> dict[str, float]:
    """Times and memory of one precision."""
    parameters = parameters_of()
    for value in parameters.values():
        value.add_(1e-5)
    before = peak_bytes()
    start = time.perf_counter()
    swag = Swag(parameters, rank, precision=precision)
    collected = []
    for _ in range(rank):
        for value in parameters.values():
            value.add_(1e-4)
        collected += seconds(lambda: swag.collect(parameters), 1)
    made = time.perf_counter() - start
    memory = peak_bytes() - before
    draws = seconds(lambda: swag.draw(0), rounds)
    again = seconds(lambda: swag.collect(parameters), rounds)
    batch = seconds(lambda: swag.draw(0, 8), 2)
    point = swag.draw(1)
    density = seconds(lambda: swag.log_density(point), 2)
    scratch = torch.empty(swag.size)
    normals = seconds(lambda: scratch.normal_(), rounds)
    one_pass = seconds(lambda: swag._deviations.sum(), rounds)
    return {
        "parameters": swag.size,
        "rank": rank,
        "collections_total_s": sum(collected),
        "with_allocation_and_moving_s": made,
        "one_collection_again_s": statistics.median(again),
        "one_draw_s": statistics.median(draws),
        "draw_in_batch_of_8_s": statistics.median(batch) / 8,
        "one_log_density_s": statistics.median(density),
        "floor_normals_s": statistics.median(normals),
        "floor_one_pass_s": statistics.median(one_pass),
        "extra_memory_of_collecting_bytes": memory,
        "memory_over_k_p_4": memory / (4 * rank * swag.size),
    }


def main() -> None:
    """Measure and print; one precision a process, since the peak never falls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--precision", choices=("full", "bfloat16"), default="full")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    found = measure(given.rank, given.rounds, given.precision)
    text = json.dumps(
        {"precision": given.precision, "threads": given.threads, "torch": torch.__version__}
        | {name: round(value, 4) for name, value in found.items()},
        indent=1,
    )
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
