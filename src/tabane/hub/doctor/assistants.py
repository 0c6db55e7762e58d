"""Checks of the assistants' own files: what they start, in which mode, and what they have twice."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from tabane.hub.doctor.installation import DoctorFinding, Installation, fault, note, ok, warning
from tabane.hub.doctor.troubles import Trouble
from tabane.hub.local.endpoint import here
from tabane.messages import Message, say
from tabane.servers.assistants.formats import mode_of
from tabane.servers.assistants.importing import (
    ImportCandidate,
    ImportSource,
    adopted,
    is_tabane,
    joined,
    sources,
)
from tabane.servers.assistants.table import CLIENTS, UserMachine, client_named
from tabane.servers.foreign_keys import our_definition
from tabane.settings.files import home_folder


def assistants(installation: Installation) -> Iterator[DoctorFinding]:
    """Check each assistant's file that exists."""
    machine = UserMachine(sys.platform, Path(home_folder(installation.environ)), installation.environ)
    looked = list(sources(CLIENTS, machine, Path(here())))
    for source in looked:
        if source.problem:
            yield warning(say("{title}: {problem}", title=source.title, problem=source.problem))
            continue
        ours = [found for found in source.servers if is_tabane(found.definition)]
        for found in ours:
            yield _entry(found, installation.environ)
            yield from _mode(found, installation.settings.mode)
        if ours:
            yield from _twice(source, installation.written)
    if not any(is_tabane(found.definition) for source in looked for found in source.servers):
        yield note(
            say("None of the assistants that Tabane knows is set up to use it"),
            say("Set up those on this machine: tabane setup"),
        )


def _entry(found: ImportCandidate, environ: Mapping[str, str]) -> DoctorFinding:
    command = str(found.definition.get("command", ""))
    again = _again(found)
    if found.definition.get("url"):
        return ok(say("{title} uses Tabane: {path}", title=found.title, path=found.path))
    if shutil.which(command, path=environ.get("PATH")) is None:
        title = say(
            "{title} starts Tabane as {command}, which does not exist", title=found.title, command=command
        )
        return fault(title, again or say("Fix it in {path}", path=found.path))
    # a project's file is shared, so that it names no folder of this machine
    if not os.path.isabs(command) and found.scope == "user":
        title = say(
            "{title} starts Tabane as {command}, which it may not find on its PATH",
            title=found.title,
            command=command,
        )
        return note(title, again)
    return ok(say("{title} uses Tabane: {path}", title=found.title, path=found.path))


def _mode(found: ImportCandidate, default: str) -> Iterator[DoctorFinding]:
    """Report an entry in another mode than suits the assistant."""
    client = client_named(found.client)
    if client is None or found.definition.get("url"):
        return
    mode = mode_of(found.definition) or default
    if client.mode == "full" and mode == "search":
        yield warning(
            say(
                "{title} searches tools itself, and searches twice with Tabane in mode search",
                title=found.title,
            ),
            _again(found),
            trouble=Trouble.TWICE,
        )
    if client.mode == "search" and mode == "full":
        yield note(
            say("{title} may load all tools at once with Tabane in mode full", title=found.title),
            _again(found),
        )


def _again(found: ImportCandidate) -> Message | None:
    if not found.client:
        return None
    if found.scope == "project":
        return say("Set it up again: tabane install {name} --project", name=found.client)
    return say("Set it up again: tabane install {name}", name=found.client)


def _out_of(found: ImportCandidate) -> Message:
    if found.scope == "project" or not found.client:
        return say("Remove {own} from {path}", own=found.name, path=found.path)
    return say("Move it out of that file: tabane setup {name}", name=found.client)


def _twice(source: ImportSource, written: Mapping[str, object]) -> Iterator[DoctorFinding]:
    """Report servers that an assistant with Tabane also starts itself: it sees their tools twice."""
    for found in source.servers:
        if is_tabane(found.definition) or found.definition.get("disabled"):
            continue
        definition, *_ = adopted(found)
        same = (
            name
            for name, ours in written.items()
            if isinstance(ours, dict) and joined(our_definition(ours.items()).values, definition) is not None
        )
        for name in same:
            yield warning(
                say(
                    "{title} has the server {name} twice: through Tabane, and as {own} in its own file",
                    title=found.title,
                    name=name,
                    own=found.name,
                ),
                _out_of(found),
                trouble=Trouble.TWICE,
            )
