"""Marks of hubs in the handles that clients repeat: parked calls, tasks and parts of long results; pure."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from msgspec import Raw

from tabane.wire.json import InvalidJson, Members, elements, fields, text

_STATE = re.compile(r"tbq\.([0-9a-f]{8})\.").match
_TASK = re.compile(r"task-([0-9a-f]{8})\.").match
_PART = re.compile(r"\s*([0-9a-f]{8})-").match
_SIGNS = (b"tbq.", b"task-", b"read_more")
MOST_NAMED = 1 << 16
"""Bytes of a list of tasks that is looked at."""


class NamedHub(NamedTuple):
    """The mark of a hub, and what named it."""

    mark: str
    kind: Literal["call", "task", "part"]


def may_name_a_hub(body: bytes) -> bool:
    """Return whether a message may have a handle. Most have none, and need not be looked at."""
    return any(sign in body for sign in _SIGNS)


def named_hub(method: str, params: Members) -> NamedHub | None:
    """Return the hub whose handle a request has; None if there is none."""
    found = _STATE(text(params.get("requestState")) or "")
    if found:
        return NamedHub(found[1], "call")
    if method.startswith("tasks/"):
        found = _TASK(text(params.get("taskId")) or "")
    elif method == "subscriptions/listen":
        found = _TASK(_first_task(params))
    elif method == "tools/call" and text(params.get("name")) == "read_more":
        found = _PART(text(_members(params.get("arguments")).get("handle")) or "")
        return NamedHub(found[1], "part") if found else None
    return NamedHub(found[1], "task") if found else None


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
