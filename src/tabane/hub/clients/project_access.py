"""Access of a client to the servers of projects: those of the project that it works in, and no others."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Hashable, Iterable, Mapping
from urllib.parse import unquote, urlsplit

from tabane.operations import LOCAL, Access, Caller, CallTarget
from tabane.servers.server import Server

Servers = Callable[[], Mapping[str, Server]]
"""Returns the configured servers by name: another mapping after each change."""


class ProjectAccess:
    """An access without the servers of projects that its client does not work in.

    ``folders`` are the absolute paths that the client works in. A client below several projects works in the
    nearest one. A client without folders sees no server of a project.
    """

    def __init__(self, access: Access, servers: Servers, folders: Iterable[str] = ()) -> None:
        self.inner, self._servers = access, servers
        self.folders = tuple(folders)
        self._known: Mapping[str, Server] | None = None
        self._hidden: frozenset[str] = frozenset()
        self._steps = 0

    def enter(self, folders: Iterable[str]) -> bool:
        """Note the folders that the client works in now. Return whether it sees other servers than before."""
        before = self.hidden
        self.folders, self._known = tuple(folders), None
        return self.hidden != before

    def works_in(self, project: str) -> bool:
        """Return whether the client works in that folder or below it. Every client does in an empty one."""
        return not project or any(is_inside(folder, project) for folder in self.folders)

    @property
    def hidden(self) -> frozenset[str]:
        """Return the names of the servers that the client may not see."""
        servers = self._servers()
        if servers is not self._known:
            self._settle(servers)
        return self._hidden

    def _settle(self, servers: Mapping[str, Server]) -> None:
        self._known, self._steps = servers, self._steps + 1
        projects = {server.project for server in servers.values() if server.project}
        if not projects:
            self._hidden = frozenset()
            return
        own = {nearest_project(folder, projects) for folder in self.folders}
        self._hidden = frozenset(
            name for name, server in servers.items() if server.project and server.project not in own
        )

    @property
    def holder(self) -> str:
        return self.inner.holder

    @property
    def label(self) -> str:
        return self.inner.label

    @property
    def tier(self) -> str:
        return self.inner.tier

    @property
    def everything(self) -> bool:
        return not self.hidden and self.inner.everything

    @property
    def revision(self) -> int:
        servers = self._servers()
        if servers is not self._known:
            self._settle(servers)
        # Both only grow, so their sum changes with each of them.
        return self.inner.revision + self._steps

    def allows(self, target: CallTarget) -> bool:
        # As hidden does, for each call of a tool.
        servers = self._servers()
        if servers is not self._known:
            self._settle(servers)
        return target.server not in self._hidden and self.inner.allows(target)

    def sees_server(self, server: str) -> bool:
        return server not in self.hidden and self.inner.sees_server(server)


def folders_of(caller: Caller) -> tuple[str, ...]:
    """Return the folders that a caller works in: its roots, or its working directory if it names none.

    The folders of a caller that is not the user of this machine are not folders of this machine. Links in
    them are resolved, which blocks.
    """
    if caller.access.holder != LOCAL.holder:
        return ()
    roots = [unquote(urlsplit(root).path) for root in caller.roots if root.startswith("file://")]
    named = roots or ([caller.cwd] if caller.cwd else [])
    return tuple(dict.fromkeys(os.path.realpath(path) for path in named if _is_path(path)))


def _is_path(path: str) -> bool:
    return os.path.isabs(path) and "\0" not in path


async def moved(caller: Caller) -> bool:
    """Note the folders that a caller works in now. Return whether it sees other servers than before."""
    access = caller.access
    if not isinstance(access, ProjectAccess):
        return False
    return access.enter(await asyncio.to_thread(folders_of, caller))


def works_in(access: Access, project: str) -> bool:
    """Return whether a client with this access is told of changes in that project; empty is none."""
    return not isinstance(access, ProjectAccess) or access.works_in(project)


def inner_access(access: Access) -> Access:
    """Return the access of the identity, in whatever folder its client works."""
    return access.inner if isinstance(access, ProjectAccess) else access


def view_of(access: Access) -> Hashable:
    """Return what decides about the servers and tools that an access shows, besides its revision.

    Clients of one access that see the same have the same view, as long as the access exists.
    """
    return (id(access.inner), access.hidden) if isinstance(access, ProjectAccess) else (id(access),)


def is_inside(folder: str, project: str) -> bool:
    """Return whether a folder is that of a project or below it."""
    return folder == project or folder.startswith(os.path.join(project, ""))


def nearest_project(folder: str, projects: Iterable[str]) -> str:
    """Return the innermost project that a folder is in; empty if there is none."""
    return max((project for project in projects if is_inside(folder, project)), key=len, default="")
