"""A hub with a folder of its own, in a process of its own, run with the commands that a user types."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

_LONGEST_STOP = 120.0
"""Seconds."""


class HubProcess:
    """``variables`` are settings of this hub, as names of the environment. Nothing of the user's is read."""

    def __init__(self, folder: Path, **variables: str) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        self.home = folder / "home"
        self._servers = folder / "mcp-servers.json"
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TABANE_HOME": str(self.home),
            "TABANE_SERVERS": str(self._servers),
            "TABANE_PORT": "0",
            "TABANE_MODEL": "none",
            **variables,
        }
        self.pid, self.url = 0, ""
        self.configure({})

    def configure(self, servers: Mapping[str, Any]) -> None:
        """Write the servers file, in one step."""
        part = self._servers.with_suffix(".part")
        part.write_text(json.dumps({"mcpServers": servers}))
        part.chmod(0o600)
        part.replace(self._servers)

    def reload(self) -> None:
        os.kill(self.pid, signal.SIGHUP)

    def tabane(self, *arguments: str) -> str:
        """Run a command and return its output. Raises CalledProcessError if it fails."""
        command = [sys.executable, "-m", "tabane", *arguments]
        return subprocess.run(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, check=True
        ).stdout

    def start(self) -> None:
        self.tabane("start")
        self.note_status()

    def note_status(self) -> None:
        """Read the process and the URL of the hub that was started."""
        status = json.loads(self.tabane("status", "--json"))
        self.pid, self.url = int(status["pid"]), str(status.get("http") or "")

    def stop(self) -> None:
        hub = psutil.Process(self.pid)
        self.tabane("stop")
        hub.wait(_LONGEST_STOP)

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].partition("/")[0])

    @property
    def token(self) -> str:
        return (self.home / "token").read_text(encoding="utf-8").strip()

    @property
    def cpu(self) -> float:
        """Seconds of CPU of the hub, including threads that ended, and of the processes it started."""
        hub = psutil.Process(self.pid)
        times = [each.cpu_times() for each in (hub, *hub.children(recursive=True))]
        return sum(each.user + each.system + each.children_user + each.children_system for each in times)

    def memory(self) -> tuple[float, float]:
        """Return resident memory in MB, and what of it is no page of a mapped file, if the system says."""
        found = psutil.Process(self.pid).memory_info()
        return found.rss / 1e6, (found.rss - getattr(found, "shared", 0)) / 1e6

    @property
    def disk(self) -> float:
        """MB of files in the home."""
        return sum(path.stat().st_blocks * 512 for path in self.home.rglob("*") if path.is_file()) / 1e6


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
