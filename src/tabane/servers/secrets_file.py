"""The file secrets.env: its entries, and changes to its text that keep everything else.

It has lines ``NAME=value``, with comments after ``#``, an optional ``export`` before the name, and
values bare, in single quotes (verbatim) or in double quotes (with ``\\n``, ``\\t``, ``\\r``, ``\\"``,
``\\\\`` and ``\\$``). A quoted value may span several lines. Nothing is expanded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tabane.errors import ConfigurationError
from tabane.messages import say

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Names of variables."""

_ENTRY = re.compile(
    r"""[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<bare>(?!['"])(?:(?![ \t]\#)[^\n])*?) )
    [ \t]*(?:(?:(?<=[ \t='"])\#)[^\n]*)?(?:\n|\Z)""",
    re.VERBOSE | re.DOTALL,
)
_NOTHING = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_BARE = re.compile(r"[A-Za-z0-9_./:@%+,=~-]+")
_ESCAPED = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "$": "$"}


def parse_secrets(text: str, path: str) -> dict[str, str]:
    """Return the entries of a secrets file. If a name occurs twice, the last counts.

    Raises ConfigurationError with the line of the first that cannot be read, and without its content.
    """
    return {entry["name"]: _value(entry) for entry in _entries(_plain(text), path)}


def with_secret(text: str, name: str, value: str, path: str) -> str:
    """Return the text of a secrets file with the entry of that name set, and each other line as it was.

    The entry stays at its place; earlier entries of the same name are removed. Raises as
    :func:`parse_secrets`.
    """
    return _edited(text, name, f"{name}={quoted(value)}\n", path)


def without_secret(text: str, name: str, path: str) -> str:
    """Return the text of a secrets file without the entries of that name. Raises as :func:`parse_secrets`."""
    return _edited(text, name, None, path)


def quoted(value: str) -> str:
    """Return a value as it is written: bare if that is possible, else in quotes, on one line."""
    if _BARE.fullmatch(value):
        return value
    if "'" not in value and not any(break_ in value for break_ in "\n\r\t"):
        return f"'{value}'"
    return '"' + "".join(_ESCAPED.get(character, character) for character in value) + '"'


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").removeprefix("\ufeff")


def _edited(text: str, name: str, line: str | None, path: str) -> str:
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    breaks = "\r\n" if "\r\n" in text else "\n"
    plain = _plain(text)
    found = [entry for entry in _entries(plain, path) if entry["name"] == name]
    for place, entry in reversed(list(enumerate(found))):
        last = place == len(found) - 1
        plain = plain[: entry.start()] + (line if last and line else "") + plain[entry.end() :]
    if line and not found:
        plain += ("" if not plain or plain.endswith("\n") else "\n") + line
    return mark + plain.replace("\n", breaks)


def _entries(text: str, path: str) -> Iterator[re.Match[str]]:
    position = 0
    while position < len(text):
        if nothing := _NOTHING.match(text, position):
            position = nothing.end()
            continue
        entry = _ENTRY.match(text, position)
        if entry is None:
            raise ConfigurationError(
                say(
                    "{path}:{line}: expected NAME=value. Put a value with # or line breaks in quotes.",
                    path=path,
                    line=text.count("\n", 0, position) + 1,
                )
            )
        yield entry
        position = entry.end()


def _value(entry: re.Match[str]) -> str:
    if entry["single"] is not None:
        return entry["single"]
    if entry["double"] is not None:
        return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), entry["double"], flags=re.DOTALL)
    return entry["bare"].rstrip()


def decoded_secrets(path: str, data: bytes) -> str:
    """Return the bytes of a secrets file as text. Raises ConfigurationError if they are not UTF-8."""
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigurationError(say("{path} is not UTF-8. Save it as UTF-8.", path=path)) from None
