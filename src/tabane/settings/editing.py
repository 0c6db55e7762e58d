"""Changes to the text of tabane.toml that keep comments, order and everything else in it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from tabane.settings.option import SettingOption, shown, value_of

LONGEST_TEXT = 256 * 1024
"""Characters of a settings file that can be changed here: far more than anyone writes by hand."""

FileValue = str | int | float | bool | list[str]
Table = dict[str, Any]


class UnsafeTomlEdit(Exception):
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


def with_value(text: str, path: tuple[str, ...], value: FileValue | Mapping[str, FileValue]) -> str:
    """Return the text with a value set. A mapping becomes a table; keys that it does not have are removed.

    Raises UnsafeTomlEdit, and TOMLDecodeError if the text is no TOML.
    """
    before = tomllib.loads(text)
    value = dict(value) if isinstance(value, Mapping) else value
    *tables, last = path
    table = before
    for name in tables:
        table = table.setdefault(name, {})
    table[last] = value
    return _edited(text, path, value, before)


def without_value(text: str, path: tuple[str, ...]) -> str:
    """Return the text without a value, which has to be there. Raises as :func:`with_value`."""
    before = tomllib.loads(text)
    *tables, last = path
    table = before
    for name in tables:
        table = table[name]
    del table[last]
    return _edited(text, path, None, before)


def _edited(text: str, path: tuple[str, ...], value: Any, wanted: Table) -> str:
    """Change the text, and make sure that the result has exactly the wanted values."""
    import tomlkit  # with the first change: most hubs never change their settings
    from tomlkit.exceptions import TOMLKitError

    if len(text) > LONGEST_TEXT:
        raise UnsafeTomlEdit
    if text and not text.endswith("\n"):
        text += "\n"
    try:
        document = tomlkit.parse(text)
        if tomlkit.dumps(document) != text:
            raise UnsafeTomlEdit
        _change(document, path, value)
        changed = _with_line_ends(tomlkit.dumps(document), text)
        same = _plain(tomllib.loads(changed)) == _plain(wanted)
    except (TOMLKitError, tomllib.TOMLDecodeError, ValueError, LookupError, TypeError, AttributeError):
        raise UnsafeTomlEdit from None
    if not same or not _keeps_comments(text, changed):
        raise UnsafeTomlEdit
    return changed


def _change(document: Any, path: tuple[str, ...], value: Any) -> None:
    import tomlkit

    *tables, last = path
    table = document
    for name in tables:
        if name not in table:
            table[name] = tomlkit.table(is_super_table=True)
        table = table[name]
    if value is None:
        del table[last]
        if tables and not table:
            del document[tables[0]]
    elif isinstance(value, dict):
        members = table[last] if last in table else tomlkit.table()
        for key in [key for key in members if key not in value]:
            del members[key]
        for key, part in value.items():
            if key not in members or members[key] != part:
                members[key] = part
        if last not in table:
            table[last] = members
    else:
        table[last] = value


def _with_line_ends(changed: str, text: str) -> str:
    """Return the changed text with the line ends of the text."""
    if "\r\n" in text and not re.search(r"(?<!\r)\n", text):
        return re.sub(r"(?<!\r)\n", "\r\n", changed)
    return changed


def _plain(values: Table) -> Table:
    """Return the values without empty tables, which mean the same as none."""
    return {key: value for key, value in values.items() if value != {}}


def _keeps_comments(before: str, after: str) -> bool:
    """Return whether each line that is a comment is still there, in this order."""
    lines = iter(after.splitlines())
    comments = [line for line in before.splitlines() if line.lstrip().startswith("#")]
    return all(any(line == found for found in lines) for line in comments)
