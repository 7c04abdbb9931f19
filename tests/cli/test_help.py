"""What the help says is what there is."""

from __future__ import annotations

import subprocess
import sys

from lethe.membership.attacks import ATTACKS


def test_the_help_names_every_attack():
    done = subprocess.run(
        [sys.executable, "-m", "lethe", "audit", "model", "--help"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    words = done.stdout.replace("│", " ").replace("-\n", "-").split()
    said = {word.strip(",;.:") for word in words}
    assert set(ATTACKS) <= said
