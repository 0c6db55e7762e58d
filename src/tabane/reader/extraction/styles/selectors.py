"""Selectors: parsed into compounds from right to left, with their specificity."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tabane.reader.extraction.styles.sheet_rules import unescaped

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
_NTH = re.compile(r"\s*([-+]?\d*)n\s*(?:([-+])\s*(\d+))?\s*|\s*([-+]?\d+)\s*")
_STATES = frozenset(
    [
        "hover",
        "active",
        "focus",
        "focus-within",
        "focus-visible",
        "visited",
        "target",
        "target-within",
        "autofill",
        "fullscreen",
        "modal",
        "picture-in-picture",
        "popover-open",
        "user-invalid",
        "user-valid",
        "playing",
        "seeking",
        "buffering",
        "stalled",
        "muted",
        "volume-locked",
        "current",
        "past",
        "future",
        "local-link",
        "host",
        "host-context",
        "paused",
        "open-ui",
        "indeterminate",
        "placeholder-shown",
        "invalid",
        "out-of-range",
        "required",
        "read-write",
        "default",
        "-webkit-autofill",
        "-webkit-full-screen",
        "blank",
        "active-view-transition",
        "state",
    ]
)
"""Pseudo-classes that no element is in while nobody uses the page."""
_ALWAYS = frozenset(
    ["defined", "enabled", "valid", "in-range", "optional", "read-only", "scope", "dir", "lang"]
)
_POSITIONS = {
    "first-child": ("nth-child", 0, 1),
    "last-child": ("nth-last-child", 0, 1),
    "first-of-type": ("nth-of-type", 0, 1),
    "last-of-type": ("nth-last-of-type", 0, 1),
}
_NTHS = frozenset(("nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"))
_OTHERS = frozenset(
    ("root", "empty", "link", "any-link", "checked", "disabled", "only-child", "only-of-type", "open")
)
_LISTS = {
    "is": "is",
    "where": "where",
    "not": "not",
    "matches": "is",
    "any": "is",
    "-webkit-any": "is",
    "-moz-any": "is",
}
_IGNORING_CASE = frozenset(
    [
        "type",
        "align",
        "dir",
        "lang",
        "rel",
        "method",
        "media",
        "valign",
        "color",
        "bgcolor",
        "shape",
        "scope",
        "charset",
        "face",
        "link",
        "text",
        "http-equiv",
    ]
)
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
    key: str = ""
    classes: frozenset[str] = frozenset()
    attributes: tuple[AttributeTest, ...] = ()
    pseudos: tuple[PseudoClass, ...] = ()
    never: bool = False
    keys: tuple[str, ...] = ()


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


def selectors(text: str) -> list[Selector]:
    """Return the selectors of a list that elements can match. Raises SelectorError if one is invalid."""
    return _listed(text, 0, forgiving=False)


def _listed(text: str, depth: int, *, forgiving: bool) -> list[Selector]:
    if depth > _DEEP:
        raise SelectorError
    found: list[Selector] = []
    for part in _divided(text)[:_MOST_SELECTORS]:
        try:
            selector = _selector(part, depth)
        except SelectorError:
            if not forgiving:
                raise
            continue
        if selector is not None:
            found.append(selector)
    return found


def _divided(text: str) -> list[str]:
    if "," not in text:
        return [text]
    if "(" not in text and "[" not in text and "\\" not in text:
        return text.split(",")
    found, depth, begin = [], 0, 0
    for at in re.finditer(r"\\.|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[(),\[\]]", text, re.DOTALL):
        if at[0] in ("(", "["):
            depth += 1
        elif at[0] in (")", "]"):
            depth -= 1
        elif at[0] == "," and depth <= 0:
            found.append(text[begin : at.start()])
            begin = at.end()
    return [*found, text[begin:]]


def _selector(text: str, depth: int) -> Selector | None:
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
            end = _closing(text, at)
            builder.pseudo(token["pseudo"], text[at:end])
            at = end + 1
        else:
            builder.add(token)
    return builder.result()


def _closing(text: str, at: int) -> int:
    depth = 1
    for sign in re.finditer(r"\\.|\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|[()]", text[at:], re.DOTALL):
        if sign[0] == "(":
            depth += 1
        elif sign[0] == ")":
            depth -= 1
            if not depth:
                return at + sign.start()
    raise SelectorError


class _Builder:
    """Collects the parts of one selector."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._compounds: list[CompoundSelector] = []
        self._combinators: list[str] = []
        self._weights = [0, 0, 0]
        self._element = False
        self._begin()

    def _begin(self) -> None:
        self._tag, self._keys = "", list[str]()
        self._classes, self._attributes, self._pseudos = (
            list[str](),
            list[AttributeTest](),
            list[PseudoClass](),
        )
        self._parts, self._never = 0, False

    def add(self, token: re.Match[str]) -> None:
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise SelectorError
        if (combinator := token["combinator"]) is not None:
            self._end()
            self._combinators.append(combinator.strip() or " ")
            self._begin()
        elif name := token["name"]:
            plain = unescaped(name[1:])
            if name[0] == "#":
                self._keys.append(plain)
                self._weights[0] += 1
            else:
                self._classes.append(plain)
                self._weights[1] += 1
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
            self._attributes.append(_attribute(token["attribute"]))
            self._weights[1] += 1

    def pseudo(self, written: str, argument: str | None) -> None:
        self._parts += 1
        name = unescaped(written.lstrip(":")).lower()
        if written.startswith("::") or name in _LEGACY:
            self._element = True
            return
        if name in _LISTS and argument is not None:
            self._list(_LISTS[name], argument)
            return
        if name == "has" and argument is not None:
            argument = re.sub(r"^\s*>", ":scope >", argument)
            self._list("has", argument)
            return
        self._weights[1] += 1
        if name in _STATES:
            self._never = True
        elif name in _ALWAYS:
            pass
        elif name in _POSITIONS:
            kind, step, offset = _POSITIONS[name]
            self._pseudos.append(PseudoClass(kind, (), step, offset))
        elif name in _NTHS and argument is not None:
            self._pseudos.append(_nth(name, argument, self._depth))
        elif name in _OTHERS:
            self._pseudos.append(PseudoClass(name))
        else:
            raise SelectorError

    def _list(self, name: str, argument: str) -> None:
        inner = _listed(argument, self._depth + 1, forgiving=name != "not")
        if name != "where" and inner:
            most = max(selector.specificity for selector in inner)
            self._weights = [one + other for one, other in zip(self._weights, most, strict=True)]
        self._pseudos.append(PseudoClass("is" if name == "where" else name, tuple(inner)))

    def _end(self) -> None:
        if not self._parts:
            raise SelectorError
        if len(self._compounds) >= _MOST_COMPOUNDS:
            raise SelectorError
        key = self._keys[0] if self._keys else ""
        compound = CompoundSelector(
            self._tag,
            key,
            frozenset(self._classes),
            tuple(self._attributes),
            tuple(self._pseudos),
            self._never,
            tuple(self._keys[1:]),
        )
        self._compounds.append(compound)

    def result(self) -> Selector | None:
        if self._element:
            return None
        self._end()
        weights = self._weights
        if any(compound.never for compound in self._compounds):
            return None
        vertical = all(combinator in " >" for combinator in self._combinators)
        above = self._compounds[:-1] if vertical else []
        return Selector(
            tuple(reversed(self._compounds)),
            tuple(reversed(self._combinators)),
            (weights[0], weights[1], weights[2]),
            vertical=vertical,
            needed=frozenset(name for compound in above for name in _names(compound)),
        )


def _names(compound: CompoundSelector) -> Iterator[str]:
    if compound.tag:
        yield compound.tag
    if compound.key:
        yield f"#{compound.key}"
    yield from (f".{name}" for name in compound.classes)


def _attribute(text: str) -> AttributeTest:
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


def _nth(name: str, argument: str, depth: int) -> PseudoClass:
    text, of, rest = argument.lower().partition(" of ")
    text = {"odd": "2n+1", "even": "2n"}.get(text.strip(), text)
    found = _NTH.fullmatch(text)
    if found is None:
        raise SelectorError
    inner = tuple(_listed(rest, depth + 1, forgiving=False)) if of else ()
    if found[4] is not None:
        return PseudoClass(name, inner, 0, int(found[4][-9:]))
    step = int(f"{found[1]}1" if found[1] in ("", "-", "+") else found[1][:9])
    return PseudoClass(name, inner, step, int(f"{found[2] or ''}{(found[3] or '0')[:9]}"))
