"""A hub that is asked over the WebSocket, and how long it takes to start with what it keeps."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import websockets
from benchmarks.hub import HubProcess, free_port

_LONGEST_START = 120.0  # seconds


class ArchiveHub(HubProcess):
    """The hub of one folder. ``model`` is the URL of the server that has its model, ``name`` its name."""

    def __init__(self, folder: Path, name: str, model: str) -> None:
        port = str(free_port())
        super().__init__(folder, TABANE_PORT=port, TABANE_MODEL=name, TABANE_MODEL_URL=model)
        self.socket = f"ws://127.0.0.1:{port}/"

    @property
    def is_filled(self) -> bool:
        """Whether there is an archive."""
        return any(self.home.rglob("posts.db"))

    def start_until_ready(self) -> float:
        """Start the hub and return the seconds from the command until everything can be asked for."""
        command = [sys.executable, "-m", "tabane", "start"]
        began = time.perf_counter()
        starting = subprocess.Popen(command, env=self.environment, stdout=subprocess.DEVNULL)
        try:
            ready = asyncio.run(asyncio.wait_for(self._ready(), _LONGEST_START)) - began
        finally:
            starting.wait()
        self.note_status()
        return ready

    async def _ready(self) -> float:
        while True:
            try:
                async with websockets.connect(self.socket, proxy=None) as client:
                    while True:
                        await client.send('{"jsonrpc":"2.0","id":1,"method":"check_init"}')
                        answer = json.loads(await client.recv())
                        if answer["result"]["status"] == "init_completed":
                            return time.perf_counter()
                        await asyncio.sleep(0.005)
            except OSError:
                await asyncio.sleep(0.005)
