"""What nobody sees of a text is taken out of the elements themselves, before anything is made of them.

Done later, it would undo what was escaped: ``<`` and ``b>`` with a mark of direction between them are no tag
until that mark is gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lxml.html import HtmlElement

from tabane.reader.cleaning import cleaned, has_unseen


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
