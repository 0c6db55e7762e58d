"""Callers of operations: who calls, through which face, and what a caller may do.

An :class:`Access` answers which :class:`CallTarget` its identity may call at this moment.
"""

from __future__ import annotations

from enum import Enum
from typing import Literal, Protocol

from msgspec import Struct, field

from tabane.messages import Lang

TargetKind = Literal["tool", "prompt", "resource", "operation", "list", "method"]


class CallTarget(Struct, frozen=True):
    """The target of a call: always the real tool, also if another operation passes the call on.

    ``name`` is the public name: that of an upstream's tool or prompt (``server__tool``), the server and URI
    of a resource (``server__uri``), the server and a method that the hub does not know (``server__method``),
    or the name of an operation. ``server`` is the upstream, empty for the hub's own. ``source`` is what an
    operation belongs to (:data:`SOURCES`); an operation without one is administration. ``changes`` is False
    only if it is marked read-only. ``public`` operations are those of the archive that programs of this
    machine may use without an identity.

    ``others`` are further names of a tool whose own name was too long or too odd for ``name``. Patterns of
    permissions match any of them.
    """

    name: str
    server: str = ""
    source: str = ""
    kind: TargetKind = "tool"
    changes: bool = True
    public: bool = False
    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All names that a pattern of a permission may match."""
        return (self.name, *self.others)


METRICS = CallTarget("metrics", source="admin", kind="operation", changes=False)
"""The names of servers, tools and keys in the metrics. Without it, the metrics are totals."""

SOURCES = ("posts", "documents", "pages", "tools", "docs", "admin", "hub")
"""The groups of operations. ``admin`` is administration; ``hub`` is harmless, and for every identity."""


class Access(Protocol):
    """The permissions of one identity at this moment.

    It is a live object: one of a revoked or expired key refuses at once, in open sessions too.
    """

    __slots__ = ()

    @property
    def holder(self) -> str:
        """The name of the identity for limits, audit and usage: ``local``, ``loopback``, ``key:ID``."""
        ...

    @property
    def label(self) -> str:
        """The name that a person gave the identity."""
        ...

    @property
    def tier(self) -> str:
        """The name of the tier, which has the limits."""
        ...

    @property
    def everything(self) -> bool:
        """Whether everything is allowed, so that lists need no filter."""
        ...

    @property
    def revision(self) -> int:
        """A number that changes whenever the answers of this object may change."""
        ...

    def allows(self, target: CallTarget) -> bool:
        """Return whether it may be called, and so may be found. May raise Forbidden to say what helps."""
        ...

    def sees_server(self, server: str) -> bool:
        """Return whether anything of that upstream may be visible."""
        ...


class LocalAccess(Access):
    """The access of this machine's user: everything."""

    holder = label = tier = "local"
    everything = True
    revision = 0

    def allows(self, target: CallTarget) -> bool:
        return True

    def sees_server(self, server: str) -> bool:
        return True


LOCAL: Access = LocalAccess()
"""The access of a process of the same user on this machine."""


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
    ``capabilities`` is a JSON object of those capabilities of an MCP client that servers learn about.
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
