"""Projects whose servers wait for the trust of a person: what their files would run, and the trust itself.

What is trusted are the bytes of the files that were shown. If a file changes, its servers stop until a person
trusts it again. `tabane projects trust` does the same in a terminal.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from typing import Any

from tabane.errors import BadArguments, ConfigurationError, UnknownName
from tabane.hub.clients.server_access import ProjectOffers
from tabane.hub.context import HubContext
from tabane.hub.servers.configuration import FileFollower
from tabane.hub.servers.server_setup import ShowProject, TrustProject
from tabane.messages import Message, say
from tabane.operations import Caller
from tabane.servers.projects.project_servers import (
    ProjectFile,
    ProjectTrust,
    TrustedFile,
    definitions_in,
    described,
    project_files,
    visible,
)


class ProjectTrusts:
    """Shows and trusts the files of projects. They are read in threads, and nothing in them is run."""

    def __init__(self, context: HubContext, follower: FileFollower, offers: ProjectOffers) -> None:
        self._trust, self._follower, self._offers = ProjectTrust(context.home), follower, offers

    async def show(self, caller: Caller, params: ShowProject) -> dict[str, Any]:
        """Return the servers of a project by file, and a version. Raises UnknownName if there are none."""

        def look() -> dict[str, Any]:
            files, problems = _files_of(params.folder)
            known = {each.key: each for each in self._trust.files()}
            rows = [_file_row(file, known.get((file.folder, file.name))) for file in files]
            return {
                "folder": params.folder,
                "files": rows,
                "problems": [problem.render(caller.lang) for problem in problems],
                "version": _version_of(files),
            }

        await self._check_offered(params.folder)
        return await asyncio.to_thread(look)

    async def trust(self, caller: Caller, params: TrustProject) -> dict[str, Any]:
        """Trust the files as they were shown, and use their servers from now on.

        Raises BadArguments if the files are others by now, UnknownName and ConfigurationError.
        """

        def add() -> int:
            files, _ = _files_of(params.folder)
            if _version_of(files) != params.version:
                raise BadArguments(
                    say("The files have changed since you looked at them. Look again."), "version"
                )
            self._trust.add(files)
            return sum(len(definitions_in(file)) for file in files)

        await self._check_offered(params.folder)
        count = await asyncio.to_thread(add)
        self._follower.now()
        problem = self._follower.problem
        return {
            "folder": params.folder,
            "servers": count,
            "problem": problem.render(caller.lang) if problem else None,
        }

    async def _check_offered(self, folder: str) -> None:
        """Raise UnknownName for a folder in which no assistant works: others are nobody's to look at here."""
        if not any(offer.folder == folder for offer in await self._offers.now()):
            raise UnknownName(
                say("{folder} is no project that waits for your trust.", folder=visible(folder))
            )


def _files_of(folder: str) -> tuple[list[ProjectFile], list[Message]]:
    """Return the files of a project that can be used, and why others cannot.

    Raises UnknownName if there are none.
    """
    files: list[ProjectFile] = []
    problems: list[Message] = []
    if os.path.isabs(folder) and "\0" not in folder:
        for found in project_files(os.path.realpath(folder)):
            try:
                if isinstance(found, ConfigurationError):
                    raise found
                definitions_in(found)
                files.append(found)
            except ConfigurationError as error:
                problems.append(error.message)
    if not files and not problems:
        raise UnknownName(say("{folder} defines no MCP servers.", folder=visible(folder)))
    return files, problems


def _version_of(files: list[ProjectFile]) -> str:
    parts = [(file.folder, file.name, file.digest) for file in files]
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _file_row(file: ProjectFile, before: TrustedFile | None) -> dict[str, Any]:
    """Return the servers of a file: each with what it would run, and what that was when it was trusted."""
    old = dict(before.servers) if before is not None else {}
    now = {name: described(value) for name, value in definitions_in(file).items()}
    return {
        "name": file.name,
        "path": visible(str(file.path)),
        "trusted": before is not None and before.digest == file.digest,
        "changed": before is not None and before.digest != file.digest,
        "servers": [
            {
                "name": visible(name),
                "lines": lines,
                "before": list(old[name]) if name in old and list(old[name]) != lines else None,
                "new": before is not None and name not in old,
            }
            for name, lines in now.items()
        ],
        "gone": [visible(name) for name in old if name not in now],
    }
