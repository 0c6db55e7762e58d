"""Catalog of the skills of all upstreams (SEP-2640), under addresses that contain their server's name.

A skill is a folder of files, each of them a resource. Its entry lists their URIs with digests of their bytes.
The hub changes the URIs of an entry and nothing else, so digests and frontmatter stay right. Two servers may
serve skills under the same URI, so every URI is shown as an address, also if no other server has it: then a
skill that a host has approved never becomes another server's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Iterator

from msgspec import Raw, Struct

from tabane.catalog.offers.resources import template_address
from tabane.wire.json import InvalidJson, Members, elements, fields, join, quote, text

log = logging.getLogger(__name__)

DYNAMIC = b'"dynamic"'
"""In place of the list of files: they are generated, so there are no digests."""

DIRECTORY = b'"inode/directory"'


class Skill(Struct, frozen=True):
    """One skill. ``uri`` is its server's own URI of SKILL.md, ``shown`` the address in ``definition``.

    ``files`` are the own URIs of its files; None if they are generated.
    """

    server: str
    uri: str
    shown: str
    name: str
    description: str
    definition: bytes
    files: tuple[str, ...] | None


class SkillCatalog:
    """Skills by server. What servers listed is parsed by :meth:`read`, in a thread, before it is used.

    ``version`` changes whenever what a client sees may have changed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._listed: dict[str, tuple[Raw, ...]] = {}
        self._skills: dict[str, tuple[Skill, ...]] = {}

    def put(self, server: str, entries: Iterable[Raw]) -> bool:
        """Store what a server listed; return whether anything changed."""
        listed = tuple(entries)
        if self._listed.get(server, ()) == listed:
            self._listed.setdefault(server, listed)
            return False
        self._listed[server] = listed
        self._skills.pop(server, None)
        self.version += 1
        return True

    def remove(self, server: str) -> bool:
        """Remove the skills of a server. Return whether it had any."""
        self._skills.pop(server, None)
        if not self._listed.pop(server, ()):
            return False
        self.version += 1
        return True

    async def read(self) -> None:
        """Parse what was listed since the last time."""
        for server, listed in list(self._listed.items()):
            if server not in self._skills:
                skills = await asyncio.to_thread(read_skills, server, listed)
                if self._listed.get(server) is listed:
                    self._skills[server] = skills

    def items(self) -> list[Skill]:
        """Return all skills that were parsed, by server and then as servers list them."""
        return [skill for server in sorted(self._skills) for skill in self._skills[server]]

    def listed_by(self, server: str) -> object:
        """Return what a server listed: the same object until it lists something else."""
        return self._listed.get(server)


def read_skills(server: str, entries: Iterable[Raw]) -> tuple[Skill, ...]:
    """Return the skills that a server listed. An invalid or repeated entry is left out and logged."""
    found: dict[str, Skill] = {}
    for entry in entries:
        skill = read_skill(server, entry)
        if skill is None or skill.uri in found:
            log.warning("%s: a skill was left out: its entry is not valid, or repeats another", server)
        else:
            found[skill.uri] = skill
    return tuple(found.values())


def read_skill(server: str, entry: Raw) -> Skill | None:
    """Return the skill of an entry; None if the entry is not valid. Hosts may not load such a skill."""
    try:
        members = fields(entry)
        uri = text(members.get("uri"))
        matter = fields(members["frontmatter"])
        name, description = text(matter.get("name")), text(matter.get("description"))
        if not uri or not name or description is None:
            return None
        listed, shown = _shown_files(server, members["resources"]), shown_uri(server, uri)
    except (InvalidJson, KeyError):
        return None
    definition = join({**members, "uri": Raw(quote(shown)), "resources": listed.value})
    return Skill(server, uri, shown, name, description, definition, listed.files)


class _ShownFiles(Struct, frozen=True):
    value: Raw
    files: tuple[str, ...] | None


def _shown_files(server: str, listed: Raw) -> _ShownFiles:
    """Return the files of an entry with their addresses. Raises InvalidJson if they are not valid."""
    if bytes(listed).strip() == DYNAMIC:
        return _ShownFiles(Raw(DYNAMIC), None)
    files = [fields(each) for each in elements(listed)]
    uris = [text(each.get("uri")) for each in files]
    named = [uri for uri in uris if uri is not None]
    if len(named) != len(files):
        raise InvalidJson("a file without a URI")
    renamed = (_renamed(each, server, uri) for each, uri in zip(files, named, strict=True))
    return _ShownFiles(Raw(b"[" + b",".join(renamed) + b"]"), tuple(named))


def _renamed(resource: Members, server: str, uri: str) -> bytes:
    return join({**resource, "uri": Raw(quote(shown_uri(server, uri)))})


def shown_uri(server: str, uri: str) -> str:
    """Return the address of a file or folder of a skill.

    What the server calls it follows the server's name verbatim, so that relative references stay right.
    """
    return template_address(server, uri)


def with_shown_resources(server: str, result: Raw) -> bytes:
    """Return the result of reading a folder with the addresses of what is in it. Raises InvalidJson."""
    members = fields(result)
    children = [fields(each) for each in elements(members.get("resources", b"[]"))]
    renamed = (_renamed(each, server, text(each.get("uri")) or "") for each in children)
    return join({**members, "resources": Raw(b"[" + b",".join(renamed) + b"]")})


def folder_of(skills: Iterable[Skill], server: str, uri: str) -> bytes | None:
    """Return the result of reading a folder, as the entries of a server's skills list its files.

    For a server that does not read folders itself. None if no listed file is in the folder.
    """
    below = uri.rstrip("/") + "/"
    # What is a file and a folder at once counts as a folder.
    found = dict(sorted(set(_children(skills, below))))
    if not found:
        return None
    items = (_child(server, below + name, name, found[name]) for name in found)
    return b'{"resources":[' + b",".join(items) + b"]}"


def _children(skills: Iterable[Skill], below: str) -> Iterator[tuple[str, bool]]:
    """Yield the name of each direct child of a folder, and whether it is a folder."""
    for skill in skills:
        for file in skill.files or ():
            if file.startswith(below) and (name := file[len(below) :]):
                yield name.partition("/")[0], "/" in name


def _child(server: str, uri: str, name: str, is_folder: bool) -> bytes:
    members = {"uri": Raw(quote(shown_uri(server, uri))), "name": Raw(quote(name))}
    if is_folder:
        members["mimeType"] = Raw(DIRECTORY)
    return join(members)
