"""Random numbers of code that asks no generator of its own: they follow the model's seed."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Iterator

import numpy as np


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global generators of Python, NumPy and torch, and put them back afterwards.

    Without this, a model would depend on which models its process trained before. torch is
    seeded if it is loaded by then.
    """
    torch = sys.modules.get("torch")
    python, legacy = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]) if torch else contextlib.nullcontext():
        random.seed(seed)
        np.random.seed(seed % 2**32)
        if torch:
            torch.manual_seed(seed)
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(legacy)
