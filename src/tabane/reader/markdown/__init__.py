"""Subtrees of a page as Markdown: CommonMark with tables, footnotes and strikethrough of GFM.

The original elements are converted once, so that nothing is lost: levels of headings, nested lists, languages
of code blocks, spans of tables, formulas. Every tree can be converted. All visible text is in the Markdown;
invisible characters are removed from the tree itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tabane.text.invisible_characters import cleaned, has_unseen

if TYPE_CHECKING:
    from lxml.html import HtmlElement


__all__ = ["markdown"]


def markdown(
    elements: Sequence[HtmlElement], base_url: str, *, links: bool = True, removed: Counter[str] | None = None
) -> str:
    """Return the elements, one below the other, as Markdown. The text after an element (its tail) is not
    included.

    Links and images are absolute against ``base_url``; ``links=False`` keeps their text and drops their
    addresses. Elements hidden by style are not detected here: all given elements are written. The counts of
    invisible characters, by kind, are added to ``removed`` (see text/invisible_characters.py).
    """
    from tabane.reader.markdown.converter import MarkdownConverter, stacked

    unseen = leave_seen(elements)
    if removed is not None:
        removed.update(unseen)
    converter = MarkdownConverter(elements, base_url, links=links)
    return stacked(converter.all(elements))


def leave_seen(elements: Sequence[HtmlElement]) -> Counter[str]:
    """Remove invisible characters from the elements in place; return their counts by kind."""
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
    seen = cleaned(text)
    removed.update(seen.removed)
    return seen.text
