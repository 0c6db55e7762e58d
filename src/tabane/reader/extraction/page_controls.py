"""Controls of a page that open its collapsed parts: buttons, tabs, summaries, labels and links to an id."""

from __future__ import annotations

import itertools
import re
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
_MOST_STYLES = 500
_MOST = 8
_PICTURES = ("img", "svg", "i", "input", "picture")
_BEHAVIOR = frozenset((
    "aria-controls", "aria-expanded", "aria-haspopup", "commandfor", "onclick", "popovertarget", "role",
))  # fmt: skip
_BOUND = ("data-", "@click", "v-on:", "x-on:", "(click)", "hx-", "on:click", "ng-click", "wire:click")
_OPENING = re.compile(
    r"\b(?:more|read|show|see|view|expand|open|details?|full|all|continue|answers?|toggle|mehr|weiter|plus"
    r"|suite|m[aá]s|ver|altro|mais)\b|[?？¿]|もっと|続き|詳し|詳細|開く|表示|すべて|全て|全文|答え|回答|展开|展開|更多|查看"
    r"|더|펼치|보기",
    re.IGNORECASE,
)
_TARGET = ":target"


class PageControls:
    """Finds the controls of elements by the references to these, or by their place beside them.

    A link to an id scrolls to it and opens nothing, and a button without behavior does nothing. They count if
    something says more: attributes, a style sheet with ``:target``, words such as "Read more", or others of
    their kind. Whether a control is hidden itself is not judged.
    """

    def __init__(self, root: Element) -> None:
        self._root = root
        self._by_key: dict[str, list[Element]] | None = None
        self._tabs: dict[str, Element] = {}
        self._targets: bool | None = None
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

    def _keys(self, element: Element) -> Iterator[str]:
        for name in _REFERENCES:
            if value := element.get(name):
                yield from value.replace("#", "").split()[:_MOST]
        href = element.get("href") or ""
        if element.tag == "a" and href.startswith("#") and len(href) > 1 and self._shows_its_target(element):
            yield href[1:]

    def _shows_its_target(self, link: Element) -> bool:
        """Return whether a link to an id opens what it leads to."""
        return _has_behavior(link) or _is_one_of_several(link) or self._has_targets()

    def _has_targets(self) -> bool:
        """Return whether a style sheet of the page shows what a link leads to."""
        if self._targets is None:
            styles = itertools.islice(self._root.iter("style"), _MOST_STYLES)
            self._targets = any(_TARGET in (style.text or "") for style in styles)
        return self._targets

    def _add(self, element: Element, by_key: dict[str, list[Element]]) -> None:
        if (key := element.get("id")) and (element.get("role") == "tab" or element.tag == "button"):
            self._tabs.setdefault(key, element)
        for key in self._keys(element):
            others = by_key.setdefault(key, [])
            if len(others) < _MOST and _can_be_used(element):
                others.append(element)


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
                if _is_control(inner) and _can_be_used(inner) and _opens(inner, neighbor):
                    return [inner]
    return []


def _opens(control: Element, neighbor: Element) -> bool:
    """Return whether a control beside a part opens it. ``neighbor`` is the element beside that has it."""
    if control.tag not in ("button", "a") or _has_behavior(control):
        return True
    return _OPENING.search(_label(control)) is not None or _is_repeated(neighbor)


def _label(control: Element) -> str:
    return "".join(itertools.islice(control.itertext(), 8))[: 2 * _LONGEST_LABEL]


def _has_behavior(element: Element) -> bool:
    return any(name in _BEHAVIOR or name.startswith(_BOUND) for name in itertools.islice(element.keys(), 50))


def _is_repeated(element: Element) -> bool:
    """Return whether an element has others of its kind around it, each with a part of its own between."""
    alike = (element.tag, element.get("class"))
    for step in (_sibling_of_a_part(element, after=True), _sibling_of_a_part(element, after=False)):
        if step is not None and (step.tag, step.get("class")) == alike:
            return True
    return False


def _sibling_of_a_part(element: Element, *, after: bool) -> Element | None:
    part = _sibling(element, after=after)
    return _sibling(part, after=after) if part is not None else None


def _is_one_of_several(link: Element) -> bool:
    """Return whether a link is an item of a row of links to ids, such as those of tabs."""
    item = link
    while item.getparent() is not None and len(item.getparent()) == 1:
        item = item.getparent()
    for after in (True, False):
        other = _sibling(item, after=after)
        if other is not None and other.tag == item.tag and other.tag != "p":
            inner = itertools.islice(other.iter("a"), 2)
            if any((at.get("href") or "").startswith("#") for at in inner):
                return True
    return False


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
