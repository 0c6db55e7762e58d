"""Operations that change which servers there are: the servers file is edited, and in force at once.

Servers are found in the MCP registry. The first starts of new servers are a job: they are the hub's own,
started at the same time, so what they download stays, and they need not start again. The job ends with the
last of them. If it is canceled, or nobody follows it, they start all the same.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from tabane.catalog.gateway import Gateway
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import FileFollower
from tabane.hub.servers.parameters import (
    AddServer,
    ChangeServer,
    CheckDefinition,
    EnableServer,
    FindServers,
    RemoveServer,
    ShowDefinition,
    StartNewServers,
    TryServer,
)
from tabane.hub.work.jobs import Jobs
from tabane.operations import Face, Operation, Privilege
from tabane.upstreams.processes.processes import ChildProcesses
from tabane.wire.channel import LineBatch

if TYPE_CHECKING:
    from tabane.hub.servers.server_changes import ServerChanges

FACES = frozenset({Face.RPC, Face.CLI})


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
