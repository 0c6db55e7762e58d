"""Folders of projects: which one has files that define servers, and those that clients work in.

Nothing is read. What reads the files is imported with the first such folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from tabane.messages import Message
from tabane.operations import Caller
from tabane.servers.server import Server

PROJECT_FILES = (".mcp.json", ".cursor/mcp.json", ".vscode/mcp.json")
"""Files that define servers of the project in whose folder they are."""

TRUST_FILE = "projects.json"
"""The file of trusted files, under the home."""

DEEPEST = 64
"""Folders above one that are searched for a project."""


def has_project_files(folder: str) -> bool:
    """Return whether there is a file of a project in a folder, usable or not."""
    return any(os.path.lexists(os.path.join(folder, name)) for name in PROJECT_FILES)


def project_of(folder: str, home: str) -> str | None:
    """Return the nearest folder with files of a project: this one or one above it; None if there is none.

    Folders that contain the user's home belong to no project: the files there are the user's own.
    """
    outer = set(_upwards(os.path.realpath(home)))
    for place in _upwards(folder):
        if place in outer:
            return None
        if has_project_files(place):
            return place
    return None


def _upwards(folder: str) -> Iterator[str]:
    for _ in range(DEEPEST):
        yield folder
        above = os.path.dirname(folder)
        if above == folder:
            return
        folder = above


class ClientProjects:
    """The projects that clients work in. Without clients, there are none."""

    def awaits(self, server: Server) -> bool:
        """Return whether a client is there that sees this server of a project."""
        return False

    def notice(self, caller: Caller) -> Message | None:
        """Return what a caller should know about servers of its project that are not trusted."""
        return None

    def applied(self) -> None:
        """Note that the servers have changed, maybe because others are trusted."""
