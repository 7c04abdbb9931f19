"""The mechanisms of the benchmark, for the tests of the audit."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

_FILE = Path(__file__).parents[2] / "benchmarks" / "known_mechanisms.py"


def known_mechanisms() -> Any:
    """The module `benchmarks/known_mechanisms.py`."""
    name = "known_mechanisms"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, _FILE)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]
