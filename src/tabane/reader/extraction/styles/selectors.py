"""Selectors: parsed into compounds from right to left, and matched within a limit of steps."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tabane.reader.extraction.styles.sheet_rules import unescaped
from tabane.reader.extraction.styles.values import closing_bracket, split_outside

_IDENT = r"(?:[-\w]|[^\x00-\x7f]|\\(?:[0-9a-fA-F]{1,6}[ \t\n\r\f]?|[^\n0-9a-fA-F]))++"
_TOKEN = re.compile(
    rf"(?P<combinator>\s*+[>+~]\s*+|\s++)|(?P<name>[#.]{_IDENT})|(?P<tag>(?:\*\|)?(?:\*|{_IDENT}))"
    rf"|\[(?P<attribute>(?:[^\]\"'\\]|\\.|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+')*+)\]"
    rf"|(?P<pseudo>::?{_IDENT})(?P<open>\()?"
)
_ATTRIBUTE = re.compile(
    rf"\s*+(?:\*\|)?({_IDENT})\s*+(?:([~|^$*]?=)\s*+(\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|{_IDENT})"
    r"\s*+([iIsS])?\s*+)?"
)
_COMMA = re.compile(r"\\.|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[()\[\]]|(,)", re.DOTALL)
_NTH = re.compile(r"\s*([-+]?\d*)n\s*(?:([-+])\s*(\d+))?\s*|\s*([-+]?\d+)\s*")


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_STATES = _names(
    "hover active focus focus-within focus-visible visited target target-within autofill fullscreen"
    " modal picture-in-picture popover-open user-invalid user-valid playing seeking buffering stalled"
    " muted volume-locked current past future local-link paused open-ui"
    " indeterminate placeholder-shown invalid out-of-range required read-write default"
    " -webkit-autofill -webkit-full-screen blank active-view-transition state"
)
"""Pseudo-classes that no element is in while nobody uses the page."""
_ALWAYS = _names("defined enabled valid in-range optional read-only scope dir lang")
_NTHS = _names("nth-child nth-last-child nth-of-type nth-last-of-type")
_LISTS = {
    "is": "is", "where": "where", "not": "not", "matches": "is", "any": "is",
    "-webkit-any": "is", "-moz-any": "is",
}  # fmt: skip
_IGNORING_CASE = _names(
    "type align dir lang rel method media valign color bgcolor shape scope charset face link text http-equiv"
)
_HOSTS = frozenset(("host", "host-context"))
_LEGACY = frozenset(("before", "after", "first-line", "first-letter"))
_DEEP = 6
_MOST_COMPOUNDS = 40
_MOST_PARTS = 60
_MOST_SELECTORS = 2000


class SelectorError(ValueError):
    """A selector that browsers do not know: its whole rule does not apply."""


@dataclass(frozen=True, slots=True)
class AttributeTest:
    name: str
    sign: str = ""
    value: str = ""
    ignoring_case: bool = False


@dataclass(frozen=True, slots=True)
class PseudoClass:
    """``name`` with its arguments: selectors, or a and b of an+b."""

    name: str
    selectors: tuple[Selector, ...] = ()
    step: int = 0
    offset: int = 0


@dataclass(frozen=True, slots=True)
class CompoundSelector:
    """Conditions that one element must meet."""

    tag: str = ""
    keys: tuple[str, ...] = ()
    classes: frozenset[str] = frozenset()
    attributes: tuple[AttributeTest, ...] = ()
    pseudos: tuple[PseudoClass, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """Compounds from right to left; ``combinators[n]`` is between compounds n and n + 1."""

    compounds: tuple[CompoundSelector, ...]
    combinators: tuple[str, ...]
    specificity: tuple[int, int, int]
    vertical: bool = False
    """Whether only ancestors are asked after the last compound."""
    needed: frozenset[str] = frozenset()
    """Tags, classes with a dot and ids with a number sign that these ancestors must have."""
    slotted: tuple[Selector, ...] = ()
    """What ``::slotted()`` asks of the elements that are assigned to the slot."""
    parts: frozenset[str] = frozenset()
    """The names of ``::part()``, of elements in the shadow tree of the host."""
    by_names: bool = False
    """Whether nothing but tags, classes, ids and the root is asked of these ancestors."""


def selectors(text: str) -> list[Selector]:
    """Return the selectors of a list that elements can match. Raises SelectorError if one is invalid."""
    return _parse_list(text, 0, forgiving=False)


def _parse_list(text: str, depth: int, *, forgiving: bool) -> list[Selector]:
    if depth > _DEEP:
        raise SelectorError
    found: list[Selector] = []
    for part in _split_list(text)[:_MOST_SELECTORS]:
        try:
            selector = _parse_selector(part, depth)
        except SelectorError:
            if not forgiving:
                raise
            continue
        if selector is not None:
            found.append(selector)
    return found


def _split_list(text: str) -> list[str]:
    if "," not in text:
        return [text]
    if "(" not in text and "[" not in text and "\\" not in text:
        return text.split(",")
    return split_outside(text, _COMMA)


def _parse_selector(text: str, depth: int) -> Selector | None:
    """Return one selector; None if it is about a part that the browser makes, such as ``::before``."""
    text = text.strip()
    if not text:
        raise SelectorError
    builder = _Builder(depth)
    at = 0
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise SelectorError
        at = token.end()
        if token["open"]:
            end = closing_bracket(text, at, _COMMA)
            if end < 0:
                raise SelectorError
            builder.pseudo(token["pseudo"], text[at:end])
            at = end + 1
        else:
            builder.add(token)
    return builder.result()


_PSEUDOS: Mapping[str, PseudoClass] = {
    "first-child": PseudoClass("nth-child", (), 0, 1),
    "last-child": PseudoClass("nth-last-child", (), 0, 1),
    "first-of-type": PseudoClass("nth-of-type", (), 0, 1),
    "last-of-type": PseudoClass("nth-last-of-type", (), 0, 1),
    **{
        name: PseudoClass(name)
        for name in _names("root empty link any-link checked disabled only-child only-of-type open")
    },
}


class _Builder:
    """Collects the parts of one selector."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._compounds: list[CompoundSelector] = []
        self._combinators: list[str] = []
        self._weights = [0, 0, 0]
        self._unmatched = False
        self._slotted: tuple[Selector, ...] = ()
        self._part_names: frozenset[str] = frozenset()
        self._begin()

    def _begin(self) -> None:
        self._tag, self._keys, self._classes = "", list[str](), list[str]()
        self._attributes, self._pseudos = list[AttributeTest](), list[PseudoClass]()
        self._parts = 0

    def add(self, token: re.Match[str]) -> None:
        self._parts += 1
        beyond = bool(self._slotted or self._part_names)
        if self._parts > _MOST_PARTS or (beyond and not token["pseudo"]):
            raise SelectorError
        if (combinator := token["combinator"]) is not None:
            self._end()
            self._combinators.append(combinator.strip() or " ")
            self._begin()
        elif name := token["name"]:
            (self._keys if name[0] == "#" else self._classes).append(unescaped(name[1:]))
            self._weights[0 if name[0] == "#" else 1] += 1
        elif tag := token["tag"]:
            tag = tag.removeprefix("*|")
            if self._parts > 1:
                raise SelectorError
            if tag != "*":
                self._tag = unescaped(tag).lower()
                self._weights[2] += 1
        elif token["pseudo"]:
            self.pseudo(token["pseudo"], None)
        else:
            self._attributes.append(_parse_attribute(token["attribute"]))
            self._weights[1] += 1

    def pseudo(self, written: str, argument: str | None) -> None:
        self._parts += 1
        name = unescaped(written.lstrip(":")).lower()
        if written.startswith("::") or name in _LEGACY:
            self._pseudo_element(name, argument)
        elif name in _LISTS and argument is not None:
            self._list(_LISTS[name], argument)
        elif name == "has" and argument is not None:
            self._list("has", re.sub(r"^\s*>", ":scope >", argument))
        elif name in _HOSTS:
            self._weights[1] += 1
            if argument is None:
                self._pseudos.append(PseudoClass(name))
            else:
                self._list(name, argument)
        else:
            self._weights[1] += 1
            if name in _STATES:
                self._unmatched = True
            elif name in _PSEUDOS:
                self._pseudos.append(_PSEUDOS[name])
            elif name in _NTHS and argument is not None:
                self._pseudos.append(_parse_nth(name, argument, self._depth))
            elif name not in _ALWAYS:
                raise SelectorError

    def _pseudo_element(self, name: str, argument: str | None) -> None:
        if argument is None or name not in ("slotted", "part") or self._slotted or self._part_names:
            self._unmatched = True
            return
        self._weights[2] += 1
        if name == "part":
            self._part_names = frozenset(argument.split())
            return
        self._slotted = tuple(_parse_list(argument, self._depth + 1, forgiving=False))
        if not self._slotted:
            self._unmatched = True
            return
        most = max(selector.specificity for selector in self._slotted)
        self._weights = [one + other for one, other in zip(self._weights, most, strict=True)]

    def _list(self, name: str, argument: str) -> None:
        inner = _parse_list(argument, self._depth + 1, forgiving=name != "not")
        if name != "where" and inner:
            most = max(selector.specificity for selector in inner)
            self._weights = [one + other for one, other in zip(self._weights, most, strict=True)]
        self._pseudos.append(PseudoClass("is" if name == "where" else name, tuple(inner)))

    def _end(self) -> None:
        if not self._parts or len(self._compounds) >= _MOST_COMPOUNDS:
            raise SelectorError
        attributes, pseudos = tuple(self._attributes), tuple(self._pseudos)
        self._compounds.append(
            CompoundSelector(self._tag, tuple(self._keys), frozenset(self._classes), attributes, pseudos)
        )

    def result(self) -> Selector | None:
        self._end()
        if self._unmatched:
            return None
        vertical = all(combinator in " >" for combinator in self._combinators)
        above = self._compounds[:-1] if vertical else []
        return Selector(
            tuple(reversed(self._compounds)),
            tuple(reversed(self._combinators)),
            (self._weights[0], self._weights[1], self._weights[2]),
            vertical=vertical,
            needed=frozenset(name for compound in above for name in _compound_names(compound)),
            slotted=self._slotted,
            parts=self._part_names,
            by_names=vertical and all(map(_is_by_names, above)),
        )


def _is_by_names(compound: CompoundSelector) -> bool:
    """Return whether tag, classes and id of an element and its place below the root decide on a compound."""
    return not compound.attributes and all(
        pseudo.name == "root"
        or (
            pseudo.name in ("is", "not")
            and all(len(one.compounds) == 1 and _is_by_names(one.compounds[0]) for one in pseudo.selectors)
        )
        for pseudo in compound.pseudos
    )


def _compound_names(compound: CompoundSelector) -> Iterator[str]:
    if compound.tag:
        yield compound.tag
    yield from (f"#{key}" for key in compound.keys[:1])
    yield from (f".{name}" for name in compound.classes)


def _parse_attribute(text: str) -> AttributeTest:
    found = _ATTRIBUTE.fullmatch(text)
    if found is None:
        raise SelectorError
    name, sign, value, flag = found.groups()
    name = unescaped(name).lower()
    if not sign:
        return AttributeTest(name)
    value = unescaped(value[1:-1] if value[0] in "\"'" else value)
    ignoring = (flag or "").lower() == "i" or (flag is None and name in _IGNORING_CASE)
    return AttributeTest(name, sign, value.lower() if ignoring else value, ignoring)


def _parse_nth(name: str, argument: str, depth: int) -> PseudoClass:
    text, of, rest = argument.lower().partition(" of ")
    text = {"odd": "2n+1", "even": "2n"}.get(text.strip(), text)
    found = _NTH.fullmatch(text)
    if found is None:
        raise SelectorError
    inner = tuple(_parse_list(rest, depth + 1, forgiving=False)) if of else ()
    if found[4] is not None:
        return PseudoClass(name, inner, 0, int(found[4][-9:]))
    step = int(f"{found[1]}1" if found[1] in ("", "-", "+") else found[1][:9])
    return PseudoClass(name, inner, step, int(f"{found[2] or ''}{(found[3] or '0')[:9]}"))


Element = Any


@dataclass(frozen=True, slots=True, eq=False)
class ElementPath:
    """The tags, classes and ids of an element and of its ancestors. Elements whose ancestors are named alike
    share one.
    """

    names: frozenset[str]


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
        self._quirks = self.quirks = quirks
        self._names: dict[str, frozenset[str]] = {}
        self._places: dict[tuple[Element, str], dict[Element, tuple[int, int]]] = {}
        self._paths: dict[Element | None, ElementPath] = {None: ElementPath(frozenset())}
        self._shared_paths: dict[tuple[ElementPath, str, str | None, str | None], ElementPath] = {}
        self._below: dict[tuple[Selector, ElementPath | Element], bool] = {}
        """Whether selectors match around the children of an element, if only ancestors are asked: by its path
        if only their names are.
        """
        self.spent = False

    @property
    def steps(self) -> int:
        """How many steps are left."""
        return self._left

    @steps.setter
    def steps(self, steps: int) -> None:
        self._left = steps
        self.spent = steps < 0

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
            return self._match_around(selector, 0, element) is _Result.MATCH
        return self._matches_above(selector, element)

    def rules_out(self, selector: Selector, element: Element) -> bool:
        """Return whether the names of the ancestors of an element, if only these are asked for, are not what
        a selector says.
        """
        return (
            selector.by_names and len(selector.compounds) > 1 and not self._matches_above(selector, element)
        )

    def _matches_above(self, selector: Selector, element: Element) -> bool:
        """Return whether the ancestors of an element are what a selector says, which asks for no siblings."""
        parent = element.getparent()
        path = self.path_above(element)
        key = selector, path if selector.by_names else parent
        known = self._below.get(key)
        if known is None:
            known = (self._quirks or selector.needed <= path.names) and (
                self._match_around(selector, 0, element) is _Result.MATCH
            )
            self._below[key] = known
        return known

    def path_above(self, element: Element) -> ElementPath:
        """Return the path of an element's parent."""
        parent = element.getparent()
        return self._paths.get(parent) or self._path_of(parent)

    def _path_of(self, element: Element | None) -> ElementPath:
        """Return the path of an element. Its parent's is mostly known."""
        below: list[Element] = []
        at: Any = element
        while (path := self._paths.get(at)) is None:
            below.append(at)
            at = at.getparent()
        for at in reversed(below):
            written, own = at.get("class"), at.get("id")
            alike = path, at.tag, written, own
            known = self._shared_paths.get(alike)
            if known is None:
                names = [at.tag]
                if written:
                    names += [f".{name}" for name in self.names(written)]
                if own:
                    names.append(f"#{own}")
                known = self._shared_paths[alike] = ElementPath(path.names.union(names))
                self._left -= len(known.names) // 16
            path = self._paths[at] = known
        return path

    def _match_around(self, selector: Selector, at: int, element: Element) -> _Result:
        """Match the compounds after one around its element."""
        while at < len(selector.combinators):
            if self.spent:
                return _Result.MATCH
            combinator, compound = selector.combinators[at], selector.compounds[at + 1]
            at += 1
            if combinator == " ":
                return self._match_above(selector, at, element)
            if combinator == "~":
                return self._match_earlier(selector, at, element)
            other = element.getparent() if combinator == ">" else self._element_before(element)
            if other is None or not self.fits(compound, other):
                return _Result.NOT_HERE
            element = other
        return _Result.MATCH

    def _match_above(self, selector: Selector, at: int, element: Element) -> _Result:
        """Try the ancestors from the nearest on: if nothing above one matches, neither does it above others.

        So a selector takes as many steps as there are ancestors, times its compounds.
        """
        above = element.getparent()
        while above is not None:
            if self.fits(selector.compounds[at], above):
                result = self._match_around(selector, at, above)
                if result is not _Result.NOT_HERE:
                    return result
            above = above.getparent()
        return _Result.NOWHERE

    def _match_earlier(self, selector: Selector, at: int, element: Element) -> _Result:
        before = self._element_before(element)
        while before is not None:
            if self.spent:
                return _Result.MATCH
            if self.fits(selector.compounds[at], before):
                result = self._match_around(selector, at, before)
                if result is not _Result.NOT_HERE:
                    return result
            before = self._element_before(before)
        return _Result.NOT_HERE

    def _element_before(self, element: Element) -> Element | None:
        before = element.getprevious()
        while before is not None and not isinstance(before.tag, str):
            before = before.getprevious()
        self._count_step()
        return before

    def _count_step(self) -> None:
        self._left -= 1
        if self._left < 0:
            self.spent = True

    def fits(self, compound: CompoundSelector, element: Element) -> bool:
        """Return whether an element is what a compound says."""
        self._count_step()
        if compound.tag and element.tag != compound.tag:
            return False
        if compound.keys:
            written_key = self._cased(element.get("id") or "")
            if any(written_key != self._cased(key) for key in compound.keys):
                return False
        if compound.classes:
            written = element.get("class")
            if not written or not self._wanted_classes(compound) <= self.names(written):
                return False
        if compound.attributes and not all(_has_attribute(element, test) for test in compound.attributes):
            return False
        return not compound.pseudos or all(self._is_pseudo(element, pseudo) for pseudo in compound.pseudos)

    def _wanted_classes(self, compound: CompoundSelector) -> frozenset[str]:
        return frozenset(map(str.lower, compound.classes)) if self._quirks else compound.classes

    def _cased(self, key: str) -> str:
        return key.lower() if self._quirks else key

    def _is_pseudo(self, element: Element, pseudo: PseudoClass) -> bool:
        name = pseudo.name
        if name in ("is", "not"):
            return any(self.matches(selector, element) for selector in pseudo.selectors) == (name == "is")
        if name == "has":
            for inner in element.iter("*"):
                self._count_step()
                if self.spent:
                    return True
                if inner is not element and any(
                    self.matches(selector, inner) for selector in pseudo.selectors
                ):
                    return True
            return False
        if name.startswith("nth-"):
            return self._is_nth(element, pseudo)
        if name == "root":
            return element is self._root
        if name in _HOSTS:
            return False
        if name in ("only-child", "only-of-type"):
            return sum(self._place_among_siblings(element, name)) == 2
        if name == "empty":
            return not element.text and not len(element)
        if name in ("link", "any-link"):
            return element.tag in ("a", "area") and element.get("href") is not None
        if name == "checked":
            return "checked" in element.attrib or "selected" in element.attrib
        if name == "disabled":
            return element.tag in _DISABLED and "disabled" in element.attrib
        return name in element.attrib

    def _is_nth(self, element: Element, pseudo: PseudoClass) -> bool:
        if pseudo.selectors and not any(self.matches(selector, element) for selector in pseudo.selectors):
            return False
        first, last = self._place_among_siblings(element, pseudo.name)
        place = (last if "last" in pseudo.name else first) - pseudo.offset
        return place == 0 if not pseudo.step else place % pseudo.step == 0 and place // pseudo.step >= 0

    def _place_among_siblings(self, element: Element, kind: str) -> tuple[int, int]:
        """Return the place of an element among its siblings, from the first and from the last, from 1."""
        parent = element.getparent()
        if parent is None:
            return 1, 1
        kind = "type" if kind.endswith("type") else "child"
        found = self._places.get((parent, kind))
        if found is None:
            found = self._places[parent, kind] = _places_in(parent, by_type=kind == "type")
            self._left -= len(found)
        return found.get(element, (1, 1))


class ShadowMatcher(SelectorMatcher):
    """Matches selectors within a shadow tree, whose root stands for its host.

    Only ``:host``, ``:host()`` and ``:host-context()`` match the host (CSS Scoping 1). ``outer`` matches in
    the tree that the host is in.
    """

    def __init__(self, root: Element, host: Element, outer: SelectorMatcher) -> None:
        super().__init__(root, outer.steps, quirks=outer.quirks)
        self._host, self._outer = host, outer

    def fits(self, compound: CompoundSelector, element: Element) -> bool:
        if element is not self._root:
            return super().fits(compound, element)
        self._count_step()
        if compound.tag or compound.keys or compound.classes or compound.attributes:
            return False
        hosts = [pseudo for pseudo in compound.pseudos if pseudo.name in _HOSTS]
        return bool(hosts) and all(map(self._is_host, hosts))

    def _is_host(self, pseudo: PseudoClass) -> bool:
        if not pseudo.selectors:
            return pseudo.name == "host"
        if pseudo.name == "host":
            return any(self._outer.matches(selector, self._host) for selector in pseudo.selectors)
        inner = self
        while True:
            for element in itertools.chain((inner._host,), inner._host.iterancestors()):
                if inner._outer.spent or any(
                    inner._outer.matches(selector, element) for selector in pseudo.selectors
                ):
                    return True
            if not isinstance(inner._outer, ShadowMatcher):
                return False
            inner = inner._outer


def _places_in(parent: Element, *, by_type: bool) -> dict[Element, tuple[int, int]]:
    groups: dict[str, list[Element]] = {}
    for child in parent:
        if isinstance(child.tag, str):
            groups.setdefault(child.tag if by_type else "", []).append(child)
    return {
        child: (place, len(group) - place + 1)
        for group in groups.values()
        for place, child in enumerate(group, 1)
    }


def _has_attribute(element: Element, test: AttributeTest) -> bool:
    value = element.get(test.name)
    if value is None or not test.sign:
        return value is not None
    if test.ignoring_case:
        value = value.lower()
    return _SIGNS[test.sign](value, test.value)


_SIGNS: Mapping[str, Callable[[str, str], bool]] = {
    "=": str.__eq__,
    "~=": lambda value, word: word in value.split(),
    "|=": lambda value, start: value == start or value.startswith(f"{start}-"),
    "^=": lambda value, start: bool(start) and value.startswith(start),
    "$=": lambda value, end: bool(end) and value.endswith(end),
    "*=": lambda value, part: bool(part) and part in value,
}
