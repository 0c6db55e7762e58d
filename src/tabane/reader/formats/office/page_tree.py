"""The tree of HTML that a document is written as, before it becomes Markdown.

Parts that several formats share: formats of text and whether text in them can be seen, charts as tables of
their data, and formulas (OMML) as MathML, from which Markdown makes TeX.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement, HTMLParser

from tabane.messages import Message
from tabane.reader.formats.office.package import attribute, local, named_child, number
from tabane.reader.hidden_text import Color, is_tiny, is_unreadable


@dataclass(frozen=True, slots=True)
class OfficeContent:
    """A document as HTML, or as Markdown. ``hidden``: the parts that nobody sees; ``deep``: those that are
    nested too deeply; ``cut``: it is larger than the limit, and this is its beginning. ``notes`` are further
    warnings.
    """

    content: HtmlElement | str
    hidden: int = 0
    deep: int = 0
    cut: bool = False
    notes: tuple[Message, ...] = ()


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


_MAKER = HTMLParser()
_LOOKED = 500  # elements between two looks at the clock


class DocumentFull(Exception):
    """The document has more content than a page may have; what was written until then is its beginning."""


class Span(NamedTuple):
    """Text in one format: ``tags`` are the elements around it, from the outside, ``link`` its address.

    ``element`` is a line break, a formula or the mark of a note, in place of text.
    """

    text: str
    tags: tuple[str, ...] = ()
    link: str | None = None
    element: HtmlElement | None = None


class ContentBudget:
    """Budget that a document has left: characters of text, elements that are looked at, seconds of CPU time.

    About as much time is left to write it as Markdown.
    """

    def __init__(self, characters: int, elements: int, seconds: float) -> None:
        self._characters, self._elements = characters, elements
        self._end = time.process_time() + seconds
        self._next = elements - _LOOKED

    def take(self, elements: int = 1, characters: int = 0) -> None:
        """Count what is used. Raises DocumentFull when nothing is left."""
        self._elements -= elements
        self._characters -= characters
        if self._elements < 0 or self._characters < 0:
            raise DocumentFull
        if self._elements < self._next:
            self._next = self._elements - _LOOKED
            if time.process_time() > self._end:
                raise DocumentFull


def element(tag: str, text: str = "", **attributes: str) -> HtmlElement:
    """Return a new element of HTML."""
    made: HtmlElement = _MAKER.makeelement(tag, attributes)
    if text:
        made.text = text
    return made


def child(parent: HtmlElement, tag: str, text: str = "", **attributes: str) -> HtmlElement:
    """Append a new element and return it."""
    made: HtmlElement = etree.SubElement(parent, tag, attributes)
    if text:
        made.text = text
    return made


def add_text(parent: HtmlElement, text: str) -> None:
    """Append text to what is in an element."""
    if len(parent):
        last = parent[-1]
        last.tail = (last.tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def fill(parent: HtmlElement, spans: Iterable[Span]) -> None:
    """Append spans of text. Neighbors in the same format become one, so that no marks meet between them."""
    for link, inside in _linked(spans):
        place = child(parent, "a", href=link) if link else parent
        for tags, pieces in inside:
            at = place
            for tag in tags:
                at = child(at, tag)
            for piece in pieces:
                if isinstance(piece, str):
                    add_text(at, piece)
                else:
                    at.append(piece)


def is_blank(spans: Sequence[Span]) -> bool:
    """Return whether spans show nothing."""
    return not any(span.element is not None or span.text.strip() for span in spans)


_Pieces = list["str | HtmlElement"]
_Formats = list[tuple[tuple[str, ...], _Pieces]]


def _linked(spans: Iterable[Span]) -> list[tuple[str | None, _Formats]]:
    """Group spans by their link, and those of a link by their format."""
    groups: list[tuple[str | None, _Formats]] = []
    texts: list[str] = []

    def end() -> None:
        if texts:
            groups[-1][1][-1][1].append("".join(texts))
            texts.clear()

    for span in spans:
        if not groups or groups[-1][0] != span.link:
            end()
            groups.append((span.link, []))
        formats = groups[-1][1]
        if not formats or formats[-1][0] != span.tags:
            end()
            formats.append((span.tags, []))
        if span.element is None:
            texts.append(span.text)
        else:
            end()
            formats[-1][1].append(span.element)
    end()
    return groups


_SERIES = 30
_POINTS = 200
_LONGEST = 300  # characters of a value


def add(part: etree._Element, parent: HtmlElement) -> None:
    """Append the title of a chart and its cached data: a row for each category, a column for each series."""
    chart = named_child(part, "chart")
    title = _title(named_child(chart, "title"))
    series = list(part.iter("{*}ser"))[:_SERIES]
    names = [_title(named_child(each, "tx")) for each in series]
    columns = [_values(named_child(each, "val"), named_child(each, "yVal")) for each in series]
    heads = [_values(named_child(each, "cat"), named_child(each, "xVal")) for each in series]
    first = next((head for head in heads if head), {})
    places = sorted({place for values in [first, *columns] for place in values})[:_POINTS]
    if not places or not any(columns):
        return
    table = child(parent, "table")
    if title:
        child(table, "caption", title)
    row = child(child(table, "thead"), "tr")
    for name in ["", *names]:
        child(row, "th", name)
    for place in places:
        row = child(table, "tr")
        for values in [first, *columns]:
            child(row, "td", values.get(place, ""))


def _title(node: etree._Element | None) -> str:
    """Return the text of a title, or the cached one of a cell."""
    if node is None:
        return ""
    parts = [str(each.text or "") for each in node.iter("{*}t", "{*}v")]
    return " ".join("".join(parts).split())[:_LONGEST]


def _values(*holders: etree._Element | None) -> dict[int, str]:
    """Return the cached values of a series by their place."""
    found: dict[int, str] = {}
    for holder in holders:
        for point in holder.iter("{*}pt") if holder is not None else ():
            value = named_child(point, "v")
            if value is not None and value.text and local(point) == "pt" and len(found) < _POINTS:
                found.setdefault(int(number(attribute(point, "idx"))), _value(value.text))
    return found


def _value(text: str) -> str:
    """Return a value; a number without the digits that only binary fractions have."""
    text = " ".join(text.split())[:_LONGEST]
    return f"{float(text):.12g}" if "." in text and number(text, 1e16) != 1e16 else text


_DEEP = 30
_SCRIPTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "f": ("mfrac", ("num", "den")),
    "sSup": ("msup", ("e", "sup")),
    "sSub": ("msub", ("e", "sub")),
    "sSubSup": ("msubsup", ("e", "sub", "sup")),
    "limLow": ("munder", ("e", "lim")),
    "limUpp": ("mover", ("e", "lim")),
}
_FUNCTIONS = frozenset({"sin", "cos", "tan", "log", "ln", "exp", "lim", "max", "min", "det"})


def formula(node: etree._Element, *, shown: bool) -> HtmlElement | None:
    """Return a formula; ``shown``: on a line of its own. None for an empty one."""
    math = element("math", **({"display": "block"} if shown else {}))
    _add(node, math, 0)
    return math if "".join(math.itertext()).strip() else None


def _add(node: etree._Element, into: HtmlElement, depth: int) -> None:
    """Append what is in a node."""
    if depth > _DEEP:
        return
    for each in node:
        _write(each, into, depth)


def _write(node: etree._Element, into: HtmlElement, depth: int) -> None:
    name = local(node)
    if name in _SCRIPTS:
        tag, parts = _SCRIPTS[name]
        made = child(into, tag)
        for part in parts:
            _part(node, part, made, depth)
    elif (writing := _WRITING.get(name)) is not None:
        writing(node, into, depth)
    elif not name.endswith("Pr") and name not in ("del", "moveFrom"):
        _add(node, into, depth + 1)


def _matrix(node: etree._Element, into: HtmlElement, depth: int) -> None:
    table = child(into, "mtable")
    for row in node:
        if local(row) == "mr":
            made = child(table, "mtr")
            for cell in row:
                _add(cell, child(made, "mrow"), depth + 1)
        elif local(row) == "e":
            _add(row, child(child(table, "mtr"), "mrow"), depth + 1)


def _part(node: etree._Element, name: str, into: HtmlElement, depth: int) -> None:
    row = child(into, "mrow")
    if (part := named_child(node, name)) is not None:
        _add(part, row, depth + 1)


def _radical(node: etree._Element, into: HtmlElement, depth: int) -> None:
    degree = named_child(node, "deg")
    if degree is not None and "".join(str(text) for text in degree.itertext()).strip():
        made = child(into, "mroot")
        _part(node, "e", made, depth)
        _part(node, "deg", made, depth)
    else:
        _part(node, "e", child(into, "msqrt"), depth)


def _operator(node: etree._Element, into: HtmlElement, depth: int) -> None:
    sign = _property(node, "naryPr", "chr") or "∫"
    parts = [name for name in ("sub", "sup") if _says(named_child(node, name))]
    tag = {("sub", "sup"): "msubsup", ("sub",): "msub", ("sup",): "msup"}.get(tuple(parts), "mrow")
    made = child(into, tag)
    child(made, "mo", sign)
    for name in parts:
        _part(node, name, made, depth)
    _part(node, "e", into, depth)


def _delimited(node: etree._Element, into: HtmlElement, depth: int) -> None:
    begin, between, end = (
        _property(node, "dPr", name) for name in ("begChr", "sepChr", "endChr")
    )  # fmt: skip
    row = child(into, "mrow")
    child(row, "mo", "(" if begin is None else begin)
    for nth, each in enumerate([part for part in node if local(part) == "e"]):
        if nth:
            child(row, "mo", "|" if between is None else between)
        _add(each, child(row, "mrow"), depth + 1)
    child(row, "mo", ")" if end is None else end)


def _property(node: etree._Element, holder: str, name: str) -> str | None:
    found = named_child(named_child(node, holder), name)
    return (attribute(found, "val") or "")[:8] if found is not None else None


def _says(node: etree._Element | None) -> bool:
    return node is not None and any(str(text).strip() for text in node.itertext())


def _text(node: etree._Element, into: HtmlElement, _depth: int) -> None:
    text = "".join(each.text or "" for each in node if local(each) == "t")
    if not text.strip():
        return
    normal = named_child(named_child(node, "rPr"), "nor") is not None
    word = text.strip() in _FUNCTIONS
    child(into, "mtext" if normal and not word else "mi" if word else "mo", text)


_WRITING: Mapping[str, Callable[[etree._Element, HtmlElement, int], None]] = {
    "rad": _radical,
    "nary": _operator,
    "d": _delimited,
    "m": _matrix,
    "eqArr": _matrix,
    "r": _text,
}
