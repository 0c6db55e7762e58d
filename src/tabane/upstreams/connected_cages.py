"""The cages of servers, as the connector uses them: loaded with the first server that has one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.sandbox_keys import SandboxProfile
from tabane.servers.server import Server

if TYPE_CHECKING:
    from tabane.guard.cages.cages import CagedStart, Cages
    from tabane.guard.cages.limits import GroupFiles


class ConnectedCages:
    """Cages, and traces for learning them. ``cages`` returns the builder; None if there is none.

    ``environment`` is the hub's.
    """

    def __init__(self, cages: Callable[[], Cages] | None, environment: Mapping[str, str]) -> None:
        self._cages, self._environment = cages, environment
        self._traces: dict[str, tuple[str, Path]] = {}

    def _builder(self) -> Cages:
        if self._cages is None:
            raise UpstreamUnavailable(say("A server with a sandbox can only be started by a hub."))
        return self._cages()

    def dressed(self, server: Server) -> Server:
        """Return a server as it is downloaded and started: changed if it has a cage or a container."""
        if server.sandbox is None and not server.image and server.name not in self._traces:
            return server
        return self._builder().dressed(server)

    def build(self, server: Server, profile: SandboxProfile, env: Mapping[str, str]) -> CagedStart:
        """Return how to start a dressed server in its cage. Blocks. Raises UpstreamUnavailable."""
        return self._builder().build(server, profile, env)

    def build_download(self, server: Server, command: Sequence[str], env: Mapping[str, str]) -> CagedStart:
        """Return how to run a command that downloads what a dressed server runs. Blocks."""
        return self._builder().build_download(server, command, env)

    def remove(self, groups: Sequence[GroupFiles]) -> None:
        """Remove the control groups of a server that has ended. Blocks."""
        self._builder().remove(groups)

    def container_problem(self) -> Message | None:
        """Return why containers cannot be run here; None if they can."""
        return self._builder().container_problem()

    def describe(self, server: Server) -> dict[str, Any] | None:
        """Return the cage of a server for programs; None if it has none. Blocks."""
        if server.sandbox is None and not server.image:
            return None
        return self._builder().describe(server)

    def pin(self, servers: Sequence[Server]) -> None:
        """Record where the paths of sandboxes lead that a person has written. Blocks."""
        for server in servers:
            if server.sandbox is not None:
                self._builder().pin(server)

    def private_folder(self, name: str) -> Path:
        """Return the folder of caches and temporary files of a caged server."""
        return self._builder().private_folder(name)

    def trace(self, server: Server) -> Path:
        """Let the next starts of a server be traced, without its cage. Return the file of it. Blocks."""
        from tabane.guard.cages.learning import find_tracer  # needed only to learn

        program = find_tracer(self._environment)
        file = self._builder().new_trace(server.name)
        self._traces[server.name] = program, file
        return file

    def untrace(self, name: str) -> None:
        """Let the next starts of a server be usual ones."""
        self._traces.pop(name, None)

    def traced(self, name: str, argv: Sequence[str]) -> list[str] | None:
        """Return the command that traces a server; None if it is not being traced."""
        if name not in self._traces:
            return None
        from tabane.guard.cages.learning import traced

        program, file = self._traces[name]
        return traced(program, str(file), argv)
