"""What the help says is what there is."""

from __future__ import annotations

from command import command

from lethe.membership.attacks.registry import ATTACKS


def test_the_help_names_every_attack():
    done = command("audit", "model", "--help")
    assert done.returncode == 0, done.stderr
    words = done.stdout.replace("│", " ").split()
    assert set(ATTACKS) <= {word.strip(",;.:") for word in words}
