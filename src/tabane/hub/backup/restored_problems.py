"""Problems of a restored hub on this machine: secrets, programs, folders and files that are not here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from tabane.messages import Message, say
from tabane.servers.configuration import ServersConfiguration
from tabane.servers.server import Server
from tabane.servers.variables import Variables, names_in, names_needed
from tabane.settings import OPTIONS, Settings


def missing_secrets(
    definitions: Mapping[str, object], settings: Settings, variables: Variables, earlier: Iterable[str]
) -> dict[str, tuple[str, ...]]:
    """Return the variables that nobody sets here, with their users: servers, or ``tabane.toml``.

    ``earlier`` are names of secrets that the hub of the backup had, also without a user.
    """
    users: dict[str, list[str]] = {name: [] for name in earlier}
    for server, definition in definitions.items():
        needed = set(names_needed(definition))
        for name in dict.fromkeys(_required(definition)):
            if name in needed:
                users.setdefault(name, []).append(server)
    for value in (settings.oauth_client_secret, settings.model_key):
        for name in names_in(value):
            users.setdefault(name, []).append("tabane.toml")
    return {name: tuple(by) for name, by in users.items() if variables.get(name) is None}


def server_problems(configuration: ServersConfiguration, environ: Mapping[str, str]) -> Iterator[Message]:
    """Yield what a server needs and this machine does not have, and what to do."""
    for server in configuration.servers:
        if not server.switched_off and server.transport == "stdio" and server.command:
            yield from _of_server(server, str(configuration.path), environ)


def setting_problems(settings: Settings) -> Iterator[Message]:
    """Yield the paths in tabane.toml that do not exist here."""
    for option in OPTIONS:
        value, source = getattr(settings, option.name), settings.sources.get(option.name)
        if source is None or source.kind != "file" or option.name == "servers":
            continue
        for path in value if isinstance(value, tuple) else (value,):
            if isinstance(path, Path) and not path.exists():
                yield say(
                    "The setting {name} is {path}, which does not exist here. Change it with: tabane "
                    "settings set {name} PATH",
                    name=option.name,
                    path=path,
                )


def _of_server(server: Server, file: str, environ: Mapping[str, str]) -> Iterator[Message]:
    path = server.env.get("PATH") or environ.get("PATH")
    if shutil.which(server.command, path=path) is None:
        yield say(
            "The server {server!n} runs {command}, which is not on this machine. Install it, or change the "
            "server in {file}",
            server=server.name,
            command=server.command,
            file=file,
        )
    places = [("cwd", server.cwd)] if server.cwd and not server.needs_folder else []
    places += [("args", argument) for argument in server.args if _is_place(argument)]
    for key, place in places:
        if place and not os.path.exists(place):
            yield say(
                "The server {server!n} uses {path} ({key}), which does not exist here. Create it, or change "
                "the server in {file}",
                server=server.name,
                file=file,
                path=place,
                key=key,
            )


def _is_place(argument: str) -> bool:
    """Return whether an argument is a path on the machine of the backup, and no option or URL path."""
    return os.path.isabs(argument) and argument.count("/") > 1 and "\n" not in argument


def _required(value: object) -> Iterator[str]:
    """Yield the variables without a default."""
    if isinstance(value, str):
        yield from (name for name in names_in(value) if f"{name}:-" not in value)
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _required(part)
