"""Servers whose tools the hub already has, recognized by their commands. An import leaves them out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from tabane.messages import Message, say
from tabane.servers.foreign_keys import our_definition

_VERSION = re.compile(r"(?<=.)[@:].*")
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class _ComparedCommand(NamedTuple):
    """A definition as it is compared. ``parts``: segments of its paths and packages, in lower case."""

    name: str
    words: frozenset[str]
    parts: frozenset[str]
    env: frozenset[str]
    host: str


def replacement_for(name: str, definition: Mapping[str, Any]) -> Message | None:
    """Return why a server is not needed behind the hub, and the replacement; None for any other server."""
    command = _command(name, definition)
    return next((why for is_it, why in _SERVERS if is_it(command)), None)


def _is_monoread(command: _ComparedCommand) -> bool:
    return "monoread" in command.parts and "mcp" in command.words


def _is_twilog(command: _ComparedCommand) -> bool:
    return not command.parts.isdisjoint(
        ("twilog-mcp-server", "twilog_mcp_server", "twilog_mcp_server.py", "twilog-search", "twilog-mcp")
    )


def _is_semche(command: _ComparedCommand) -> bool:
    if "SEMCHE_CHROMA_DIR" in command.env or "semche" in command.parts:
        return True
    return command.name == "semche" and command.host in _LOOPBACK


def _is_search_mcp(command: _ComparedCommand) -> bool:
    return "search-mcp" in command.parts


_SERVERS: tuple[tuple[Callable[[_ComparedCommand], bool], Message], ...] = (
    (
        _is_twilog,
        say(
            "Tabane has twilog's tools built in (search_similar and others). Import its "
            "archive with: tabane posts import"
        ),
    ),
    (
        _is_semche,
        say(
            "Tabane has semche's tools built in (put_document, search and others). Import its "
            "documents with: tabane docs import-chroma"
        ),
    ),
    (_is_monoread, say("Tabane has monoread's tool built in (read_url_content)")),
    (
        _is_search_mcp,
        say(
            "Tabane replaces search-mcp. To import its servers, give its configuration file: "
            "tabane servers import --from config/mcp-servers.json"
        ),
    ),
)


def _command(name: str, definition: Mapping[str, Any]) -> _ComparedCommand:
    definition = our_definition(definition.items()).values
    args = definition.get("args")
    given = [definition.get("command"), *(args if isinstance(args, list) else ())]
    words = [word for text in given if isinstance(text, str) for word in text.split()]
    cwd, env = definition.get("cwd"), definition.get("env")
    places = [*words, *(cwd.split() if isinstance(cwd, str) else ())]
    return _ComparedCommand(
        name.lower(),
        frozenset(words),
        frozenset(part for place in places for part in _parts(place)),
        frozenset(env) if isinstance(env, Mapping) else frozenset(),
        _host(definition.get("url")),
    )


_OWNERS = frozenset({"@yukukotani", "@7shi", "@paterapatera", "@krtw00"})


def _parts(word: str) -> Iterable[str]:
    """Return the segments of a path, or the name of a package without its version.

    A package with the same name from another owner is another package.
    """
    segments = [segment for segment in re.split(r"[/\\=]", word.strip("'\"").lower()) if segment]
    if segments and segments[0].startswith("@") and segments[0] not in _OWNERS:
        return ()
    return (_VERSION.sub("", segment) for segment in segments)


def _host(url: object) -> str:
    try:
        return (urlsplit(url).hostname or "") if isinstance(url, str) else ""
    except ValueError:
        return ""
