"""A home for the hub that is measured: a folder of its own, a servers file, the commands."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.gateway.client import Client, Failed
from benchmarks.gateway.processes import UPSTREAM, family
from benchmarks.gateway.wares import KINDS


def upstream(*arguments: str) -> list[str]:
    """The command of a synthetic server."""
    return [sys.executable, "-S", UPSTREAM, *arguments]


def all_kinds() -> dict[str, list[str]]:
    """The four servers of most measurements, by name."""
    return {kind: upstream(kind) for kind in KINDS}


class Home:
    """One TABANE_HOME over some servers, by name and command; nothing of the user's is read."""

    def __init__(self, folder: Path, servers: Mapping[str, Sequence[str]]) -> None:
        folder.mkdir(mode=0o700)
        file = folder / "mcp-servers.json"
        configured = {name: {"command": command[0], "args": command[1:]} for name, command in servers.items()}
        file.write_text(json.dumps({"mcpServers": configured}))
        file.chmod(0o600)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TABANE_HOME": str(folder / "home"),
            "TABANE_HTTP": "false",
            "TABANE_SERVERS": str(file),
        }

    async def client(self, *flags: str) -> Client:
        """An assistant's connection, `tabane mcp` with these flags."""
        return await Client.start([*_tabane(), "mcp", *flags], self.environment)

    async def start(self) -> int:
        """Start the daemon; its process."""
        await self._run("start")
        status: dict[str, Any] = json.loads(await self._run("status", "--json"))
        return int(status["pid"])

    async def stop(self) -> None:
        await self._run("stop")

    async def _run(self, *arguments: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            *_tabane(), *arguments, env=self.environment,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        out, words = await process.communicate()
        if process.returncode:
            raise Failed(f"tabane {' '.join(arguments)}: {words.decode()}")
        return out


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
