"""A release whose process kills itself after some forward passes, again and again.

python release_in_lives.py FOLDER PASSES: forks one life after another, each killed by SIGKILL
after PASSES forward passes, until one comes to the end; prints how many were killed.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lethe.mitigations.swag_release.records import ReleaseSettings
from lethe.mitigations.swag_release.release import ReleasedDraw, release_draw
from lethe.training.fingerprint import hash_value

SETTINGS = ReleaseSettings(
    3.0,
    "add/remove",
    floor=0.02,
    fit_epochs=2,
    refit_epochs=2,
    swag_epochs=3,
    rounds=1,
    draws=8,
    final_draws=8,
    rate=0.05,
    swag_rate=0.1,
    batch_size=16,
    rank=2,
    scales=(0.5, 1.0),
    releases=2,
)


def scores(module: nn.Module, batch: Any) -> Tensor:
    """The model's scores, or the end of this process."""
    if "LIVES_LEFT" in os.environ:
        left = int(os.environ["LIVES_LEFT"])
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        os.environ["LIVES_LEFT"] = str(left - 1)
    found: Tensor = module(batch)
    return found


def released(folder: Path) -> ReleasedDraw:
    """The same release whenever it is called."""
    stream = torch.Generator().manual_seed(5)
    inputs = torch.randn(40, 4, generator=stream)
    truth = (inputs @ torch.randn(4, 3, generator=stream)).argmax(1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        module = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.LayerNorm(8), nn.Linear(8, 3))
    return release_draw(
        module, inputs, truth, SETTINGS, folder, seed=1, draw_seed=77, logits=scores
    )


def main() -> None:
    """Lives until one is not killed."""
    torch.set_num_threads(1)
    folder, passes = Path(sys.argv[1]), sys.argv[2]
    hash_value(scores)  # what a library's code hashes to is looked up once for all lives
    killed = 0
    while True:
        child = os.fork()
        if child == 0:
            os.environ["LIVES_LEFT"] = passes
            released(folder)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        assert os.WTERMSIG(status) == signal.SIGKILL
        killed += 1
    print(killed if os.WEXITSTATUS(status) == 0 else f"failed after {killed}")


if __name__ == "__main__":
    main()
