"""Controls of a page that open its collapsed parts: buttons, tabs, summaries, labels and links to an id."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

Element = Any
_REFERENCES = (
    "aria-controls", "data-target", "data-bs-target", "popovertarget", "commandfor", "data-tab-target",
    "data-toggle-target", "data-controls",
)  # fmt: skip
_REFERRING = "|".join(
    (
        *(f"//@{name}" for name in _REFERENCES),
        "//a/@href[starts-with(., '#')]",
        "//@role[.='tab']",
        "//button/@id",
    )
)
_ROLES = frozenset(("button", "tab", "switch", "checkbox", "radio"))
_NEAR = 12
_MOST_PANELS = 24
_LONGEST_LABEL = 60
_MOST = 8
_PICTURES = ("img", "svg", "i", "input", "picture")


class PageControls:
    """Finds the controls of elements by the references to these, or by their place beside them.

    Whether a control is hidden itself is not judged.
    """

    def __init__(self, root: Element) -> None:
        self._root = root
        self._by_key: dict[str, list[Element]] | None = None
        self._tabs: dict[str, Element] = {}
        self._rows: dict[Element, dict[str, list[Element]]] = {}

    def of(self, element: Element) -> list[Element]:
        """Return controls that open an element; none if nothing does."""
        found: list[Element] = []
        if key := element.get("id"):
            found += self._referring().get(key, ())
        if labels := element.get("aria-labelledby"):
            self._referring()
            found += [self._tabs[label] for label in labels.split()[:4] if label in self._tabs]
        found += _beside(element) or self._tabs_of(element)
        return found[:_MOST]

    def _tabs_of(self, element: Element) -> list[Element]:
        """Return the items of a row before a group of panels, if there is one for each panel."""
        parent = element.getparent()
        name = element.get("class")
        if parent is None or not name or parent.tag in ("body", "html"):
            return []
        rows = self._rows.get(parent)
        if rows is None:
            rows = self._rows[parent] = _rows_before(parent)
        return rows.get(_first_class(element), [])

    def _referring(self) -> dict[str, list[Element]]:
        if self._by_key is None:
            self._by_key = {}
            for value in self._root.xpath(_REFERRING):
                self._add(value.getparent(), self._by_key)
        return self._by_key

    def _add(self, element: Element, by_key: dict[str, list[Element]]) -> None:
        if (key := element.get("id")) and (element.get("role") == "tab" or element.tag == "button"):
            self._tabs.setdefault(key, element)
        for key in _keys(element):
            others = by_key.setdefault(key, [])
            if len(others) < _MOST and _can_be_used(element):
                others.append(element)


def _keys(element: Element) -> Iterator[str]:
    for name in _REFERENCES:
        if value := element.get(name):
            yield from value.replace("#", "").split()[:_MOST]
    href = element.get("href") or ""
    if element.tag == "a" and href.startswith("#") and len(href) > 1:
        yield href[1:]


def _beside(element: Element) -> list[Element]:
    """Return the control in the element right before or after one, or before its parent if it is the first
    in it.
    """
    before = _sibling(element, after=False)
    above = element.getparent()
    if before is None and above is not None and above.tag not in ("body", "html"):
        before = _sibling(above, after=False)
    for neighbor in (before, _sibling(element, after=True)):
        if neighbor is not None:
            for inner in itertools.islice(neighbor.iter("*"), _NEAR):
                if _is_control(inner) and _can_be_used(inner):
                    return [inner]
    return []


def _rows_before(parent: Element) -> dict[str, list[Element]]:
    """Return for each class of panels in a parent the items of the row that is before them, if there is an
    item for each panel.
    """
    panels: dict[str, list[Element]] = {}
    for child in parent:
        if isinstance(child.tag, str):
            panels.setdefault(_first_class(child), []).append(child)
    groups = [(name, group) for name, group in panels.items() if name and 2 <= len(group) <= _MOST_PANELS]
    return {name: _row_before(parent, group) for name, group in groups[:_MOST]}


def _row_before(parent: Element, panels: list[Element]) -> list[Element]:
    for place in (panels[0], parent):
        before = _sibling(place, after=False)
        if before is None:
            continue
        for row in itertools.islice(before.iter("*"), _NEAR):
            items: dict[str, list[Element]] = {}
            for item in itertools.islice(row, 2 * _MOST_PANELS):
                if isinstance(item.tag, str):
                    items.setdefault(_first_class(item), []).append(item)
            for group in items.values():
                if len(group) == len(panels) and all(map(_is_label, group)):
                    return group
    return []


def _first_class(element: Element) -> str:
    return (element.get("class") or "").partition(" ")[0]


def _is_label(element: Element) -> bool:
    texts = list(itertools.islice(element.itertext(), 8))
    return 0 < len("".join(texts).strip()) <= _LONGEST_LABEL


def _sibling(element: Element, *, after: bool) -> Element | None:
    at = element.getnext() if after else element.getprevious()
    while at is not None and not isinstance(at.tag, str):
        at = at.getnext() if after else at.getprevious()
    return at


def _is_control(element: Element) -> bool:
    tag = element.tag
    if tag in ("button", "summary"):
        return True
    attributes = element.attrib
    if not attributes:
        return False
    if "aria-expanded" in attributes or attributes.get("role") in _ROLES or "onclick" in attributes:
        return True
    if tag == "a":
        href = attributes.get("href", "#")
        return href in ("#", "") or href.lower().startswith("javascript:") or "data-toggle" in attributes
    if tag == "label":
        return "for" in attributes
    return tag == "input" and attributes.get("type") in ("checkbox", "radio", "button")


def _can_be_used(element: Element) -> bool:
    """Return whether a control has something to click on."""
    attributes = element.attrib
    if "hidden" in attributes or "disabled" in attributes:
        return False
    if element.tag == "input" or attributes.get("aria-label") or attributes.get("title"):
        return True
    texts = itertools.islice(element.itertext(), 20)
    return any(text.strip() for text in texts) or next(element.iter(*_PICTURES), None) is not None
