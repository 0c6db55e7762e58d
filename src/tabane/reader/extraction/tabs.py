"""Tabs of a page: which panes they open, and their labels at the panes, so that each code keeps its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any, NamedTuple

from tabane.reader.extraction.blocks import (
    INLINE,
    NAMES,
    BlockSegmentation,
    ElementBox,
    kinds,
    nearest,
)
from tabane.reader.extraction.html_tree import drop

Element = Any

_MOST_TABS = 500  # tabs of a page
_MOST_IN_ROW = 24
_LONGEST = 60  # characters of a label
_NEAR = 3  # elements around a row that the panes may stand beside
_TABS = "//@role[.='tab']/.. | //@data-bs-toggle[{0}]/.. | //@data-toggle[{0}]/..".format(
    ".='tab' or .='pill'"
)
_ROWS = "//@role[.='tablist']/.."
_LABELED = "//@aria-labelledby/parent::*[@role='tabpanel' or contains(@class, 'tabpanel')]"
_REFERENCES = ("aria-controls", "data-bs-target", "data-target", "href")
_PANE = re.compile(
    r"(?:^|[\s_-])(?:tab-?(?:s|bed)?-?(?:pane|panel|content|item|block)|panel|pane)(?:$|[\s_-])", re.I
)
_OTHER = frozenset(NAMES.index(kind) for kind in ("talk", "review", "form", "more", "shop", "nav"))
"""Kinds of panes that are not the text of another pane in other words."""
_LEAST_ROOM = 3_000  # letters that the other panes of a text may have at least
_MANY_TIMES = 3  # what they may have, of the letters of those that are content


class TabPane(NamedTuple):
    """A pane, the element of the tab that opens it, and the label of this tab."""

    pane: Element
    tab: Element
    label: str


def tab_panes(root: Element) -> list[TabPane]:
    """Return the panes of tabs. The tree is not changed."""
    tabs = list(islice(root.xpath(_TABS), _MOST_TABS))
    switches = dict.fromkeys(each.getparent() for each in root.iter("label") if each.get("for"))
    rows = list(islice(chain(root.xpath(_ROWS), filter(_is_row_of_labels, switches)), _MOST_TABS))
    labeled = list(islice(root.xpath(_LABELED), _MOST_TABS))
    if not tabs and not rows and not labeled:
        return []
    ids = {element.get("id"): element for element in reversed(root.xpath("//*[@id]"))}
    panes: dict[Element, Element] = {}
    for tab in tabs:
        names = (value.removeprefix("#") for at in (tab, *tab.iter("a")) for value in _reference_values(at))
        pane = next((ids[name] for name in names if name in ids), None)
        if pane is not None and pane is not tab:
            panes.setdefault(pane, tab)
    for pane in labeled:
        tab = ids.get((pane.get("aria-labelledby") or "").partition(" ")[0])
        if tab is None or tab is pane:
            continue
        if tab in tabs or tab.tag in ("button", "label", "a") or "tab" in (tab.get("class") or "").split():
            panes.setdefault(pane, tab)
    named = set(panes.values())
    for row in rows:
        labels = [tab for tab in row.iter("*") if tab.get("role") == "tab"] or [
            label for label in row.findall("label") if label.get("for") in ids
        ]
        if 1 < len(labels) <= _MOST_IN_ROW and not named.intersection(labels):
            panes.update(zip(_panes_of(row, len(labels)), labels, strict=False))
    return [TabPane(pane, tab, label) for pane, tab in panes.items() if (label := _tab_label(tab))]


def _is_row_of_labels(row: Element) -> bool:
    """Return whether an element has nothing but labels, at least two, and what they switch."""
    tags = [child.tag for child in row if isinstance(child.tag, str)]
    return tags.count("label") > 1 and {*tags} <= {"label", "input"}


def with_panes(cutting: BlockSegmentation, kept: Sequence[bool], panes: Iterable[TabPane]) -> list[bool]:
    """Return which blocks are content, with all panes beside those that are content.

    Panes with reviews, forms or other parts of a page are judged one by one, as are those much longer than
    the ones that are content.
    """
    choice = list(kept)
    groups = {each.pane: each.pane.getparent() for each in panes if _OTHER.isdisjoint(_kinds_of_pane(each))}
    if not groups:
        return choice
    inside: dict[int, Element] = {}

    def pane_at(box: ElementBox) -> Element | None:
        return box.element if box.element in groups else None

    numbers: dict[Element, list[int]] = {}
    for number, block in enumerate(cutting.blocks):
        pane = nearest(block.box, inside, pane_at, None)
        if pane is not None:
            numbers.setdefault(groups[pane], []).append(number)
    for group in numbers.values():
        good = sum(cutting.blocks[number].letters for number in group if kept[number])
        rest = [number for number in group if not kept[number]]
        letters = sum(cutting.blocks[number].letters for number in rest)
        linked = sum(cutting.blocks[number].linked for number in rest)
        if good and 2 * linked < letters <= max(_LEAST_ROOM, _MANY_TIMES * good):
            for number in rest:
                choice[number] = True
    return choice


def _kinds_of_pane(each: TabPane) -> frozenset[int]:
    return kinds(f"{each.pane.get('class') or ''} {each.pane.get('id') or ''} {each.label}")


def label_panes(root: Element, panes: Iterable[TabPane]) -> None:
    """Write the labels at the beginning of the panes that are left of a page, and remove them elsewhere."""
    for pane, tab, label in panes:
        if not _is_in(pane, root) or not any(text.strip() for text in pane.itertext()):
            continue
        before = pane.getprevious()
        if before is tab:  # the label stands there already
            continue
        write_line(pane, label)
        row = tab.getparent() if _is_in(tab, root) else None
        if row is not None:
            drop(tab)
            while row is not None and row is not root and not any(text.strip() for text in row.itertext()):
                above = row.getparent()
                drop(row)
                row = above


def _reference_values(tab: Element) -> Iterator[str]:
    for name in _REFERENCES:
        if (value := tab.get(name)) and (name != "href" or value.startswith("#")):
            yield value.strip().partition(" ")[0]


def _panes_of(row: Element, count: int) -> list[Element]:
    """Return the panes of a row of tabs, in order: elements behind it, or in the element behind it."""
    at = row
    for _ in range(_NEAR):
        after = [each for each in islice(at.itersiblings(), _MOST_IN_ROW + 1) if isinstance(each.tag, str)]
        if len(after) >= count and all(
            each.get("role") == "tabpanel" or _PANE.search(each.get("class") or "") is not None
            for each in after[:count]
        ):
            return after[:count]
        inside = [each for each in after[0] if isinstance(each.tag, str)] if after else []
        if len(inside) == count:
            return inside
        at = at.getparent()
        if at is None or at.tag in ("body", "main", "article") or after:
            return []
    return []


def _tab_label(tab: Element) -> str:
    text = " ".join("".join(islice(tab.itertext(), 20)).split())
    return text if len(text) <= _LONGEST else ""


def _is_in(element: Element, root: Element) -> bool:
    return element is root or any(above is root for above in element.iterancestors())


_LINES = frozenset(("p", "h1", "h2", "h3", "h4", "h5", "h6", "dt", "summary", "figcaption", "caption"))
_OUTSIDE = frozenset(("ul", "ol", "dl", "table", "pre", "blockquote", "figure"))
_TABLE_PARTS = frozenset(("tr", "tbody", "thead", "tfoot"))


def write_line(element: Element, mark: str) -> None:
    """Write a line at the beginning of an element, before it if it can have none."""
    tag = element.tag
    if tag in INLINE or tag in _LINES:
        element.text = f"{mark} {element.text or ''}"
        return
    if tag in _TABLE_PARTS:
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
