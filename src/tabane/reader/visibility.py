"""Legibility of text: contrast between a color and its background, and sizes that nobody can read. Pure.

The rules are the same for all formats of documents, so that what is hidden in one is hidden in all.
"""

from __future__ import annotations

Color = tuple[int, int, int]
"""Red, green and blue, 0..255 each."""

WHITE: Color = (255, 255, 255)
BLACK: Color = (0, 0, 0)

_CONTRAST = 1.2  # of WCAG, 1..21: pale gray (#eee) on white has 1.16, and light gray (#ddd) 1.36
_DIFFERENCE = 32  # of one channel: yellow on white has a low contrast, but everyone sees it
_TINY = 2.0  # points
_FAINT = 0.1  # opacity


def hex_color(text: str | None) -> Color | None:
    """Return the color of six hexadecimal digits, or of eight whose first two are its opacity."""
    digits = (text or "").strip().lstrip("#")
    if len(digits) == 8:
        digits = digits[2:]
    if len(digits) != 6:
        return None
    try:
        return int(digits[:2], 16), int(digits[2:4], 16), int(digits[4:], 16)
    except ValueError:
        return None


def contrast(color: Color, ground: Color) -> float:
    """Return the contrast ratio of WCAG 2: 1 for equal colors, 21 for black on white."""
    lighter, darker = sorted((_luminance(color), _luminance(ground)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def is_unreadable(color: Color | None, ground: Color | None, opacity: float = 1.0) -> bool:
    """Return whether text of this color cannot be seen on this background; False if one is unknown."""
    if opacity < _FAINT:
        return True
    if color is None or ground is None:
        return False
    color = blended(color, opacity, ground)
    if max(abs(one - other) for one, other in zip(color, ground, strict=True)) > _DIFFERENCE:
        return False
    return contrast(color, ground) < _CONTRAST


def is_tiny(points: float | None) -> bool:
    """Return whether letters of this size are too small to be seen as letters."""
    return points is not None and points < _TINY


def blended(color: Color, opacity: float, ground: Color) -> Color:
    """Return the color that a partly transparent one gives on a background."""
    if opacity >= 1:
        return color
    red, green, blue = (
        round(over * opacity + below * (1 - opacity)) for over, below in zip(color, ground, strict=True)
    )
    return red, green, blue


def _luminance(color: Color) -> float:
    red, green, blue = (_linear(channel / 255) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else float(((channel + 0.055) / 1.055) ** 2.4)
