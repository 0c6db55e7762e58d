"""Offers: projects that clients work in, and whose servers no person has trusted yet."""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from msgspec import Struct

from tabane.errors import ConfigurationError
from tabane.hub.clients.project_access import folders_of, is_inside
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.servers.projects.client_projects import ClientProjects
from tabane.servers.projects.project_folders import TRUST_FILE, project_of
from tabane.servers.server import Server
from tabane.settings import Settings

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

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Callable[[], Settings]) -> None:
        self._loop, self._settings = loop, settings
        self._offers: OrderedDict[str, ProjectOffer] = OrderedDict()
        self._looks: set[asyncio.Task[None]] = set()

    def close(self) -> None:
        """Look no more."""
        for task in self._looks:
            task.cancel()

    def look(self, caller: Caller) -> None:
        """Look in the background whether the caller works in a project that is not trusted."""
        self._begin(self._look(caller))

    def _begin(self, look: Coroutine[None, None, None]) -> None:
        if len(self._looks) >= MOST_LOOKS:
            look.close()
            return
        task = self._loop.create_task(look)
        self._looks.add(task)
        task.add_done_callback(self._looks.discard)

    async def now(self) -> list[ProjectOffer]:
        """Return what is offered, after another look at the files."""
        known = list(self._offers)
        offers = await asyncio.to_thread(self._offered_now, known)
        for folder in known:
            if folder not in offers:
                self._offers.pop(folder, None)
        self._keep(offers)
        return list(self._offers.values())

    def look_again(self) -> None:
        """Look in the background what is offered now: other files may be trusted."""
        self._begin(self._look_again())

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

    async def _look(self, caller: Caller) -> None:
        self._keep(await asyncio.to_thread(self._found, caller))

    def _keep(self, found: dict[str, ProjectOffer]) -> None:
        for folder, offer in found.items():
            self._offers[folder] = offer
            self._offers.move_to_end(folder)
        while len(self._offers) > MOST_OFFERS:
            self._offers.popitem(last=False)

    def _found(self, caller: Caller) -> dict[str, ProjectOffer]:
        home = os.path.expanduser("~")
        places = (project_of(folder, home) for folder in folders_of(caller)[:MOST_OFFERS])
        return self._offered([place for place in dict.fromkeys(places) if place is not None])

    def _offered_now(self, folders: list[str]) -> dict[str, ProjectOffer]:
        """Return what these folders offer, and those with a trusted file that has changed."""
        home = self._settings().home
        if not (home / TRUST_FILE).exists():
            return self._offered(folders)
        from tabane.servers.projects.project_trust import ProjectTrust  # most hubs have no project

        trusted: list[str] = []
        with suppress(ConfigurationError):
            trusted = [each.folder for each in ProjectTrust(home).files()]
        return self._offered(list(dict.fromkeys((*folders, *trusted))))

    def _offered(self, folders: list[str]) -> dict[str, ProjectOffer]:
        return {folder: offer for folder in folders if (offer := self._offer(folder)) is not None}

    def _offer(self, folder: str) -> ProjectOffer | None:
        """Return what a folder offers; None if there is nothing that is not trusted."""
        from tabane.servers.projects.project_files import definitions_in, project_files
        from tabane.servers.projects.project_trust import ProjectTrust

        try:
            trusted = {each.path: each.digest for each in ProjectTrust(self._settings().home).files()}
        except ConfigurationError as error:
            return ProjectOffer(folder, 0, problem=error.message)
        count, changed, problem = 0, False, None
        for file in project_files(folder):
            try:
                if isinstance(file, ConfigurationError):
                    raise file
                if trusted.get(file.path) == file.digest:
                    continue
                count += len(definitions_in(file))
                changed = changed or file.path in trusted
            except ConfigurationError as error:
                problem = error.message
        return ProjectOffer(folder, count, changed, problem) if count or problem else None


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
