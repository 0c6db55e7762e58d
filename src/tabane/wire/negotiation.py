"""Capabilities of clients and servers as the hub passes them on to the other side; pure.

Each side is told what the other side announced, as far as the hub can carry it. A connection to one server
carries everything, because unknown messages pass through it unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Raw

from tabane.wire import json
from tabane.wire.era import META_CAPABILITIES, Extension
from tabane.wire.json import InvalidJson, Members
from tabane.wire.questions import Features, capabilities_of

CARRIED = ("experimental", "extensions")
"""Capabilities of a client that the hub passes on, apart from what it can be asked. What is experimental only
says something about the client: methods that the hub does not know pass on a connection to one server alone.
"""

KNOWN_OF_SERVERS = ("tools", "prompts", "resources", "completions", "logging")
"""Capabilities of a server whose methods the hub knows."""

SHORT = len(b'{"extensions":{}}') - 1
"""Bytes of capabilities that cannot have extensions."""

LONGEST = 64 << 10
"""Bytes of the capabilities of a client that are passed on. Larger ones are passed on without extensions."""


def announced(extensions: Sequence[Extension]) -> Members:
    """Return the member ``extensions`` of the capabilities that the hub announces to clients."""
    return {each.id: Raw(each.to_clients) for each in extensions if each.to_clients is not None}


def offered_to_servers(extensions: Sequence[Extension]) -> Members:
    """Return the member ``extensions`` that the hub announces to a server that all clients share."""
    return {each.id: Raw(each.to_servers) for each in extensions if each.to_servers is not None}


def passed_on(capabilities: Members, extensions: Collection[str] | None) -> Members:
    """Return the capabilities of a client that servers are told.

    ``extensions`` are the identifiers of those that the hub carries between the client and its servers; None
    if it carries everything. Other capabilities pass unchanged, experimental ones too.
    """
    declared = capabilities.get("extensions")
    if declared is None:
        return capabilities
    rest = {name: value for name, value in capabilities.items() if name != "extensions"}
    if sum(map(len, capabilities.values())) > LONGEST:
        return rest
    if extensions is None:
        return capabilities
    kept = {name: value for name, value in _members(declared).items() if name in extensions}
    return {**rest, "extensions": Raw(json.join(kept))} if kept else rest


def told_to_servers(capabilities: Members, extensions: Collection[str] | None, features: Features) -> Members:
    """Return the capabilities of a client for servers that serve it: as :func:`passed_on` does.

    ``features`` are the questions that it can be asked. Folders (roots) are left out, because the hub answers
    for them. If the hub does not carry everything, only capabilities that it can carry are passed on.
    """
    asked = json.fields(capabilities_of(features - {"roots"}))
    sent = passed_on(capabilities, extensions)
    if sum(map(len, capabilities.values())) > LONGEST:
        return asked
    if extensions is None:
        return {**asked, **{name: value for name, value in sent.items() if name != "roots"}}
    asked = {name: value if name == "elicitation" else sent.get(name, value) for name, value in asked.items()}
    return {**{name: value for name, value in sent.items() if name in CARRIED}, **asked}


def filtered(meta: Members, extensions: Collection[str] | None) -> Members:
    """Return the ``_meta`` of a modern request with the capabilities that :func:`passed_on` returns."""
    declared = meta.get(META_CAPABILITIES)
    if extensions is None or declared is None or not names_extensions(meta):
        return meta
    return {**meta, META_CAPABILITIES: Raw(json.join(passed_on(_members(declared), extensions)))}


def names_extensions(meta: Members) -> bool:
    """Return whether the capabilities in the ``_meta`` of a request may have extensions."""
    declared = meta.get(META_CAPABILITIES)
    return declared is not None and len(declared) > SHORT and b'"extensions"' in bytes(declared)


def of_one_server(capabilities: Members, *, modern: bool, whole: bool) -> Members:
    """Return the capabilities of a server for a client that is connected to it alone.

    ``modern`` is the era of the client: tasks as a capability exist only in the other one. ``whole`` is
    whether the client may use methods that the hub does not know. Otherwise nothing is announced that needs
    them.
    """
    if not whole:
        return {name: value for name, value in capabilities.items() if name in KNOWN_OF_SERVERS}
    return {name: value for name, value in capabilities.items() if not (modern and name == "tasks")}


def extensions_in(capabilities: Members) -> Members:
    """Return the extensions that a client or server announced, by identifier."""
    declared = capabilities.get("extensions")
    return {} if declared is None else _members(declared)


def _members(raw: Raw) -> Members:
    """Return the members of an object; {} if it is anything else."""
    try:
        return json.fields(raw)
    except InvalidJson:
        return {}
