"""Style sheets of one page, and what they declare for each of its elements.

Declarations that can hide text are known by group: what no declaration of a page can do is not judged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from tabane.reader.extraction.styles.declarations import Effect, active, declarations, inline, triggered
from tabane.reader.extraction.styles.selectors import (
    CompoundSelector,
    ElementPath,
    Selector,
    SelectorError,
    SelectorMatcher,
    ShadowMatcher,
    selectors,
)
from tabane.reader.extraction.styles.shadow_trees import ShadowTree, ShadowTrees
from tabane.reader.extraction.styles.sheet_rules import (
    UNLAYERED,
    Declarations,
    SheetReader,
    SheetRules,
    StyleRule,
    applies,
    css_of_address,
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
_NAME = re.compile(r"[.#][-\w\u0080-\U0010ffff]+|(?:^|(?<=[\s>+~]))[a-zA-Z][-\w]*")
_ARGUMENT = re.compile(r"""\([^()\[\]"']*\)|\[[^()\[\]"']*(?:"[^()\[\]"']*"|'[^()\[\]"']*')?[^()\[\]"']*\]""")
_USED = re.compile(r"::?(?:before|after|hover|focus(?:-within|-visible)?|active|visited)(?![-\w(])")
"""Parts that the browser makes, and states that no element is in while nobody uses the page."""
_UNREAD = frozenset(("noscript", "template", "textarea", "title", "iframe", "noembed", "noframes"))
_NOTHING: Specified = {}
_HOST, _SLOTTED, _PART = ":host", "::slotted", "::part"
_CONTEXTS = {_HOST: -1, _SLOTTED: -1, _PART: 1}


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    """One selector of a rule. ``order``: context, layer, specificity, and place in the tree.

    The context is 0 for rules of the tree of an element, -1 for those of a tree within, and 1 for those of
    the tree around (CSS Cascading and Inheritance 5, 6.1).
    """

    selector: Selector
    order: tuple[int, int, tuple[int, int, int], int]
    declared: Declarations
    alone: bool
    """Tag, id and classes of an element say all."""
    settled: bool
    """They say all about its last compound."""
    hides: bool


_Entries = tuple[_Entry, ...]
_NO_ENTRIES: _Entries = ()


class PageStyles:
    """Declarations for the elements of a page, by its own sheets and by the style attributes.

    What is in a shadow tree, and what its rules say of its host and of the contents of its slots, is matched
    at once, while the trees are apart. ``classes`` are names that scripts may add to elements.
    ``drawings``: colors of drawings are asked for.
    """

    def __init__(
        self,
        root: Element,
        shadows: ShadowTrees | None = None,
        classes: Collection[str] = (),
        *,
        drawings: bool = False,
    ) -> None:
        quirks = not root.getroottree().docinfo.doctype
        matcher = SelectorMatcher(root, _STEPS, quirks=quirks)
        parsed: dict[str, list[Selector]] = {}
        self._document = _TreeStyles(root, _read_sheets(root, _MOST_LETTERS), matcher, parsed)
        self._merged: dict[tuple[Any, ...], Specified] = {}
        self._matched: dict[Element, tuple[_Entries, _Entries]] | None = None
        self._shadows = shadows
        self._trees = [self._document]
        by_tree: dict[ShadowTree | None, _TreeStyles] = {None: self._document}
        known: dict[tuple[Any, ...], PageSheets] = {}
        letters = self._document.sheets.letters
        for shadow in shadows.trees if shadows else ():
            texts = tuple(
                (element.text, *sorted(element.items())) for element in shadow.root.iter("style", "link")
            )
            sheets = known.get(texts)
            if sheets is None:
                sheets = known[texts] = _read_sheets(shadow.root, max(0, _MOST_LETTERS - letters))
                letters += sheets.letters
            outer = by_tree[shadow.outer].matcher
            inner = ShadowMatcher(shadow.root, shadow.host, outer)
            tree = _TreeStyles(shadow.root, sheets, inner, parsed)
            by_tree[shadow] = tree
            self._trees.append(tree)
        self.external = any(tree.sheets.external for tree in self._trees)
        """Whether the page has sheets that are not in it, and so are not known."""
        self.frames: Mapping[str, tuple[Declarations, Declarations]] = self._document.sheets.rules.frames
        effects = set[Effect]().union(*(tree.effects() for tree in self._trees))
        if drawings:
            effects.add(Effect.DRAWING)
        properties = active(frozenset(effects))
        for tree in self._trees:
            tree.index_rules(properties, classes)
        self.silent = all(tree.silent for tree in self._trees)
        """Whether no sheet says anything."""
        if shadows and shadows.trees:
            self._match_trees(shadows, by_tree)

    @property
    def limited(self) -> bool:
        """Whether not all rules could be applied."""
        limited = self._shadows is not None and self._shadows.limited
        return limited or any(tree.limited or tree.matcher.spent for tree in self._trees)

    def specified(
        self, element: Element, attributes: Mapping[str, str], hints: Declarations = ()
    ) -> Specified:
        """Return what is set for an element. ``hints`` are what its attributes and the browser declare."""
        style = attributes.get("style")
        certain, found = _NO_ENTRIES, _NO_ENTRIES
        if self._matched is not None:
            certain, found = self._matched.get(element, (certain, found))
        elif not self.silent:
            certain, found = self._document.matching_entries(element, attributes)
        if not certain and not found and not style and not hints:
            return _NOTHING
        key = (id(certain), found, style, hints)
        merged = self._merged.get(key)
        if merged is None:
            rules = (*certain, *found)
            merged = self._merged[key] = _merge(hints, rules, inline(style) if style else ())
        return merged

    def _match_trees(self, shadows: ShadowTrees, by_tree: Mapping[ShadowTree | None, _TreeStyles]) -> None:
        self._matched = {}
        frames: dict[str, tuple[Declarations, Declarations]] = {}
        steps = _STEPS
        for tree in self._trees:
            tree.matcher.steps = steps
            for element in tree.root.iter("*"):
                self._matched[element] = tree.matching_entries(element, dict(element.items()))
            steps = tree.matcher.steps
            for name, each in tree.sheets.rules.frames.items():
                # Of animations of one name, one that hides is what both are taken for.
                if name not in frames or any(triggered(what, value) for what, value, _ in each[1]):
                    frames[name] = each
        self.frames = frames
        for shadow in shadows.trees:
            tree = by_tree[shadow]
            tree.matcher.steps = steps
            self._add_entries(shadow.host, tree.entries_of_host())
            outer = by_tree[shadow.outer]
            if outer.names_parts:
                for element in shadow.root.iterfind(".//*[@part]"):
                    self._add_entries(element, outer.entries_of_part(shadow.host, element.get("part")))
            steps = tree.matcher.steps
        for shadow, slot, element in shadows.assigned():
            tree = by_tree[shadow]
            if tree.names_slots:
                tree.matcher.steps = steps
                self._add_entries(element, tree.entries_of_slotted(slot, element))
                steps = tree.matcher.steps

    def _add_entries(self, element: Element, entries: _Entries) -> None:
        if entries and self._matched is not None:
            certain, found = self._matched.get(element, (_NO_ENTRIES, _NO_ENTRIES))
            self._matched[element] = certain, (*found, *entries)


@dataclass(frozen=True, slots=True)
class PageSheets:
    """The rules of the sheets of a tree. ``external``: it has others, which are not in the page."""

    rules: SheetRules
    external: bool

    @property
    def letters(self) -> int:
        return self.rules.letters


def _read_sheets(root: Element, letters: int) -> PageSheets:
    """Return the rules of the sheets in a tree, up to a number of characters."""
    reader = SheetReader(declarations, _MOST_RULES, letters)
    external = False
    for element in root.iter("style", "link"):
        if element.tag == "link":
            href = _stylesheet_address(element)
            if href and (css := css_of_address(href[: 2 * _MOST_LETTERS])) is not None:
                reader.read(css)
            external = external or (bool(href) and href[:5].lower() != "data:")
            continue
        kind = (element.get("type") or "text/css").strip().lower()
        if kind != "text/css" or not applies(element.get("media") or ""):
            continue
        if not any(above.tag in _UNREAD and above is not root for above in element.iterancestors()):
            text = element.text or ""
            if element.getparent() is not None and element.getparent().tag in ("svg", "g", "defs"):
                text = text.strip().removeprefix("<![CDATA[").removesuffix("]]>")
            reader.read(text)
    return PageSheets(reader.found, external)


def _stylesheet_address(link: Element) -> str:
    """Return the address of the sheet that a link applies; empty if it applies none."""
    words = (link.get("rel") or "").lower().split()
    if "stylesheet" not in words or "alternate" in words or "disabled" in link.attrib:
        return ""
    return (link.get("href") or "").strip() if applies(link.get("media") or "") else ""


class _TreeStyles:
    """The rules of the page or of one shadow tree, by the elements that they may match in it."""

    def __init__(
        self,
        root: Element,
        sheets: PageSheets,
        matcher: SelectorMatcher,
        parsed: dict[str, list[Selector]],
    ) -> None:
        self.root, self.sheets, self.matcher = root, sheets, matcher
        self._selectors = parsed
        self.limited = sheets.rules.limited
        self._quirks = matcher.quirks
        self._buckets: dict[str, list[_Entry]] = {}
        self._by_attribute: dict[str, list[_Entry]] = {}
        self._known: dict[tuple[str, str | None, str | None], tuple[_Entries, _Entries, _Entries]] = {}
        self._alike: dict[tuple[int, ElementPath], _Entries] = {}
        """Selectors that match, or may, by the ``id()`` of those that may and the path of the parent."""
        self._gathered = 0
        self._interned: dict[_Entries, _Entries] = {}
        self._active: frozenset[str] = frozenset()
        self._there: frozenset[str] = frozenset()

    def index_rules(self, properties: frozenset[str], classes: Collection[str]) -> None:
        """Sort in the rules that set one of these properties, and custom ones."""
        self._active = properties
        if rules := self.sheets.rules.rules:
            # Tags, classes with a dot, and ids with a number sign.
            found = {f"#{self._cased(key)}" for key in self.root.xpath(".//@id", smart_strings=False)}
            for written in set(self.root.xpath(".//@class", smart_strings=False)):
                found.update(f".{name}" for name in self.matcher.names(written))
            found.update(element.tag for element in self.root.iter("*"))
            found.update(f".{self._cased(name)}" for name in classes)
            self._there = frozenset(found)
            self._index_rules(rules)

    @property
    def silent(self) -> bool:
        """Whether no rule says anything."""
        return not (self._buckets or self._by_attribute)

    @property
    def names_slots(self) -> bool:
        """Whether a rule is about the contents of slots."""
        return _SLOTTED in self._buckets

    @property
    def names_parts(self) -> bool:
        """Whether a rule is about parts of shadow trees."""
        return _PART in self._buckets

    def entries_of_host(self) -> _Entries:
        """Return the selectors that match the host of this tree."""
        entries = self._buckets.get(_HOST, ())
        return tuple(one for one in entries if self.matcher.matches(one.selector, self.root))

    def entries_of_slotted(self, slot: Element, element: Element) -> _Entries:
        """Return the selectors that match an element in a slot of this tree."""
        if self.matcher.spent:
            return tuple(islice((one for one in self._buckets.get(_SLOTTED, ()) if one.hides), _FEW))
        return tuple(
            one
            for one in self._buckets.get(_SLOTTED, ())
            if self.matcher.matches(one.selector, slot)
            and any(self.matcher.matches(each, element) for each in one.selector.slotted)
        )

    def entries_of_part(self, host: Element, names: str) -> _Entries:
        """Return the selectors that match a part of the shadow tree of a host in this tree."""
        parts = frozenset(names.split())
        return tuple(
            one
            for one in self._buckets.get(_PART, ())
            if one.selector.parts <= parts and self.matcher.matches(one.selector, host)
        )

    def matching_entries(self, element: Element, attributes: Mapping[str, str]) -> tuple[_Entries, _Entries]:
        """Return the selectors that match by tag, id and classes alone, and the others that match."""
        certain, named, others = self._candidate_entries(
            element, attributes.get("class"), attributes.get("id")
        )
        if self.matcher.spent:
            return certain, self._matching(
                element, (*named, *others, *self._entries_by_attribute(attributes))
            )
        matching = _NO_ENTRIES
        if named or others:
            # What is named alike, with ancestors named alike, matches alike.
            path = self.matcher.path_above(element)
            if named:
                place = id(named), path
                known = self._alike.get(place)
                if known is None:
                    known = self._alike[place] = self._matching(element, named)
                matching = known
            if others:
                place = id(others), path
                known = self._alike.get(place)
                if known is None:
                    known = self._alike[place] = tuple(
                        one for one in others if not self.matcher.rules_out(one.selector, element)
                    )
                others = known
        if self._by_attribute and attributes:
            others = (*others, *self._entries_by_attribute(attributes))
        return certain, (*matching, *self._matching(element, others)) if others else matching

    def _matching(self, element: Element, possible: _Entries) -> _Entries:
        """Return the selectors that match an element, of those that may."""
        if self.matcher.spent:
            return tuple(one for one in possible[:_FEW] if one.hides)
        return tuple(
            one for one in possible if self.matcher.matches(one.selector, element, settled=one.settled)
        )

    def effects(self) -> set[Effect]:
        """Return the effects by which something in the tree can hide text."""
        found: set[Effect] = {Effect.DISPLAY}
        seen = {one for rule in self.sheets.rules.rules for one in rule.declarations}
        for style in set(self.root.xpath(".//@style", smart_strings=False)):
            seen.update(inline(style))
        for name, value, _ in seen:
            found |= triggered(name, value)
        for first, last in self.sheets.rules.frames.values():
            for name, value, _ in (*first, *last):
                if groups := triggered(name, value):
                    found |= {*groups, Effect.OPACITY}
        return found

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
        """Return whether a list of selectors can match on the page, before it is parsed. What is in brackets
        is not looked at.
        """
        if "(" in text or "[" in text:
            text = _ARGUMENT.sub("", text)
        if "(" in text or "[" in text or "\\" in text:
            return True
        there = self._there
        for part in text.split(","):
            names = _NAME.findall(part.strip())
            if (":" not in part or _USED.search(part) is None) and all(
                (self._cased(name) if name[0] in ".#" else name.lower()) in there for name in names
            ):
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
                    self.limited = True
                    return
                if selector.slotted or selector.parts:
                    keys = {_SLOTTED if selector.slotted else _PART}
                else:
                    keys = set(self._keys(selector.compounds[0]))
                context = _CONTEXTS.get(next(iter(keys)), 0) if len(keys) == 1 else 0
                place = context, rule.layer, selector.specificity, order
                entry = _Entry(selector, place, wanted, *_known_by_name(selector), hides)
                for key in keys:
                    buckets = self._by_attribute if key[0] == "[" else self._buckets
                    bucket = buckets.setdefault(key.removeprefix("["), [])
                    if len(bucket) < _LONG_BUCKET or (entry.hides and len(bucket) < 2 * _LONG_BUCKET):
                        bucket.append(entry)
                    else:
                        self.limited = True

    def _keys(self, last: CompoundSelector) -> list[str]:
        """Return the buckets for a selector by its last compound: each element that it matches has one of
        these.
        """
        if last.keys:
            return [f"#{self._cased(last.keys[0])}"]
        if last.classes:
            names = [f".{self._cased(name)}" for name in last.classes]
            return [min(names, key=lambda name: len(self._buckets.get(name, ())))]
        if last.tag:
            return [last.tag]
        if last.attributes:
            return [f"[{last.attributes[0].name}"]
        for pseudo in last.pseudos:
            if pseudo.name == "is":
                return [key for inner in pseudo.selectors for key in self._keys(inner.compounds[0])]
            if pseudo.name == "root":
                return ["html"]
            if pseudo.name in ("host", "host-context"):
                return [_HOST]
        return ["*"]

    def _entries_by_attribute(self, attributes: Mapping[str, str]) -> Iterator[_Entry]:
        """Yield the selectors of which only an attribute is asked in their last compound."""
        for name in attributes:
            if found := self._by_attribute.get(name):
                self._gathered += len(found)
                yield from found if self._gathered < _STEPS else self._hiding_entries(found)

    def _hiding_entries(self, entries: Iterable[_Entry]) -> list[_Entry]:
        """Return some that hide text, of too many to ask them all."""
        self.limited = True
        return list(islice((one for one in islice(entries, _LONG_BUCKET) if one.hides), _FEW))

    def _cased(self, name: str) -> str:
        return name.lower() if self._quirks else name

    def _candidate_entries(
        self, element: Element, written: str | None, key: str | None
    ) -> tuple[_Entries, _Entries, _Entries]:
        """Return the selectors that match all elements of this tag, id and classes, those on which the names
        of its ancestors decide, and the others that may match.
        """
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
            names = self.matcher.names(written)
            for name in names:
                entries += self._buckets.get(f".{name}", ())
        self._gathered += len(entries)
        if self._gathered > _STEPS:
            entries = self._hiding_entries(entries)
        certain: list[_Entry] = []
        possible: list[_Entry] = []
        for one in dict.fromkeys(entries) if len(entries) > 1 else entries:
            if not self._rejects_element(one, tag, key, names) and (
                not one.settled or self.matcher.fits(one.selector.compounds[0], element)
            ):
                (certain if one.alone else possible).append(one)
        possible.sort(key=lambda one: not one.hides)
        whole = tuple(certain)
        named = tuple(one for one in possible if one.settled and one.selector.by_names)
        others = tuple(one for one in possible if not (one.settled and one.selector.by_names))
        found = self._interned.setdefault(whole, whole), named, others
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
        if rule.order[0] <= 0:
            _apply_entries(found, rule.declared, important=False)
    _apply_entries(found, style, important=False)
    for rule in rules:
        if rule.order[0] > 0:
            _apply_entries(found, rule.declared, important=False)
    important = [rule for rule in rules if any(one[2] for one in rule.declared)]
    important.sort(key=lambda one: (-one.order[0], -min(one.order[1], UNLAYERED), *one.order[2:]))
    for rule in important:
        if rule.order[0] >= 0:
            _apply_entries(found, rule.declared, important=True)
    _apply_entries(found, style, important=True)
    for rule in important:
        if rule.order[0] < 0:
            _apply_entries(found, rule.declared, important=True)
    return found


def _apply_entries(found: dict[str, str], these: Declarations, *, important: bool) -> None:
    for name, value, mark in these:
        if mark == important:
            if name == "all":
                for each in [one for one in found if not one.startswith("--")]:
                    del found[each]
            found[name] = value
