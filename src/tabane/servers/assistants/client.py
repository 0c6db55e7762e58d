"""A program in which people configure MCP servers, and the paths of its files.

Nothing is read here but whether a file exists: home, folder and platform are arguments, paths are results.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from msgspec import Struct

from tabane.messages import Message

Scope = Literal["user", "project"]
"""Whose servers a file holds: the user's, or one project's (the folder that is worked in)."""

Form = Literal["json", "jsonc", "toml", "yaml"]
"""The format of a file. ``jsonc`` is JSON that the program itself reads with comments."""

Shape = Literal["plain", "typed", "copilot", "opencode", "goose", "zed", "kimi"]
"""The form of a server in the file: see :mod:`tabane.servers.assistants.entries`."""

HostMode = Literal["full", "search"]
"""The mode that suits a host: ``full`` if it searches tools itself, else ``search``."""

_CONFIG = "@config"
_XDG = "@xdg"


@dataclass(frozen=True, slots=True)
class UserMachine:
    """The values that paths depend on: ``platform`` is ``sys.platform``, ``home`` the user's home."""

    platform: str
    home: Path
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)

    def path(self, where: str) -> Path:
        """Return a path of the table on this machine.

        ``@config`` stands for the platform's folder of application settings, ``@xdg`` for ``~/.config`` on
        macOS too; both follow XDG_CONFIG_HOME, except ``@config`` on macOS. Others are below the home.
        """
        first, _, rest = where.partition("/")
        if first == _CONFIG and self.platform == "darwin":
            return self.home / "Library" / "Application Support" / rest
        if first in (_CONFIG, _XDG) and self.platform == "win32":
            return self.home / "AppData" / "Roaming" / rest
        if first in (_CONFIG, _XDG):
            return self._xdg() / rest
        return self.home / where

    def _xdg(self) -> Path:
        given = self.environ.get("XDG_CONFIG_HOME", "")
        return Path(given) if os.path.isabs(given) else self.home / ".config"


class ServersPlace(Struct, frozen=True):
    """The file in which a client keeps the servers of one scope, and its format.

    ``paths`` are below the project or the home (or as :meth:`UserMachine.path` says). The first that exists
    is used, else the first. ``variable`` names the folder that holds the file instead, and the path in it.
    ``key`` is the path of the object with the servers; ``listed`` says that it is a list of objects with a
    name, which is only read. ``dollars``: the program puts variables in as ``$NAME``, too.
    """

    paths: tuple[str, ...]
    key: tuple[str, ...] = ("mcpServers",)
    form: Form = "json"
    shape: Shape = "plain"
    variable: tuple[str, str] | None = None
    listed: bool = False
    dollars: bool = False


class ClientFile(Struct, frozen=True):
    """A file of a client, existing or not: its path, its scope, and how servers are written in it."""

    path: Path
    scope: Scope
    place: ServersPlace


class Client(Struct, frozen=True):
    """A program that MCP servers are set up in.

    ``name`` is its name on the command line, ``title`` its own name (never translated). ``user`` and
    ``project`` are the files that Tabane writes, ``also`` further ones that are only read. ``per_project``
    clients keep further servers in the user's file, under ``projects.<folder>.mcpServers``. ``by_hand`` tells
    what to do if no file can be written. The program is on this machine if its file, the folder of that file,
    one of ``traces``, or one of ``programs`` on PATH exists; ``shared_folder`` says that others use that
    folder too. It runs on ``platforms``, and starts servers over ``transport``. ``why`` explains the mode,
    ``source`` is the page that was read, on the day ``looked_up``; ``remark`` says where sources disagree.
    """

    name: str
    title: str
    mode: HostMode
    why: str
    source: str
    looked_up: str
    user: ServersPlace | None = None
    project: ServersPlace | None = None
    also: tuple[ServersPlace, ...] = ()
    by_hand: Message | None = None
    per_project: bool = False
    traces: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    shared_folder: bool = False
    platforms: tuple[str, ...] = ("linux", "darwin", "win32")
    transport: Literal["stdio"] = "stdio"
    remark: str = ""

    def user_file(self, machine: UserMachine) -> ClientFile | None:
        """Return the file with the user's servers; None if there is none that can be written."""
        if self.user is None:
            return None
        return ClientFile(_user_path(self.user, machine), "user", self.user)

    def project_file(self, folder: Path) -> ClientFile | None:
        """Return the file with the servers of the project in ``folder``; None if the client has none."""
        if self.project is None:
            return None
        return ClientFile(
            _first_existing([folder / where for where in self.project.paths]), "project", self.project
        )

    def files(self, machine: UserMachine, folder: Path | None = None) -> Iterator[ClientFile]:
        """Yield the files with its servers, also those that are only read: the user's first."""
        written = self.user_file(machine)
        if written is not None:
            yield written
        for place in self.also:
            for where in place.paths:
                yield ClientFile(machine.path(where), "user", place)
        project = self.project_file(folder) if folder is not None else None
        if project is not None:
            yield project


def _user_path(place: ServersPlace, machine: UserMachine) -> Path:
    if place.variable is not None:
        name, inside = place.variable
        given = machine.environ.get(name, "")
        if os.path.isabs(given):
            return Path(given) / inside
    return _first_existing([machine.path(where) for where in place.paths])


def _first_existing(paths: list[Path]) -> Path:
    return next((path for path in paths if path.exists()), paths[0])
