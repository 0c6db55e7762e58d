"""The official HTTP server as a process that can be killed and started again at the same port."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from tests.harness.patience import until
from tests.harness.sdk_forks import sdk_command

ROOT = Path(__file__).parent.parent.parent.parent


class Official:
    """A running server. ``marks`` counts the calls that left one."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind, self.file = kind, folder / f"marks-{kind}"
        self.port = 0
        self.process: asyncio.subprocess.Process | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'sse' if self.kind == 'sse' else 'mcp'}"

    @property
    def marks(self) -> int:
        return len(self.file.read_text().splitlines()) if self.file.exists() else 0

    async def start(self) -> None:
        self.process = await asyncio.create_subprocess_exec(
            *sdk_command("tests.harness.servers.official_http", self.kind, str(self.port), str(self.file)),
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        self.port = int(await asyncio.wait_for(self.process.stdout.readline(), 60))

    async def kill(self) -> None:
        """End it as it is: what it was doing is cut off."""
        assert self.process is not None
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGKILL)
        await self.process.wait()
        await until(lambda: not self._listens, "the fork has ended, too")

    @property
    def _listens(self) -> bool:
        with socket.socket() as peer:
            return peer.connect_ex(("127.0.0.1", self.port)) == 0


@asynccontextmanager
async def official(kind: str, folder: Path) -> AsyncIterator[Official]:
    server = Official(kind, folder)
    await server.start()
    try:
        yield server
    finally:
        await server.kill()
