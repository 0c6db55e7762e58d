"""Lengths and numbers of CSS, with calc(), in pixels of a screen of 1280 by 800."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from math import isfinite

WIDTH, HEIGHT = 1280.0, 800.0
FONT_SIZE = 16.0
_SIMPLE = re.compile(r"([-+]?(?:\d*\.)?\d+(?:e[-+]?\d+)?)([a-z]+|%)?")
_TOKEN = re.compile(r"\s*((?:[-+]?(?:\d*\.)?\d+(?:e[-+]?\d+)?(?:[a-z]+|%)?)|[a-z-]*\(|[-+*/(),]|[a-z]+)")
_ABSOLUTE = {
    "px": 1.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "q": 96 / 101.6, "in": 96.0, "pt": 96 / 72, "pc": 16.0,
}  # fmt: skip
_OF_VIEW = {
    **dict.fromkeys(("vw", "svw", "lvw", "dvw", "vi", "cqw", "cqi"), WIDTH / 100),
    **dict.fromkeys(("vh", "svh", "lvh", "dvh", "vb", "cqh", "cqb"), HEIGHT / 100),
    **dict.fromkeys(("vmin", "svmin", "lvmin", "dvmin", "cqmin"), HEIGHT / 100),
    **dict.fromkeys(("vmax", "svmax", "lvmax", "dvmax", "cqmax"), WIDTH / 100),
}
_ANGLES = {"deg": 1.0, "grad": 0.9, "rad": 57.29577951308232, "turn": 360.0}
_OF_FONT = {"em": 1.0, "ex": 0.5, "ch": 0.5, "cap": 0.7, "ic": 1.0, "lh": 1.2}
_OF_ROOT = {"rem": 1.0, "rex": 0.5, "rch": 0.5, "ric": 1.0, "rlh": 1.2}
_MOST_TOKENS = 200
_DEEP = 12


@lru_cache(4096)
def length(
    value: str, em: float = FONT_SIZE, base: float = WIDTH, root: float = FONT_SIZE, *, bare: bool = False
) -> float | None:
    """Return a length in pixels; None if it is none. Percentages are of ``base``.

    ``em`` is the font size of the element, ``root`` that of the page. ``bare``: numbers are lengths, too.
    """
    simple = _SIMPLE.fullmatch(value)
    if simple is not None:
        number, unit = float(simple[1]), simple[2]
        if unit is None and number and not bare:
            return None
        return _finite(_scaled(number, unit, em, base, root))
    if "(" not in value or len(value) > 1000:
        return None
    tokens = _tokens(value)
    if tokens is None:
        return None
    return _finite(_Calculation(tokens, em, base, root).result())


def number(value: str) -> float | None:
    """Return a number; a percentage is a part of 1."""
    simple = _SIMPLE.fullmatch(value)
    if simple is not None:
        if simple[2] not in (None, "%"):
            return None
        return _finite(float(simple[1]) / (100 if simple[2] else 1))
    return length(value, 1, 1, 1, bare=True) if "(" in value else None


def angle(value: str) -> float | None:
    """Return an angle in degrees."""
    simple = _SIMPLE.fullmatch(value)
    if simple is None or (simple[2] or "deg") not in _ANGLES:
        return None
    return _finite(float(simple[1]) * _ANGLES[simple[2] or "deg"])


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _scaled(number: float, unit: str | None, em: float, base: float, root: float) -> float | None:
    if unit is None:
        return number
    if unit == "%":
        return number / 100 * base
    factor = _ABSOLUTE.get(unit) or _OF_VIEW.get(unit)
    if factor is not None:
        return number * factor
    if unit in _OF_FONT:
        return number * _OF_FONT[unit] * em
    return number * _OF_ROOT[unit] * root if unit in _OF_ROOT else None


def _tokens(value: str) -> list[str] | None:
    found: list[str] = []
    at = 0
    value = value.rstrip()
    while at < len(value):
        token = _TOKEN.match(value, at)
        if token is None or len(found) >= _MOST_TOKENS:
            return None
        found.append(token[1])
        at = token.end()
    return found


class _Calculation:
    """Evaluates calc(), min(), max() and clamp() of one value."""

    def __init__(self, tokens: Sequence[str], em: float, base: float, root: float) -> None:
        self._tokens, self._at = tokens, 0
        self._em, self._base, self._root = em, base, root

    def result(self) -> float | None:
        found = self._sum(0)
        return found if self._at == len(self._tokens) else None

    def _next(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else ""
        self._at += 1
        return token

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _sum(self, depth: int) -> float | None:
        total = self._product(depth)
        while total is not None and self._peek() in ("+", "-"):
            sign = self._next()
            other = self._product(depth)
            total = None if other is None else total + (other if sign == "+" else -other)
        return total

    def _product(self, depth: int) -> float | None:
        total = self._one(depth)
        while total is not None and self._peek() in ("*", "/"):
            sign = self._next()
            other = self._one(depth)
            if other is None or (sign == "/" and not other):
                return None
            total = total * other if sign == "*" else total / other
        return total

    def _one(self, depth: int) -> float | None:
        token = self._next()
        if token.endswith("("):
            return self._function(token[:-1], depth + 1) if depth < _DEEP else None
        simple = _SIMPLE.fullmatch(token)
        if simple is None:
            return None
        return _scaled(float(simple[1]), simple[2], self._em, self._base, self._root)

    def _function(self, name: str, depth: int) -> float | None:
        values: list[float] = []
        while True:
            value = self._sum(depth)
            if value is None:
                return None
            values.append(value)
            token = self._next()
            if token == ")":
                break
            if token != ",":
                return None
        if name in ("", "calc", "-webkit-calc", "-moz-calc"):
            return values[0] if len(values) == 1 else None
        if name == "min":
            return min(values)
        if name == "max":
            return max(values)
        if name == "clamp" and len(values) == 3:
            return max(values[0], min(values[1], values[2]))
        if name == "abs":
            return abs(values[0])
        return None
