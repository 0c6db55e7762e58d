"""The forms of a server in clients: Tabane's entry in each one's words, and their entries in ours; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tabane.gateway.assistants.client import Shape

Entry = dict[str, Any]

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
    """Return a client's entry with the keys that the servers file has; None if it is no server.

    Keys that only the client knows stay, so that an import can name what it leaves out.
    """
    if not isinstance(entry, dict):
        return None
    if shape == "opencode":
        return _from_opencode(entry)
    if shape == "goose":
        return _from_goose(entry)
    if shape == "zed":
        return _from_zed(entry)
    return _renamed(entry, {"http_headers": "headers"})


def mode_of(entry: Mapping[str, Any]) -> str | None:
    """Return the mode that a definition of Tabane (as of :func:`definition`) names; None if it names none."""
    args = entry.get("args")
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
    found = _renamed(entry, {"environment": "env"}, dropped=("type",))
    words = found.get("command")
    if isinstance(words, list):
        found["command"], found["args"] = (words[0], words[1:]) if words else (None, [])
    return found


def _from_goose(entry: Mapping[str, Any]) -> Entry | None:
    kind = entry.get("type")
    if kind not in ("stdio", "sse", "streamable_http"):
        return None
    keys = {"cmd": "command", "envs": "env", "uri": "url"}
    return _renamed(entry, keys, dropped=("name", "description", "display_name", "bundled", "type"))


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
