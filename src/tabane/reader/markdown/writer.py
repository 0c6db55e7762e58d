"""Blocks of Markdown, the interface that lists and tables write with, and footnotes."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol
from urllib.parse import unquote

from lxml.etree import iterwalk
from lxml.html import HtmlElement

from tabane.reader.markdown.elements import classes, text_of

_KINDS = re.compile(r"\b(?:foot-?notes?|end-?notes?|references?|reflist|citations?|doc-(?:end|foot)notes?)\b")
_REFERENCE = re.compile(r"\b(?:foot-?note(?:-?ref)?|foot-?note-reference|doc-noteref|fn-?ref|noteref)\b")
_BACK = re.compile(r"(?:[\^↩↑⏎↵\ufe0e\ufe0f\s←]|\b[a-z0-9]\b)*", re.I)
_LONGEST_BACK = 200  # characters of a link back, with white space
_LONGEST_MARK = 200
_NOTES = frozenset({"li", "p", "div", "dd", "aside"})


@dataclass(frozen=True, slots=True)
class Footnotes:
    """``marks``: label by the href of a reference; ``notes``: label by the id of a note; ``backs``: links in
    notes that only lead back to a reference.
    """

    marks: Mapping[str, str] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    backs: Collection[HtmlElement] = frozenset()

    def mark(self, link: HtmlElement) -> str | None:
        """Return the label of the note that this link leads to, if it is a reference."""
        return self.marks.get(link.get("href", "")) if self.marks and _refers(link) else None

    def note(self, element: HtmlElement) -> str | None:
        """Return the label of the note that this element is."""
        return self.notes.get(element.get("id", "")) if self.notes else None

    def leads_back(self, link: HtmlElement) -> bool:
        """Return whether this link, within a note, only leads back to its reference."""
        return link in self.backs


def notes(elements: Sequence[HtmlElement]) -> Footnotes:
    """Return the footnotes of these elements: references whose notes are in these elements too."""
    wanted: dict[str, HtmlElement] = {}
    for element in elements:
        for link in element.iter("a"):
            href = link.get("href", "")
            if len(href) > 1 and href[0] == "#" and _refers(link):
                wanted.setdefault(href, link)
    if not wanted:
        return Footnotes()
    there = _targets(elements, {unquote(href[1:]) for href in wanted})
    marks: dict[str, str] = {}
    taken: set[str] = set()
    for href, link in wanted.items():
        if unquote(href[1:]) in there:
            marks[href] = _label(link, taken)
            taken.add(marks[href])
    labels = {unquote(href[1:]): label for href, label in marks.items()}
    return Footnotes(marks, labels, frozenset(_backs(elements, labels)))


def _refers(link: HtmlElement) -> bool:
    if not link.get("href", "").startswith("#"):
        return False
    parent = link.getparent()
    if link.find("sup") is not None or (parent is not None and parent.tag == "sup"):
        return True
    names = " ".join([*classes(link), link.get("role", ""), *(classes(parent) if parent is not None else ())])
    return bool(_REFERENCE.search(names)) and len(text_of(link, 8)) <= 8


def _targets(elements: Sequence[HtmlElement], ids: set[str]) -> set[str]:
    """Return the ids that are notes: in a section marked as such, or with a link back."""
    linking = _linking_back(elements)
    found: set[str] = set()
    for element in elements:
        marked = _is_marked_around(element)
        for event, note in iterwalk(element, events=("start", "end")):
            if _is_marked(note):
                marked += 1 if event == "start" else -1
            if event == "start" and note.tag in _NOTES and (marked or note in linking):
                found.add(note.get("id", ""))
    return found & ids


def _is_marked_around(element: HtmlElement) -> bool:
    return any(_is_marked(above) for above in element.iterancestors())


def _is_marked(element: HtmlElement) -> bool:
    """Return whether the names of an element are those of footnotes."""
    attributes = element.attrib
    if not attributes:
        return False
    return bool(
        _KINDS.search(" ".join([*classes(element), attributes.get("role", ""), attributes.get("id", "")]))
    )


def _linking_back(elements: Sequence[HtmlElement]) -> set[HtmlElement]:
    """Return every element with a link that may lead back from a note."""
    found: set[HtmlElement] = set()
    for element in elements:
        for link in element.iter("a"):
            if not _is_back(link):
                continue
            for above in (link, *link.iterancestors()):
                if above in found:
                    break
                found.add(above)
    return found


def _backs(elements: Sequence[HtmlElement], labels: Mapping[str, str]) -> Iterator[HtmlElement]:
    """Yield the links in notes that only lead back."""
    for element in elements:
        inside = 0
        for event, at in iterwalk(element, events=("start", "end"), tag=("a", *_NOTES)):
            if at.tag != "a":
                if at.get("id") in labels:
                    inside += 1 if event == "start" else -1
            elif inside and event == "start" and _is_back(at):
                yield at


def _is_back(link: HtmlElement) -> bool:
    if not link.get("href", "").startswith("#"):
        return False
    text = text_of(link, _LONGEST_BACK)
    return len(text) <= _LONGEST_BACK and _BACK.fullmatch(text) is not None


def _label(link: HtmlElement, taken: Collection[str]) -> str:
    """Return the text of the mark if it is a valid, unique label; else a number."""
    label = re.sub(r"[^\w.-]", "", text_of(link, _LONGEST_MARK)[:_LONGEST_MARK])[:16]
    if label and label not in taken:
        return label
    number = len(taken) + 1
    while str(number) in taken:
        number += 1
    return str(number)


Kind = Literal["paragraph", "heading", "list", "code", "table", "quotation", "note", "rule"]


class MarkdownBlock(NamedTuple):
    """A block of Markdown, lines without indentation. ``marker`` is a list's: ``-``, ``*``, ``.``, ``)``."""

    markdown: str
    kind: Kind = "paragraph"
    marker: str = ""


class MarkdownWriter(Protocol):
    """Converts the content of an element."""

    @property
    def notes(self) -> Footnotes: ...

    def blocks(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the content of the element as blocks."""
        ...

    def written(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the blocks that the element is."""
        ...

    def said(self, text: str | None) -> list[MarkdownBlock]:
        """Return text as a paragraph; nothing for white space."""
        ...

    def listing(self, element: HtmlElement) -> list[MarkdownBlock]:
        """Return the element as a code block; nothing if it is empty."""
        ...

    def line(self, element: HtmlElement) -> str:
        """Return the content of the element as one line, with its blocks in a row."""
        ...

    def has_headings(self, element: HtmlElement) -> bool:
        """Return whether it contains a heading."""
        ...


def stacked(blocks: Iterable[MarkdownBlock], *, tight: bool = False) -> str:
    """Join blocks with an empty line between them; ``tight``: without one before a list."""
    parts: list[str] = []
    for block in blocks:
        if parts:
            parts.append("\n" if tight and block.kind == "list" else "\n\n")
        parts.append(block.markdown)
    return "".join(parts)


def indented(text: str, first: str) -> str:
    """Return ``text`` after ``first``, with its other lines indented by the length of ``first``."""
    margin = "\n" + " " * len(first)
    return first + text.replace("\n", margin).replace(margin + "\n", "\n\n") if text else ""
