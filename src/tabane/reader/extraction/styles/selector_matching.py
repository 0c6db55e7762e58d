"""Matching of selectors against elements, with a limit on the steps."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any

from tabane.reader.extraction.styles.selectors import AttributeTest, CompoundSelector, PseudoClass, Selector

Element = Any


class _Result(Enum):
    MATCH = auto()
    NOT_HERE = auto()
    NOWHERE = auto()
    """Nor would it match if it were tried from a higher ancestor."""


_DISABLED = frozenset(("button", "input", "select", "textarea", "fieldset", "option", "optgroup"))


class SelectorMatcher:
    """Matches selectors against the elements of one tree.

    ``spent`` is whether the steps are used up. From then on, a selector matches whatever its last compound
    matches, without its ancestors and siblings.
    """

    def __init__(self, root: Element, steps: int, *, quirks: bool = False) -> None:
        self._root = root
        self._left = steps
        self._quirks = quirks
        self._names: dict[str, frozenset[str]] = {}
        self._places: dict[tuple[Element, str], dict[Element, tuple[int, int]]] = {}
        self._paths: dict[Element, frozenset[str]] = {}
        self._below: dict[tuple[Selector, Element], bool] = {}
        """Whether selectors match around the children of an element, if only ancestors are asked."""
        self.spent = False

    def names(self, written: str) -> frozenset[str]:
        """Return the classes of an element."""
        found = self._names.get(written)
        if found is None:
            found = self._names[written] = frozenset((written.lower() if self._quirks else written).split())
        return found

    def matches(self, selector: Selector, element: Element, *, settled: bool = False) -> bool:
        """Return whether a selector matches an element. ``settled``: its last compound is known to."""
        if not settled and not self.fits(selector.compounds[0], element):
            return False
        if len(selector.compounds) == 1:
            return True
        if not selector.vertical:
            return self._around(selector, 0, element) is _Result.MATCH
        key = selector, element.getparent()
        known = self._below.get(key)
        if known is None:
            known = (self._quirks or selector.needed <= self._path(key[1])) and (
                self._around(selector, 0, element) is _Result.MATCH
            )
            self._below[key] = known
        return known

    def _path(self, element: Element | None) -> frozenset[str]:
        """Return the tags, classes and ids of an element and of its ancestors."""
        if element is None:
            return frozenset()
        found = self._paths.get(element)
        if found is None:
            names = [element.tag]
            if written := element.get("class"):
                names += [f".{name}" for name in self.names(written)]
            if key := element.get("id"):
                names.append(f"#{key}")
            found = self._paths[element] = self._path(element.getparent()).union(names)
            self._left -= len(found) // 16
        return found

    def _around(self, selector: Selector, at: int, element: Element) -> _Result:
        """Match the compounds after one around its element."""
        while at < len(selector.combinators):
            if self.spent:
                return _Result.MATCH
            combinator, compound = selector.combinators[at], selector.compounds[at + 1]
            at += 1
            if combinator == " ":
                return self._above(selector, at, element)
            if combinator == "~":
                return self._earlier(selector, at, element)
            other = element.getparent() if combinator == ">" else self._before(element)
            if other is None or not self.fits(compound, other):
                return _Result.NOT_HERE
            element = other
        return _Result.MATCH

    def _above(self, selector: Selector, at: int, element: Element) -> _Result:
        """Try the ancestors from the nearest on: if nothing above one matches, neither does it above others.

        So a selector takes as many steps as there are ancestors, times its compounds.
        """
        above = element.getparent()
        while above is not None:
            if self.fits(selector.compounds[at], above):
                result = self._around(selector, at, above)
                if result is not _Result.NOT_HERE:
                    return result
            above = above.getparent()
        return _Result.NOWHERE

    def _earlier(self, selector: Selector, at: int, element: Element) -> _Result:
        before = self._before(element)
        while before is not None:
            if self.spent:
                return _Result.MATCH
            if self.fits(selector.compounds[at], before):
                result = self._around(selector, at, before)
                if result is not _Result.NOT_HERE:
                    return result
            before = self._before(before)
        return _Result.NOT_HERE

    def _before(self, element: Element) -> Element | None:
        before = element.getprevious()
        while before is not None and not isinstance(before.tag, str):
            before = before.getprevious()
        self._step()
        return before

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.spent = True

    def fits(self, compound: CompoundSelector, element: Element) -> bool:
        """Return whether an element is what a compound says."""
        self._step()
        if compound.tag and element.tag != compound.tag:
            return False
        if compound.key and not self._has_keys(compound, element):
            return False
        if compound.classes:
            written = element.get("class")
            if not written or not self._wanted(compound) <= self.names(written):
                return False
        if compound.attributes and not all(_has(element, test) for test in compound.attributes):
            return False
        return not compound.pseudos or all(self._is(element, pseudo) for pseudo in compound.pseudos)

    def _wanted(self, compound: CompoundSelector) -> frozenset[str]:
        return frozenset(map(str.lower, compound.classes)) if self._quirks else compound.classes

    def _has_keys(self, compound: CompoundSelector, element: Element) -> bool:
        key = self._cased(element.get("id") or "")
        return all(key == self._cased(each) for each in (compound.key, *compound.keys))

    def _cased(self, key: str) -> str:
        return key.lower() if self._quirks else key

    def _is(self, element: Element, pseudo: PseudoClass) -> bool:
        name = pseudo.name
        if name in ("is", "not"):
            return any(self.matches(selector, element) for selector in pseudo.selectors) == (name == "is")
        if name == "has":
            return self._contains(element, pseudo)
        if name.startswith("nth-"):
            return self._is_nth(element, pseudo)
        if name == "root":
            return element is self._root
        if name in ("only-child", "only-of-type"):
            return sum(self._place(element, name)) == 2
        return _is_in_state(element, name)

    def _contains(self, element: Element, pseudo: PseudoClass) -> bool:
        for inner in element.iter("*"):
            self._step()
            if self.spent:
                return True
            if inner is not element and any(self.matches(selector, inner) for selector in pseudo.selectors):
                return True
        return False

    def _is_nth(self, element: Element, pseudo: PseudoClass) -> bool:
        if pseudo.selectors and not any(self.matches(selector, element) for selector in pseudo.selectors):
            return False
        first, last = self._place(element, pseudo.name)
        place = (last if "last" in pseudo.name else first) - pseudo.offset
        return place == 0 if not pseudo.step else place % pseudo.step == 0 and place // pseudo.step >= 0

    def _place(self, element: Element, kind: str) -> tuple[int, int]:
        """Return the place of an element among its siblings, from the first and from the last, from 1."""
        parent = element.getparent()
        if parent is None:
            return 1, 1
        kind = "type" if kind.endswith("type") else "child"
        found = self._places.get((parent, kind))
        if found is None:
            found = self._places[parent, kind] = _places(parent, by_type=kind == "type")
            self._left -= len(found)
        return found.get(element, (1, 1))


def _is_in_state(element: Element, name: str) -> bool:
    if name == "empty":
        return not element.text and not len(element)
    if name in ("link", "any-link"):
        return element.tag in ("a", "area") and element.get("href") is not None
    if name == "checked":
        return "checked" in element.attrib or "selected" in element.attrib
    if name == "disabled":
        return element.tag in _DISABLED and "disabled" in element.attrib
    return name in element.attrib


def _places(parent: Element, *, by_type: bool) -> dict[Element, tuple[int, int]]:
    groups: dict[str, list[Element]] = {}
    for child in parent:
        if isinstance(child.tag, str):
            groups.setdefault(child.tag if by_type else "", []).append(child)
    return {
        child: (place, len(group) - place + 1)
        for group in groups.values()
        for place, child in enumerate(group, 1)
    }


def _has(element: Element, test: AttributeTest) -> bool:
    value = element.get(test.name)
    if value is None or not test.sign:
        return value is not None
    if test.ignoring_case:
        value = value.lower()
    wanted = test.value
    if test.sign == "=":
        return bool(value == wanted)
    if test.sign == "~=":
        return wanted in value.split()
    if test.sign == "|=":
        return bool(value == wanted or value.startswith(f"{wanted}-"))
    if not wanted:
        return False
    if test.sign == "^=":
        return bool(value.startswith(wanted))
    return bool(value.endswith(wanted)) if test.sign == "$=" else wanted in value
