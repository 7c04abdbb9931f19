"""All attacks under their names. A new one is a file of this package, a line here and its name in
the help of `AuditSettings`; golden documents list it among the attacks that were not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lethe.errors import InputError, check_choice
from lethe.membership.attacks import learned, lira, quantile, rmia, simple
from lethe.membership.attacks.attack import Attack, Available

ATTACKS: dict[str, Attack] = {
    attack.name: attack
    for family in (
        lira.ATTACKS,
        lira.QUERIES,
        lira.BAVARIA,
        rmia.ATTACKS,
        learned.ATTACKS,
        simple.ATTACKS,
        quantile.ATTACKS,
    )
    for attack in family
}

AUTO = (
    *("lira-online", "lira-ranked", "lira-offline", "lira-queries", "rmia-offline"),
    *("learned-ratio", "loss-threshold"),
)
"""What ``--attack auto`` runs: see the table of docs/attacks.md."""

SIMPLE = ("lira-online", "lira-offline", "loss-threshold")
"""Attacks that need signals and membership alone."""


def choose_attacks(asked: Sequence[str], available: Available) -> tuple[str, ...]:
    """The attacks behind what was asked for.

    Args:
        asked: names; or ``auto`` for those of `AUTO`, ``all`` for all, each as far as they can
            be run here.

    Raises InputError: an unknown name, or one that lacks something here.
    """
    able = [name for name in ATTACKS if ATTACKS[name].lacks(available) is None]
    if list(asked) == ["all"]:
        return tuple(able)
    if list(asked) == ["auto"]:
        return tuple(name for name in AUTO if name in able)
    check_attacks(asked, available)
    return tuple(dict.fromkeys(asked))


def check_attacks(names: Iterable[str], available: Available) -> None:
    """Refuse unknown attacks and those that lack something here.

    Raises InputError: naming the attack and what it lacks.
    """
    for name in names:
        check_choice("attack", name, ATTACKS)
        reason = ATTACKS[name].lacks(available)
        if reason is not None:
            raise InputError(f"attack {name!r} cannot be run here: {reason}.")


def read_records(asked: Sequence[str]) -> bool:
    """Whether what was asked for reads the records themselves beside the signals."""
    names = {"all": tuple(ATTACKS), "auto": AUTO}
    every = [name for one in asked for name in names.get(one, (one,))]
    return any("features" in ATTACKS[name].needs for name in every)
