"""A user with an empty home, whose only server comes from a registry of packages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Protocol

NPX = Path(__file__).parents[2] / "build" / "node" / "bin"
UVX = Path(sys.executable).parent


class PackageRegistry(Protocol):
    """A registry with the package of one server."""

    @property
    def server(self) -> dict[str, Any]: ...


class FirstStart:
    """An empty home, a hub whose only server comes from the registry, and the commands of a user."""

    def __init__(self, folder: Path, registry: PackageRegistry, **settings: str) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        (folder / "servers.json").write_text(json.dumps({"mcpServers": {"it": registry.server}}))
        self.environment = {
            "HOME": str(folder),
            "TABANE_HOME": str(folder / "home"),
            "TABANE_SERVERS": str(folder / "servers.json"),
            "TABANE_MODEL": "none",
            "TABANE_HTTP": "false",
            "PATH": os.pathsep.join([str(NPX), str(UVX), "/usr/bin", "/bin"]),
            "LANG": "C.UTF-8",
            **settings,
        }

    def tabane(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tabane", *words]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=240, check=False
        )

    def begin(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "tabane", *words],
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @property
    def row(self) -> dict[str, Any]:
        found: list[dict[str, Any]] = json.loads(self.tabane("servers", "list", "--json").stdout)["results"]
        return found[0]

    @property
    def hub(self) -> int:
        return int(json.loads(self.tabane("status", "--json").stdout)["pid"])

    @property
    def entries(self) -> list[Path]:
        return [entry for entry in self.folder.glob(".npm/_npx/*") if not entry.name.startswith(".")]
