"""Styles of WordprocessingML: formats of runs and paragraphs, and numbers of list items and headings.

A format is the own one, or that of a style or a default.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from lxml import etree

from tabane.reader.formats.office.model import Look
from tabane.reader.formats.office.package import (
    OFF,
    ThemeColors,
    attribute,
    children,
    count_of,
    local,
    named_child,
    number,
    value_of,
)
from tabane.reader.hidden_text import Color, hex_color

TOGGLES = ("bold", "italic", "vanish")
_FLAGS = {"b": "bold", "i": "italic", "strike": "strike", "dstrike": "strike", "vanish": "vanish",
          "webHidden": "web_hidden"}  # fmt: skip
_HIGHLIGHTS: Mapping[str, Color] = {
    "black": (0, 0, 0), "blue": (0, 0, 255), "cyan": (0, 255, 255), "green": (0, 255, 0),
    "magenta": (255, 0, 255), "red": (255, 0, 0), "yellow": (255, 255, 0), "white": (255, 255, 255),
    "darkBlue": (0, 0, 128), "darkCyan": (0, 128, 128), "darkGreen": (0, 128, 0),
    "darkMagenta": (128, 0, 128), "darkRed": (128, 0, 0), "darkYellow": (128, 128, 0),
    "darkGray": (128, 128, 128), "lightGray": (192, 192, 192),
}  # fmt: skip
_ANCESTORS = 30
_HEADING = re.compile(
    r"(?:heading|見出し|überschrift|titre|título|제목|标题|標題)\s*([1-9１-９])", re.IGNORECASE
)
_TITLE = frozenset({"title", "表題", "タイトル", "titel", "titre", "título", "标题"})
_CODE = re.compile(
    r"html preformatted|html 書式付き|preformatted text|source ?code|code ?block|macro text|^code$|"
    r"マクロ文字列|ソース ?コード|コード$|verbatim|整形済み",
    re.IGNORECASE,
)
_QUOTATION = re.compile(r"quot|引用", re.IGNORECASE)
_MONOSPACED = re.compile(
    r"courier|consolas|menlo|monaco|lucida console|(?:liberation|dejavu|noto|ubuntu|roboto) (?:sans )?mono|"
    r"source code|cascadia|fira (?:code|mono)|jetbrains|inconsolata|andale mono",
    re.IGNORECASE,
)


class WordStyle(NamedTuple):
    """A style with the properties of the styles that it is based on."""

    name: str
    run: Look
    paragraph: Look
    cells: Mapping[str, tuple[Look, Color | None]]
    """Of a table style, by condition (firstRow, band1Horz, …, or "" for the whole): runs, and background."""

    @property
    def level(self) -> int | None:
        """Return the level of headings of this style, 1..6."""
        if (found := _HEADING.fullmatch(self.name.strip())) is not None:
            return min(int(found[1]), 6)
        if self.name.strip().lower() in _TITLE:
            return 1
        outline = self.paragraph.get("outline")
        return min(outline + 1, 6) if outline is not None and outline < 9 else None

    @property
    def is_code(self) -> bool:
        """Whether the name of the style says that it is for code."""
        return bool(_CODE.search(self.name))

    @property
    def is_quotation(self) -> bool:
        """Whether the name of the style says that it is for quotations."""
        return bool(_QUOTATION.search(self.name))


_NO_STYLE = WordStyle("", {}, {}, {})


class WordStyles:
    """The styles of a document by their ids."""

    def __init__(self, part: etree._Element | None, theme: ThemeColors) -> None:
        self._theme = theme
        self._sources: dict[str, etree._Element] = {}
        self._known: dict[str, WordStyle] = {}
        self._usual: dict[str, str] = {}
        self.defaults: Look = {}
        for entry in part if part is not None else ():
            if local(entry) == "style":
                name = attribute(entry, "styleId") or ""
                self._sources[name] = entry
                if (attribute(entry, "default") or "0") not in OFF:
                    self._usual[attribute(entry, "type") or "paragraph"] = name
            elif local(entry) == "docDefaults":
                self.defaults = run_format(named_child(entry, "rPrDefault", "rPr"), theme)

    def usual(self, kind: str) -> str | None:
        """Return the id of the default style of this type."""
        return self._usual.get(kind)

    def style(self, name: str | None) -> WordStyle:
        """Return a style; an empty one if there is none."""
        if name is None or name not in self._sources:
            # Programs may refer to the styles of headings without defining them.
            found = _HEADING.fullmatch((name or "").strip())
            return WordStyle(f"heading {found[1]}", {}, {}, {}) if found else _NO_STYLE
        if name not in self._known:
            self._known[name] = self._made(name)
        return self._known[name]

    def _made(self, name: str) -> WordStyle:
        chain: list[etree._Element] = []
        at: str | None = name
        while at is not None and (entry := self._sources.get(at)) is not None and len(chain) < _ANCESTORS:
            if entry in chain:
                break
            chain.append(entry)
            at = value_of(entry, "basedOn")
        run: dict[str, Any] = {}
        paragraph: dict[str, Any] = {}
        cells: dict[str, tuple[Look, Color | None]] = {}
        for entry in reversed(chain):
            run.update(run_format(named_child(entry, "rPr"), self._theme))
            paragraph.update(paragraph_format(named_child(entry, "pPr"), self._theme))
            _add_cells(cells, entry, self._theme)
        return WordStyle(value_of(chain[0], "name") or "", run, paragraph, cells)


def _add_cells(
    cells: dict[str, tuple[Look, Color | None]], entry: etree._Element, theme: ThemeColors
) -> None:
    """Add what a table style says of its cells."""
    parts = [("", entry)]
    parts += [(attribute(part, "type") or "", part) for part in children(entry, "tblStylePr")]
    for condition, part in parts:
        ground = shading(named_child(part, "tcPr", "shd"), theme)
        if ground is None:
            ground = shading(named_child(part, "tblPr", "shd"), theme)
        before = cells.get(condition, ({}, None))
        run = run_format(named_child(part, "rPr"), theme) if condition else {}
        cells[condition] = ({**before[0], **run}, ground if ground is not None else before[1])


def run_format(properties: etree._Element | None, theme: ThemeColors) -> dict[str, Any]:
    """Return what the properties of a run say."""
    found: dict[str, Any] = {}
    for entry in properties if properties is not None else ():
        name = local(entry)
        if name in _FLAGS:
            found[_FLAGS[name]] = (attribute(entry, "val") or "") not in OFF
        elif (read := _OF_RUNS.get(name)) is not None:
            found.update(read(entry, attribute(entry, "val") or "", theme))
    return found


_Reading = Callable[[etree._Element, str, ThemeColors], dict[str, Any]]


def _font(entry: etree._Element, _value: str, _theme: ThemeColors) -> dict[str, Any]:
    font = attribute(entry, "ascii") or attribute(entry, "hAnsi")
    return {"code": bool(_MONOSPACED.match(font))} if font else {}


def _text_fill(entry: etree._Element, _value: str, theme: ThemeColors) -> dict[str, Any]:
    paint = theme.fill(entry)
    if paint is None:
        return {}
    return {"opacity": paint.opacity, **({} if paint.color is None else {"color": paint.color})}


_OF_RUNS: Mapping[str, _Reading] = {
    "rStyle": lambda _entry, value, _theme: {"style": value},
    "color": lambda entry, value, theme: {"color": color_of(entry, value, theme, "theme")},
    "shd": lambda entry, _value, theme: {"shade": shading(entry, theme)},
    "highlight": lambda _entry, value, _theme: {"highlight": _HIGHLIGHTS.get(value)},
    "sz": lambda _entry, value, _theme: {"size": number(value, 22) / 2},
    "w": lambda _entry, value, _theme: {"scale": number(value.rstrip("%"), 100)},
    "position": lambda _entry, value, _theme: {"position": number(value) / 2},
    "spacing": lambda _entry, value, _theme: {"spacing": number(value) / 20},
    "vertAlign": lambda _entry, value, _theme: {
        "align": {"superscript": "sup", "subscript": "sub"}.get(value, "")
    },
    "rFonts": _font,
    "textFill": _text_fill,
}


def paragraph_format(properties: etree._Element | None, theme: ThemeColors) -> dict[str, Any]:
    """Return what the properties of a paragraph say. Lengths are in twips, 1/1440 of an inch."""
    found: dict[str, Any] = {}
    for entry in properties if properties is not None else ():
        if (read := _OF_PARAGRAPHS.get(local(entry))) is not None:
            found.update(read(entry, attribute(entry, "val") or "", theme))
    return found


def _indent(entry: etree._Element, _value: str, _theme: ThemeColors) -> dict[str, Any]:
    left = number(attribute(entry, "left") or attribute(entry, "start"))
    first = number(attribute(entry, "firstLine")) - number(attribute(entry, "hanging"))
    return {"left": left + first if abs(first) > 10_000 else left}


def _lines(entry: etree._Element, _value: str, _theme: ThemeColors) -> dict[str, Any]:
    exact = attribute(entry, "lineRule") == "exact"
    return {"line": number(attribute(entry, "line"), 240) if exact else 240.0}


def _frame(entry: etree._Element, _value: str, _theme: ThemeColors) -> dict[str, Any]:
    flat = attribute(entry, "hRule") == "exact" and number(attribute(entry, "h"), 240) < 40
    return {"frame": (number(attribute(entry, "x")), number(attribute(entry, "y")), flat)}


_OF_PARAGRAPHS: Mapping[str, _Reading] = {
    "pStyle": lambda _entry, value, _theme: {"style": value},
    "outlineLvl": lambda _entry, value, _theme: {"outline": max(int(number(value, 9)), 0)},
    "numPr": lambda entry, _value, _theme: {"numbering": _numbering(entry)},
    "shd": lambda entry, _value, theme: {"shade": shading(entry, theme)},
    "ind": _indent,
    "spacing": _lines,
    "framePr": _frame,
}


def _numbering(entry: etree._Element) -> tuple[str | None, int | None]:
    level = named_child(entry, "ilvl")
    return value_of(entry, "numId"), None if level is None else count_of(attribute(level, "val"), 8, 0)


def shading(entry: etree._Element | None, theme: ThemeColors) -> Color | None:
    """Return the color of a shading; None if it has none of its own."""
    if entry is None:
        return None
    kind = attribute(entry, "val")
    if kind == "solid":
        return color_of(entry, attribute(entry, "color") or "", theme, "theme")
    return color_of(entry, attribute(entry, "fill") or "", theme, "themeFill")


def color_of(entry: etree._Element, value: str, theme: ThemeColors, prefix: str) -> Color | None:
    """Return a color; None for an automatic one, which is readable. The theme goes before the value."""
    named = attribute(entry, "themeColor" if prefix == "theme" else "themeFill")
    color = theme.named(named) if named else None
    if color is None:
        return hex_color(value)
    tint, shade = attribute(entry, f"{prefix}Tint"), attribute(entry, f"{prefix}Shade")
    for share, lighter in ((tint, True), (shade, False)):
        if share and len(share) == 2:
            try:
                part = int(share, 16) / 255
            except ValueError:
                continue
            red, green, blue = (
                round(channel * part + (255 * (1 - part) if lighter else 0)) for channel in color
            )
            color = (red, green, blue)
    return color


def combined(defaults: Look, styles: tuple[Look, ...]) -> dict[str, Any]:
    """Return the look that the styles of its table, its paragraph and its characters give a run.

    Bold, italic and hidden of several styles cancel each other out, as Word does it.
    """
    made: dict[str, Any] = dict(defaults)
    for style in styles:
        made.update(style)
    for name in TOGGLES:
        set_by = sum(bool(style.get(name)) for style in styles)
        made[name] = bool(defaults.get(name)) or set_by % 2 == 1
    return made


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
        self._numbers: dict[str, tuple[str, dict[int, _Level], dict[int, int]]] = {}
        self._counts: dict[str, list[int | None]] = {}
        self._begun: set[tuple[str, int]] = set()
        for entry in part if part is not None else ():
            if local(entry) == "abstractNum":
                name = attribute(entry, "abstractNumId") or ""
                self._abstract[name] = dict(map(_level, children(entry, "lvl")))
            elif local(entry) == "num":
                self._add(entry)

    def _add(self, entry: etree._Element) -> None:
        levels: dict[int, _Level] = {}
        starts: dict[int, int] = {}
        for change in children(entry, "lvlOverride"):
            at = int(number(attribute(change, "ilvl")))
            if (level := named_child(change, "lvl")) is not None:
                levels[at] = _level(level)[1]
            if (start := named_child(change, "startOverride")) is not None:
                starts[at] = _start(attribute(start, "val"))
        name = value_of(entry, "abstractNumId") or ""
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
        tens, ones = divmod(value, 10)
        head = "" if tens == 0 else "十" if tens == 1 else f"{_KANJI[tens]}十"
        return head + (_KANJI[ones] if ones or not head else "")
    return str(value)


def roman(value: int) -> str:
    """Return a Roman number in lower case."""
    found = ""
    for worth, letters in _ROMAN:
        times, value = divmod(value, worth)
        found += letters * times
    return found


def _level(entry: etree._Element) -> tuple[int, _Level]:
    said = {local(each): attribute(each, "val") or "" for each in entry}
    return int(number(attribute(entry, "ilvl"))), _Level(
        said.get("numFmt", "decimal"),
        said.get("lvlText", "")[:200],
        _start(said.get("start")),
        "isLgl" in said and said["isLgl"] not in ("0", "false"),
    )


def _start(value: str | None) -> int:
    return min(max(int(number(value, 1)), 0), 99_999_999)
