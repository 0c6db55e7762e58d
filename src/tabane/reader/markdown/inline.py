"""Inline content as spans: emphasis, links, images, code, formulas, ruby."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from lxml.html import HtmlElement

from tabane.reader.markdown import escaping
from tabane.reader.markdown.code_blocks import source
from tabane.reader.markdown.elements import (
    BLOCKS,
    SILENT,
    address,
    classes,
    decorative,
    image,
    short_text,
    text_of,
)
from tabane.reader.markdown.formulas import formula, rendered
from tabane.reader.markdown.spans import (
    AtomicSpan,
    ClosingMark,
    HardLineBreak,
    LinkSpan,
    OpeningMark,
    Piece,
    blank,
    joined,
)
from tabane.reader.markdown.wordless import PLAYERS, embedded_address, is_embedded, is_task_box
from tabane.reader.markdown.writer import Footnotes

_MARKS = {"strong": "**", "b": "**", "em": "*", "i": "*", "dfn": "*", "del": "~~", "s": "~~", "strike": "~~"}
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_LISTINGS = frozenset({"pre", "listing", "xmp"})
_ANCHOR_NAMES = (
    "headerlink anchor anchorjs-link permalink hash-link header-anchor heading-anchor heading-link "
    "mw-editsection anchor-link header-link toc-anchor autolink-headings "
)
_ANCHORS = frozenset(_ANCHOR_NAMES.split())
_COPY = re.compile(r"copy|copied|コピー|clipboard", re.I)
_VALUE = re.compile(r"[-+−\u2212]?\d+|[A-Za-z]|[-+−\u2212]?\w\s*[-+−\u2212]\s*\w")
_BETWEEN = {"li": " • ", "tr": " • ", "td": " / ", "th": " / "}
"""Written between items, and between rows and cells of a table that is in a cell of another one."""
_LONGEST_VALUE = 40  # characters of an exponent or an index
_MOST_WORDS = 300  # characters of a text that is shown only if a picture or a player is missing
_EMOJI = 40  # characters of the name of one
_DEEP = 90  # nested elements; deeper ones are taken as text


class InlineConverter:
    """Makes pieces. ``plain`` within a heading, if nothing needs to be bold."""

    def __init__(self, base: str, notes: Footnotes, *, links: bool = True) -> None:
        self._base, self._notes, self._links = base, notes, links
        self._depth = 0
        self._plain = 0

    def line(self, element: HtmlElement, *, plain: bool = False) -> str:
        """Return all that is in the element as one line."""
        self._plain += plain
        try:
            return " ".join(joined(self.pieces(element)).split())
        finally:
            self._plain -= plain

    def pieces(self, element: HtmlElement) -> list[Piece]:
        """Return what is in the element."""
        found: list[Piece] = [element.text or ""]
        for child in element:
            self.add(child, found)
            found.append(child.tail or "")
        return found

    def add(self, element: HtmlElement, found: list[Piece]) -> None:
        """Add the pieces of an element to the result, without its tail."""
        tag = element.tag
        if not isinstance(tag, str):
            return
        if self._depth >= _DEEP:
            found.append(text_of(element))
            return
        self._depth += 1
        try:
            self._write(tag, element, found)
        finally:
            self._depth -= 1

    def _write(self, tag: str, element: HtmlElement, found: list[Piece]) -> None:
        if self._left_out(element):
            return
        made = formula(element)
        if made is not None:
            found.extend([HardLineBreak(), HardLineBreak()] * made.shown)
            found.append(AtomicSpan(made.markdown))
            found.extend([HardLineBreak(), HardLineBreak()] * made.shown)
        elif tag in _MARKS:
            self._mark(_MARKS[tag], element, found)
        elif writing := _WRITING.get(tag):
            writing(self, element, found)
        elif tag in _CODE:
            self._code(element, found)
        elif tag in PLAYERS:
            self._embedded(element, found)
        elif tag in BLOCKS:
            self._block(tag, element, found)
        elif tag not in SILENT:
            found.extend(self.pieces(element))

    def _left_out(self, element: HtmlElement) -> bool:
        """Return whether to skip an element: links to a heading, copy buttons, images of formulas."""
        if element.get("class") is None and element.tag != "button":
            return False
        names = classes(element)
        if element.tag == "button":
            words = [*names, element.get("aria-label", ""), text_of(element, 20)[:20]]
            return bool(_COPY.search(" ".join(words)))
        if _ANCHORS.intersection(names) and (text := short_text(element, 12)) is not None:
            return element.tag != "a" or not re.search(r"\w{3}", text) or "headerlink" in names
        return "katex-html" in names or rendered(element)

    def _mark(self, sign: str, element: HtmlElement, found: list[Piece]) -> None:
        inside = self.pieces(element)
        if blank(inside) or (self._plain and sign == "**"):
            found.extend(inside)
            return
        seen = [piece for piece in inside if not isinstance(piece, str) or piece.strip()]
        if len(seen) == 1 and isinstance(seen[0], LinkSpan) and not seen[0].label.startswith(("![", sign)):
            found.append(LinkSpan(f"{sign}{seen[0].label}{sign}", seen[0].url))
            return
        found.extend([OpeningMark(sign), *inside, ClosingMark(sign)])

    def _link(self, element: HtmlElement, found: list[Piece]) -> None:
        if label := self._notes.mark(element):
            found.append(AtomicSpan(f"[^{label}]"))
            return
        if self._notes.leads_back(element):
            return
        inside = self.pieces(element)
        url = address(element.get("href"), self._base) if self._links else None
        if url is None or blank(inside):
            found.extend(inside)
            return
        label = " ".join(joined(inside).split())
        before, behind = _edges(inside)
        found.append(before)
        found.append(LinkSpan(label, url))
        found.append(behind)

    def _image(self, element: HtmlElement, found: list[Piece]) -> None:
        words = _unread(element.get("alt"))
        names = classes(element)
        if "emoji" in names or "wp-smiley" in names:
            found.append(words if len(words) <= _EMOJI else "")
            return
        where = image(element, self._base)
        if where is None:
            if words and set(element.attrib) == {"alt"}:  # of a document, which has its images in it
                found.append(AtomicSpan(f"![{escaping.label(escaping.inline(words))}]()"))
            return
        if words or not (decorative(element) and not self._in_figure(element)):
            label = escaping.label(escaping.inline(words))
            found.append(AtomicSpan(f"![{label}]({where if self._links else ''})"))

    def _in_figure(self, element: HtmlElement) -> bool:
        return next(element.iterancestors("figure"), None) is not None

    def _code(self, element: HtmlElement, found: list[Piece]) -> None:
        text = text_of(element)
        links = [child for child in element if child.tag == "a"]
        code = escaping.code(text.replace("\xa0", " "))
        if not code:
            found.append(text)
            return
        if len(links) == 1 and text_of(links[0]).strip() == text.strip() and self._links:
            url = address(links[0].get("href"), self._base)
            found.append(LinkSpan(code, url) if url else AtomicSpan(code))
            return
        found.extend([text[: len(text) - len(text.lstrip())], AtomicSpan(code), text[len(text.rstrip()) :]])

    def _break(self, _element: HtmlElement, found: list[Piece]) -> None:
        found.append(HardLineBreak())

    def _raised(self, element: HtmlElement, found: list[Piece]) -> None:
        self._moved("^", element, found)

    def _lowered(self, element: HtmlElement, found: list[Piece]) -> None:
        self._moved("_", element, found)

    def _moved(self, sign: str, element: HtmlElement, found: list[Piece]) -> None:
        """Exponents as ``10^3``, indexes as ``x_i``, but ``H2O`` and ``1st`` as everybody writes them."""
        inside = self.pieces(element)
        text = short_text(element, _LONGEST_VALUE)
        if text is None or not _VALUE.fullmatch(text):
            found.extend(inside)
            return
        before = _last_char(found)
        if not before.isalnum() or (sign == "_" and text.isdigit() and before.isalpha()):
            found.extend(inside)
            return
        if any(isinstance(piece, AtomicSpan | LinkSpan) for piece in inside):
            found.extend(inside)
            return
        found.append(AtomicSpan(f"{sign}{text}" if re.fullmatch(r"\w+", text) else f"{sign}({text})"))

    def _ruby(self, element: HtmlElement, found: list[Piece]) -> None:
        """Return the words of a ruby and of those right behind it, as one word: then their readings."""
        before = element.getprevious()
        if before is not None and before.tag == "ruby" and not before.tail:
            return  # it was written with the one before
        base: list[Piece] = []
        readings: list[list[str]] = []
        ruby: HtmlElement | None = element
        while ruby is not None and ruby.tag == "ruby":
            self._annotated(ruby, base, readings)
            ruby = None if ruby.tail else ruby.getnext()
        found.extend(_unspaced(piece) if isinstance(piece, str) else piece for piece in base)
        for texts in readings:
            if any(texts):
                apart = " " if re.search(r"[a-zA-Z]", "".join(texts)) else ""
                found.append(f"({apart.join(filter(None, texts))})")

    def _annotated(self, element: HtmlElement, base: list[Piece], readings: list[list[str]]) -> None:
        """Add the base text of a part of a ruby, and its readings: a list for each level of them."""
        if self._depth >= _DEEP:
            base.append(text_of(element))
            return
        self._depth += 1
        level = 1 if element.find("ruby") is not None else 0
        base.append(element.text or "")
        for child in element:
            if child.tag in ("rt", "rtc"):
                parts = child.findall("rt") if child.tag == "rtc" else []
                readings.extend([] for _ in range(level + 1 - len(readings)))
                readings[level] += [self.line(each, plain=True) for each in parts or [child]]
                level += child.tag == "rtc"
            elif child.tag in ("ruby", "rb", "rbc", "span"):
                self._annotated(child, base, readings)
            else:
                self.add(child, base)
            base.append(child.tail or "")
        self._depth -= 1

    def _reading(self, element: HtmlElement, found: list[Piece]) -> None:
        """Return ruby text outside of a ruby: the reading after its base text."""
        inside = self.pieces(element)
        if not blank(inside):
            found.extend(["(", *inside, ")"])

    def _quoted(self, element: HtmlElement, found: list[Piece]) -> None:
        found.extend(['"', *self.pieces(element), '"'])

    def _box(self, element: HtmlElement, found: list[Piece]) -> None:
        """Return the checkbox of a task list."""
        if is_task_box(element):
            found.extend([AtomicSpan("[x]" if element.get("checked") is not None else "[ ]"), " "])

    def _unscripted(self, element: HtmlElement, found: list[Piece]) -> None:
        """Return the image for browsers without scripts, if the one for the others has no address."""
        before = element.getprevious()
        shown = before is not None and before.tag == "img" and image(before, self._base)
        for child in element.iter("img"):
            if not shown:
                self._image(child, found)

    def _embedded(self, element: HtmlElement, found: list[Piece]) -> None:
        """Return a player or a frame as a link to it."""
        where = embedded_address(element)
        url = address(where, self._base)
        words = _unread(element.get("title") or element.get("aria-label"))
        if url and self._links and (words or is_embedded(element, url)):
            label = escaping.label(escaping.inline(words)) if words else None
            found.extend([" ", LinkSpan(label, url) if label else AtomicSpan(f"<{url}>"), " "])
        elif element.tag in ("object", "video", "audio"):
            found.extend(self.pieces(element))

    def _block(self, tag: str, element: HtmlElement, found: list[Piece]) -> None:
        """Return a block as inline text, as in a cell, set off by white space."""
        if tag in _LISTINGS:
            lines = source(element).split("\n")
            found.append(" ")
            found.extend(
                piece for line in lines if line.strip() for piece in (AtomicSpan(escaping.code(line)), " ")
            )
            return
        before = _BETWEEN.get(tag, " ") if element.getprevious() is not None else " "
        found.extend([before, *self.pieces(element), " "])


_WRITING: Mapping[str, Callable[[InlineConverter, HtmlElement, list[Piece]], None]] = {
    "a": InlineConverter._link,
    "img": InlineConverter._image,
    "br": InlineConverter._break,
    "sup": InlineConverter._raised,
    "sub": InlineConverter._lowered,
    "ruby": InlineConverter._ruby,
    "rt": InlineConverter._reading,
    "q": InlineConverter._quoted,
    "input": InlineConverter._box,
    "noscript": InlineConverter._unscripted,
}
TAGS = frozenset((*_MARKS, *_CODE, *_WRITING, *PLAYERS))
"""Elements of a line that are written in a way of their own."""


def _unread(text: str | None) -> str:
    """Return the text that an attribute gives for a picture or a player, in one line and not too long."""
    words = " ".join((text or "").split())
    return words if len(words) <= _MOST_WORDS else f"{words[: _MOST_WORDS - 1].rstrip()}…"


def _unspaced(text: str) -> str:
    """Return base text of a ruby without the white space of its source, if it is not of words in Latin."""
    return text if re.search(r"[a-zA-Z]", text) else "".join(text.split())


def _edges(pieces: list[Piece]) -> tuple[str, str]:
    """White space at both ends of a run."""
    texts = [piece for piece in pieces if isinstance(piece, str) and piece]
    first, last = (texts[0], texts[-1]) if texts else ("", "")
    return " " if first[:1].isspace() else "", " " if last[-1:].isspace() else ""


def _last_char(pieces: list[Piece]) -> str:
    for piece in reversed(pieces):
        if isinstance(piece, str):
            if piece:
                return piece[-1]
        elif not isinstance(piece, OpeningMark | ClosingMark):
            return " "
    return " "
