"""The judge of what a reader sees: text of a look on a ground, and shapes on a slide."""

from __future__ import annotations

from typing import NamedTuple

from tabane.reader.formats.office.model import Look
from tabane.reader.formats.office.package import Paint
from tabane.reader.hidden_text import WHITE, Color, is_tiny, is_unreadable

_FARTHEST = 500.0  # points that letters may be moved up or down
_NARROWEST = 10.0  # percent of their width
_SHAPES = 100  # shapes of a slide whose places are compared


def is_hidden(look: Look, ground: Color | None) -> bool:
    """Return whether text of this look is not seen on this ground (None: unknown)."""
    opacity = look.get("opacity", 1.0)
    if look.get("vanish") or opacity < 0.1:
        return True
    size = look.get("size", 11.0)
    if is_tiny(size) or look.get("scale", 100.0) <= _NARROWEST or abs(look.get("position", 0.0)) >= _FARTHEST:
        return True
    if look.get("spacing", 0.0) <= -0.8 * size:
        return True
    return is_unreadable(look.get("color"), look.get("highlight") or look.get("shade") or ground, opacity)


class TextPlace(NamedTuple):
    """Where text is: its ground (None: unknown), its look there, and its depth in tables and boxes.

    ``hidden``: nobody sees what is there.
    """

    ground: Color | None = WHITE
    look: Look = {}
    depth: int = 0
    hidden: bool = False


class Box(NamedTuple):
    """The place of a shape on its slide, in the unit of its format."""

    left: float
    top: float
    right: float
    bottom: float

    def contains(self, other: Box) -> bool:
        """Return whether the other box is within this one."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and self.right >= other.right
            and self.bottom >= other.bottom
        )

    def meets(self, other: Box) -> bool:
        """Return whether the boxes have a point in common."""
        return (
            self.left < other.right
            and other.left < self.right
            and self.top < other.bottom
            and other.top < self.bottom
        )


class _Area(NamedTuple):
    order: int
    box: Box
    paint: Paint
    covers: bool


class SlideCanvas:
    """What is painted on a slide, from the back to the front.

    ``moves``: an animation may move what covers other shapes.
    """

    def __init__(self, page: Box, ground: Color | None, *, moves: bool) -> None:
        self._page, self._ground, self._moves = page, ground, moves
        self._areas: list[_Area] = []

    def paint(self, order: int, box: Box | None, paint: Paint | None, *, covers: bool = False) -> None:
        """Paint the shape at this place in the order; shapes of the master have negative ones.

        ``covers``: it is a rectangle that nothing shows through.
        """
        if box is not None and paint is not None and order < _SHAPES:
            self._areas.append(_Area(order, box, paint, covers))

    def behind(self, order: int, box: Box | None) -> Color | None:
        """Return the color behind a shape; None if it is not known."""
        for area in reversed(self._areas) if box is not None else ():
            if box is not None and area.order < order and area.paint.opacity >= 0.5 and area.box.meets(box):
                return area.paint.color if area.box.contains(box) else None
        return self._ground

    def hides(self, order: int, box: Box | None) -> bool:
        """Return whether a shape is off the slide, or below one that covers it."""
        if box is None:
            return False
        wide = Box(box.left, box.top, max(box.right, box.left + 1), max(box.bottom, box.top + 1))
        if not self._page.meets(wide):
            return True
        return not self._moves and any(
            area.covers and area.order > order and area.box.contains(box) for area in self._areas
        )
