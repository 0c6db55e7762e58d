"""Access: what an identity may do, and what a call wants to do."""

from __future__ import annotations

from typing import Literal, Protocol

from msgspec import Struct

TargetKind = Literal["tool", "prompt", "resource", "operation", "list", "method"]


class CallTarget(Struct, frozen=True):
    """The tool called: always the real one, however it is called.

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
        """Return all names that a pattern may give it."""
        return (self.name, *self.others)


METRICS = CallTarget("metrics", source="admin", kind="operation", changes=False)
"""The names of servers, tools and keys in the metrics. Without it, the metrics are totals."""

SOURCES = ("posts", "documents", "pages", "tools", "docs", "admin", "hub")
"""The groups of operations. ``admin`` is administration; ``hub`` is harmless, and for every identity."""


class Access(Protocol):
    """The permissions of one identity at this moment.

    It is a live object: one of a revoked or expired key refuses at once, in open sessions too.
    """

    @property
    def holder(self) -> str:
        """Return who it is, for limits, audit and usage: ``local``, ``loopback``, ``key:ID``."""
        ...

    @property
    def label(self) -> str:
        """Return the name that a person gave."""
        ...

    @property
    def tier(self) -> str:
        """Return the name of the tier, which has the limits."""
        ...

    @property
    def everything(self) -> bool:
        """Return whether everything is allowed, so that lists need no filter."""
        ...

    @property
    def revision(self) -> int:
        """Return a number that changes whenever the answers of this object may change."""
        ...

    def allows(self, target: CallTarget) -> bool:
        """Return whether it may be called, and so may be found. May raise Forbidden to say what helps."""
        ...

    def sees_server(self, server: str) -> bool:
        """Return whether anything of that upstream may be visible."""
        ...


class LocalAccess:
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
