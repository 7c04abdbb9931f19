"""All that an audit measures on one model's vectors, before it is written down."""

from __future__ import annotations

from dataclasses import dataclass

from lethe.reidentification.candidates import Way
from lethe.reidentification.clean import Clean
from lethe.reidentification.gallery import Split
from lethe.reidentification.operating import OperatingPoint
from lethe.reidentification.radius_study import RadiusStudy
from lethe.reidentification.released import Released
from lethe.reidentification.surface import Curve
from lethe.reidentification.sweep import Game
from lethe.reidentification.task import Task, TaskLevel


@dataclass(frozen=True, eq=False)
class Measured:
    """All that was measured on one model.

    Attributes:
        model: its vectors.
        split: who is known and who is to be named.
        clean: attack and controls without noise.
        curve: the attack by noise level.
        game: what the certificates are about.
        bounds: limit on every attacker's Top-1 in closed form, by sigma of the curve.
        task: head and labels, if there are any.
        utility: by effective sigma.
        radii: certified radii; None without a head.
        point: where to stand, under the rule of the settings.
        ways: the candidates, the release as it is first.
        skipped: name and reason of what could not be measured.
    """

    model: Released
    split: Split
    clean: Clean
    curve: Curve
    game: Game
    bounds: dict[float, float]
    task: Task | None
    utility: dict[float, TaskLevel]
    radii: RadiusStudy | None
    point: OperatingPoint
    ways: tuple[Way, ...]
    skipped: dict[str, str]
