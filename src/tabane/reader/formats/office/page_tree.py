"""The tree of HTML that a document is written as, before it becomes Markdown."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lxml import etree
from lxml.html import HtmlElement, HTMLParser

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
    """What a document may still cost: characters of text, elements that are looked at, seconds of CPU time.

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
