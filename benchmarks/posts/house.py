"""A hub of its own: a process with its own folder and port, started, filled and stopped as anybody would."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import websockets

_LONGEST_START = 120.0  # seconds


class House:
    """The hub of one folder. ``model`` is the URL of the server that has its model."""

    def __init__(self, folder: Path, name: str, model: str) -> None:
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder),
            "TABANE_HOME": str(folder / "home"),
            "TABANE_PORT": str(_free_port()),
            "TABANE_MODEL": name,
            "TABANE_MODEL_URL": model,
        }
        self.pid = 0

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self._environment['TABANE_PORT']}/"

    @property
    def token(self) -> str:
        """What a client says to be allowed everything."""
        return (Path(self._environment["TABANE_HOME"]) / "token").read_text(encoding="utf-8").strip()

    @property
    def is_filled(self) -> bool:
        """Whether there is an archive."""
        return any(Path(self._environment["TABANE_HOME"]).rglob("posts.db"))

    def tabane(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "tabane", *arguments]
        done = subprocess.run(command, env=self._environment, stdout=subprocess.PIPE, text=True, check=True)
        return done.stdout

    def start(self) -> float:
        """Seconds from the command to the moment when everything can be asked for."""
        command = [sys.executable, "-m", "tabane", "start"]
        began = time.perf_counter()
        starting = subprocess.Popen(command, env=self._environment, stdout=subprocess.DEVNULL)
        try:
            ready = asyncio.run(asyncio.wait_for(self._ready(), _LONGEST_START)) - began
        finally:
            starting.wait()
        self.pid = json.loads(self.tabane("status", "--json"))["pid"]
        return ready

    async def _ready(self) -> float:
        while True:
            try:
                async with websockets.connect(self.url, proxy=None) as client:
                    while True:
                        await client.send('{"jsonrpc":"2.0","id":1,"method":"check_init"}')
                        answer = json.loads(await client.recv())
                        if answer["result"]["status"] == "init_completed":
                            return time.perf_counter()
                        await asyncio.sleep(0.005)
            except OSError:
                await asyncio.sleep(0.005)

    def stop(self) -> None:
        hub = psutil.Process(self.pid)
        self.tabane("stop")
        hub.wait(_LONGEST_START)

    @property
    def cpu(self) -> float:
        """Seconds of CPU of the hub, threads that ended included, and of the processes it started."""
        hub = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (hub, *hub.children(recursive=True))]
        return sum(each.user + each.system + each.children_user + each.children_system for each in times)

    def memory(self) -> tuple[float, float]:
        """Resident memory in MB, and what of it is no page of a mapped file, where the system tells."""
        found = psutil.Process(self.pid).memory_info()
        return found.rss / 1e6, (found.rss - getattr(found, "shared", 0)) / 1e6

    @property
    def disk(self) -> float:
        """What is kept, in MB."""
        home = Path(self._environment["TABANE_HOME"])
        return sum(path.stat().st_blocks * 512 for path in home.rglob("*") if path.is_file()) / 1e6


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
