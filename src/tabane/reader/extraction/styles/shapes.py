"""Shapes of clip-path: whether anything of an element is within."""

from __future__ import annotations

import re
from functools import lru_cache

from tabane.reader.extraction.styles.colors import parts
from tabane.reader.extraction.styles.declarations import functions
from tabane.reader.extraction.styles.lengths import length

_SIDE = 300.0
"""Assumed length of a side in pixels, against which percentages are measured."""
_LEAST = 4.0
_BESIDE = re.compile(r"\s+(?:round|from)\s+.*")


@lru_cache(1024)
def shown_part(shape: str, em: float) -> bool:
    """Return whether a clip-path shows something; of one that is not known, True."""
    found = functions(re.sub(r"\s*\b(?:border|padding|content|margin|fill|stroke|view)-box\b\s*", "", shape))
    if not found:
        return True
    name, arguments = found[0]
    if name in ("inset", "rect", "xywh"):
        return _box(name, _BESIDE.sub("", f"{arguments} "), em)
    if name in ("circle", "ellipse"):
        return _round(arguments, em)
    if name == "polygon":
        return _polygon(arguments, em)
    if name == "path":
        numbers = [float(each) for each in re.findall(r"-?\d{1,9}(?:\.\d{1,9})?", arguments)[:400]]
        return _spread(numbers[::2]) >= _LEAST and _spread(numbers[1::2]) >= _LEAST
    return True


def _box(name: str, arguments: str, em: float) -> bool:
    sides = [length(word, em, _SIDE) for word in arguments.split()]
    if name == "inset" and sides:
        plain = [side or 0.0 for side in sides]
        top, right = plain[0], plain[1 if len(plain) > 1 else 0]
        bottom, left = (
            plain[2 if len(plain) > 2 else 0],
            plain[3 if len(plain) > 3 else 1 if len(plain) > 1 else 0],
        )
        return _SIDE - top - bottom >= _LEAST and _SIDE * 4 - left - right >= _LEAST and not _whole(arguments)
    if len(sides) != 4:
        return True
    first, second, third, fourth = (side if side is not None else _SIDE for side in sides)
    if name == "rect":
        return third - first >= _LEAST and second - (0 if sides[3] is None else fourth) >= _LEAST
    return third >= _LEAST and fourth >= _LEAST and first < _SIDE and second < _SIDE


def _whole(arguments: str) -> bool:
    """Return whether percentages of opposite sides leave nothing."""
    words = arguments.split()
    shares = [
        float(word[:-1]) if re.fullmatch(r"-?[\d.]{1,9}%", word) and word.count(".") < 2 else 0.0
        for word in words
    ]
    top, right = shares[0], shares[1 if len(shares) > 1 else 0]
    bottom = shares[2 if len(shares) > 2 else 0]
    left = shares[3] if len(shares) > 3 else right
    return top + bottom >= 98 or left + right >= 98


def _round(arguments: str, em: float) -> bool:
    size, _, place = arguments.partition("at ")
    radii = [each for word in size.split() if (each := length(word, em, _SIDE)) is not None]
    if radii and min(radii) < _LEAST:
        return False
    middle = [each for word in place.split() if (each := length(word, em, _SIDE)) is not None]
    reach = max(radii) if radii else _SIDE
    return all(-reach < each < 4 * _SIDE + reach for each in middle)


def _polygon(arguments: str, em: float) -> bool:
    points: list[tuple[float, float]] = []
    for part in parts(arguments)[:200]:
        words = [length(word, em, _SIDE) for word in part.split()]
        if len(words) == 2 and words[0] is not None and words[1] is not None:
            points.append((words[0], words[1]))
        elif words and words != [None]:
            return True
    area = sum(
        (one[0] * other[1] - other[0] * one[1]) / 2
        for one, other in zip(points, points[1:] + points[:1], strict=True)
    )
    inside = any(x > 0 for x, _ in points) and any(y > 0 for _, y in points)
    return inside and abs(area) >= _LEAST * _LEAST


def _spread(numbers: list[float]) -> float:
    return max(numbers) - min(numbers) if numbers else 0.0
