"""The command in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any


def command(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `lethe` with arguments; warnings are errors."""
    return subprocess.run(
        [sys.executable, "-m", "lethe", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "error"},
        **options,
    )
