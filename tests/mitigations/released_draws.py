"""Reads a released draw and its label, for tests of its release."""

import json
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor


def read_release(path: str | Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors by name, and the label, with the keys ``guarantee`` and ``release``."""
    with safe_open(str(path), framework="pt") as file:
        header = dict(file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}
    return tensors, {name: json.loads(header[name]) for name in ("guarantee", "release")}
