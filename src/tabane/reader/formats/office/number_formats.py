"""Values of cells as spreadsheets show them: numbers, percentages, amounts, dates and times."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Literal, NamedTuple

_BUILT_IN = {
    1: "0", 2: "0.00", 3: "#,##0", 4: "#,##0.00", 5: "#,##0", 6: "#,##0", 7: "#,##0.00", 8: "#,##0.00",
    9: "0%", 10: "0.00%", 11: "0.00E+00", 12: "General", 13: "General", 14: "yyyy-mm-dd", 15: "d-mmm-yy",
    16: "d-mmm", 17: "mmm-yy", 18: "h:mm", 19: "h:mm:ss", 20: "h:mm", 21: "h:mm:ss", 22: "yyyy-mm-dd h:mm",
    37: "#,##0", 38: "#,##0", 39: "#,##0.00", 40: "#,##0.00", 41: "#,##0", 42: "#,##0", 43: "#,##0.00",
    44: "#,##0.00", 45: "mm:ss", 46: "[h]:mm:ss", 47: "mm:ss", 48: "0.00E+00", 49: "@",
    **dict.fromkeys((27, 28, 29, 30, 31, 36, 50, 51, 52, 53, 54, 57, 58), "yyyy-mm-dd"),
    **dict.fromkeys((32, 33, 34, 35, 55, 56), "h:mm:ss"),
}  # fmt: skip
_LONGEST = 500  # characters of a format
_PRECISE = Context(prec=400)
_TOKEN = re.compile(r'"[^"]*+"|\\.|\[[^\]]*+\]|_.|\*.|.', re.DOTALL)
_DIGITS = frozenset("0#?")
_CURRENCY = re.compile(r"\[\$([^\]-]{0,8})")
_LAST_DAY = 2_958_466  # of the year 9999


Kind = Literal["general", "number", "date", "time", "moment", "elapsed", "text", "literal", "nothing"]


class _Section(NamedTuple):
    """A part of a format, for positive or negative numbers, zero or text."""

    kind: Kind
    before: str = ""
    behind: str = ""
    decimals: int = 0
    grouped: bool = False
    percents: int = 0
    thousands: int = 0


class NumberFormat:
    """A format by its code; each part is read once."""

    def __init__(self, code: str) -> None:
        parts = _sections(code[:_LONGEST] or "General")
        self._sections = [_section(part) for part in parts[:4]]

    @classmethod
    def built_in(cls, number: int) -> NumberFormat:
        return cls(_BUILT_IN.get(number, "General"))

    def text(self, value: str) -> str | None:
        """Return a text as it is shown; None if the format hides it."""
        if len(self._sections) >= 4 and self._sections[3].kind == "nothing":
            return None
        return value

    def number(self, value: float, *, since_1904: bool = False) -> str | None:
        """Return a number as it is shown; None if the format hides it."""
        sections = self._sections
        nth = 0
        if value < 0 and len(sections) > 1:
            nth = 1
        elif value == 0 and len(sections) > 2:
            nth = 2
        section = sections[nth]
        if section.kind == "nothing":
            return "" if value == 0 else None
        if section.kind in ("date", "time", "moment", "elapsed"):
            return _moment(value, section.kind, since_1904=since_1904)
        if section.kind == "literal":
            return section.before
        if section.kind in ("general", "text"):
            return general(value)
        return _written(abs(value) if nth == 1 else value, section)


def general(value: float) -> str:
    """Return a number without a format."""
    if math.isfinite(value) and value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.15g}"


def _sections(code: str) -> list[str]:
    parts = [""]
    for token in _TOKEN.findall(code):
        if token == ";":
            parts.append("")
        else:
            parts[-1] += token
    return parts


def _section(code: str) -> _Section:
    tokens: list[str] = _TOKEN.findall(code)
    if not code.strip() or all(_literal(token) == "" for token in tokens):
        return _Section("nothing")
    bare = "".join(token for token in tokens if len(token) == 1).lower()
    marks = "".join(token.lower() for token in tokens if token.startswith("["))
    if "general" in bare:
        return _Section("general")
    if re.search(r"\[(?:h+|m+|s+)\]", marks):
        return _Section("elapsed")
    if not bare.strip():
        return _Section("literal", "".join(_literal(token) or "" for token in tokens).strip())
    if _DIGITS.isdisjoint(bare) or re.search(r"[ymdhs]", re.sub(r"e[+-]", "", bare)):
        return _dated(bare)
    if "/" in bare or re.search(r"e[+-]", bare):
        return _Section("general")
    return _numeric(tokens)


def _dated(bare: str) -> _Section:
    day = bool(re.search(r"[yde]|g", bare)) or ("m" in bare and not re.search(r"[hs]", bare))
    clock = bool(re.search(r"[hs]", bare))
    if day and clock:
        return _Section("moment")
    if day:
        return _Section("date")
    return _Section("time" if clock else "text")


def _literal(token: str) -> str | None:
    """Return the text that a token of a format shows; None for a place of the value."""
    if token.startswith('"'):
        return token[1:-1]
    if token.startswith("\\"):
        return token[1:]
    if token.startswith("["):
        found = _CURRENCY.match(token)
        return found[1] if found else ""
    if token[0] in "_*" and len(token) == 2:
        return ""
    return " " if token == " " else None


def _numeric(tokens: list[str]) -> _Section:
    before: list[str] = []
    behind: list[str] = []
    digits = ""
    percents = 0
    for token in tokens:
        shown = _literal(token)
        if shown is not None:
            (behind if digits else before).append(shown)
        elif token in "0#?.,":
            if behind and "".join(behind).strip() == "":
                behind.clear()
            digits += token
        else:
            percents += token == "%"
            (behind if digits else before).append(token)
    whole, _, fraction = digits.partition(".")
    thousands = len(digits) - len(digits.rstrip(","))
    return _Section(
        "number",
        "".join(before).strip(),
        "".join(behind).rstrip(),
        sum(char in _DIGITS for char in fraction),
        "," in whole.rstrip(","),
        percents,
        thousands,
    )


def _written(value: float, section: _Section) -> str:
    if not math.isfinite(value) or abs(value) >= 1e300:
        return general(value)
    value = value * 100 ** min(section.percents, 3) / 1000 ** min(section.thousands, 5)
    decimals = min(section.decimals, 15)
    # Half of the last digit is rounded up, as spreadsheets do.
    exact = Decimal(f"{value:.15g}").quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP, _PRECISE)
    text = f"{exact:{',' if section.grouped else ''}.{decimals}f}"
    sign = "-" if text.startswith("-") else ""
    return f"{sign}{section.before}{text.removeprefix('-')}{section.behind}"


def _moment(value: float, kind: Kind, *, since_1904: bool) -> str:
    """Return a date, a time or both in ISO 8601; the number if it is none."""
    if kind == "elapsed":
        seconds = round(abs(value) * 86_400) if abs(value) < 1e9 else 0
        sign = "-" if value < 0 else ""
        return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    if not 0 <= value < _LAST_DAY - 1462 * since_1904:
        return general(value)
    # 1900 is a leap year there.
    start = datetime(1904, 1, 1) if since_1904 else datetime(1899, 12, 30 if value >= 60 else 31)
    when = start + timedelta(seconds=round(value * 86_400))
    if kind == "time":
        return f"{when:%H:%M:%S}" if when.second else f"{when:%H:%M}"
    clock = "" if kind == "date" else f" {when:%H:%M:%S}" if when.second else f" {when:%H:%M}"
    return f"{when.year:04}-{when.month:02}-{when.day:02}{clock}"
