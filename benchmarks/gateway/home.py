"""The hub that is measured, the synthetic servers behind it, and the processes of a client."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.gateway.client import Client
from benchmarks.gateway.processes import UPSTREAM, family
from benchmarks.gateway.wares import KINDS
from benchmarks.hub import HubProcess


def upstream(*arguments: str) -> list[str]:
    """The command of a synthetic server."""
    return [sys.executable, "-S", UPSTREAM, *arguments]


def all_kinds() -> dict[str, list[str]]:
    """The four servers of most measurements, by name."""
    return {kind: upstream(kind) for kind in KINDS}


class GatewayHub(HubProcess):
    """A hub over some servers, by name and command, that assistants reach over stdio."""

    def __init__(self, folder: Path, servers: Mapping[str, Sequence[str]]) -> None:
        super().__init__(folder, TABANE_HTTP="false")
        self.configure({name: {"command": line[0], "args": line[1:]} for name, line in servers.items()})

    async def client(self, *flags: str) -> Client:
        """Connect an assistant: `tabane mcp` with these flags."""
        return await Client.start([*_tabane(), "mcp", *flags], self.environment)


class Running:
    """A client and the process that is the hub to it; ``hub`` is None where there is none."""

    def __init__(self, client: Client, part: str, hub: int | None = None) -> None:
        self.client, self._part, self._hub = client, part, hub

    @property
    def processes(self) -> dict[int, str]:
        """All processes by the part they play."""
        found = family(self.client.pid, self._part)
        return found | family(self._hub, "hub") if self._hub else found


def _tabane() -> list[str]:
    script = Path(sys.executable).parent / "tabane"
    return [str(script)] if script.exists() else [sys.executable, "-m", "tabane"]
