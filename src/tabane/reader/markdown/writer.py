"""What rooms for lists and tables ask of the one that writes everything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple, Protocol

from lxml.html import HtmlElement

from tabane.reader.markdown.notes import Notes

Kind = Literal["paragraph", "heading", "list", "code", "table", "quotation", "note", "rule"]


class Block(NamedTuple):
    """A block of Markdown, lines without indentation. ``marker`` is a list's: ``-``, ``*``, ``.``, ``)``."""

    markdown: str
    kind: Kind = "paragraph"
    marker: str = ""


class Writer(Protocol):
    """Writes what is in an element."""

    @property
    def notes(self) -> Notes: ...

    def blocks(self, element: HtmlElement) -> list[Block]:
        """What is in the element, as blocks."""
        ...

    def written(self, element: HtmlElement) -> list[Block]:
        """The blocks that the element is."""
        ...

    def said(self, text: str | None) -> list[Block]:
        """Text that stands alone, as a paragraph; none for white space."""
        ...

    def line(self, element: HtmlElement) -> str:
        """What is in the element as one run, with its blocks set in a row."""
        ...

    def has_headings(self, element: HtmlElement) -> bool:
        """Whether a heading stands somewhere in it."""
        ...


def stacked(blocks: Iterable[Block], *, tight: bool = False) -> str:
    """Blocks one below the other, an empty line between; ``tight``: none before a list."""
    parts: list[str] = []
    for block in blocks:
        if parts:
            parts.append("\n" if tight and block.kind == "list" else "\n\n")
        parts.append(block.markdown)
    return "".join(parts)


def indented(text: str, first: str) -> str:
    """``text`` behind ``first``, its further lines as far in as ``first`` is long."""
    margin = "\n" + " " * len(first)
    return first + text.replace("\n", margin).replace(margin + "\n", "\n\n") if text else ""
