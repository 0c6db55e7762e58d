"""Import of servers from other programs: their files are read, merged, and converted to ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tabane.errors import ConfigurationError
from tabane.gateway.servers.clients import Client
from tabane.gateway.servers.configuration import open_document, server_tables
from tabane.gateway.servers.replaced_servers import replacement_for
from tabane.gateway.servers.server import is_hub
from tabane.gateway.servers.server_keys import ELSEWHERE, KEYS, SYNONYMS, is_plain
from tabane.messages import Message, say
from tabane.settings.files import read_owned

LIMIT = 64 * 1024 * 1024
"""Bytes of another program's file: Claude Code keeps its history beside its servers."""

Definition = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A server in a file of another program. ``title`` is the program's own name.

    ``origin`` is the short word that distinguishes it from others; ``folder`` is its project, if it has one.
    """

    name: str
    definition: Definition = field(repr=False)
    title: str
    origin: str
    path: Path
    folder: Path | None = None


@dataclass(frozen=True, slots=True)
class ImportSource:
    """A file that was read: its servers, or why it could not be read."""

    title: str
    path: Path
    servers: tuple[ImportCandidate, ...] = ()
    problem: Message | None = None


@dataclass(frozen=True, slots=True)
class ImportedServer:
    """A server to be added, where it was found, and the keys that are not imported."""

    name: str
    definition: Definition = field(repr=False)
    titles: tuple[str, ...]
    left: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SkippedServer:
    """A server that is not added, and why."""

    name: str
    title: str
    why: Message


@dataclass(frozen=True, slots=True)
class ServerImportPlan:
    """What an import would do."""

    taken: tuple[ImportedServer, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()

    @property
    def definitions(self) -> dict[str, Definition]:
        return {taken.name: taken.definition for taken in self.taken}


# -- reading -------------------------------------------------------------------------------------


def sources(
    clients: Iterable[Client], platform: str, home: Path, cwd: Path, config: Path | None = None
) -> Iterator[ImportSource]:
    """Yield the existing files of the clients. A broken one has an error, and the others are read."""
    seen: set[Path] = set()
    for client in clients:
        for file in client.files(platform, home, cwd, config):
            path = Path(os.path.realpath(file.path))
            if path not in seen and path.exists():
                seen.add(path)
                folder = cwd if file.scope == "project" else None
                yield _read(file.path, client.title, client.name, folder, client.per_project)


def source_of(path: Path) -> ImportSource:
    """Return one named file. It belongs to no project, since it may be a copy from anywhere."""
    if not path.exists():
        return ImportSource(path.name, path, problem=say("There is no file {path}.", path=path))
    return _read(path, path.name, _name_part(path.stem), None, per_project=True)


def _read(path: Path, title: str, origin: str, folder: Path | None, per_project: bool) -> ImportSource:
    try:
        document = open_document(path, lambda path: read_owned(path, LIMIT))
        tables = [table.value for table in server_tables(path, document)]
    except ConfigurationError as error:
        return ImportSource(title, path, problem=error.message)
    except FileNotFoundError:
        return ImportSource(title, path)
    found = [ImportCandidate(name, value, title, origin, path, folder) for name, value in _entries(tables)]
    if per_project and folder is None:
        found += _of_projects(document.value, title, path)
    return ImportSource(title, path, tuple(found))


def _of_projects(root: Any, title: str, path: Path) -> Iterator[ImportCandidate]:
    projects = root.get("projects")
    for name, project in projects.items() if isinstance(projects, dict) else ():
        table = project.get("mcpServers") if isinstance(project, dict) else None
        folder = Path(name)
        for server, definition in _entries([table]):
            yield ImportCandidate(
                server, definition, f"{title} ({folder.name})", _name_part(folder.name), path, folder
            )


def _entries(tables: Iterable[Any]) -> Iterator[tuple[str, Definition]]:
    for table in tables:
        for name, definition in table.items() if isinstance(table, dict) else ():
            if name and is_plain(name) and isinstance(definition, dict):
                yield name, definition


# -- planning ------------------------------------------------------------------------------------


def plan(
    found: Iterable[ImportCandidate], ours: Mapping[str, Any], *, forced: bool = False
) -> ServerImportPlan:
    """Return what to add to ``ours``, the servers that the file already contains.

    Pure, except that project folders are read to resolve relative paths. The same command, arguments and URL
    are one server, unless their environments contradict each other. If a name is taken, the other server
    gets the client's name as a suffix. Servers whose tools the hub already has are left out, unless
    ``forced``.
    """
    planning = _ServerImportPlanner(ours, forced)
    for server in found:
        planning.take(server)
    return ServerImportPlan(tuple(planning.taken.values()), tuple(planning.skipped))


class _ServerImportPlanner:
    def __init__(self, ours: Mapping[str, Any], forced: bool) -> None:
        self._forced = forced
        self._ours = {name: written for name, written in ours.items() if isinstance(written, dict)}
        self._names = set(ours)
        self.taken: dict[str, ImportedServer] = {}
        self.skipped: list[SkippedServer] = []

    def take(self, found: ImportCandidate) -> None:
        if is_tabane(found.definition):
            self._skip(found, say("this is Tabane itself"))
            return
        needless = None if self._forced else replacement_for(found.name, found.definition)
        if needless is not None:
            self._skip(found, needless)
            return
        definition, left = adopted(found)
        if not definition.get("command") and not definition.get("url"):
            self._skip(found, say("it has neither command nor url"))
            return
        for name, written in self._ours.items():
            if joined(written, definition) is not None:
                self._skip(found, say("it already exists as {name}", name=name))
                return
        if not self._fold(found, definition, left):
            name = self._free_name(found)
            self._names.add(name)
            self.taken[name] = ImportedServer(name, definition, (found.title,), left)

    def _fold(self, found: ImportCandidate, definition: Definition, left: tuple[str, ...]) -> bool:
        for name, taken in self.taken.items():
            whole = joined(taken.definition, definition)
            if whole is not None:
                titles = tuple(dict.fromkeys((*taken.titles, found.title)))
                kept = tuple(dict.fromkeys((*taken.left, *left)))
                self.taken[name] = replace(taken, definition=whole, titles=titles, left=kept)
                return True
        return False

    def _free_name(self, found: ImportCandidate) -> str:
        candidates = [found.name, f"{found.name}-{found.origin}"]
        candidates += [f"{candidates[1]}-{number}" for number in range(2, len(self._names) + 3)]
        return next(name for name in candidates if name not in self._names)

    def _skip(self, found: ImportCandidate, why: Message) -> None:
        self.skipped.append(SkippedServer(found.name, found.title, why))


def adopted(found: ImportCandidate) -> tuple[Definition, tuple[str, ...]]:
    """Return the definition with only the keys that Tabane knows, and the names of the others.

    A project's server still runs in its folder, if that makes a difference.
    """
    definition: Definition = {}
    left = []
    for key, value in found.definition.items():
        known = ELSEWHERE.get(key) or SYNONYMS.get(key) or key
        if known not in KEYS:
            left.append(key)
        elif known not in definition and value is not None:
            definition[known] = value
    folder = _folder(found, definition)
    return (definition | {"cwd": folder} if folder else definition), tuple(left)


def joined(one: Mapping[str, Any], other: Mapping[str, Any]) -> Definition | None:
    """Return both definitions as one if they are the same server; None if they are not."""
    if _identity(one) != _identity(other):
        return None
    whole = dict(one)
    for key in ("env", "headers"):
        both = one.get(key) or {}, other.get(key) or {}
        if not all(isinstance(part, dict) for part in both):
            return None
        mine, theirs = both
        if any(mine[name] != theirs[name] for name in mine.keys() & theirs.keys()):
            return None
        if mine or theirs:
            whole[key] = {**mine, **theirs}
    return whole


def is_tabane(definition: Mapping[str, Any]) -> bool:
    """Return whether a definition is this hub: importing it would make the hub call itself."""
    if is_hub(_url(definition)):
        return True
    args = definition.get("args")
    words = [definition.get("command"), *(args if isinstance(args, list) else ())]
    plain = [word for word in words if isinstance(word, str)]
    at = next((index for index, word in enumerate(plain) if _TABANE.fullmatch(word)), None)
    return at is not None and "mcp" in plain[at + 1 :]


def _folder(found: ImportCandidate, definition: Definition) -> str | None:
    if found.folder is None or not definition.get("command"):
        return None
    given = definition.get("cwd")
    if isinstance(given, str):
        return given if given.startswith(("~", "${")) else os.path.normpath(found.folder / given)
    args = definition.get("args")
    words = [definition["command"], *(args if isinstance(args, list) else ())]
    relative = (word for word in words if isinstance(word, str) and word and not os.path.isabs(word))
    return str(found.folder) if any(os.path.exists(found.folder / word) for word in relative) else None


def _identity(definition: Mapping[str, Any]) -> tuple[Any, ...]:
    url = _url(definition)
    args = definition.get("args") or []
    cwd = definition.get("cwd") or None
    return definition.get("command") or None, args, url.rstrip("/") or None, cwd


def _url(definition: Mapping[str, Any]) -> str:
    return str(definition.get("url") or definition.get("serverUrl") or definition.get("httpUrl") or "")


def _name_part(text: str) -> str:
    """Return a text in a form that fits into a server's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "2"


_TABANE = re.compile(r"(?:.*[/\\])?tabane(?:\.exe)?(?:[@=~<>!].*)?")
