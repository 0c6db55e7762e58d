"""Arguments of a call, field by field, for the person who decides about it. Pure.

An assistant wrote them, and may have been told to by somebody else. So the name of each field is the one that
is sent, a title and a description are only what the server says of it, nothing in a text is hidden, and a
field that is given twice is shown twice: servers differ in which of the two they take. What is shown has a
budget. What it leaves out is counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tabane.text.control_characters import shown_controls
from tabane.text.secret_values import HIDDEN

FieldKind = Literal["text", "long", "value", "link", "mail", "secret", "group"]
"""How a value is shown. ``group`` is the name of fields that follow it, one level deeper."""

LONG = 200
"""Characters from which on a text gets a box of its own; one of several lines always does."""

LONGEST_NAME, LONGEST_SAID = 120, 400
"""Characters of a field's name, and of what the server says of it."""

MOST_DEPTH = 6
"""Levels of fields. What is nested deeper is shown as JSON."""

_UNSEEN = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200e\u200f\u2028\u2029\u2800\u3164\uffa0\ufff9-\ufffb"
    "\U000e0100-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"
)
"""Blank or invisible characters that :func:`shown_controls` leaves, because they do nothing to a terminal."""

_ESCAPE = re.compile("(\u27e8U\\+[0-9A-F]{4,6}\u27e9)")
_LINK = re.compile(r"https?://[^\s]+", re.IGNORECASE)
_MAIL = re.compile(r"[^\s@<>]{1,100}@[^\s@<>]{1,200}\.[^\s@<>.]{2,60}")


class Budget(NamedTuple):
    """What is shown at most: characters of all values, and fields."""

    characters: int
    fields: int


class _Members(tuple[tuple[str, Any], ...]):
    """The members of an object as they were written, also those that are given twice."""

    __slots__ = ()


class _Written(str):
    """A number as it was written."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ShownField:
    """One field. ``parts`` are its text: each second one is the escape of a character that nobody sees.

    ``title`` and ``said`` are the server's words about it. ``cut`` is the number of characters that are not
    shown, and ``size`` of all. ``path`` names it among all fields.
    """

    name: str
    path: str
    depth: int
    kind: FieldKind
    parts: tuple[str, ...] = ()
    title: str = ""
    said: str = ""
    size: int = 0
    cut: int = 0
    twice: bool = False

    @property
    def text(self) -> str:
        return "".join(self.parts)


@dataclass(frozen=True, slots=True)
class ShownArguments:
    """Fields of arguments. ``raw`` are the parts of their text if they are no JSON object.

    ``cut`` characters and ``more`` fields are not shown. ``hidden``: they hold characters that nobody sees.
    ``twice``: a field is given twice.
    """

    fields: tuple[ShownField, ...] = ()
    raw: tuple[str, ...] = ()
    cut: int = 0
    more: int = 0
    hidden: bool = False
    twice: bool = False

    @property
    def whole(self) -> bool:
        """Whether everything is shown."""
        return not self.cut and not self.more


def shown_arguments(text: str, schema: object, budget: Budget) -> ShownArguments:
    """Return arguments (JSON) as fields, with what the input schema of the tool says of them."""
    with suppress(ValueError, RecursionError):  # then they are shown as they are written
        value = _read(text)
        if type(value) is str:  # the beginning of long arguments, or what is nested very deep
            text = value
            value = _read_beginning(text)
        if isinstance(value, _Members):
            shown = _Fields(budget)
            shown.add(value, schema)
            twice = _gives_twice(value)
            return ShownArguments(tuple(shown.rows), (), shown.cut, shown.more, shown.hidden, twice)
    parts, hidden = visible_parts(text[: budget.characters])
    return ShownArguments(raw=parts, cut=max(0, len(text) - budget.characters), hidden=hidden)


def _read(text: str) -> Any:
    return json.loads(
        text, object_pairs_hook=_Members, parse_int=_Written, parse_float=_Written, parse_constant=_Written
    )


_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+(?P<end>"?)|[\[\]{}]', re.DOTALL)
"""A string or a bracket. A string without an end takes all of the rest: no text is read twice."""


def _read_beginning(text: str) -> Any:
    """Return the value that JSON begins, without what is not complete at its end. Raises ValueError."""
    open_ones: list[str] = []
    end = 0
    for found in _TOKEN.finditer(text):
        if found["end"] == "":  # a string that is cut off
            break
        end = found.end()
        if found[0] in ("{", "["):
            open_ones.append("}" if found[0] == "{" else "]")
        elif found[0] in ("}", "]") and open_ones:
            open_ones.pop()
    rest = text[end:]
    quoted = rest.find('"')
    closing = "".join(reversed(open_ones))
    if quoted >= 0:  # it ends in a string: without the part of an escape at the end
        ends = [re.sub(r"\\(?:u[0-9a-fA-F]{0,3})?$", "", text) + '"', text[: end + quoted].rstrip(" ,:")]
    else:
        ends = [text, text.rstrip(" ,:"), text[:end]]
    for cut in ends:
        for more in ("", ":null", "null"):
            try:
                return _read(cut + more + closing)
            except ValueError:
                continue
    raise ValueError


def visible_parts(text: str) -> tuple[tuple[str, ...], bool]:
    """Return a text in parts, each second one an escape such as ``⟨U+202E⟩``; and whether there is one."""
    if not text.isascii() and any("\ud800" <= sign <= "\udfff" for sign in text):  # half of a pair, maybe
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    shown = shown_controls(text)
    if not text.isascii():
        shown = _UNSEEN.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", shown)
    if shown == text:  # also if it spells such an escape itself, which then hides nothing
        return (text,), False
    return tuple(_ESCAPE.split(shown)), True


class _Fields:
    """Collects the fields of arguments until the budget is spent. There is no recursion."""

    def __init__(self, budget: Budget) -> None:
        self.rows: list[ShownField] = []
        self.cut = self.more = 0
        self.hidden = False
        self._left, self._most = budget

    def add(self, value: _Members, schema: object) -> None:
        """Add the members of an object, and of those in it."""
        waiting = [(name, part, "", 0, schema, twice) for name, part, twice in reversed(_named(value))]
        while waiting:
            name, part, start, depth, of, twice = waiting.pop()
            about = _about(of, name)
            path = f"{start}.{name}" if start else name
            if len(self.rows) >= self._most:
                self.more += 1
                continue
            inner = _inner(part) if depth + 1 < MOST_DEPTH else []
            if inner:
                self._row(name, path, depth, "group", "", about, twice)
                items = about.get("items") if isinstance(part, list) else None
                below = {"properties": dict.fromkeys([each[0] for each in inner], items)} if items else about
                waiting += [(key, one, path, depth + 1, below, again) for key, one, again in reversed(inner)]
            else:
                self._row(name, path, depth, "", _written(part), about, twice, is_text=type(part) is str)

    def _row(
        self, name: str, path: str, depth: int, kind: Literal["group", ""], text: str,
        about: Mapping[str, Any], twice: bool, *, is_text: bool = False,
    ) -> None:  # fmt: skip
        shown = text[: max(0, self._left)]
        self._left -= len(shown)
        cut = len(text) - len(shown)
        self.cut += cut
        parts, hidden = visible_parts(shown)
        label, odd = visible_parts(name[:LONGEST_NAME] + ("…" if len(name) > LONGEST_NAME else ""))
        self.hidden = self.hidden or hidden or odd
        title, said = (
            _said(about.get(key), longest) for key, longest in (("title", 120), ("description", LONGEST_SAID))
        )
        self.rows.append(
            ShownField(
                "".join(label), path[:LONGEST_NAME], depth, kind or _kind(text, is_text=is_text), parts,
                title if title != name else "", said, len(text), cut, twice,
            )
        )  # fmt: skip


def _named(value: _Members) -> list[tuple[str, Any, bool]]:
    """Return members with whether their name is given several times."""
    counts: dict[str, int] = {}
    for name, _ in value:
        counts[name] = counts.get(name, 0) + 1
    return [(name, part, counts[name] > 1) for name, part in value]


def _inner(value: object) -> list[tuple[str, Any, bool]]:
    """Return the fields inside a value: the members of an object, or the items of a list that has objects."""
    if isinstance(value, _Members):
        return _named(value)
    if isinstance(value, list) and any(isinstance(each, _Members | list) or _is_long(each) for each in value):
        return [(str(number), each, False) for number, each in enumerate(value, 1)]
    return []


def _is_long(value: object) -> bool:
    return type(value) is str and (len(value) > LONG or "\n" in value)


def _written(value: object) -> str:
    """Return a value as text: a string as it is, short values of a list one a line, the rest as JSON."""
    if isinstance(value, str):  # also a number as it was written
        return value
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        return "\n".join(value)
    return _as_json(value)


def _as_json(value: object) -> str:
    """Return a value as JSON, its numbers as they were written, and each field as often as it is given.

    It is at most as deep as what was read.
    """
    if isinstance(value, _Members):
        return "{" + ", ".join(f"{_as_json(name)}: {_as_json(part)}" for name, part in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_as_json, value)) + "]"
    return value if isinstance(value, _Written) else json.dumps(value, ensure_ascii=False)


def _gives_twice(value: object) -> bool:
    """Return whether a field is given twice anywhere in a value."""
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, _Members):
            if len({name for name, _ in part}) < len(part):
                return True
            waiting += [each for _, each in part]
        elif isinstance(part, list):
            waiting += part
    return False


def _kind(text: str, *, is_text: bool) -> FieldKind:
    if text == HIDDEN:
        return "secret"
    if _is_long(text):
        return "long"
    if not is_text:
        return "value"
    if _LINK.fullmatch(text):
        return "link"
    return "mail" if _MAIL.fullmatch(text) else "text"


def _about(schema: object, name: str) -> Mapping[str, Any]:
    """Return what a schema says of a member; nothing if it says nothing that can be read."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    about = properties.get(name) if isinstance(properties, dict) else None
    return about if isinstance(about, dict) else {}


def _said(value: object, longest: int) -> str:
    """Return words of a server on one line."""
    if not isinstance(value, str):
        return ""
    line = " ".join(value[: longest + 1].split())
    return "".join(visible_parts(line[:longest] + ("…" if len(line) > longest else ""))[0])
