"""The eras of MCP, and what changes between them; pure.

Inside Tabane there is one era: a request is a method with opaque members and, apart from them, its
``_meta``; a reply is an opaque result. Both edges (a client's session, an upstream's conversation)
translate here.

- *modern*, 2026-07-28: no handshake; each request carries protocol version and client capabilities
  in ``_meta``; each result has ``resultType``.
- *legacy*, 2025-11-25 and before: ``initialize`` settles version and capabilities for the connection.

An extension is announced under its identifier, in the member ``extensions`` of the capabilities (SEP-2133).
The specification of each says which side announces it: clients announce Apps, servers announce Skills, and
both announce Tasks.

Source: the specification's pages on versioning and on the base protocol.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import Enum
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from tabane.wire.json import InvalidJson, Members, fields, join, member, text

MODERN = "2026-07-28"
LEGACY = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""Handshake versions, newest first."""

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
META_SERVER = "io.modelcontextprotocol/serverInfo"
META_SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
LONGEST_CLIENT = 100
"""Characters of the name of a client that are kept."""

ENVELOPE = (META_VERSION, META_CAPABILITIES, META_CLIENT, META_LOG_LEVEL)
"""Members of a modern request's ``_meta`` that a legacy peer settles otherwise."""

LOG_LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""Of log messages, the most talkative first (RFC 5424)."""

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
RESOURCE_NOT_FOUND = -32002
"""Of the legacy era; a modern client is answered with INVALID_PARAMS."""
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH = -32020
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022


class Era(Enum):
    """The eras of MCP: up to 2025-11-25 with a handshake, and from 2026-07-28 on without."""

    LEGACY = "legacy"
    MODERN = "modern"


class ProtocolRefusal(Exception):
    """The envelope is not acceptable: a JSON-RPC error to answer with."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


def negotiate(requested: str | None) -> str:
    """Return the handshake version to answer ``initialize`` with: the requested one if it is known."""
    return requested if requested in LEGACY else LEGACY[0]


def refuses_arguments(version: str | None) -> bool:
    """Return whether bad arguments of a tool are a protocol error (-32602) in that handshake version.

    From 2025-11-25 on they are a result with ``isError``, so that the model reads them (SEP-1303).
    """
    return version in LEGACY[1:]


def take_meta(params: Members) -> Members:
    """Remove ``_meta`` from ``params`` and return its members; {} if it is absent or not an object."""
    raw = params.pop("_meta", None)
    if raw is None:
        return {}
    try:
        return fields(raw)
    except InvalidJson:
        return {}


def has_envelope(meta: Members) -> bool:
    """Return whether a request opens a modern connection: only the version key decides."""
    return META_VERSION in meta


def check_envelope(meta: Members) -> None:
    """Raise :class:`ProtocolRefusal` if a modern request lacks a required member."""
    version = member(meta, META_VERSION)
    if not isinstance(version, str):
        raise ProtocolRefusal(INVALID_PARAMS, f"_meta lacks {META_VERSION}: a string such as {MODERN!r}")
    if version != MODERN:
        data = {"supported": [MODERN], "requested": version}
        raise ProtocolRefusal(UNSUPPORTED_VERSION, f"protocol version {version} is not supported", data)
    if not isinstance(member(meta, META_CAPABILITIES), dict):
        raise ProtocolRefusal(
            INVALID_PARAMS, f"_meta lacks {META_CAPABILITIES}: an object, empty where there are none"
        )


def client_name(info: Raw | None) -> str:
    """Return the name in what a client says of itself; empty if it gives none."""
    return _of_client(info, "name")


def client_version(info: Raw | None) -> str:
    """Return the version in what a client says of itself; empty if it gives none."""
    return _of_client(info, "version")


def _of_client(info: Raw | None, member: str) -> str:
    try:
        found = text(fields(info).get(member)) if info is not None else None
    except InvalidJson:
        return ""
    return (found or "")[:LONGEST_CLIENT]


def log_level(meta: Members) -> int | None:
    """Return the index in LOG_LEVELS from which a request wants log messages; None if it wants none."""
    level = text(meta.get(META_LOG_LEVEL))
    return LOG_LEVELS.index(level) if level in LOG_LEVELS else None


def without_envelope(meta: Members) -> Members:
    """Return the members of ``_meta`` for a legacy peer: all but the envelope's."""
    return {key: value for key, value in meta.items() if key not in ENVELOPE}


def enveloped(meta: Members, client: bytes | Raw, capabilities: bytes | Raw = b"{}") -> Members:
    """Return ``_meta`` for a modern peer: with the caller's own envelope, or one that the hub makes.

    ``capabilities`` are declared unless ``meta`` has some: those of a legacy client, which has no envelope.
    """
    if has_envelope(meta):
        return meta
    return {
        META_CAPABILITIES: Raw(bytes(capabilities)),
        **meta,
        META_VERSION: Raw(b'"2026-07-28"'),
        META_CLIENT: Raw(bytes(client)),
    }


def with_meta(params: Members, meta: Members) -> bytes:
    """Return the JSON of ``params`` with ``_meta`` put back unless it is empty."""
    if meta:
        return join({**params, "_meta": Raw(join(meta))})
    return join(params)


class _Typed(msgspec.Struct):
    resultType: Raw | UnsetType = UNSET


_typed = msgspec.json.Decoder(_Typed)


def result_type(result: bytes | Raw) -> str | None:
    """Return the ``resultType`` of a result; None if it has none."""
    return text(_type_member(result))


def completed(result: bytes | Raw) -> bytes:
    """Return a result for a modern client: an absent ``resultType`` becomes ``complete``."""
    kind = _type_member(result)
    if text(kind) is not None:
        return bytes(result)
    body = bytes(result).strip()
    if not body.startswith(b"{"):
        return body
    if kind is not None:
        # Not a string: replaced. If a name occurs twice, readers differ in which value they take.
        return join({**fields(body), "resultType": Raw(b'"complete"')})
    rest = body[1:].lstrip()
    return b'{"resultType":"complete"' + (rest if rest == b"}" else b"," + rest)


def cacheable(result: bytes) -> bytes:
    """Return a result that was read, for a modern client: with how long and by whom it may be cached.

    An older server says neither. Then only this client may keep the result, and it is stale at once.
    """
    try:
        members = fields(result)
    except InvalidJson:
        return result
    if text(members.get("resultType")) not in (None, "complete"):
        return result
    if "ttlMs" in members and "cacheScope" in members:
        return result
    return join({**members, "ttlMs": Raw(b"0"), "cacheScope": Raw(b'"private"')})


def _type_member(result: bytes | Raw) -> Raw | None:
    try:
        kind = _typed.decode(result).resultType
    except (msgspec.DecodeError, RecursionError):
        try:
            return fields(result).get("resultType")
        except InvalidJson:
            return None
    return None if kind is UNSET else kind


TASKS = "io.modelcontextprotocol/tasks"
UI = "io.modelcontextprotocol/ui"
SKILLS = "io.modelcontextprotocol/skills"


class Extension(Struct, frozen=True):
    """An extension that the hub knows. ``name`` is its name in the setting ``extensions``.

    ``carried`` is whether the hub implements what the extension asks of both its sides. ``to_clients`` and
    ``to_servers`` are the JSON objects with which the hub announces it; None if that side does not announce
    it. Servers that all clients share are told ``to_servers``, the others what their own client announced.
    """

    id: str
    name: str
    carried: bool
    to_clients: bytes | None = None
    to_servers: bytes | None = None


EXTENSIONS = (
    Extension(UI, "ui", True, b"{}", b'{"mimeTypes":["text/html;profile=mcp-app"]}'),
    Extension(TASKS, "tasks", True, b"{}", b"{}"),
    Extension(SKILLS, "skills", True, b'{"directoryRead":true}'),
)
"""The extensions in the order in which they are announced. Set ``carried`` once the hub implements one."""


def carried(allowed: Collection[str]) -> tuple[Extension, ...]:
    """Return the extensions that the hub carries and that the setting allows."""
    return tuple(each for each in EXTENSIONS if each.carried and each.name in allowed)
