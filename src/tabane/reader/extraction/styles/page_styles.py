"""Style sheets of one page, and what they declare for each of its elements.

Declarations that can hide text are known by group: what no declaration of a page can do is not judged.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import unquote_to_bytes

from tabane.reader.extraction.styles.declarations import Effect, active, declarations, inline, triggered
from tabane.reader.extraction.styles.selectors import (
    CompoundSelector,
    Selector,
    SelectorError,
    SelectorMatcher,
    selectors,
)
from tabane.reader.extraction.styles.sheet_rules import (
    UNLAYERED,
    Declarations,
    SheetReader,
    StyleRule,
    applies,
)

Element = Any
Specified = Mapping[str, str]
"""The value of each property that is set for an element."""

_MOST_RULES = 60_000
_MOST_LETTERS = 6_000_000
_MOST_SELECTORS = 120_000
_STEPS = 1_500_000
_LONG_BUCKET = 3_000
_FEW = 64
_NAME = re.compile(r"[.#][-\w\u0080-\U0010ffff]+")
_UNREAD = frozenset(("noscript", "template", "textarea", "title", "iframe", "noembed", "noframes"))
_NOTHING: Specified = {}


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One selector of a rule. ``order``: layer, specificity, and place in the page."""

    selector: Selector
    order: tuple[int, tuple[int, int, int], int]
    declared: Declarations
    alone: bool
    """Tag, id and classes of an element say all."""
    settled: bool
    """They say all about its last compound."""
    hides: bool


_Entries = tuple[_Entry, ...]
_NO_ENTRIES: _Entries = ()


class PageStyles:
    """Declarations for the elements of a page, by its own sheets and by the style attributes."""

    def __init__(self, root: Element) -> None:
        self.external = False
        """Whether the page has sheets that are not in it, and so are not known."""
        tree = root.getroottree()
        self._quirks = not tree.docinfo.doctype
        self._matcher = SelectorMatcher(root, _STEPS, quirks=self._quirks)
        reader = SheetReader(declarations, _MOST_RULES, _MOST_LETTERS)
        for css in self._sheet_texts(root):
            reader.read(css)
        self._limited = reader.found.limited
        self.frames = reader.found.frames
        self._buckets: dict[str, list[_Entry]] = {}
        self._by_attribute: dict[str, list[_Entry]] = {}
        self._known: dict[tuple[str, str | None, str | None], tuple[_Entries, _Entries]] = {}
        self._merged: dict[tuple[Any, ...], Specified] = {}
        self._gathered = 0
        self._interned: dict[_Entries, _Entries] = {}
        self._selectors: dict[str, list[Selector]] = {}
        self._active: frozenset[str] = frozenset()
        self._there: frozenset[str] = frozenset()
        if rules := reader.found.rules:
            self._active = self._names(root, rules)
            # Tags, classes with a dot, and ids with a number sign.
            found = {f"#{self._cased(key)}" for key in root.xpath("//@id", smart_strings=False)}
            for written in set(root.xpath("//@class", smart_strings=False)):
                found.update(f".{name}" for name in self._matcher.names(written))
            found.update(element.tag for element in root.iter("*"))
            self._there = frozenset(found)
            self._index_rules(rules)

    @property
    def limited(self) -> bool:
        """Whether not all rules could be applied."""
        return self._limited or self._matcher.spent

    @property
    def silent(self) -> bool:
        """Whether no sheet says anything."""
        return not (self._buckets or self._by_attribute)

    def specified(
        self, element: Element, attributes: Mapping[str, str], hints: Declarations = ()
    ) -> Specified:
        """Return what is set for an element. ``hints`` are what its attributes and the browser declare."""
        style = attributes.get("style")
        certain, found = _NO_ENTRIES, _NO_ENTRIES
        if self._buckets or self._by_attribute:
            certain, found = self._matching_entries(element, attributes)
        if not certain and not found and not style and not hints:
            return _NOTHING
        key = (id(certain), found, style, hints)
        merged = self._merged.get(key)
        if merged is None:
            rules = (*certain, *found)
            merged = self._merged[key] = _merge(hints, rules, inline(style) if style else ())
        return merged

    def _matching_entries(self, element: Element, attributes: Mapping[str, str]) -> tuple[_Entries, _Entries]:
        """Return the selectors that match by tag, id and classes alone, and the others that match."""
        certain, possible = self._candidate_entries(element, attributes.get("class"), attributes.get("id"))
        if self._by_attribute and attributes:
            possible = (*possible, *self._entries_by_attribute(attributes))
        if not possible:
            return certain, _NO_ENTRIES
        if self._matcher.spent:
            return certain, tuple(one for one in possible[:_FEW] if one.hides)
        return certain, tuple(
            one for one in possible if self._matcher.matches(one.selector, element, settled=one.settled)
        )

    def _sheet_texts(self, root: Element) -> Iterator[str]:
        for element in root.iter("style", "link"):
            if element.tag == "link":
                yield from self._linked_sheets(element)
                continue
            kind = (element.get("type") or "text/css").strip().lower()
            if kind != "text/css" or not applies(element.get("media") or ""):
                continue
            if not any(above.tag in _UNREAD for above in element.iterancestors()):
                yield element.text or ""

    def _linked_sheets(self, link: Element) -> Iterator[str]:
        """Yield a sheet that is in its address."""
        words = (link.get("rel") or "").lower().split()
        href = (link.get("href") or "").strip()
        if "stylesheet" not in words or "alternate" in words or not href or "disabled" in link.attrib:
            return
        if not applies(link.get("media") or ""):
            return
        if href[:5].lower() != "data:":
            self.external = True
            return
        head, _, data = href[5:_MOST_LETTERS].partition(",")
        content = unquote_to_bytes(data)
        if head.lower().endswith(";base64"):
            try:
                content = base64.b64decode(content, validate=False)
            except (binascii.Error, ValueError):
                return
        yield content.decode("utf-8", "replace")

    def _names(self, root: Element, rules: Iterable[StyleRule]) -> frozenset[str]:
        """Return the properties in which something on the page can hide text, and those these depend on."""
        found: set[Effect] = {Effect.DISPLAY}
        seen = {one for rule in rules for one in rule.declarations}
        for style in set(root.xpath("//@style", smart_strings=False)):
            seen.update(inline(style))
        for name, value, _ in seen:
            found |= triggered(name, value)
        for first, last in self.frames.values():
            for name, value, _ in (*first, *last):
                if groups := triggered(name, value):
                    found |= {*groups, Effect.OPACITY}
        return active(frozenset(found))

    def _is_there(self, selector: Selector) -> bool:
        """Return whether the page has all that the compounds of a selector name."""
        there = self._there
        for one in selector.compounds:
            if one.tag and one.tag not in there:
                return False
            if any(f"#{self._cased(key)}" not in there for key in one.keys):
                return False
            if any(f".{self._cased(name)}" not in there for name in one.classes):
                return False
            for pseudo in one.pseudos:
                if pseudo.name in ("is", "has") and not any(map(self._is_there, pseudo.selectors)):
                    return False
        return True

    def _may_be_there(self, text: str) -> bool:
        """Return whether a list of selectors can match on the page, before it is parsed."""
        if "(" in text or "\\" in text or "[" in text:
            return True
        for part in text.split(","):
            if all(self._cased(name) in self._there for name in _NAME.findall(part)):
                return True
        return False

    def _index_rules(self, rules: Iterable[StyleRule]) -> None:
        count = 0
        for order, rule in enumerate(rules):
            wanted = tuple(
                one for one in rule.declarations if one[0] in self._active or one[0].startswith("--")
            )
            if not wanted or not self._may_be_there(rule.selectors):
                continue
            try:
                parsed = self._selectors.get(rule.selectors)
                if parsed is None:
                    parsed = self._selectors[rule.selectors] = selectors(rule.selectors)
            except SelectorError:
                continue
            hides = any(triggered(name, value) for name, value, _ in wanted)
            for selector in parsed:
                if not self._is_there(selector):
                    continue
                count += 1
                if count > _MOST_SELECTORS:
                    self._limited = True
                    return
                place = rule.layer, selector.specificity, order
                entry = _Entry(selector, place, wanted, *_known_by_name(selector), hides)
                for key in set(self._keys(entry.selector.compounds[0])):
                    buckets = self._by_attribute if key[0] == "[" else self._buckets
                    bucket = buckets.setdefault(key.removeprefix("["), [])
                    if len(bucket) < _LONG_BUCKET or (entry.hides and len(bucket) < 2 * _LONG_BUCKET):
                        bucket.append(entry)
                    else:
                        self._limited = True

    def _keys(self, last: CompoundSelector) -> list[str]:
        """Return the buckets for a selector by its last compound: each element that it matches has one of
        these.
        """
        if last.keys:
            return [f"#{self._cased(last.keys[0])}"]
        if last.classes:
            return [f".{self._cased(min(last.classes, key=self._bucket_size))}"]
        if last.tag:
            return [last.tag]
        if last.attributes:
            return [f"[{last.attributes[0].name}"]
        for pseudo in last.pseudos:
            if pseudo.name == "is":
                return [key for inner in pseudo.selectors for key in self._keys(inner.compounds[0])]
            if pseudo.name == "root":
                return ["html"]
        return ["*"]

    def _entries_by_attribute(self, attributes: Mapping[str, str]) -> Iterator[_Entry]:
        """Yield the selectors of which only an attribute is asked in their last compound."""
        for name in attributes:
            if found := self._by_attribute.get(name):
                self._gathered += len(found)
                yield from found if self._gathered < _STEPS else self._hiding_entries(found)

    def _hiding_entries(self, entries: Iterable[_Entry]) -> list[_Entry]:
        """Return some that hide text, of too many to ask them all."""
        self._limited = True
        return list(islice((one for one in islice(entries, _LONG_BUCKET) if one.hides), _FEW))

    def _bucket_size(self, name: str) -> int:
        return len(self._buckets.get(f".{self._cased(name)}", ()))

    def _cased(self, name: str) -> str:
        return name.lower() if self._quirks else name

    def _candidate_entries(
        self, element: Element, written: str | None, key: str | None
    ) -> tuple[_Entries, _Entries]:
        """Return the selectors that match all elements of this tag, id and classes, and those that may."""
        tag = element.tag
        signature = (tag, written, key)
        known = self._known.get(signature)
        if known is not None:
            return known
        entries = [*self._buckets.get("*", ()), *self._buckets.get(tag, ())]
        names: frozenset[str] = frozenset()
        if key:
            entries += self._buckets.get(f"#{self._cased(key)}", ())
        if written:
            names = self._matcher.names(written)
            for name in names:
                entries += self._buckets.get(f".{name}", ())
        self._gathered += len(entries)
        if self._gathered > _STEPS:
            entries = self._hiding_entries(entries)
        certain: list[_Entry] = []
        possible: list[_Entry] = []
        for one in dict.fromkeys(entries) if len(entries) > 1 else entries:
            if not self._rejects_element(one, tag, key, names) and (
                not one.settled or self._matcher.fits(one.selector.compounds[0], element)
            ):
                (certain if one.alone else possible).append(one)
        possible.sort(key=lambda one: not one.hides)
        whole = tuple(certain)
        found = self._interned.setdefault(whole, whole), tuple(possible)
        self._known[signature] = found
        return found

    def _rejects_element(self, entry: _Entry, tag: str, key: str | None, names: frozenset[str]) -> bool:
        last = entry.selector.compounds[0]
        if last.tag and last.tag != tag:
            return True
        if any(self._cased(each) != self._cased(key or "") for each in last.keys):
            return True
        wanted = last.classes
        if self._quirks and wanted:
            wanted = frozenset(map(str.lower, wanted))
        return not wanted <= names


def _known_by_name(selector: Selector) -> tuple[bool, bool]:
    """Return whether tag, id and classes decide on a selector, and on its last compound."""
    last = selector.compounds[0]
    settled = not last.attributes and all(
        pseudo.name in ("is", "not") and all(_known_by_name(inner)[0] for inner in pseudo.selectors)
        for pseudo in last.pseudos
    )
    return settled and len(selector.compounds) == 1, settled


def _merge(hints: Declarations, matched: tuple[_Entry, ...], style: Declarations) -> Specified:
    """Return the winning value of each property (CSS Cascading and Inheritance 5, 6)."""
    found: dict[str, str] = {}
    rules = sorted(matched, key=lambda one: one.order)
    _apply_entries(found, hints, important=False)
    for rule in rules:
        _apply_entries(found, rule.declared, important=False)
    _apply_entries(found, style, important=False)
    important = [rule for rule in rules if any(one[2] for one in rule.declared)]
    for rule in sorted(important, key=lambda one: (-min(one.order[0], UNLAYERED), *one.order[1:])):
        _apply_entries(found, rule.declared, important=True)
    _apply_entries(found, style, important=True)
    return found


def _apply_entries(found: dict[str, str], these: Declarations, *, important: bool) -> None:
    for name, value, mark in these:
        if mark == important:
            if name == "all":
                for each in [one for one in found if not one.startswith("--")]:
                    del found[each]
            found[name] = value
