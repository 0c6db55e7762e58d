"""Formats of text in documents, and whether text in a format can be seen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tabane.reader.visibility import Color, is_tiny, is_unreadable

Format = Mapping[str, Any]
"""Properties by name: bold, italic, strike, code, vanish, web_hidden, color (None: automatic), shade,
highlight, size, position and spacing (points), scale (percent), align (sup, sub), opacity; of paragraphs of
Word: style, outline, numbering, left and line (twips), frame.
"""

_FARTHEST = 500.0  # points that letters may be moved up or down
_NARROWEST = 10.0  # percent of their width


def is_hidden(made: Format, ground: Color | None) -> bool:
    """Return whether text in this format is not seen on this background."""
    if made.get("vanish") or made.get("opacity", 1.0) < 0.1:
        return True
    size = made.get("size", 11.0)
    if is_tiny(size) or made.get("scale", 100.0) <= _NARROWEST or abs(made.get("position", 0.0)) >= _FARTHEST:
        return True
    if made.get("spacing", 0.0) <= -0.8 * size:
        return True
    behind = made.get("highlight") or made.get("shade") or ground
    return is_unreadable(made.get("color"), behind, made.get("opacity", 1.0))


def tags_of(made: Format) -> tuple[str, ...]:
    """Return the elements of HTML for a format."""
    if made.get("code"):
        return ("code",)
    found = [tag for name, tag in (("bold", "strong"), ("italic", "em"), ("strike", "del")) if made.get(name)]
    if align := made.get("align"):
        found.append(align)
    return tuple(found)
