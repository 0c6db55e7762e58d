"""The formats of clients' files behind one interface: read, with an entry, without it; pure.

Each edit changes the text of one entry and nothing else. TOML and YAML are imported with the first such file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tabane.messages import Message, say
from tabane.servers.assistants.client import Form
from tabane.servers.commented_json import JsonSyntaxError, read_document
from tabane.servers.json_edits import NotAnObject, UnsafeJsonEdit, with_member, without_member

Path = Sequence[str]
Values = Mapping[str, Any]


class FormatSyntaxError(ValueError):
    """Text that is not in its format. ``line`` and ``column`` count from 1, 0 if they are not known."""

    def __init__(self, line: int, column: int, expected: Message | str) -> None:
        super().__init__(expected)
        self.line = line
        self.column = column
        self.expected = expected


class UnsafeFormatEdit(ValueError):
    """The text cannot be changed without changing something else in it."""


class FileFormat(Protocol):
    """A format. All methods raise FormatSyntaxError; those that change a text raise UnsafeFormatEdit.

    A text has no byte order mark. ``path`` leads to an entry: the keys of the object with the servers, and
    the entry's name.
    """

    def value(self, text: str) -> Any:
        """Return the value of the whole text; an empty mapping if it is empty."""

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        """Return the text with the entry added, or its values updated: other values in it stay."""

    def without_entry(self, text: str, path: Path) -> str:
        """Return the text without the entry; unchanged if it has none."""

    def snippet(self, path: Path, entry: Values) -> str:
        """Return the lines that a person can add to such a file."""


def format_of(form: Form) -> FileFormat:
    return _FORMATS[form]


class _Json:
    def value(self, text: str) -> Any:
        return _json_of(text)

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        try:
            if not isinstance(at_path(_json_of(text), path), dict):
                return with_member(text, path, dict(entry))
            for key, value in entry.items():
                text = with_member(text, (*path, key), value)
        except (NotAnObject, UnsafeJsonEdit):
            raise UnsafeFormatEdit from None
        return text

    def without_entry(self, text: str, path: Path) -> str:
        _json_of(text)
        try:
            return without_member(text, path)
        except (NotAnObject, UnsafeJsonEdit):
            raise UnsafeFormatEdit from None

    def snippet(self, path: Path, entry: Values) -> str:
        return json.dumps(_nested(path, entry), ensure_ascii=False, indent=2) + "\n"


class _Toml:
    def value(self, text: str) -> Any:
        import tomllib

        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise _broken_toml(error) from None

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        from tabane.servers.assistants import toml_edits

        self.value(text)
        try:
            return toml_edits.with_table(text, path, entry)
        except toml_edits.UnsafeTextEdit:
            raise UnsafeFormatEdit from None

    def without_entry(self, text: str, path: Path) -> str:
        from tabane.servers.assistants import toml_edits

        self.value(text)
        try:
            return toml_edits.without_table(text, path)
        except toml_edits.UnsafeTextEdit:
            raise UnsafeFormatEdit from None

    def snippet(self, path: Path, entry: Values) -> str:
        from tabane.servers.assistants import toml_edits

        return toml_edits.snippet(path, entry)


class _Yaml:
    def value(self, text: str) -> Any:
        import yaml

        from tabane.servers.assistants import yaml_edits

        try:
            found = yaml_edits.read(text)
        except yaml.YAMLError as error:
            raise _broken_yaml(error) from None
        return {} if found is None else found

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        from tabane.servers.assistants import yaml_edits
        from tabane.servers.assistants.toml_edits import UnsafeTextEdit

        self.value(text)
        try:
            return yaml_edits.with_mapping(text, path, entry)
        except UnsafeTextEdit:
            raise UnsafeFormatEdit from None

    def without_entry(self, text: str, path: Path) -> str:
        from tabane.servers.assistants import yaml_edits
        from tabane.servers.assistants.toml_edits import UnsafeTextEdit

        self.value(text)
        try:
            return yaml_edits.without_mapping(text, path)
        except UnsafeTextEdit:
            raise UnsafeFormatEdit from None

    def snippet(self, path: Path, entry: Values) -> str:
        from tabane.servers.assistants import yaml_edits

        return yaml_edits.snippet(path, entry)


_FORMATS: Mapping[Form, FileFormat] = {"json": _Json(), "jsonc": _Json(), "toml": _Toml(), "yaml": _Yaml()}


def at_path(value: Any, path: Path) -> Any:
    """Return what the keys lead to; None if they lead nowhere."""
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _json_of(text: str) -> Any:
    try:
        return read_document(text if text.strip() else "{}").value
    except JsonSyntaxError as broken:
        raise FormatSyntaxError(broken.line, broken.column, broken.expected) from None


def _nested(path: Path, entry: Values) -> Any:
    value: Any = dict(entry)
    for key in reversed(path):
        value = {key: value}
    return value


def _broken_toml(error: ValueError) -> FormatSyntaxError:
    # The message of the library ends with the place, and quotes nothing of the text but one character.
    place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
    line, column = (int(place[1]), int(place[2])) if place else (0, 0)
    return FormatSyntaxError(line, column, say("expected valid {format}", format="TOML"))


def _broken_yaml(error: Exception) -> FormatSyntaxError:
    mark = getattr(error, "problem_mark", None)
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return FormatSyntaxError(line, column, say("expected valid {format}", format="YAML"))
