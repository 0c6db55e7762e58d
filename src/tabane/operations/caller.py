"""Callers of operations: who calls, through which face, and what a caller is allowed."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct, field

from tabane.messages import Lang
from tabane.operations.access import LOCAL, Access


class Face(Enum):
    """The interface that a call comes through."""

    RPC = "rpc"
    MCP = "mcp"
    CLI = "cli"
    WEB = "web"


class Privilege(Enum):
    """The privilege that a caller needs."""

    READ = "read"
    WRITE = "write"
    CALL = "call"
    ADMIN = "admin"


class Caller(Struct, frozen=True):
    """The caller of operations. The face that accepts a connection makes one per connection.

    ``identity`` is ``local`` for a process of the same user on this machine. ``session`` names the
    connection. ``roots`` are the client's folders as file URIs, ``cwd`` is its working directory.
    ``capabilities`` is a JSON object of the capabilities of an MCP client that servers are told of.
    ``server`` is the server that the connection is for, if it is for one alone.
    ``looks``: the call was allowed only to read, so it may not change anything.
    ``connected``: the caller has a connection, and its jobs end with it. ``pid`` is its process, 0 if
    unknown. ``access`` is what the caller may do. ``request`` is the id of the request, ``script`` that of
    the script that makes it, and ``traceparent`` and ``tracestate`` name the trace that it belongs to
    (W3C), as the client sent them. ``approval`` says which approval its call used. Empty: unknown, or none.
    """

    identity: str
    face: Face
    session: str
    lang: Lang = "en"
    client: str = ""
    cwd: str | None = None
    roots: tuple[str, ...] = field(default=())
    capabilities: bytes = b"{}"
    looks: bool = False
    connected: bool = False
    server: str = ""
    pid: int = 0
    access: Access = LOCAL
    request: str = ""
    script: str = ""
    traceparent: str = ""
    tracestate: str = ""
    approval: str = ""
