"""Scans of all definitions that servers list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Raw

from tabane.errors import BadArguments
from tabane.guard.scanner.findings import Finding, Kind, ScannedText
from tabane.guard.scanner.scanner import DefinitionScanner
from tabane.messages import say
from tabane.wire.json import InvalidJson, elements, fields, text

KINDS: Mapping[str, Kind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
    "skills": "skill",
}
"""The kind of the definitions in each list."""

MOST_FILE = 32 << 20
"""Bytes of a file with definitions."""


class ScannedDefinition(NamedTuple):
    """A definition of a server, and what was found in it."""

    server: str
    kind: Kind
    name: str
    findings: tuple[Finding, ...]


class ListedDefinition(NamedTuple):
    """A definition that a server lists."""

    server: str
    kind: Kind
    name: str
    definition: bytes


class ListedServer(NamedTuple):
    """The definitions of a server, and the names of the tools of others that a tool may imitate."""

    server: str
    definitions: tuple[ScannedText, ...]
    others: frozenset[str]


def by_server(
    definitions: Sequence[ListedDefinition], wanted: Iterable[str] | None = None
) -> Iterator[ListedServer]:
    """Yield the definitions of each of the ``wanted`` servers, all if it is None."""
    tools = {(one.server, one.name) for one in definitions if one.kind == "tool"}
    chosen = {one.server for one in definitions} if wanted is None else set(wanted)
    for server in dict.fromkeys(one.server for one in definitions if one.server in chosen):
        own = {name for owner, name in tools if owner == server}
        others = frozenset(
            part
            for owner, name in tools
            if owner != server and name not in own
            for part in (name, f"{owner}__{name}")
        )
        texts = (
            ScannedText(one.kind, one.name, one.definition) for one in definitions if one.server == server
        )
        yield ListedServer(server, tuple(texts), others)


def scanned(definitions: Sequence[ListedDefinition]) -> Iterator[ScannedDefinition]:
    """Yield what was found in the definitions of all servers, scanned at once."""
    scanner = DefinitionScanner()
    for server, texts, others in by_server(definitions):
        for one in texts:
            findings = scanner.scan(server, one.kind, one.name, bytes(one.body), others)
            yield ScannedDefinition(server, one.kind, one.name, findings)


def listed(server: str, lists: Mapping[str, Iterable[bytes | Raw]]) -> Iterator[ListedDefinition]:
    """Yield the definitions in a server's lists."""
    for name, definitions in lists.items():
        kind = KINDS.get(name)
        if kind is not None:
            for definition in definitions:
                yield ListedDefinition(server, kind, _name(definition), bytes(definition))


def definitions_of_file(server: str, content: bytes) -> list[ListedDefinition]:
    """Return the definitions in a file: an answer of tools/list, its result, or a list of tools.

    Raises BadArguments if it is none of these.
    """
    try:
        if content.lstrip()[:1] == b"[":
            return list(listed(server, {"tools": elements(content)}))
        members = fields(content)
        members = fields(members["result"]) if "result" in members else members
        lists = {name: elements(raw) for name, raw in members.items() if name in KINDS}
        if "resourceTemplates" in members:
            lists["templates"] = elements(members["resourceTemplates"])
    except InvalidJson:
        lists = {}
    if not lists:
        raise BadArguments(
            say("The file holds no definitions. Expected the JSON that a server returns for tools/list."),
            "file",
        )
    return list(listed(server, lists))


def _name(definition: bytes | Raw) -> str:
    try:
        members = fields(definition)
    except InvalidJson:
        return ""
    return text(members.get("name")) or text(members.get("uri")) or text(members.get("uriTemplate")) or ""
