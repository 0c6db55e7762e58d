"""The forms of a server in clients: Tabane's entry in each one's words, and their entries in ours; pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tabane.servers.assistants.client import Shape
from tabane.servers.foreign_keys import RENAMED, our_definition
from tabane.servers.variables import each_text

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
        return _from_goose(entry)
    if shape == "zed":
        return _from_zed(entry)
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


def _from_goose(entry: Mapping[str, Any]) -> Entry | None:
    kind = entry.get("type")
    if kind not in ("stdio", "sse", "streamable_http"):
        return None
    dropped = ("name", "description", "display_name", "bundled", "type")
    # No tool is named if all may be used.
    return _renamed(entry, {}, dropped if entry.get("available_tools") else (*dropped, "available_tools"))


def _from_zed(entry: Mapping[str, Any]) -> Entry | None:
    command = entry.get("command")
    if isinstance(command, dict):  # versions of 2025
        inner = _renamed(command, {"path": "command"})
        return {**inner, **{key: part for key, part in entry.items() if key not in ("command", "source")}}
    if not entry.keys() & {"command", "url"}:
        return None  # the settings of an extension, which has its command itself
    return _renamed(entry, {}, dropped=("source",))


def _renamed(entry: Mapping[str, Any], names: Mapping[str, str], dropped: Sequence[str] = ()) -> Entry:
    found: Entry = {}
    for key, value in entry.items():
        if key not in dropped:
            found.setdefault(names.get(key, key), value)
    return found
