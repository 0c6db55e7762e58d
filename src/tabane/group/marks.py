"""Marks of hubs in what clients repeat: handles of calls, tasks and parts, and states of servers; pure.

A server that runs at a hub may understand only its own ``requestState``. So the hub that passes one to a
client puts its mark before it: ``tbh.MARK.STATE``. It takes the mark away when the client repeats the state.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Literal, NamedTuple

from msgspec import UNSET, Raw

from tabane.wire import json
from tabane.wire.json import InvalidJson, Members, elements, fields, text

_STATE = re.compile(r"(tbq|tbh)\.([0-9a-f]{8})\.").match
_TASK = re.compile(r"task-([0-9a-f]{8})\.").match
_PART = re.compile(r"\s*([0-9a-f]{8})-").match
_OPENED = re.compile(rb"\b([0-9a-f]{8})-[0-9a-f]{18}\b").search
_SIGNS = (b"tbq.", b"tbh.", b"task-", b"read_more", b"open_result")
_KINDS: dict[str, Literal["call", "state"]] = {"tbq": "call", "tbh": "state"}
LARGEST = 1 << 20
"""Bytes of an answer with questions."""

MOST_NAMED = 1 << 16
"""Bytes of a list of tasks, or of a script, that are looked at."""


class NamedHub(NamedTuple):
    """The mark of a hub, and what named it."""

    mark: str
    kind: Literal["call", "state", "task", "part"]


def may_name_a_hub(body: bytes) -> bool:
    """Return whether a message may have a handle. Most have none, and need not be looked at."""
    return any(sign in body for sign in _SIGNS)


def named_hub(method: str, params: Members) -> NamedHub | None:
    """Return the hub whose handle a request has; None if there is none."""
    found = _STATE(text(params.get("requestState")) or "")
    if found:
        return NamedHub(found[2], _KINDS[found[1]])
    if method.startswith("tasks/"):
        found = _TASK(text(params.get("taskId")) or "")
    elif method == "subscriptions/listen":
        found = _TASK(_first_task(params))
    elif method == "tools/call" and text(params.get("name")) == "read_more":
        found = _PART(text(_members(params.get("arguments")).get("handle")) or "")
        return NamedHub(found[1], "part") if found else None
    elif method == "tools/call" and text(params.get("name")) == "run_script":
        mark = _hub_opened_by_script(params)
        return NamedHub(mark, "part") if mark else None
    return NamedHub(found[1], "task") if found else None


def _hub_opened_by_script(params: Members) -> str:
    """Return the hub of the first result that a script opens; empty if it opens none."""
    script = bytes(params.get("arguments", b""))[:MOST_NAMED]
    found = _OPENED(script) if b"open_result" in script else None
    return found[1].decode() if found else ""


def _first_task(params: Members) -> str:
    listed = _members(params.get("notifications")).get("taskIds")
    if listed is None or len(listed) > MOST_NAMED:
        return ""
    try:
        names = elements(bytes(listed))
    except InvalidJson:
        return ""
    return text(names[0]) or "" if names else ""


def _members(given: Raw | None) -> Members:
    try:
        return fields(given) if given is not None else {}
    except InvalidJson:
        return {}


def with_mark(line: bytes, mark: str) -> bytes:
    """Return an answer whose ``requestState`` names the hub, if it has one of a server."""
    if b'"input_required"' not in line or len(line) > LARGEST:
        return line
    frame = json.decode_frame(line)
    if frame.result is UNSET or frame.id is UNSET:
        return line
    result = _members(frame.result)
    state = text(result.get("requestState"))
    if state is None or state.startswith(f"tbq.{mark}."):
        return line
    result["requestState"] = Raw(json.quote(f"tbh.{mark}.{state}"))
    return json.result_line(frame.id, json.join(result))


def without_mark(line: bytes, known: Container[str]) -> bytes:
    """Return a request whose ``requestState`` is as its server made it. ``known`` are marks of the group."""
    if b"tbh." not in line:
        return line
    message = _members(Raw(line))
    params = _members(message.get("params"))
    state = text(params.get("requestState")) or ""
    found = _STATE(state)
    if found is None or found[1] != "tbh" or found[2] not in known:
        return line
    params["requestState"] = Raw(json.quote(state[found.end() :]))
    return json.join({**message, "params": Raw(json.join(params))})
