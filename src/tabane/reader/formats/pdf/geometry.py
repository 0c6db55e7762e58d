"""Boxes on a page: in points, from the lower left corner of what is shown of it, as it is turned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class PdfBox(NamedTuple):
    """A rectangle; y grows upwards."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def width(self) -> float:
        return self.right - self.left

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def holds(self, x: float, y: float, room: float = 0.0) -> bool:
        """Return whether a point is within the box, or not further than ``room`` from it."""
        return self.left - room <= x <= self.right + room and self.bottom - room <= y <= self.top + room

    def meets(self, other: PdfBox) -> bool:
        """Return whether the boxes have an area in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


@dataclass(frozen=True, slots=True)
class PdfFrame:
    """The part of a page that is shown: its corner in the page's own units, its size and its turn.

    ``turn`` counts quarters of a turn, clockwise. ``width`` and ``height`` are those of the turned page.
    """

    left: float
    bottom: float
    width: float
    height: float
    turn: int = 0

    def box(self, left: float, bottom: float, right: float, top: float) -> PdfBox:
        """Return a box of the page's own units on this frame."""
        left, right = left - self.left, right - self.left
        bottom, top = bottom - self.bottom, top - self.bottom
        if self.turn == 0:
            return PdfBox(left, bottom, right, top)
        if self.turn == 1:
            return PdfBox(bottom, self.height - right, top, self.height - left)
        if self.turn == 2:
            return PdfBox(self.width - right, self.height - top, self.width - left, self.height - bottom)
        return PdfBox(self.width - top, left, self.width - bottom, right)

    def direction(self, x: float, y: float) -> tuple[float, float]:
        """Return a direction of the page as seen on this frame."""
        return ((x, y), (y, -x), (-x, -y), (-y, x))[self.turn]


def merged_spans(spans: list[tuple[float, float]], room: float) -> list[tuple[float, float]]:
    """Return the union of ranges; those that are not further apart than ``room`` become one."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(spans):
        if found and low <= found[-1][1] + room:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return found


def centers(values: list[float], room: float) -> list[float]:
    """Return the means of groups of values: neighbors within ``room`` of each other are one group."""
    found: list[list[float]] = []
    for value in sorted(values):
        if found and value - found[-1][-1] <= room:
            found[-1].append(value)
        else:
            found.append([value])
    return [sum(group) / len(group) for group in found]
