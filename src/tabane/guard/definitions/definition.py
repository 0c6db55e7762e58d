"""Definitions as they are pinned: kinds, keys and digests. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from tabane.wire.json import InvalidJson, decode, fields, quote
from tabane.wire.json import text as json_text

Kind = Literal["tool", "prompt", "resource", "template", "skill", "instructions"]

KINDS: Mapping[str, Kind] = {
    "tools": "tool",
    "prompts": "prompt",
    "resources": "resource",
    "templates": "template",
    "skills": "skill",
    "instructions": "instructions",
}
"""Kinds by the name of their list. The instructions of a server count as a list of one."""

LONGEST_NAME = 16_384
"""Characters of a name or URI. The catalogs leave out a definition with a longer one."""

SLOWLY_READ = 1 << 20
"""Bytes of a definition with repeated members up to which these are told apart."""


class DefinitionKey(NamedTuple):
    """What a definition is of. ``name`` is the server's own name, or the URI; empty for instructions."""

    kind: Kind
    name: str


class SeenDefinition(NamedTuple):
    """A definition as a server gave it, and the digest of its canonical form."""

    key: DefinitionKey
    digest: bytes
    body: Raw


class ChosenDefinition(NamedTuple):
    """A definition that a person decides about, by the digest that the person saw."""

    key: DefinitionKey
    digest: bytes


_NAMED: Mapping[str, str] = {"tool": "name", "prompt": "name", "template": "uriTemplate"}


def read_definitions(
    kind: Kind, items: Iterable[Raw], digest: Callable[[Kind, Raw], bytes]
) -> tuple[SeenDefinition, ...]:
    """Return the definitions of a list that have a usable name; of a repeated name the first, as catalogs."""
    found: dict[str, SeenDefinition] = {}
    for item in items:
        name = name_in(kind, item)
        if name and name not in found and len(name) <= LONGEST_NAME:
            found[name] = SeenDefinition(DefinitionKey(kind, name), digest(kind, item), item)
    return tuple(found.values())


def instructions_definition(text: str) -> SeenDefinition:
    """Return the instructions of a server as a definition."""
    body = Raw(quote(text))
    return SeenDefinition(DefinitionKey("instructions", ""), definition_digest("instructions", body), body)


def name_in(kind: Kind, definition: bytes | Raw) -> str | None:
    """Return what a definition calls itself; None if that cannot be used."""
    try:
        return json_text(fields(definition).get(_NAMED.get(kind, "uri")))
    except InvalidJson:
        return None


def definition_digest(kind: Kind, definition: bytes | Raw) -> bytes:
    """Return the SHA-256 of the canonical form of a definition."""
    return hashlib.sha256(canonical_form(kind, bytes(definition))).digest()


def canonical_form(kind: Kind, definition: bytes) -> bytes:
    """Return a definition as bytes that depend neither on the order of members nor on spaces or escapes.

    A member that is given twice stays: readers differ in which of the two they take. Of a resource, the size
    and the time of its last change are left out, since they belong to its content.
    """
    value = _value(definition)
    if value is None:
        return b"\0" + definition
    if kind == "resource" and isinstance(value, dict):
        value = _without_content(value)
    try:
        return msgspec.json.encode(value, order="sorted")
    except (UnicodeEncodeError, OverflowError, RecursionError, msgspec.MsgspecError, TypeError):
        return _slow_form(value, definition)


def _value(definition: bytes) -> Any:
    try:
        value = decode(definition)
        if msgspec.json.encode(value) == definition:
            return value  # written as msgspec writes it, so no member was lost
    except (InvalidJson, UnicodeEncodeError, OverflowError, RecursionError, msgspec.MsgspecError):
        pass
    if len(definition) > SLOWLY_READ:
        return None
    try:
        return json.loads(definition.decode(), object_pairs_hook=_members)
    except (ValueError, RecursionError):
        return None


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else {"": [list(pair) for pair in pairs]}


def _slow_form(value: Any, definition: bytes) -> bytes:
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    except (ValueError, RecursionError):
        return b"\0" + definition


def _without_content(resource: dict[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in resource.items() if key != "size"}
    notes = found.get("annotations")
    if isinstance(notes, dict) and "lastModified" in notes:
        found["annotations"] = {key: value for key, value in notes.items() if key != "lastModified"}
    return found
