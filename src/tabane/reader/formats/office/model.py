"""The model that all office documents are read into: runs of text with a look, in lines, within a budget.

A format resolves its styles into looks; whether a look is seen is judged in ``visibility``, and blocks are
written by ``writer``.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from lxml import etree
from lxml.html import HtmlElement

from tabane.messages import Message, say
from tabane.reader.formats.office.package import OfficePackage

Look = Mapping[str, Any]
"""What text looks like, by name: bold, italic, strike, code, vanish, web_hidden, color (None: automatic),
shade, highlight, size, position and spacing (points), scale (percent), align (sup, sub), opacity. Formats add
names of their own for paragraphs, cells and shapes.
"""

_CHARACTERS = 4_000_000
_ELEMENTS = 1_200_000
_LOOKED = 500  # elements between two looks at the clock


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


class DocumentFull(Exception):
    """The document has more content than a page may have; what was written until then is its beginning."""


class ContentBudget:
    """Budget that a document has left: characters of text, elements that are looked at, seconds of CPU time.

    About as much time is left to write it as Markdown.
    """

    def __init__(self, seconds: float, *, characters: int = _CHARACTERS, elements: int = _ELEMENTS) -> None:
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


class Span(NamedTuple):
    """Text in one format: ``tags`` are the elements around it, from the outside, ``link`` its address.

    ``element`` is a line break, a formula or the mark of a note, in place of text.
    """

    text: str
    tags: tuple[str, ...] = ()
    link: str | None = None
    element: HtmlElement | None = None


def is_blank(spans: list[Span]) -> bool:
    """Return whether spans show nothing."""
    return not any(span.element is not None or span.text.strip() for span in spans)


class Reading:
    """A document as it is read once: its budget, and the counts of what is left out.

    ``hidden`` counts the parts that nobody sees, ``deep`` those nested too deeply, ``notes`` has the kinds
    and ids of the notes that are referred to, in this order.
    """

    def __init__(self, package: OfficePackage) -> None:
        self.package = package
        self.budget = ContentBudget(package.seconds)
        self.hidden = self.deep = 0
        self.cut = False
        self.notes: list[tuple[str, str]] = []
        self._numbers: dict[tuple[str, str], int] = {}

    def note_number(self, key: tuple[str, str]) -> int:
        """Return the number of a note: the next one if it is referred to for the first time."""
        if key not in self._numbers:
            self.notes.append(key)
            self._numbers[key] = len(self.notes)
        return self._numbers[key]

    def content(self, whole: HtmlElement | str, notes: tuple[Message, ...] = ()) -> OfficeContent:
        """Return what was read."""
        return OfficeContent(whole, self.hidden, self.deep, self.cut or self.package.cut, notes)


class Line:
    """The runs of a paragraph that are seen; ``objects`` are the drawings in it, which come after it."""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading
        self.spans: list[Span] = []
        self.objects: list[etree._Element] = []
        self._unseen = False

    def add(self, text: str, tags: tuple[str, ...] = (), link: str | None = None, *, hidden: bool) -> None:
        """Append text, or count it if it is hidden: runs that follow each other are one part."""
        if hidden:
            if text.strip():
                self._reading.hidden += not self._unseen
                self._unseen = True
            return
        self._unseen = False
        self._reading.budget.take(0, len(text))
        self.spans.append(Span(text, tags, link))

    def add_element(self, element: HtmlElement, tags: tuple[str, ...] = ()) -> None:
        """Append an element in place of text."""
        self._reading.budget.take(len(element))
        self.spans.append(Span("", tags, None, element))


def sheets_left_out(shown: int, sheets: int) -> tuple[Message, ...]:
    """Return the warning about sheets beyond the limit, if there are any."""
    if sheets <= shown:
        return ()
    return (say("{shown} of {all} {all:sheet is|sheets are} shown.", shown=shown, all=sheets),)


def slides_left_out(shown: int, slides: int) -> tuple[Message, ...]:
    """Return the warning about slides beyond the limit, if there are any."""
    if slides <= shown:
        return ()
    return (say("{shown} of {all} {all:slide is|slides are} shown.", shown=shown, all=slides),)
