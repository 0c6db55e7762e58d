"""Operations that change which servers there are: the servers file is edited, and in force at once.

Servers are found in the MCP registry. The first starts of new servers are a job: they are the hub's own,
started at the same time, so what they download stays, and they need not start again. The job ends with the
last of them. If it is canceled, or nobody follows it, they start all the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.catalog.gateway import Gateway
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import FileFollower
from tabane.hub.servers.trial import FACES, TryServer
from tabane.hub.work.jobs import Jobs
from tabane.operations import Operation, Privilege
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch

if TYPE_CHECKING:
    from tabane.hub.servers.server_changes import ServerChanges

MOST_SERVERS = 500
LONGEST_WAIT = 30


class StartNewServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``names`` are servers of the file. The answer comes when all have listed, or after ``wait`` seconds."""

    names: Annotated[list[str], Meta(min_length=1, max_length=MOST_SERVERS)]
    wait: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0.0


class FindServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``query`` is a part of a name or of a description. ``cursor`` is ``next`` of the page before."""

    query: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1_000)] | None = None


Name = Annotated[str, Meta(min_length=1, max_length=200)]


class ShowDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server of the file."""

    name: Name


class CheckDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """``replaces`` is the server whose hidden values the definition may contain; None for a new server."""

    name: Name
    definition: dict[str, Any]
    replaces: str | None = None


class AddServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``keep_secrets``: keys and passwords are kept as secrets, and the entry refers to them."""

    name: Name
    definition: dict[str, Any]
    keep_secrets: bool = False


class ChangeServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is that of the shown definition: if the file has another by now, nothing is changed.

    ``keep_secrets``: new keys and passwords are kept as secrets, and the entry refers to them.
    """

    name: Name
    definition: dict[str, Any]
    version: str | None = None
    keep_secrets: bool = False


class RemoveServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``name`` is a server of the file."""

    name: Name


class EnableServer(Struct, frozen=True, forbid_unknown_fields=True):
    """``enabled``: False disables the server."""

    name: Name
    enabled: bool


class ServerSetup:
    """The operations. What answers them is imported with the first."""

    def __init__(
        self,
        context: HubContext,
        batch: LineBatch,
        processes: ChildProcesses,
        gateway: Gateway,
        follower: FileFollower,
        jobs: Jobs,
    ) -> None:
        self._context, self._batch, self._processes = context, batch, processes
        self._gateway, self._follower, self._jobs = gateway, follower, jobs

    @cached_property
    def _changes(self) -> ServerChanges:
        from tabane.hub.servers.server_changes import ServerChanges

        return ServerChanges(
            self._context, self._batch, self._processes, self._gateway, self._follower, self._jobs
        )

    def table(self) -> list[Operation]:
        """Return the operations."""
        admin = Privilege.ADMIN
        return [
            Operation(
                "try_server", "Start a server that is not configured, list its tools and end it.",
                TryServer, lambda c, p: self._changes.try_out(c, p), FACES, admin,
            ),
            Operation(
                "show_definition", "The entry of a server in the servers file, without secrets.",
                ShowDefinition, lambda c, p: self._changes.show(c, p), FACES, Privilege.READ,
                read_only=True, source="admin",
            ),
            Operation(
                "check_definition", "Check an entry for the servers file, without changing anything.",
                CheckDefinition, lambda c, p: self._changes.check(c, p), FACES, Privilege.READ,
                read_only=True, source="admin",
            ),
            Operation(
                "add_server", "Add a server to the servers file.",
                AddServer, lambda c, p: self._changes.add(c, p), FACES, admin,
            ),
            Operation(
                "change_server",
                "Replace the entry of a server in the servers file. Values shown as *** stay.",
                ChangeServer, lambda c, p: self._changes.change(c, p), FACES, admin,
            ),
            Operation(
                "remove_server", "Remove a server from the servers file.",
                RemoveServer, lambda c, p: self._changes.remove(c, p), FACES, admin,
            ),
            Operation(
                "enable_server", "Enable or disable a server in the servers file.",
                EnableServer, lambda c, p: self._changes.enable(c, p), FACES, admin,
            ),
            Operation(
                "find_servers",
                "Find servers in the MCP registry: what each runs and needs, and an entry to add.",
                FindServers, lambda c, p: self._changes.find(c, p), FACES, Privilege.READ,
                read_only=True, source="admin",
                annotations={"openWorldHint": True},
            ),
            Operation(
                "start_new_servers",
                "Start servers that were just added, and scan what they list: a job of the hub.",
                StartNewServers, lambda c, p: self._changes.start_new(c, p), FACES, admin,
            ),
        ]  # fmt: skip
