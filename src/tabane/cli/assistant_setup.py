"""An assistant's file on this machine, and the entry that starts this Tabane."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from tabane.errors import ConfigurationError, UnknownName
from tabane.messages import say
from tabane.servers.assistants.client import Client, ClientFile, ServersPlace, UserMachine
from tabane.servers.assistants.entries import Entry
from tabane.servers.assistants.table import CLIENTS, client_named
from tabane.settings.files import home_folder
from tabane.text.nearest_names import nearest

_HANDED_DOWN = ("home", "config", "servers")


class AssistantSetup(Struct, frozen=True):
    """An assistant and its configuration file on this machine; ``project`` is the folder whose file it is."""

    client: Client
    file: ClientFile
    project: Path | None = None

    @classmethod
    def of(cls, name: str, project: Path | None = None) -> AssistantSetup:
        """Return the assistant of that name.

        Raises UnknownName that lists the known ones, and ConfigurationError if it has no such file.
        """
        client = known_client(name)
        if client.by_hand is not None:
            raise ConfigurationError(
                say(
                    "{title} has no file that Tabane can write. {instruction} Then paste the output of: "
                    "tabane install {name} --print",
                    title=client.title,
                    instruction=client.by_hand,
                    name=name,
                )
            )
        file = client.project_file(project) if project else client.user_file(machine())
        if file is None:
            raise ConfigurationError(
                say(
                    "{title} has no file for the servers of a project. Leave out --project.",
                    title=client.title,
                )
            )
        return cls(client, file, project)

    def check_present(self) -> None:
        """Raise ConfigurationError if the assistant does not seem to be installed."""
        from tabane.servers.assistants.installation import present

        here = machine()
        if not present(self.client, here):
            path = self.file.path
            raise ConfigurationError(
                say(
                    "{title} does not seem to be installed: {folder} does not exist. To write its file "
                    "anyway, use --force.",
                    title=self.client.title,
                    folder=path if path.parent == here.home or path.parent.exists() else path.parent,
                )
            )


def known_client(name: str) -> Client:
    """Return the client of that name. Raises UnknownName."""
    client = client_named(name)
    if client is None:
        known = [client.name for client in CLIENTS]
        raise UnknownName(
            say(
                "Tabane does not know the assistant {name}. It knows {known}; for any other, add "
                "the output of tabane install --print to its configuration.",
                name=name,
                known=", ".join(known),
            ),
            nearest(name, known),
        )
    return client


def setups(project: Path | None = None, *, found_only: bool = True) -> Iterator[AssistantSetup]:
    """Yield the assistants that seem to be installed and have a file that can be written, or all of these."""
    from tabane.servers.assistants.installation import present

    here = machine()
    for client in CLIENTS:
        file = client.project_file(project) if project else client.user_file(here)
        if file is not None and (not found_only or present(client, here)):
            yield AssistantSetup(client, file, project)


def machine() -> UserMachine:
    return UserMachine(sys.platform, Path(home_folder(os.environ)), os.environ)


def entry_of(
    client: Client | None, place: ServersPlace | None, name: str, mode: str | None, *, shared: bool
) -> Entry:
    """Return the entry that starts this Tabane, in the mode that suits the client unless one is given.

    A file that is ``shared`` with others names the command only: theirs is in another folder.
    """
    from tabane.servers.assistants.installation import entry

    command = ["tabane"] if shared else launcher(os.environ)
    return entry(place, name, command, arguments(client, mode, {} if shared else os.environ))


def launcher(environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts this Tabane from a program with any PATH, as an absolute path.

    The command on PATH if it is this Tabane's (it survives an upgrade), else the one beside the interpreter,
    else the interpreter itself.
    """
    beside = os.path.join(os.path.dirname(sys.executable), "tabane")
    on_path = shutil.which("tabane", path=environ.get("PATH"))
    if on_path and os.path.realpath(on_path) == os.path.realpath(beside):
        return [os.path.abspath(on_path)]
    return [beside] if os.access(beside, os.X_OK) else [sys.executable, "-m", "tabane"]


def arguments(client: Client | None, mode: str | None, environ: Mapping[str, str]) -> list[str]:
    """Return the arguments of ``tabane mcp``: the mode, and the locations that this environment sets, which
    the assistant's environment may lack.
    """
    from tabane.hub.local.endpoint import absolute

    mode = mode or (client.mode if client is not None else None)
    found = ["--mode", mode] if mode else []
    for name in _HANDED_DOWN:
        given = environ.get(f"TABANE_{name.upper()}")
        found += [f"--{name}", absolute(given, environ)] if given else []
    return found
