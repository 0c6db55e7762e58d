"""Changes to the text of a TOML file that keep comments, order and everything else in it.

tomlkit makes the changes. The standard library reads the text before and after: a change that would mean
anything else, or lose a comment, is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any

from tabane.messages import Message
from tabane.settings.option import SettingOption, shown, value_of

LONGEST_TEXT = 256 * 1024
"""Characters of a file that can be changed: far more than anyone writes. tomlkit takes seconds at worst."""

FileValue = str | int | float | bool | list[str]
Table = dict[str, Any]

_REMOVED = "tabane:removed"
"""The comment of a header that is removed once the table is written."""

_OTHER_REMOVED = re.compile(rf"[^\n]*# {_REMOVED}\r?\n")
_FIRST_REMOVED = re.compile(rf"(?:(?<=\n)\r?\n)?{_OTHER_REMOVED.pattern}")


class FormatSyntaxError(ValueError):
    """Text that is not in its format. ``line`` and ``column`` count from 1, 0 if they are not known."""

    def __init__(self, line: int, column: int, expected: Message | str) -> None:
        super().__init__(expected)
        self.line = line
        self.column = column
        self.expected = expected


class UnsafeTextEdit(ValueError):
    """The text cannot be changed in this place without changing something else in it."""


def file_value(option: SettingOption, given: object) -> FileValue:
    """Return a value as it is written into the file: typed, and a size as a person gave it.

    Raises InvalidSetting.
    """
    value = value_of(option, given, typed=False)
    if option.kind == "bytes":
        return given.strip() if isinstance(given, str) else shown(option, value)
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    plain: FileValue = value
    return plain


def with_value(text: str, path: Sequence[str], value: FileValue | Mapping[str, Any]) -> str:
    """Return the text with a value set. A mapping becomes a table; keys that it does not have are removed.

    Raises UnsafeTextEdit, and TOMLDecodeError if the text is no TOML.
    """
    before = tomllib.loads(text)
    value = dict(value) if isinstance(value, Mapping) else value
    *tables, last = path
    table = before
    for name in tables:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UnsafeTextEdit
    table[last] = value
    text = _ended(text)
    edits = _edits(text, path, lambda table: _set(table, last, value))
    if isinstance(value, dict):
        edits.insert(0, lambda: _with_table(text, path, value))
    return _first_safe(text, edits, before)


def with_members(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text with the values in the table at ``path``; its other values stay. Raises as above."""
    table: Any = tomllib.loads(text)
    for name in path:
        table = table.get(name, {}) if isinstance(table, dict) else None
    if not isinstance(table, dict):
        raise UnsafeTextEdit
    if not table:
        return with_value(text, path, values)
    for key, value in values.items():
        if key not in table or table[key] != value:
            text = with_value(text, (*path, key), value)
    return text


def without_value(text: str, path: Sequence[str]) -> str:
    """Return the text without a value, which has to be there. Raises as :func:`with_value`."""
    before = tomllib.loads(text)
    *tables, last = path
    table = before
    for name in tables:
        table = table[name]
    del table[last]
    text = _ended(text)
    edits = [
        *_edits(text, path, lambda table: _empty(table, last)),
        *_edits(text, path, lambda table: table.pop(last)),
    ]
    return _first_safe(text, edits, before)


def new_table(path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the lines of a table. Raises UnsafeTextEdit if a value has no form in TOML."""
    import tomlkit  # with the first change, as below: most hubs never change their settings
    from tomlkit.exceptions import TOMLKitError

    table: Table = dict(values)
    for name in reversed(path):
        table = {name: table}
    try:
        return tomlkit.dumps(table)
    except (TOMLKitError, ValueError):
        raise UnsafeTextEdit from None


Edit = Callable[[], str]


def _first_safe(text: str, edits: Sequence[Edit], wanted: Table) -> str:
    """Return what the first edit makes whose result has exactly the wanted values, and every comment."""
    from tomlkit.exceptions import TOMLKitError

    refused = (TOMLKitError, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    for edit in edits:
        with suppress(*refused):
            changed = edit()
            if _meaning(tomllib.loads(changed)) == _meaning(wanted) and _keeps_comments(text, changed):
                return changed
    raise UnsafeTextEdit


def _edits(text: str, path: Sequence[str], change: Callable[[Any], object]) -> list[Edit]:
    """Return the ways to make a change to the table that has the last key of the path."""
    return [partial(_edited, text, place, path, change) for place in _places(text, path)]


def _places(text: str, path: Sequence[str]) -> list[slice]:
    """Return what is edited: the tables that have the path or its parent, then the whole text.

    tomlkit does not keep the order of tables if an array of tables parts those of one name, and it takes a
    comment above a table for the end of the one before.
    """
    begins = [0, *(header.start() for header in re.finditer(r"^[ \t]*\[", text, re.MULTILINE)), len(text)]
    found = []
    for sought in (path, path[:-1]):
        having = [span for span in pairwise(begins) if _has(text[slice(*span)], sought)]
        if having:
            begin = having[0][0]
            found.append(slice(begin, begin + len(_without_tail(text[begin : having[-1][1]]))))
    return [*found, slice(0, len(text))]


def _without_tail(text: str) -> str:
    """Return the lines up to the last that is neither empty nor a comment."""
    lines = text.splitlines(keepends=True)
    while lines and (not lines[-1].strip() or lines[-1].lstrip().startswith("#")):
        lines.pop()
    return "".join(lines)


def _has(text: str, path: Sequence[str]) -> bool:
    try:
        value: Any = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False  # a part of a value
    for name in path:
        if not isinstance(value, dict) or name not in value:
            return False
        value = value[name]
    return True


def _edited(text: str, place: slice, path: Sequence[str], change: Callable[[Any], object]) -> str:
    import tomlkit

    document: Any = tomlkit.parse(text[place])
    if tomlkit.dumps(document) != text[place]:
        raise UnsafeTextEdit
    table = document
    for name in path[:-1]:
        if name not in table:
            table[name] = tomlkit.table(is_super_table=True)
        table = table[name]
    change(table)
    changed = text[: place.start] + _with_line_ends(tomlkit.dumps(document), text) + text[place.stop :]
    return _OTHER_REMOVED.sub("", _FIRST_REMOVED.sub("", changed, count=1))


def _with_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Add a new table at the end: in its place, it could part a comment from what it is about."""
    added = ("\n" if text.strip() else "") + new_table(path, values)
    return text + (added.replace("\n", "\r\n") if "\r\n" in text else added)


def _set(table: Any, key: str, value: FileValue | Table) -> None:
    if not isinstance(value, dict) or key not in table:
        table[key] = value
        return
    members = table[key]
    for name in [name for name in members if name not in value]:
        del members[name]
    for name, part in value.items():
        if name not in members or members[name] != part:
            members[name] = part


def _empty(table: Any, key: str) -> None:
    """Remove a value, or mark the headers of a table for removal: comments on lines of their own stay."""
    from tomlkit.items import Table as TomlTable

    item = table[key]
    if not isinstance(item, TomlTable):
        del table[key]
        return
    for name in list(item):
        _empty(item, name)
    item.comment(_REMOVED)


def _ended(text: str) -> str:
    """Return the text with an end of its last line. Raises UnsafeTextEdit if it is too long."""
    if len(text) > LONGEST_TEXT:
        raise UnsafeTextEdit
    return text if not text or text.endswith("\n") else text + ("\r\n" if "\r\n" in text else "\n")


def _with_line_ends(changed: str, text: str) -> str:
    """Return the changed text with the line ends of the text."""
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        return re.sub(r"(?<!\r)\n", "\r\n", changed)
    return changed


def _meaning(values: Table) -> str:
    """Return the same text for the same values. Empty tables mean the same as none."""
    filled = {key: value for key, value in values.items() if value != {}}
    return json.dumps(filled, sort_keys=True, default=repr)


def _keeps_comments(before: str, after: str) -> bool:
    """Return whether each line that is a comment is still there, in this order."""
    lines = iter(after.splitlines())
    comments = [line for line in before.splitlines() if line.lstrip().startswith("#")]
    return all(any(line == found for found in lines) for line in comments)
