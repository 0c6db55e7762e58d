"""Tasks of MCP as servers report them and as clients of either era are told of them; pure.

- *modern*: the extension ``io.modelcontextprotocol/tasks`` (SEP-2663, its specification 2026-07-28). The
  server decides whether a call becomes a task; ``tasks/get`` has the result in it; ``tasks/update`` answers.
- *legacy*: core tasks, experimental in 2025-11-25. The client asks for a task with ``task`` in the
  parameters; ``tasks/result`` has the result; questions of the server come as requests.

What a server says is read with limits. Durations that make no sense count as absent.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal, get_args

from msgspec import Raw, Struct, field

from tabane.text.cutting import shortened
from tabane.wire import json
from tabane.wire.era import (
    META_CAPABILITIES,
    META_CLIENT,
    META_VERSION,
    MISSING_CAPABILITY,
    MODERN,
    TASKS,
    Era,
    ProtocolRefusal,
    has_envelope,
)
from tabane.wire.json import InvalidJson, Members

Status = Literal["working", "input_required", "completed", "failed", "cancelled"]
STATUSES: tuple[Status, ...] = get_args(Status)
OVER = frozenset({"completed", "failed", "cancelled"})

RELATED = "io.modelcontextprotocol/related-task"
"""The member of ``_meta`` that names the task of a legacy message."""

REQUIRED: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}

LEGACY_CAPABILITY: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
"""The capability ``tasks`` of a server of 2025-11-25."""

LONGEST_ID = 4096
"""Characters of a server's own task id."""

LONGEST_MESSAGE = 1000
"""Characters of a status message that are passed on."""

LONGEST_BRIEF = 4 << 10
"""Bytes of a result above which nobody looks whether it is a task, if no task was asked for."""

LONGEST_CREATION = 4 << 20
"""The same if it may be a task. Status messages have no limit of their own."""

MOST_INPUTS = 64
"""Questions of one task at the same time."""

LONGEST_DURATION = 10 * 366 * 86_400_000
"""Milliseconds. A longer time to live counts as unlimited."""


class ReportedTask(Struct, frozen=True):
    """The state of a task as its server reports it.

    ``ttl`` and ``poll`` are milliseconds, None if unlimited or not given. ``inputs`` are questions by key.
    ``result`` and ``error`` are verbatim. A legacy server gives neither in its reports.
    """

    id: str
    status: Status
    message: str = ""
    ttl: int | None = None
    poll: int | None = None
    inputs: Members = field(default_factory=dict)
    result: Raw | None = None
    error: Raw | None = None


class TaskFacts(Struct, frozen=True):
    """Status of a task, as clients get it. Times are Unix seconds, durations milliseconds.

    ``says_failed``: the result has ``isError``, which is a failed task in the legacy era alone.
    """

    id: str
    status: Status
    message: str
    created: float
    updated: float
    ttl: int | None
    poll: int
    says_failed: bool = False


# -- what servers say -------------------------------------------------------------------------------


def may_be_task(result: bytes | Raw, most: int = LONGEST_BRIEF) -> bool:
    """Return whether a result of at most ``most`` bytes may be a created task: quickly, for each call."""
    return len(result) <= most and b'"taskId"' in bytes(result)


def created_task(result: bytes | Raw) -> ReportedTask | None:
    """Return the task in the answer to a call, in either form; None if the answer is no task."""
    try:
        members = json.fields(result)
    except InvalidJson:
        return None
    if json.text(members.get("resultType")) == "task":
        return _status_report(members, "ttlMs", "pollIntervalMs")
    nested = members.get("task")
    if nested is None or "content" in members or "resultType" in members:
        return None
    try:
        return _status_report(json.fields(nested), "ttl", "pollInterval")
    except InvalidJson:
        return None


def reported_task(result: bytes | Raw, era: Era) -> ReportedTask | None:
    """Return the task in the answer to tasks/get or in a notification; None if it is malformed."""
    try:
        members = json.fields(result)
    except InvalidJson:
        return None
    if era is Era.MODERN:
        return _status_report(members, "ttlMs", "pollIntervalMs")
    return _status_report(members, "ttl", "pollInterval")


def _status_report(members: Members, ttl: str, poll: str) -> ReportedTask | None:
    name = json.text(members.get("taskId"))
    status = json.text(members.get("status"))
    if not name or len(name) > LONGEST_ID or status not in STATUSES:
        return None
    message = json.member(members, "statusMessage")
    return ReportedTask(
        name,
        status,
        shortened(message, LONGEST_MESSAGE) if isinstance(message, str) else "",
        _duration(json.member(members, ttl)),
        _duration(json.member(members, poll)),
        _inputs(members.get("inputRequests")) if status == "input_required" else {},
        members.get("result") if status == "completed" else None,
        members.get("error") if status == "failed" else None,
    )


def _duration(value: Any) -> int | None:
    """Return milliseconds; None for what is no duration. Whole numbers may be written as 1000.0."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 < value <= LONGEST_DURATION else None


def _inputs(raw: Raw | None) -> Members:
    try:
        found = json.fields(raw) if raw is not None else {}
    except InvalidJson:
        return {}
    return dict(list(found.items())[:MOST_INPUTS])


def needs_tasks(error: bytes | Raw) -> bool:
    """Return whether a server refused a call because the client did not announce tasks."""
    try:
        members = json.fields(error)
        if json.member(members, "code") != MISSING_CAPABILITY:
            return False
        needed = json.fields(json.fields(members["data"])["requiredCapabilities"])
        return set(needed) == {"extensions"} and set(json.fields(needed["extensions"])) == {TASKS}
    except (InvalidJson, KeyError):
        return False


# -- what clients say -------------------------------------------------------------------------------

_ANNOUNCED = TASKS.encode()


def announces_tasks(meta: Members) -> bool:
    """Return whether a modern request announces that its client can have tasks."""
    declared = meta.get(META_CAPABILITIES)
    if declared is None or _ANNOUNCED not in bytes(declared):
        return False
    try:
        extensions = json.fields(json.fields(declared).get("extensions", Raw(b"{}")))
    except InvalidJson:
        return False
    return TASKS in extensions


def announcing_tasks(meta: Members, client: bytes, capabilities: bytes = b"{}") -> Members:
    """Return ``_meta`` of a request that announces tasks, whether its client does or not.

    ``client`` and ``capabilities`` are named if the client has no envelope of its own.
    """
    if not has_envelope(meta):
        named = {META_VERSION: Raw(json.quote(MODERN)), META_CLIENT: Raw(client)}
        meta = {**meta, **named, META_CAPABILITIES: Raw(capabilities)}
    try:
        declared = json.fields(meta.get(META_CAPABILITIES, Raw(b"{}")))
        extensions = json.fields(declared.get("extensions", Raw(b"{}")))
    except InvalidJson:
        declared, extensions = {}, {}
    extensions = {TASKS: Raw(b"{}"), **extensions}
    return {**meta, META_CAPABILITIES: Raw(json.join({**declared, "extensions": Raw(json.join(extensions))}))}


def check_announced(meta: Members) -> None:
    """Raise ProtocolRefusal if a modern request does not announce tasks, which it needs to."""
    if not announces_tasks(meta):
        raise ProtocolRefusal(
            MISSING_CAPABILITY, f"the client has to announce the extension {TASKS}", REQUIRED
        )


def asked_ttl(params: Members) -> int | None:
    """Return the time to live in the member ``task`` of a legacy call; None if it asks for none."""
    try:
        return _duration(json.member(json.fields(params["task"]), "ttl"))
    except (InvalidJson, KeyError):
        return None


# -- what clients are told --------------------------------------------------------------------------


def modern_members(facts: TaskFacts) -> Members:
    """Return the members of a task for a modern client."""
    return _members(facts, facts.status, "ttlMs", "pollIntervalMs")


def legacy_members(facts: TaskFacts) -> Members:
    """Return the members of a task for a legacy client, for which a tool that failed is a failed task."""
    failed = facts.status == "completed" and facts.says_failed
    return _members(facts, "failed" if failed else facts.status, "ttl", "pollInterval")


def _members(facts: TaskFacts, status: Status, ttl: str, poll: str) -> Members:
    values: dict[str, Any] = {
        "taskId": facts.id,
        "status": status,
        "statusMessage": facts.message,
        "createdAt": _iso_time(facts.created),
        "lastUpdatedAt": _iso_time(facts.updated),
        ttl: facts.ttl,
        poll: facts.poll,
    }
    if not facts.message:
        del values["statusMessage"]
    return {name: Raw(json.encode(value)) for name, value in values.items()}


def creation(facts: TaskFacts, era: Era | None) -> bytes:
    """Return the result of a call that became a task."""
    if era is Era.MODERN:
        return json.join({"resultType": Raw(b'"task"'), **modern_members(facts)})
    return json.join({"task": Raw(json.join(legacy_members(facts)))})


def related(result: bytes | Raw, task: str) -> bytes:
    """Return a result for a legacy client that says which task it belongs to."""
    members = json.fields(result)
    try:
        meta = json.fields(members.get("_meta", Raw(b"{}")))
    except InvalidJson:
        meta = {}
    meta = {**meta, RELATED: Raw(json.encode({"taskId": task}))}
    return json.join({**members, "_meta": Raw(json.join(meta))})


def unrelated(result: bytes | Raw) -> bytes:
    """Return a result of a legacy server without the name of its task, which is the server's own."""
    if RELATED.encode() not in bytes(result):
        return bytes(result)
    members = json.fields(result)
    try:
        meta = json.fields(members.get("_meta", Raw(b"{}")))
    except InvalidJson:
        return bytes(result)
    meta.pop(RELATED, None)
    rest = {name: value for name, value in members.items() if name != "_meta"}
    return json.join({**rest, "_meta": Raw(json.join(meta))} if meta else rest)


def _iso_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
