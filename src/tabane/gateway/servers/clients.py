"""Programs in which people configure MCP servers, and the paths of their files.

Nothing is read here: home, folder and platform are arguments, and paths are results.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Scope = Literal["user", "project"]
"""Whose servers a file holds: the user's, or one project's (the folder that is worked in)."""

_CONFIG = "@config"
"""Placeholder in a path for the platform's folder of application settings."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client, existing or not: its path, its scope, and the key of its servers."""

    path: Path
    scope: Scope
    key: str


@dataclass(frozen=True, slots=True)
class Client:
    """A program that MCP servers are set up in.

    ``name`` is its name on the command line, ``title`` its own name (never translated), ``key`` the key of
    the object with its servers. ``user`` and ``project`` are paths below the user's home (or, after
    ``@config``, below the platform's folder of settings) and below the project folder. ``typed`` clients want
    ``"type"`` in each entry. ``per_project`` clients keep further servers in the user's file, under
    ``projects.<folder>.mcpServers``. ``traces`` are further paths below the home that show that the client is
    installed.
    """

    name: str
    title: str
    user: str
    project: str | None = None
    key: str = "mcpServers"
    typed: bool = False
    per_project: bool = False
    traces: tuple[str, ...] = ()

    def files(
        self, platform: str, home: Path, cwd: Path | None = None, config: Path | None = None
    ) -> tuple[ClientFile, ...]:
        """Return the files with its servers: the user's first, then the project's if ``cwd`` is given.

        ``platform`` is ``sys.platform``; ``config`` is the folder that stands for ``~/.config``
        (XDG_CONFIG_HOME), which macOS has no use for. The files need not exist.
        """
        user = _resolved_path(self.user, platform, home, config)
        found = [ClientFile(user, "user", self.key)]
        if cwd is not None and self.project is not None:
            found.append(ClientFile(cwd / self.project, "project", self.key))
        return tuple(found)


CLIENTS = (
    Client("claude-desktop", "Claude Desktop", f"{_CONFIG}/Claude/claude_desktop_config.json"),
    Client(
        "claude-code",
        "Claude Code",
        ".claude.json",
        ".mcp.json",
        typed=True,
        per_project=True,
        traces=(".claude",),
    ),
    Client("cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json"),
    Client("vscode", "VS Code", f"{_CONFIG}/Code/User/mcp.json", ".vscode/mcp.json", "servers", typed=True),
    Client("windsurf", "Windsurf", ".codeium/windsurf/mcp_config.json"),
)
"""The clients that Tabane knows, in the order they are shown."""


def client_named(name: str) -> Client | None:
    return next((client for client in CLIENTS if client.name == name), None)


def _resolved_path(where: str, platform: str, home: Path, config: Path | None) -> Path:
    first, _, rest = where.partition("/")
    if first != _CONFIG:
        return home / where
    if platform == "darwin":
        return home / "Library" / "Application Support" / rest
    return (config or home / ".config") / rest
