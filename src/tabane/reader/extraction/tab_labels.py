"""Labels of tabs, moved from their row to the panes that they open, so that each code keeps its name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from tabane.reader.extraction.html_tree import drop
from tabane.reader.extraction.marking import write_line

Element = Any

_MOST = 500  # tabs of a page
_MOST_IN_ROW = 24
_LONGEST = 60  # characters of a label
_NEAR = 3  # elements around a row that the panes may stand beside
_TABS = " | ".join(
    (
        "//*[@role='tab']",
        *(f"//*[@{name}='{kind}']" for name in ("data-bs-toggle", "data-toggle") for kind in ("tab", "pill")),
    )
)
_ROWS = "//*[@role='tablist'] | //*[count(label[@for]) > 1 and count(*) = count(label) + count(input)]"
_REFERENCES = ("aria-controls", "data-bs-target", "data-target", "href")
_PANE = re.compile(
    r"(?:^|[\s_-])(?:tab-?(?:s|bed)?-?(?:pane|panel|content|item|block)|panel|pane)(?:$|[\s_-])", re.I
)


def tab_panes(root: Element) -> list[tuple[Element, Element, str]]:
    """Return each pane of tabs with the element of its label, and the label. The tree is not changed."""
    tabs = list(islice(root.xpath(_TABS), _MOST))
    rows = list(islice(root.xpath(_ROWS), _MOST))
    if not tabs and not rows:
        return []
    ids = {element.get("id"): element for element in reversed(root.xpath("//*[@id]"))}
    panes: dict[Element, Element] = {}
    for tab in tabs:
        names = (value.removeprefix("#") for at in (tab, *tab.iter("a")) for value in _values(at))
        pane = next((ids[name] for name in names if name in ids), None)
        if pane is not None and pane is not tab:
            panes.setdefault(pane, tab)
    for pane in islice(root.xpath("//*[@role='tabpanel'][@aria-labelledby]"), _MOST):
        tab = ids.get((pane.get("aria-labelledby") or "").partition(" ")[0])
        if tab is not None and (tab in tabs or tab.tag in ("button", "label", "a")):
            panes.setdefault(pane, tab)
    named = set(panes.values())
    for row in rows:
        found = [tab for tab in row.iter("*") if tab.get("role") == "tab"] or row.findall("label")
        if 1 < len(found) <= _MOST_IN_ROW and not named.intersection(found):
            panes.update(zip(_panes_of(row, len(found)), found, strict=False))
    return [(pane, tab, label) for pane, tab in panes.items() if (label := _label(tab))]


def label_panes(root: Element, panes: Iterable[tuple[Element, Element, str]]) -> None:
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


def _values(tab: Element) -> Iterator[str]:
    for name in _REFERENCES:
        if (value := tab.get(name)) and (name != "href" or value.startswith("#")):
            yield value.strip().partition(" ")[0]


def _panes_of(row: Element, count: int) -> list[Element]:
    """Return the panes of a row of tabs, in order: elements behind it, or in the element behind it."""
    at = row
    for _ in range(_NEAR):
        after = [each for each in islice(at.itersiblings(), _MOST_IN_ROW + 1) if isinstance(each.tag, str)]
        if len(after) >= count and all(_is_pane(each) for each in after[:count]):
            return after[:count]
        inside = [each for each in after[0] if isinstance(each.tag, str)] if after else []
        if len(inside) == count:
            return inside
        at = at.getparent()
        if at is None or at.tag in ("body", "main", "article") or after:
            return []
    return []


def _is_pane(element: Element) -> bool:
    return element.get("role") == "tabpanel" or _PANE.search(element.get("class") or "") is not None


def _label(tab: Element) -> str:
    text = " ".join("".join(islice(tab.itertext(), 20)).split())
    return text if len(text) <= _LONGEST else ""


def _is_in(element: Element, root: Element) -> bool:
    return element is root or any(above is root for above in element.iterancestors())
