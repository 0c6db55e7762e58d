"""A hub over the world: servers of both registries, posts, documents and a site; and its clients."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.code_tasks.world import World, served

from tabane.cli.bench.task_hub import found_servers
from tabane.cli.bench.temporary_hub import Assistant, TemporaryFolder, TemporaryHub

SQLITE = "mcp-server-sqlite==2025.4.25"

SERVERS: dict[str, dict[str, Any]] = {
    "filesystem": {"command": "mcp-server-filesystem", "args": ["{notes}"], "needs": ["node"]},
    "memory": {
        "command": "mcp-server-memory",
        "args": [],
        "env": {"MEMORY_FILE_PATH": "{memory}"},
        "needs": ["node"],
    },
    "everything": {"command": "mcp-server-everything", "args": [], "needs": ["node"]},
    "git": {"command": "mcp-server-git", "args": ["--repository", "{repository}"], "needs": ["git"]},
    "time": {"command": "mcp-server-time", "args": ["--local-timezone", "Asia/Tokyo"]},
    "sqlite": {"command": "uvx", "args": ["--with", "mcp<2", SQLITE, "--db-path", "{database}"]},
}


class WorldHub:
    """The running hub, its world, and a client in each of two modes. ``missing``: programs by server."""

    def __init__(self, hub: TemporaryHub, world: World, missing: dict[str, str]) -> None:
        self.world, self.missing = world, missing
        self._hub = hub
        self.modes: dict[str, Assistant] = {
            mode: hub.assistant(f"--mode={mode}") for mode in ("search", "code")
        }
        hub.aliases()

    def reset(self) -> None:
        """Undo what a task has changed."""
        self.world.reset()
        for name in self._hub.call("list_documents")["documents"]:
            if name["filepath"].startswith("out/"):
                self._hub.call("delete_document", {"filepath": name["filepath"]})

    def document(self, name: str) -> str:
        return str(self._hub.call("get_document", {"filepath": name})["document"])


@contextmanager
def world_hub(servers: Sequence[str]) -> Iterator[WorldHub]:
    """Open a hub over these servers of the world, as far as they are installed."""
    with TemporaryFolder() as folder:
        world = World(folder / "work")
        world.make()
        with served(dict(world.records.pages)) as world.site:
            places = {
                "notes": str(world.notes),
                "memory": str(world.memory),
                "repository": str(world.repository),
                "database": str(world.database),
            }
            found, missing = found_servers(
                {name: dict(SERVERS[name]) for name in servers}, places, os.environ
            )
            with TemporaryHub(folder, found) as hub:
                hub.environ |= {
                    "TABANE_SCRIPT_WRITES": "allow",  # nobody is there to be asked
                    "TABANE_READER_ALLOW": "127.0.0.1",
                    "TABANE_READER_ROBOTS": "never",
                    "TABANE_POSTS_ZONE": "UTC",
                }
                _import(hub, world.folder / "posts.csv")
                for name, text in world.records.documents.items():
                    hub.call("put_document", {"filepath": name, "text": text})
                yield WorldHub(hub, world, missing)


def _import(hub: TemporaryHub, archive: Path) -> None:
    command = [sys.executable, "-m", "tabane", "posts", "import", str(archive)]
    subprocess.run(command, env=hub.environ, check=True, capture_output=True)
