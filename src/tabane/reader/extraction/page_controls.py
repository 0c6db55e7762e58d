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
_REFERRING = (
    "//*[{} or (self::a and starts-with(@href, '#')) or (@id and (@role='tab' or self::button))]".format(
        " or ".join(f"@{name}" for name in _REFERENCES)
    )
)
_ROLES = frozenset(("button", "tab", "switch", "checkbox", "radio"))
_NEAR = 12
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

    def of(self, element: Element) -> list[Element]:
        """Return controls that open an element; none if nothing does."""
        found: list[Element] = []
        if key := element.get("id"):
            found += self._referring().get(key, ())
        if labels := element.get("aria-labelledby"):
            self._referring()
            found += [self._tabs[label] for label in labels.split()[:4] if label in self._tabs]
        found += _beside(element)
        return found[:_MOST]

    def _referring(self) -> dict[str, list[Element]]:
        if self._by_key is None:
            self._by_key = {}
            for element in self._root.xpath(_REFERRING):
                self._add(element, self._by_key)
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
