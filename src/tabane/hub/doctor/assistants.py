"""Checks of the assistants' own files: whether Tabane is there, can be found, and nothing is there twice."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tabane.gateway.servers.clients import CLIENTS
from tabane.gateway.servers.importing import (
    ImportCandidate,
    ImportSource,
    adopted,
    is_tabane,
    joined,
    sources,
)
from tabane.hub.doctor.installation import DoctorFinding, Installation, fault, note, ok, warning
from tabane.hub.local.endpoint import here
from tabane.messages import say
from tabane.settings.places import home_folder


def assistants(installation: Installation) -> Iterator[DoctorFinding]:
    """Every file of an assistant that is there."""
    looked = _looked(installation.environ)
    for source in looked:
        if source.problem:
            yield warning(say("{title}: {problem}", title=source.title, problem=source.problem))
            continue
        ours = [found for found in source.servers if is_tabane(found.definition)]
        for found in ours:
            yield _entry(found, installation.environ)
        if ours:
            yield from _twice(source, installation.written)
    if not any(is_tabane(found.definition) for source in looked for found in source.servers):
        yield note(
            say("None of the assistants that Tabane knows is set up to use it"),
            say("Set one up: tabane install {names}", names="|".join(client.name for client in CLIENTS)),
        )


def _looked(environ: Mapping[str, str]) -> Sequence[ImportSource]:
    config = environ.get("XDG_CONFIG_HOME", "")
    return list(
        sources(
            CLIENTS,
            sys.platform,
            Path(home_folder(environ)),
            Path(here()),
            Path(config) if os.path.isabs(config) else None,
        )
    )


def _entry(found: ImportCandidate, environ: Mapping[str, str]) -> DoctorFinding:
    command = str(found.definition.get("command", ""))
    origin = next((client.name for client in CLIENTS if client.title == found.title), None)
    again = say("Set it up again: tabane install {name}", name=origin) if origin else None
    if shutil.which(command, path=environ.get("PATH")) is None:
        title = say(
            "{title} starts Tabane as {command}, which does not exist", title=found.title, command=command
        )
        return fault(title, again or say("Fix it in {path}", path=found.path))
    if not os.path.isabs(command):
        title = say(
            "{title} starts Tabane as {command}, which it may not find on its PATH",
            title=found.title,
            command=command,
        )
        return note(title, again)
    return ok(say("{title} uses Tabane: {path}", title=found.title, path=found.path))


def _twice(source: ImportSource, written: Mapping[str, object]) -> Iterator[DoctorFinding]:
    """Servers that an assistant with Tabane starts itself as well: it sees their tools twice."""
    for found in source.servers:
        if is_tabane(found.definition) or found.definition.get("disabled"):
            continue
        definition, _ = adopted(found)
        same = (
            name
            for name, ours in written.items()
            if isinstance(ours, dict) and joined(ours, definition) is not None
        )
        for name in same:
            yield warning(
                say(
                    "{title} has the server {name} twice: through Tabane, and as {own} in its own file",
                    title=found.title,
                    name=name,
                    own=found.name,
                ),
                say("Remove {own} from {path}", own=found.name, path=found.path),
            )
