"""Numbers of list items and headings of WordprocessingML."""

from __future__ import annotations

import re
from typing import NamedTuple

from lxml import etree

from tabane.reader.formats.office.drawing_colors import local, number
from tabane.reader.formats.office.package import attribute, named_child

_LEVELS = 9
_LONGEST = 60  # characters of the text of a number
_PLACE = re.compile(r"%([1-9])")
_SIMPLE = re.compile(r"%[1-9][.)．]?")
_ROMAN = (
    (1000, "m"), (900, "cm"), (500, "d"), (400, "cd"), (100, "c"), (90, "xc"), (50, "l"), (40, "xl"),
    (10, "x"), (9, "ix"), (5, "v"), (4, "iv"), (1, "i"),
)  # fmt: skip
_AIUEO = "アイウエオカキクケコサシスセソタチツテトナニヌネノハヒフヘホマミムメモヤユヨラリルレロワヲン"
_IROHA = "イロハニホヘトチリヌルヲワカヨタレソツネナラムウヰノオクヤマケフコエテアサキユメミシヱヒモセスン"
_KANJI = "〇一二三四五六七八九"


class ListNumber(NamedTuple):
    """The number of an item. ``label`` is how the document writes it, "" for a bullet; ``plain``: as lists of
    Markdown do, ``value`` alone.
    """

    level: int
    label: str
    value: int
    plain: bool


class _Level(NamedTuple):
    form: str
    text: str
    start: int
    legal: bool = False


class Numbering:
    """The lists of a document, and how far each has been counted."""

    def __init__(self, part: etree._Element | None) -> None:
        self._abstract: dict[str, dict[int, _Level]] = {}
        self._links: dict[str, str] = {}
        self._numbers: dict[str, tuple[str, dict[int, _Level], dict[int, int]]] = {}
        self._counts: dict[str, list[int | None]] = {}
        self._begun: set[tuple[str, int]] = set()
        for entry in part if part is not None else ():
            if local(entry) == "abstractNum":
                name = attribute(entry, "abstractNumId") or ""
                self._abstract[name] = dict(map(_level, _named(entry, "lvl")))
            elif local(entry) == "num":
                self._add(entry)

    def _add(self, entry: etree._Element) -> None:
        based = named_child(entry, "abstractNumId")
        levels: dict[int, _Level] = {}
        starts: dict[int, int] = {}
        for change in _named(entry, "lvlOverride"):
            at = int(number(attribute(change, "ilvl")))
            if (level := named_child(change, "lvl")) is not None:
                levels[at] = _level(level)[1]
            if (start := named_child(change, "startOverride")) is not None:
                starts[at] = _count(attribute(start, "val"))
        name = (attribute(based, "val") if based is not None else "") or ""
        self._numbers[attribute(entry, "numId") or ""] = (name, levels, starts)

    def next(self, number_id: str, level: int) -> ListNumber | None:
        """Count an item; None if there is no such list, or it has no numbers."""
        if number_id not in self._numbers:
            return None
        name, changed, starts = self._numbers[number_id]
        levels = {**self._abstract.get(name, {}), **changed}
        at = levels.get(level)
        if at is None:
            return None
        counts = self._counts.setdefault(name, [None] * _LEVELS)
        if level in starts and (number_id, level) not in self._begun:
            counts[level] = starts[level] - 1
        self._begun.add((number_id, level))
        before = counts[level]
        counts[level] = at.start if before is None else before + 1
        counts[level + 1 :] = [None] * (_LEVELS - level - 1)
        value = counts[level] or 0
        if at.form == "bullet":
            return ListNumber(level, "", value, False)
        if at.form == "none" and not _PLACE.sub("", at.text).strip():
            return None

        def place(found: re.Match[str]) -> str:
            nth = int(found[1]) - 1
            inner = levels.get(nth, at)
            count = counts[nth]
            form = "decimal" if at.legal and inner.form != "decimalZero" else inner.form
            return formatted(inner.start if count is None else count, form)

        label = _PLACE.sub(place, at.text)[:_LONGEST].strip()
        plain = at.form in ("decimal", "decimalZero") and bool(_SIMPLE.fullmatch(at.text.strip()))
        return ListNumber(level, label, value, plain) if label else None


def formatted(value: int, form: str) -> str:
    """Return a number in a format of WordprocessingML; decimal for those that are rare."""
    if form == "none":
        return ""
    if form in ("lowerLetter", "upperLetter") and 0 < value <= 780:
        letters = chr(97 + (value - 1) % 26) * ((value - 1) // 26 + 1)
        return letters if form == "lowerLetter" else letters.upper()
    if form in ("lowerRoman", "upperRoman") and 0 < value < 4000:
        return roman(value) if form == "lowerRoman" else roman(value).upper()
    if form == "decimalZero":
        return f"{value:02}"
    if form.startswith("decimalFullWidth"):
        return str(value).translate(str.maketrans("0123456789", "０１２３４５６７８９"))
    if form.startswith("decimalEnclosedCircle") and 0 < value <= 20:
        return chr(0x2460 + value - 1)
    if form.startswith("aiueo") and 0 < value <= len(_AIUEO):
        return _AIUEO[value - 1]
    if form.startswith("iroha") and 0 < value <= len(_IROHA):
        return _IROHA[value - 1]
    if form.startswith(("japanese", "chinese", "ideographDigital", "taiwanese")) and 0 < value < 100:
        return _kanji(value)
    return str(value)


def roman(value: int) -> str:
    """Return a Roman number in lower case."""
    found = ""
    for worth, letters in _ROMAN:
        times, value = divmod(value, worth)
        found += letters * times
    return found


def _kanji(value: int) -> str:
    tens, ones = divmod(value, 10)
    head = "" if tens == 0 else "十" if tens == 1 else f"{_KANJI[tens]}十"
    return head + (_KANJI[ones] if ones or not head else "")


def _named(node: etree._Element, name: str) -> list[etree._Element]:
    return [entry for entry in node if local(entry) == name]


def _level(entry: etree._Element) -> tuple[int, _Level]:
    said = {local(each): attribute(each, "val") or "" for each in entry}
    return int(number(attribute(entry, "ilvl"))), _Level(
        said.get("numFmt", "decimal"),
        said.get("lvlText", "")[:200],
        _count(said.get("start")),
        "isLgl" in said and said["isLgl"] not in ("0", "false"),
    )


def _count(value: str | None) -> int:
    return min(max(int(number(value, 1)), 0), 99_999_999)
