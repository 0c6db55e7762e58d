"""The operation that finds servers in the MCP registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.hub.servers.trial import FACES
from tabane.operations import Caller, Operation, Privilege
from tabane.settings import Settings


class FindServers(Struct, frozen=True, forbid_unknown_fields=True):
    """``query`` is a part of a name or of a description. ``cursor`` is ``next`` of the page before."""

    query: Annotated[str, Meta(max_length=200)] = ""
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    cursor: Annotated[str, Meta(max_length=1_000)] | None = None


class ServerFinding:
    """Asks the registry of the settings with the hub's environment: its proxies and authorities."""

    def __init__(self, settings: Callable[[], Settings], environment: Mapping[str, str]) -> None:
        self._settings, self._environment = settings, environment

    def table(self) -> list[Operation]:
        return [
            Operation(
                "find_servers",
                "Find servers in the MCP registry: what each runs and needs, and an entry to add.",
                FindServers, self.find, FACES, Privilege.READ, read_only=True, source="admin",
                annotations={"openWorldHint": True},
            ),
        ]  # fmt: skip

    async def find(self, caller: Caller, params: FindServers) -> dict[str, Any]:
        """Return servers, the best first. Raises ConfigurationError and RegistryUnavailable."""
        # on first use: most hubs never ask a registry
        from tabane.servers.registry.finding import open_registry

        settings = self._settings()
        async with open_registry(settings.registry_url, self._environment, settings.home) as registry:
            found = await registry.find(params.query, params.limit, params.cursor)
            return found.row(registry.host, caller.lang)
