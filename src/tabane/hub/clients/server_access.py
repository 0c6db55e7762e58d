"""Access of a client to servers: to one alone, or to those of the project that it works in, and no others.

Servers of a project that no person has trusted yet are not accessible. The project is an *offer* then, which
the person can accept.
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.hub.context import HubContext
from tabane.messages import Message, say
from tabane.operations import LOCAL, Access, Caller, CallTarget
from tabane.servers.projects.project_folders import TRUST_FILE, ClientProjects, project_of
from tabane.servers.server import Server

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway


class ServerAccess(Access):
    """An access to one server: what the identity may do there, and nothing of others or of the hub."""

    def __init__(self, inner: Access, server: str) -> None:
        self._inner, self.server = inner, server

    @property
    def holder(self) -> str:
        return self._inner.holder

    @property
    def label(self) -> str:
        return self._inner.label

    @property
    def tier(self) -> str:
        return self._inner.tier

    @property
    def everything(self) -> bool:
        return False

    @property
    def revision(self) -> int:
        return self._inner.revision

    def allows(self, target: CallTarget) -> bool:
        # A list contains nothing but what is allowed; the presence of an identity is asked of its operations.
        inside = target.server == self.server or target.kind == "list" or target.source == "hub"
        return inside and self._inner.allows(target)

    def sees_server(self, server: str) -> bool:
        return server == self.server and self._inner.sees_server(server)


class ProjectAccess(Access):
    """An access without the servers of projects that its client does not work in.

    ``folders`` are the absolute paths that the client works in. A client below several projects works in the
    nearest one. A client without folders sees no server of a project.
    """

    holder = ""

    def __init__(self, access: Access, gateway: Gateway, folders: Iterable[str] = ()) -> None:
        self.inner, self._gateway = access, gateway
        self.holder = access.holder  # an identity keeps its name, and each call asks for it several times
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
        if self._gateway.servers is not self._known:
            self._note_servers(self._gateway.servers)
        return self._hidden

    def _note_servers(self, servers: Mapping[str, Server]) -> None:
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
        if self._gateway.servers is not self._known:
            self._note_servers(self._gateway.servers)
        # Both only grow, so their sum changes with each of them.
        return self.inner.revision + self._steps

    def allows(self, target: CallTarget) -> bool:
        # As hidden does, for each call of a tool.
        if self._gateway.servers is not self._known:
            self._note_servers(self._gateway.servers)
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
    paths = [path for path in named if os.path.isabs(path) and "\0" not in path]
    return tuple(dict.fromkeys(map(os.path.realpath, paths)))


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


MOST_OFFERS = 16
"""Projects that are remembered; the oldest is forgotten first."""

MOST_LOOKS = 32
"""Looks for files at the same time. A client that comes while there are more is not looked after."""


class ProjectOffer(Struct, frozen=True):
    """A project with servers that are not trusted. ``problem`` is why a file of it cannot be used."""

    folder: str
    servers: int
    changed: bool = False
    problem: Message | None = None

    def row(self, lang: Any) -> dict[str, Any]:
        return {
            "folder": self.folder,
            "servers": self.servers,
            "changed": self.changed,
            "problem": self.problem.render(lang) if self.problem else None,
        }


class ProjectOffers:
    """The projects of clients, as far as their servers are not trusted.

    Files are read in threads, and nothing in them is run or looked up.
    """

    def __init__(self, context: HubContext) -> None:
        self._context = context
        self._offers: OrderedDict[str, ProjectOffer] = OrderedDict()
        self._looks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Look no more."""
        for task in self._looks:
            task.cancel()

    def look(self, caller: Caller) -> None:
        """Look in the background whether the caller works in a project that is not trusted."""
        self._begin_look(self._look_in_folders(caller))

    def _begin_look(self, look: Coroutine[None, None, None]) -> None:
        if len(self._looks) >= MOST_LOOKS:
            look.close()
            return
        task = self._context.loop.create_task(look)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def now(self) -> list[ProjectOffer]:
        """Return what is offered, after another look at the files."""
        known = list(self._offers)
        offers = await asyncio.to_thread(self._read_offers, known, and_trusted=True)
        for folder in known:
            if folder not in offers:
                self._offers.pop(folder, None)
        self._keep_offers(offers)
        return list(self._offers.values())

    def look_again(self) -> None:
        """Look in the background what is offered now: other files may be trusted."""
        self._begin_look(self._look_again())

    async def _look_again(self) -> None:
        await self.now()

    def notice(self, caller: Caller) -> Message | None:
        """Return what a caller should know about servers of its project; None if there is nothing."""
        places = getattr(caller.access, "folders", ())
        for offer in self._offers.values():
            if offer.servers and any(is_inside(place, offer.folder) for place in places):
                return say(
                    "This project defines {count} MCP {count:server|servers} that the user has not trusted. "
                    "To use {count:it|them}, the user has to run: tabane projects trust",
                    count=offer.servers,
                )
        return None

    async def _look_in_folders(self, caller: Caller) -> None:
        self._keep_offers(await asyncio.to_thread(self._find_offers, caller))

    def _keep_offers(self, found: dict[str, ProjectOffer]) -> None:
        for folder, offer in found.items():
            self._offers[folder] = offer
            self._offers.move_to_end(folder)
        while len(self._offers) > MOST_OFFERS:
            self._offers.popitem(last=False)

    def _find_offers(self, caller: Caller) -> dict[str, ProjectOffer]:
        home = os.path.expanduser("~")
        places = (project_of(folder, home) for folder in folders_of(caller)[:MOST_OFFERS])
        return self._read_offers([place for place in dict.fromkeys(places) if place is not None])

    def _read_offers(self, folders: list[str], *, and_trusted: bool = False) -> dict[str, ProjectOffer]:
        """Return what these folders offer; ``and_trusted``: also those with a changed trusted file."""
        home = self._context.home
        and_trusted = and_trusted and (home / TRUST_FILE).exists()
        if not folders and not and_trusted:
            return {}
        from tabane.servers.projects import project_servers  # most hubs have no project

        try:
            files = project_servers.ProjectTrust(home).files()
        except ConfigurationError as error:
            return {folder: ProjectOffer(folder, 0, problem=error.message) for folder in folders}
        trusted = {file.path: file.digest for file in files}
        offers: dict[str, ProjectOffer] = {}
        for folder in dict.fromkeys([*folders, *(file.folder for file in files if and_trusted)]):
            count, changed, problem = 0, False, None
            for found in project_servers.project_files(folder):
                try:
                    if isinstance(found, ConfigurationError):
                        raise found
                    if trusted.get(found.path) == found.digest:
                        continue
                    count += len(project_servers.definitions_in(found))
                    changed = changed or found.path in trusted
                except ConfigurationError as error:
                    problem = error.message
            if count or problem:
                offers[folder] = ProjectOffer(folder, count, changed, problem)
        return offers


class PresentProjects(ClientProjects):
    """The projects of the clients that are connected."""

    def __init__(self, awaits: Callable[[Server], bool], offers: ProjectOffers) -> None:
        self._awaits, self._offers = awaits, offers

    def awaits(self, server: Server) -> bool:
        return self._awaits(server)

    def notice(self, caller: Caller) -> Message | None:
        return self._offers.notice(caller)

    def applied(self) -> None:
        self._offers.look_again()
