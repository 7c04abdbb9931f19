"""Placing the labels of a scatter so that they lie on nothing and stay near their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_RADII = (9, 15, 24, 36, 50, 66, 84)
_DIRECTIONS = (
    ("start", 1, 0),
    ("end", -1, 0),
    ("start", 0.7, -0.8),
    ("start", 0.7, 0.8),
    ("end", -0.7, -0.8),
    ("end", -0.7, 0.8),
    ("middle", 0, -1),
    ("middle", 0, 1),
)
_LEADER_FROM = 24


@dataclass(frozen=True)
class Box:
    """A rectangle, y downward."""

    left: float
    top: float
    right: float
    bottom: float

    def overlap(self, other: Box) -> float:
        """The shared area."""
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.bottom, other.bottom) - max(self.top, other.top)
        return max(wide, 0) * max(high, 0)

    def outside(self, frame: Box) -> float:
        """How far it sticks out of `frame`."""
        return (
            max(frame.left - self.left, 0)
            + max(self.right - frame.right, 0)
            + max(frame.top - self.top, 0)
            + max(self.bottom - frame.bottom, 0)
        )


@dataclass(frozen=True)
class Label:
    """Where a text goes: its anchor point, and whether a leader line is needed."""

    x: float
    y: float
    anchor: str
    leader: bool
    box: Box


def place(
    points: Sequence[tuple[float, float]],
    widths: Sequence[float],
    height: float,
    frame: Box,
    obstacles: Sequence[Box],
) -> list[Label]:
    """Greedy placement, in the order given: the first points get the best places.

    Args:
        points: the centres to label.
        widths: estimated width of each text.
        height: height of one line of text.
        frame: the area that labels must stay in.
        obstacles: what labels should not cover, such as marks and interval lines.
    """
    placed: list[Label] = []
    for (x, y), width in zip(points, widths, strict=True):
        best = min(
            (
                _candidate(x, y, width, height, radius, way)
                for radius in _RADII
                for way in _DIRECTIONS
            ),
            key=lambda pair: (
                pair[1]
                + 500 * pair[0].box.outside(frame)
                + 12 * sum(pair[0].box.overlap(other.box) for other in placed)
                + 3 * sum(pair[0].box.overlap(box) for box in obstacles)
            ),
        )
        placed.append(best[0])
    return placed


def _candidate(
    x: float, y: float, width: float, height: float, radius: float, way: tuple[str, float, float]
) -> tuple[Label, float]:
    anchor, right, down = way
    at_x, middle = x + right * radius, y + down * radius
    left = at_x - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    box = Box(left - 1, middle - height / 2, left + width + 1, middle + height / 2)
    return Label(at_x, middle + height * 0.3, anchor, radius >= _LEADER_FROM, box), radius * 1.5
