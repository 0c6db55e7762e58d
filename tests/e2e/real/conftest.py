"""Real servers of both registries behind a real hub, reached by clients that nobody here wrote."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ErrorData, Tool

from tests.conftest import absent
from tests.harness.patience import LONG

LISTED = 60.0
"""Seconds that the hub waits for a list: the most that the setting allows."""


async def nobody(context: Any, question: Any) -> ErrorData:
    """Answers a question of a server: there is nobody to ask."""
    return ErrorData(code=-1, message="nobody is here")


@dataclass(frozen=True)
class Workplace:
    """A home, a servers file and the data the servers work on; how to reach them and the hub."""

    folder: Path
    servers: dict[str, dict[str, Any]]

    @property
    def environment(self) -> dict[str, str]:
        plain = {name: value for name, value in os.environ.items() if not name.startswith("TABANE_")}
        return plain | {
            "TABANE_HOME": str(self.folder / "home"),
            "TABANE_HTTP": "false",
            "TABANE_CONFIG": str(self.folder / "tabane.toml"),
            "LANG": "C.UTF-8",
        }

    @property
    def notes(self) -> Path:
        return self.folder / "notes"

    @property
    def repository(self) -> Path:
        return self.folder / "repository"

    def hub(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "tabane", "mcp", "--standalone", *options]

    @asynccontextmanager
    async def client(self, *options: str, mode: ConnectMode = "auto", **told: Any) -> AsyncIterator[Client]:
        """The official client, connected to a standalone hub."""
        command, *arguments = self.hub(*options)
        async with self._connected(command, arguments, self.environment, mode, **told) as client:
            yield client

    async def whole_list(self, client: Client) -> dict[str, Tool]:
        """The tools by name, once every server has listed its own. Fails where one does not in time."""
        async with asyncio.timeout(LONG):
            while True:
                tools = {tool.name: tool for tool in (await client.list_tools(cache_mode="bypass")).tools}
                if all(any(name.startswith(f"{server}__") for name in tools) for server in self.servers):
                    return tools
                await asyncio.sleep(0.05)

    @asynccontextmanager
    async def direct(self, server: str) -> AsyncIterator[Client]:
        """The official client, connected to one of the servers without a hub.

        It says, as the hub does, that it can be asked: some servers have tools for such clients alone.
        """
        configured = self.servers[server]
        environment = self.environment | configured.get("env", {})
        command, arguments = configured["command"], configured["args"]
        async with self._connected(
            command, arguments, environment, "auto", sampling_callback=nobody, elicitation_callback=nobody
        ) as client:
            yield client

    @asynccontextmanager
    async def _connected(
        self, command: str, arguments: list[str], environment: dict[str, str], mode: ConnectMode, **told: Any
    ) -> AsyncIterator[Client]:
        parameters = StdioServerParameters(
            command=command, args=arguments, env=environment, cwd=str(self.folder)
        )
        with (self.folder / "client.log").open("a") as log:
            async with Client(stdio_client(parameters, errlog=log), mode=mode, **told) as client:
                yield client


@pytest.fixture
def workplace(tmp_path: Path) -> Callable[[dict[str, dict[str, Any]]], Workplace]:
    """Makes a workplace in which the given servers are configured."""

    def make(servers: dict[str, dict[str, Any]]) -> Workplace:
        place = Workplace(tmp_path, servers)
        (tmp_path / "home").mkdir(mode=0o700)
        settings = tmp_path / "tabane.toml"
        settings.write_text(f"list_wait = {LISTED:.0f}\n")
        file = tmp_path / "mcp-servers.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        for private in (settings, file):
            private.chmod(0o600)
        place.notes.mkdir()
        make_repository(place.repository)
        return place

    return make


@pytest.fixture
def python_servers(workplace: Callable[..., Workplace], tmp_path: Path) -> Workplace:
    """The servers from PyPI; they speak 2026-07-28 and older."""
    programs = Path(sys.executable).parent
    return workplace(
        {
            "time": {
                "command": str(programs / "mcp-server-time"),
                "args": ["--local-timezone", "Asia/Tokyo"],
            },
            "git": {
                "command": str(programs / "mcp-server-git"),
                "args": ["--repository", str(tmp_path / "repository")],
            },
        }
    )


@pytest.fixture
def node_servers(workplace: Callable[..., Workplace], node_tools: Path, tmp_path: Path) -> Workplace:
    """The servers from npm; they speak the handshake eras alone."""
    path = {"PATH": f"{node_tools}{os.pathsep}{os.environ['PATH']}"}
    memory = path | {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    return workplace(
        {
            "filesystem": {
                "command": str(node_tools / "mcp-server-filesystem"),
                "args": [str(tmp_path / "notes")],
                "env": path,
            },
            "memory": {"command": str(node_tools / "mcp-server-memory"), "args": [], "env": memory},
            "everything": {"command": str(node_tools / "mcp-server-everything"), "args": [], "env": path},
        }
    )


def make_repository(folder: Path) -> None:
    """A git repository with one commit, made without the user's own configuration."""
    if not shutil.which("git"):
        absent("git")
    environment = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    author = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    folder.mkdir()
    (folder / "diary.txt").write_text("one\n")
    for arguments in (
        ("init", "--quiet"),
        ("add", "."),
        ("commit", "--quiet", "--message", "The first entry"),
    ):
        subprocess.run(["git", "-C", str(folder), *author, *arguments], env=environment, check=True)
