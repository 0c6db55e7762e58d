"""The formats of clients' files, and the forms of a server in them: Tabane's entry, and theirs as ours.

Each edit changes the text of one entry and nothing else. Everything here is pure.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tabane.messages import say
from tabane.servers.assistants.table import Form, Shape
from tabane.servers.commented_json import JsonSyntaxError, read_document
from tabane.servers.foreign_keys import RENAMED, our_definition
from tabane.servers.json_edits import NotAnObject, UnsafeJsonEdit, with_member, without_member
from tabane.servers.variables import each_text
from tabane.settings.editing import FormatSyntaxError, UnsafeTextEdit, new_table, with_members, without_value

Path = Sequence[str]
Values = Mapping[str, Any]


class FileFormat(Protocol):
    """A format. All methods raise FormatSyntaxError; those that change a text raise UnsafeTextEdit.

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
    """Return the format of that name."""
    if form == "yaml":
        from tabane.servers.assistants.yaml_edits import YamlFormat  # its library is large, and few need it

        return YamlFormat()
    return _TomlFormat() if form == "toml" else _JsonFormat()


class _TomlFormat:
    def value(self, text: str) -> Any:
        try:
            return tomllib.loads(text)
        except RecursionError:
            line, column = 0, 0
        except tomllib.TOMLDecodeError as error:
            # The message of the library ends with the place, and quotes one character of the text at most.
            place = re.search(r" \(at line (\d+), column (\d+)\)$", str(error))
            line, column = (int(place[1]), int(place[2])) if place else (0, 0)
        raise FormatSyntaxError(line, column, say("expected valid {format}", format="TOML"))

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        self.value(text)
        return with_members(text, path, entry)

    def without_entry(self, text: str, path: Path) -> str:
        there = at_path(self.value(text), path[:-1])
        return without_value(text, path) if isinstance(there, dict) and path[-1] in there else text

    def snippet(self, path: Path, entry: Values) -> str:
        return new_table(path, entry)


class _JsonFormat:
    def value(self, text: str) -> Any:
        return _json_of(text)

    def with_entry(self, text: str, path: Path, entry: Values) -> str:
        try:
            if not isinstance(at_path(_json_of(text), path), dict):
                return with_member(text, path, dict(entry))
            for key, value in entry.items():
                text = with_member(text, (*path, key), value)
        except (NotAnObject, UnsafeJsonEdit):
            raise UnsafeTextEdit from None
        return text

    def without_entry(self, text: str, path: Path) -> str:
        _json_of(text)
        try:
            return without_member(text, path)
        except (NotAnObject, UnsafeJsonEdit):
            raise UnsafeTextEdit from None

    def snippet(self, path: Path, entry: Values) -> str:
        value: Any = dict(entry)
        for key in reversed(path):
            value = {key: value}
        return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


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


Entry = dict[str, Any]

_LEAST_WAIT = 30_000
"""Milliseconds of opencode's time-out that are longer than our own for a call."""

_GOOSE_TIMEOUT = 300
"""Seconds that goose waits for an answer: what it writes itself for an extension that names none."""


def written(shape: Shape, name: str, command: str, arguments: Sequence[str]) -> Entry:
    """Return the entry of a server that is started by a command, as the client writes it."""
    args = list(arguments)
    if shape == "typed":
        return {"type": "stdio", "command": command, "args": args}
    if shape == "copilot":
        return {"type": "local", "command": command, "args": args, "tools": ["*"]}
    if shape == "opencode":
        return {"type": "local", "command": [command, *args], "enabled": True}
    if shape == "kimi":
        return {"transport": "stdio", "command": command, "args": args}
    if shape == "goose":
        return {
            "name": name,
            "description": "",
            "type": "stdio",
            "cmd": command,
            "args": args,
            "envs": {},
            "enabled": True,
            "timeout": _GOOSE_TIMEOUT,
        }
    return {"command": command, "args": args}


def definition(shape: Shape, entry: object) -> Entry | None:
    """Return a client's entry without what has no meaning for a server; None if it is none.

    Its keys are still the client's: see :func:`tabane.servers.foreign_keys.our_definition`.
    """
    if not isinstance(entry, dict):
        return None
    if shape == "opencode":
        return _from_opencode(entry)
    if shape == "goose":
        kind = entry.get("type")
        if kind not in ("stdio", "sse", "streamable_http"):
            return None
        dropped = ("name", "description", "display_name", "bundled", "type")
        # No tool is named if all may be used.
        return _renamed(entry, {}, dropped if entry.get("available_tools") else (*dropped, "available_tools"))
    if shape == "zed":
        command = entry.get("command")
        if isinstance(command, dict):  # versions of 2025
            inner = _renamed(command, {"path": "command"})
            return {**inner, **{key: part for key, part in entry.items() if key not in ("command", "source")}}
        if not entry.keys() & {"command", "url"}:
            return None  # the settings of an extension, which has its command itself
        return _renamed(entry, {}, dropped=("source",))
    return dict(entry)


# -- placeholders ----------------------------------------------------------------------------------

_PLACES = (
    *("command", "args", "env", "cwd", "url", "headers", "proxy", "oauth", "ca", "image"),
    *("requestOptions", "requestInit", "apiKey", "authorization_token", "auth"),
)
_FOREIGN = re.compile(
    r"(?<!\$)\{env:(?P<env>[A-Za-z_][A-Za-z0-9_]*)\}|(?<!\$)\{file:(?P<file>[^{}]+)\}"
    r"|\$\{\{\s*(?:secrets|inputs|env)\.(?P<secret>[A-Za-z_][A-Za-z0-9_]*)\s*\}\}"
    r"|%(?P<windows>APPDATA|LOCALAPPDATA|USERPROFILE|HOMEPATH|HOMEDRIVE|USERNAME|TEMP|TMP|PATH|PROGRAMDATA"
    r"|PROGRAMFILES|SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|COMPUTERNAME|PUBLIC|ALLUSERSPROFILE)%",
    re.IGNORECASE,
)
_WHOLE = re.compile(
    r"(?P<before>(?:Bearer |Basic |token )?)(?:\$(?P<unix>[A-Za-z_]\w*)|%(?P<windows>[A-Za-z_]\w*)%)"
)
_ANYWHERE = re.compile(r"(?<!\$)\$([A-Za-z_][A-Za-z0-9_]*)")

FILE_INPUT = "file "
"""The start of the id of an input that is the content of a file."""


def with_our_variables(definition: Entry, *, dollars: bool) -> Entry:
    """Return a definition whose placeholders of other programs are variables of ours.

    ``dollars``: the program puts in ``$NAME`` wherever it is; elsewhere, only a value of "env" or "headers"
    that is nothing else means a variable. The content of a file becomes an input: it is not read here.
    """
    found = dict(definition)
    for key, value in definition.items():
        known = RENAMED.get(key, key)
        if known in _PLACES:
            found[key] = each_text(value, lambda text: _our_variables(text, dollars))
        if known in ("env", "headers"):
            found[key] = each_text(found[key], _whole_variable)
    return found


def _our_variables(text: str, dollars: bool) -> str:
    def ours(found: re.Match[str]) -> str:
        if found["file"]:
            return f"${{input:{FILE_INPUT}{found['file'].strip()}}}"
        if found["windows"]:
            return _windows_variable(found["windows"])
        return f"${{{found['env'] or found['secret']}}}"

    text = _FOREIGN.sub(ours, text)
    return _ANYWHERE.sub(r"${\1}", text) if dollars else text


def _whole_variable(text: str) -> str:
    found = _WHOLE.fullmatch(text)
    if found is None:
        return text
    variable = f"${{{found['unix']}}}" if found["unix"] else _windows_variable(found["windows"])
    return found["before"] + variable


def _windows_variable(name: str) -> str:
    return "${userHome}" if name.upper() == "USERPROFILE" else f"${{{name}}}"


def mode_of(entry: Mapping[str, Any]) -> str | None:
    """Return the mode that a definition of Tabane (as of :func:`definition`) names; None if it names none."""
    args = our_definition(entry.items()).values.get("args")
    words = [word for word in args if isinstance(word, str)] if isinstance(args, list) else []
    for at, word in enumerate(words):
        if word.startswith("--mode="):
            return word.partition("=")[2]
        if word == "--mode" and at + 1 < len(words):
            return words[at + 1]
    return None


def _from_opencode(entry: Mapping[str, Any]) -> Entry | None:
    if not entry.keys() & {"command", "url"}:
        return None
    found = _renamed(entry, {}, dropped=("type",))
    wait = found.get("timeout")
    if isinstance(wait, int | float) and wait < _LEAST_WAIT:
        del found["timeout"]  # of the list of tools, not of a call
    return found


def _renamed(entry: Mapping[str, Any], names: Mapping[str, str], dropped: Sequence[str] = ()) -> Entry:
    found: Entry = {}
    for key, value in entry.items():
        if key not in dropped:
            found.setdefault(names.get(key, key), value)
    return found
