"""Media queries and feature queries, answered for a screen of 1280 by 800 of a desktop computer."""

from __future__ import annotations

import re
from functools import lru_cache

from tabane.reader.extraction.styles.colors import parts
from tabane.reader.extraction.styles.lengths import HEIGHT, WIDTH, length, number

_FEATURES = {
    "hover": "hover", "any-hover": "hover", "pointer": "fine", "any-pointer": "fine",
    "orientation": "landscape",
    "prefers-color-scheme": "light", "scripting": "enabled", "update": "fast", "display-mode": "browser",
    "color-gamut": "srgb", "overflow-block": "scroll", "overflow-inline": "scroll",
    "dynamic-range": "standard",
}  # fmt: skip
_NONE = frozenset(
    ("prefers-reduced-motion", "prefers-contrast", "prefers-reduced-transparency", "prefers-reduced-data",
     "forced-colors", "inverted-colors", "-ms-high-contrast", "grid", "monochrome")
)  # fmt: skip
_NUMBERS = {
    "width": WIDTH, "device-width": WIDTH, "height": HEIGHT, "device-height": HEIGHT, "resolution": 1.0,
    "-webkit-device-pixel-ratio": 1.0, "-moz-device-pixel-ratio": 1.0, "color": 8.0,
    "aspect-ratio": WIDTH / HEIGHT, "device-aspect-ratio": WIDTH / HEIGHT,
}  # fmt: skip
_COMPARISON = re.compile(r"\s*(<=|>=|<|>|=)\s*")
_WORD = re.compile(r"\s+(and|or)\s+(?=[(n])")
_LONGEST = 2000
_DEEP = 6


@lru_cache(1024)
def applies(query: str) -> bool:
    """Return whether a list of media queries is true of the screen."""
    query = query.strip().lower()
    if not query:
        return True
    return len(query) <= _LONGEST and any(_one(part) for part in parts(query))


@lru_cache(1024)
def supported(condition: str) -> bool:
    """Return whether a feature query holds: browsers support whatever it asks for, if it is not negated."""
    condition = condition.strip().lower()
    return not (condition.startswith("not") and len(condition) > 3 and condition[3] in " (")


def _one(query: str) -> bool:
    query = query.strip()
    negated = query.startswith("not ")
    if negated or query.startswith("only "):
        query = query.split(" ", 1)[1].strip()
    found = re.match(r"([a-z-]+)(?:\s+and\s+|$)", query)
    result = True
    if found is not None:
        result = found[1] in ("all", "screen")
        query = query[found.end() :]
    return (result and (not query or _condition(query, 0))) != negated


def _condition(text: str, depth: int) -> bool:
    """Return whether a condition holds; an unknown one does not."""
    text = text.strip()
    if depth > _DEEP:
        return False
    if text.startswith(("not ", "not(")):
        return not _condition(text[3:], depth + 1)
    conditions, words = _divided(text)
    if len(conditions) > 1:
        results = [_condition(each, depth + 1) for each in conditions]
        return any(results) if "or" in words else all(results)
    if text.startswith("(") and text.endswith(")"):
        inside = text[1:-1].strip()
        if inside.startswith(("(", "not ")):
            return _condition(inside, depth + 1)
        return _feature(inside)
    return False


def _divided(text: str) -> tuple[list[str], set[str]]:
    """Return the conditions that are joined by ``and`` or ``or`` outside of parentheses, and these words."""
    found: list[str] = []
    words: set[str] = set()
    depth, begin = 0, 0
    for at in re.finditer(r"[()]|\b(?:and|or)\b", text):
        if at[0] == "(":
            depth += 1
        elif at[0] == ")":
            depth -= 1
        elif depth == 0:
            found.append(text[begin : at.start()])
            words.add(at[0])
            begin = at.end()
    found.append(text[begin:])
    return found, words


def _feature(text: str) -> bool:
    compared = _COMPARISON.split(text)
    if len(compared) in (3, 5):
        return _range(compared)
    name, colon, value = (part.strip() for part in text.partition(":"))
    if not colon:
        return _FEATURES.get(name, "none") != "none" or name in _NUMBERS
    if name in _NONE:
        return value in ("no-preference", "none", "0")
    if name in _FEATURES:
        return value == _FEATURES[name]
    for prefix, sign in (("min-", ">="), ("max-", "<="), ("-webkit-min-", ">="), ("-webkit-max-", "<=")):
        if name.startswith(prefix):
            plain = name[len(prefix) :]
            plain = f"-webkit-{plain}" if plain == "device-pixel-ratio" else plain
            return plain in _NUMBERS and _compare(_NUMBERS[plain], sign, _value(value))
    return name in _NUMBERS and _compare(_NUMBERS[name], "=", _value(value))


def _range(compared: list[str]) -> bool:
    if len(compared) == 5:
        return _range(compared[:3]) and _range(compared[2:])
    left, sign, right = (part.strip() for part in compared)
    if left in _NUMBERS:
        return _compare(_NUMBERS[left], sign, _value(right))
    turned = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "="}
    return right in _NUMBERS and _compare(_NUMBERS[right], turned[sign], _value(left))


def _value(text: str) -> float | None:
    if found := re.fullmatch(r"([\d.]+)\s*/\s*([\d.]+)", text):
        try:
            return float(found[1]) / float(found[2])
        except (ValueError, ZeroDivisionError):
            return None
    if found := re.fullmatch(r"((?:\d*\.)?\d+)(dppx|x|dpi|dpcm)", text):
        return float(found[1]) / {"dpi": 96, "dpcm": 37.8}.get(found[2], 1)
    plain = number(text)
    return plain if plain is not None else length(text)


def _compare(one: float, sign: str, other: float | None) -> bool:
    if other is None:
        return False
    return {"<": one < other, ">": one > other, "<=": one <= other, ">=": one >= other}.get(
        sign, one == other
    )
