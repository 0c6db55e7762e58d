"""Edits of TOML text that preserve every other character; pure.

A table is added at the end, and changed and removed by its statements. The standard library reads the text
before and after: a change that would mean anything else is refused.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tabane.messages import Message, say

LONGEST = 1024 * 1024
"""Characters of a file that is read or edited."""

_STRING = r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\''
_TOKENS = re.compile(rf"{_STRING}|#[^\n]*|[\[\]{{}}]|\n|=", re.DOTALL)
_BLANK = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_BARE = re.compile(r"[A-Za-z0-9_-]+")


class FormatSyntaxError(ValueError):
    """Text that is not in its format. ``line`` and ``column`` count from 1, 0 if they are not known."""

    def __init__(self, line: int, column: int, expected: Message | str) -> None:
        super().__init__(expected)
        self.line = line
        self.column = column
        self.expected = expected


class UnsafeTextEdit(ValueError):
    """The text cannot be changed here without changing something else in it."""


class TomlFormat:
    """TOML as the format of a client's file: see :class:`tabane.servers.assistants.formats.FileFormat`."""

    def value(self, text: str) -> Any:
        """Return the value of the whole text. Raises FormatSyntaxError."""
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            # The message of the library ends with the place, and quotes one character of the text at most.
            place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            line, column = (int(place[1]), int(place[2])) if place else (0, 0)
            raise FormatSyntaxError(line, column, say("expected valid {format}", format="TOML")) from None

    def with_entry(self, text: str, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """Return the text with the entry added or updated. Raises FormatSyntaxError and UnsafeTextEdit."""
        self.value(text)
        return with_table(text, path, entry)

    def without_entry(self, text: str, path: Sequence[str]) -> str:
        """Return the text without the entry. Raises FormatSyntaxError and UnsafeTextEdit."""
        self.value(text)
        return without_table(text, path)

    def snippet(self, path: Sequence[str], entry: Mapping[str, Any]) -> str:
        """Return the lines that a person can add to such a file."""
        return snippet(path, entry)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A header or a ``key = value``: its path from the root, and its offsets.

    ``begin`` is the start of its line, ``end`` the one of the next. ``value`` is where the value begins, and
    ``stop`` where it ends; both are -1 for a header.
    """

    path: tuple[str, ...]
    begin: int
    end: int
    value: int = -1
    stop: int = -1
    array: bool = False

    @property
    def header(self) -> bool:
        return self.value < 0


def with_table(text: str, path: Sequence[str], values: Mapping[str, Any]) -> str:
    """Return the text with the values in the table at ``path``; its other values stay.

    Raises UnsafeTextEdit, and TOMLDecodeError if the text is no TOML.
    """
    table = wanted = _parse_toml(text)
    for name in path:
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            raise UnsafeTextEdit
    table.update(values)
    statements = _statements(text)
    inline = next((part for part in statements if part.path == tuple(path) and not part.header), None)
    if inline is not None:
        table = tomllib.loads("x = " + text[inline.value : inline.stop])["x"]
        if not isinstance(table, dict):
            raise UnsafeTextEdit
        changed = text[: inline.value] + _toml_value({**table, **values}) + text[inline.stop :]
    elif any(part.path == tuple(path[:-1]) and not part.header for part in statements):
        changed = _in_inline_table(text, statements, path, values)
    elif not any(part.path[: len(path)] == tuple(path) for part in statements):
        newline = "\r\n" if "\r\n" in text else "\n"
        glue = "" if not text or text.endswith("\n") else newline
        gap = newline if text.strip() else ""
        changed = text + glue + gap + snippet(path, values, newline)
    else:
        changed = text
        for key, value in values.items():
            changed = _with_value(changed, tuple(path), key, value)
    return _check_meaning(changed, wanted)


def without_table(text: str, path: Sequence[str]) -> str:
    """Return the text without the table at ``path``, and unchanged if there is none. Raises as above."""
    wanted = _parse_toml(text)
    table: Any = wanted
    for name in path[:-1]:
        table = table.get(name) if isinstance(table, dict) else None
    if not isinstance(table, dict) or path[-1] not in table:
        return text
    del table[path[-1]]
    cuts = [part for part in _statements(text) if part.path[: len(path)] == tuple(path)]
    if not cuts:
        raise UnsafeTextEdit
    for part in reversed(cuts):
        begin = part.begin
        if part is cuts[0] and part.header:
            begin = _before_gap(text, begin)
        text = text[:begin] + text[part.end :]
    return _check_meaning(text, wanted)


def snippet(path: Sequence[str], values: Mapping[str, Any], newline: str = "\n") -> str:
    """Return the table as it is written into a file."""
    lines = [
        f"[{'.'.join(map(_toml_key, path))}]",
        *(f"{_toml_key(key)} = {_toml_value(part)}" for key, part in values.items()),
    ]
    return "".join(line + newline for line in lines)


def _in_inline_table(
    text: str, statements: Sequence[_Statement], path: Sequence[str], values: Mapping[str, Any]
) -> str:
    """Add to a table that is written on one line, if it does not have the entry yet."""
    table = next(part for part in statements if part.path == tuple(path[:-1]) and not part.header)
    found = tomllib.loads("x = " + text[table.value : table.stop])["x"]
    there = found.get(path[-1]) if isinstance(found, dict) else None
    if isinstance(there, dict) and {**there, **values} == there:
        return text
    if not isinstance(found, dict) or path[-1] in found:
        raise UnsafeTextEdit
    inside = text[table.value : table.stop - 1].rstrip()
    added = (", " if found else " ") + f"{_toml_key(path[-1])} = {_toml_value(dict(values))} }}"
    return text[: table.value] + inside + added + text[table.stop :]


def _with_value(text: str, path: tuple[str, ...], key: str, value: Any) -> str:
    statements = _statements(text)
    whole = (*path, key)
    found = next((part for part in statements if part.path == whole and not part.header), None)
    if found is not None:
        if tomllib.loads("x = " + text[found.value : found.stop])["x"] == value:
            return text
        return text[: found.value] + _toml_value(value) + text[found.stop :]
    if any(part.path[: len(whole)] == whole for part in statements):
        raise UnsafeTextEdit
    table = next((part for part in statements if part.path == path and part.header and not part.array), None)
    if table is None:
        raise UnsafeTextEdit
    newline = "\r\n" if text[: table.end].endswith("\r\n") else "\n"
    glue = "" if text[: table.end].endswith("\n") else newline
    return text[: table.end] + glue + f"{_toml_key(key)} = {_toml_value(value)}{newline}" + text[table.end :]


def _before_gap(text: str, position: int) -> int:
    """Return the offset before the empty line above a position, if there is one."""
    line = text[:position]
    for newline in ("\r\n", "\n"):
        if line.endswith(newline) and line.removesuffix(newline).endswith("\n"):
            return position - len(newline)
    return position


def _statements(text: str) -> list[_Statement]:
    """Return the statements of a text that is known to be TOML, in order."""
    found: list[_Statement] = []
    table: tuple[str, ...] = ()
    position = _skipped(text, 0)
    while position < len(text):
        begin = text.rfind("\n", 0, position) + 1
        if text[position] == "[":
            end = _end_of_line(text, position)
            array = text.startswith("[[", position)
            table = _path(text[position:end])
            found.append(_Statement(table, begin, end, array=array))
        else:
            equals = _find_equals(text, position)
            stop = _end_of_value(text, equals + 1)
            end = _end_of_line(text, stop)
            start = equals + 1 + len(text[equals + 1 : stop]) - len(text[equals + 1 : stop].lstrip(" \t"))
            name = _path(text[position:equals] + "= 0")
            found.append(_Statement((*table, *name), begin, end, start, stop))
        position = _skipped(text, end)
    return found


def _find_equals(text: str, position: int) -> int:
    for token in _TOKENS.finditer(text, position):
        if token.group() == "=":
            return token.start()
        if token.group() == "\n":
            break
    raise UnsafeTextEdit


def _end_of_value(text: str, position: int) -> int:
    """Return the offset behind a value, without the blanks and the comment that follow it."""
    depth = 0
    end = len(text)
    for token in _TOKENS.finditer(text, position):
        sign = token.group()
        depth += (sign in "[{") - (sign in "]}")
        if depth == 0 and (sign == "\n" or sign.startswith("#")):
            end = token.start()
            break
    return position + len(text[position:end].rstrip())


def _end_of_line(text: str, position: int) -> int:
    """Return the offset behind the line break that ends the statement at ``position``."""
    for token in _TOKENS.finditer(text, position):
        if token.group() == "\n":
            return token.end()
    return len(text)


def _path(statement: str) -> tuple[str, ...]:
    """Return the keys that a header, or ``key = 0``, leads to."""
    value: Any = tomllib.loads(statement)
    keys: list[str] = []
    while isinstance(value, dict | list) and value:
        if isinstance(value, list):
            value = value[0]
            continue
        ((key, value),) = value.items()
        keys.append(key)
    return tuple(keys)


def _skipped(text: str, position: int) -> int:
    found = _BLANK.match(text, position)
    return found.end() if found else position


def _check_meaning(text: str, wanted: Mapping[str, Any]) -> str:
    try:
        if _plain(_read(text)) == _plain(wanted):
            return text
    except tomllib.TOMLDecodeError:
        pass
    raise UnsafeTextEdit


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values without empty tables at the root, which mean the same as none."""
    return {key: value for key, value in values.items() if value != {}}


def _parse_toml(text: str) -> dict[str, Any]:
    if len(text) > LONGEST:
        raise UnsafeTextEdit
    return _read(text)


def _read(text: str) -> dict[str, Any]:
    # as text, a number that is none (nan) equals itself
    return tomllib.loads(text, parse_float=str)


def _toml_key(name: str) -> str:
    return name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        return (
            "{ " + ", ".join(f"{_toml_key(key)} = {_toml_value(part)}" for key, part in value.items()) + " }"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
