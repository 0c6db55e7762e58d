"""Marks at parts of a page that it does not show at first."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tabane.reader.extraction.blocks import INLINE

Element = Any
COLLAPSED = "(collapsed on the page)"
LATE = "(hidden until a script shows it)"
_LINES = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary", "figcaption", "caption"))
_OUTSIDE = frozenset(("ul", "ol", "dl", "table", "pre", "blockquote", "figure"))
_ROWS = frozenset(("tr", "tbody", "thead", "tfoot"))


def marked(elements: Iterable[Element], mark: str) -> int:
    """Write a mark at the begin of each element that still has text; return the number of these."""
    count = 0
    for element in elements:
        if element.tag not in ("body", "html") and element.getparent() is None:
            continue
        if any(text.strip() for text in element.itertext()):
            write_line(element, mark)
            count += 1
    return count


def write_line(element: Element, mark: str) -> None:
    """Write a line at the beginning of an element, before it if it can have none."""
    tag = element.tag
    if tag in INLINE or tag in _LINES:
        element.text = f"{mark} {element.text or ''}"
        return
    if tag in _ROWS:
        cell = next(element.iter("td", "th"), None)
        if cell is not None:
            cell.text = f"{mark} {cell.text or ''}"
        return
    line = element.makeelement("p")
    line.text = mark
    if tag in _OUTSIDE:
        element.addprevious(line)
    elif tag == "details" and (summary := element.find("summary")) is not None:
        element.insert(element.index(summary) + 1, line)
    else:
        line.tail, element.text = element.text, None
        element.insert(0, line)
