"""Subtrees of a page as Markdown: CommonMark with tables, footnotes and strikethrough of GFM.

The original elements are converted once, so that nothing is lost: levels of headings, nested lists,
languages of listings, spans of tables, formulas. Every tree converts, and what a reader sees of its text is
in the Markdown; what no reader sees is taken out of the tree itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabane.reader.cleaning import cleaned, has_unseen

if TYPE_CHECKING:
    from lxml.html import HtmlElement


__all__ = ["markdown"]


def markdown(
    elements: Sequence[HtmlElement], base_url: str, *, links: bool = True, removed: Counter[str] | None = None
) -> str:
    """Return the elements, one below the other, as Markdown. The text behind an element (its tail) is no
    part of it.

    Links and images are absolute against ``base_url``; ``links=False`` leaves the addresses out and the text
    in. What is hidden by style is not judged here: elements that are given are written. ``removed`` is added
    how many unseen characters of which kind the text had (see reader/cleaning.py).
    """
    from tabane.reader.markdown.converter import MarkdownConverter
    from tabane.reader.markdown.writer import stacked

    unseen = leave_seen(elements)
    if removed is not None:
        removed.update(unseen)
    converter = MarkdownConverter(elements, base_url, links=links)
    return stacked(converter.all(elements))


def leave_seen(elements: Sequence[HtmlElement]) -> Counter[str]:
    """Clean the elements' texts in place; how many characters of which kind they had too many."""
    removed: Counter[str] = Counter()
    for element in elements:
        for node in element.iter():
            if isinstance(node.tag, str):
                if node.text and has_unseen(node.text):
                    node.text = _left(node.text, removed)
                if (words := node.get("alt")) is not None and has_unseen(words):
                    node.set("alt", _left(words, removed))
            if node is not element and node.tail and has_unseen(node.tail):
                node.tail = _left(node.tail, removed)
    return removed


def _left(text: str, removed: Counter[str]) -> str:
    found = cleaned(text)
    removed.update(found.removed)
    return found.text
