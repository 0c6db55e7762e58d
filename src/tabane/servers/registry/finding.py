"""Servers found in a registry by words, and one of them by its name."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tabane.errors import BadArguments, UnknownName
from tabane.messages import Lang, Message, say
from tabane.servers.registry.answer_cache import AnswerCache
from tabane.servers.registry.entries import NAME, RegistryServer, page_of, server_of
from tabane.servers.registry.registry_client import (
    PATIENCE,
    RegistryAnswer,
    RegistryClient,
    RegistryNotFound,
    RegistryUnavailable,
    registry_client,
)

MOST_RESULTS = 100
MOST_PAGES = 5
"""Answers that are asked for in one search: deleted servers leave pages short."""

PATIENCE_OF_SEARCH = 45.0
"""Seconds for all answers of one search."""

MOST_WORDS = 3
_FEWEST_LETTERS = 2


@dataclass(frozen=True, slots=True)
class FoundServers:
    """Servers of a search. ``next`` is the cursor of the next page; ``notes`` are about the answer."""

    servers: list[RegistryServer]
    next: str | None = None
    notes: tuple[Message, ...] = ()

    def row(self, host: str, lang: Lang) -> dict[str, Any]:
        """Return the result as JSON."""
        return {
            "registry": host,
            "results": [server.row(lang) for server in self.servers],
            "next": self.next,
            "notes": [note.render(lang) for note in self.notes],
        }


class Registry:
    """Finds servers. Made by :func:`open_registry`."""

    def __init__(self, client: RegistryClient, patience: float) -> None:
        self._client, self._patience = client, patience
        self.host = client.host

    async def find(self, query: str, limit: int, cursor: str | None = None) -> FoundServers:
        """Return the servers that match a query, the best first.

        The registry looks for the query as it is written. If it finds nothing, it is asked for each word.
        Raises RegistryUnavailable.
        """
        try:
            async with asyncio.timeout(self._patience):
                return await self._found(query, limit, cursor)
        except TimeoutError:
            raise RegistryUnavailable(
                say("{host} is too slow: no result within {seconds:g} s.",
                    host=self.host, seconds=self._patience)
            ) from None  # fmt: skip

    async def _found(self, query: str, limit: int, cursor: str | None) -> FoundServers:
        query = " ".join(query.split())
        found = await self._matching(query, limit, cursor)
        words = list(dict.fromkeys(word for word in query.lower().split() if len(word) >= _FEWEST_LETTERS))
        if found.servers or cursor or len(words) == 1:
            return found
        return await self._by_words(words[:MOST_WORDS], limit)

    async def _matching(self, query: str, limit: int, cursor: str | None) -> FoundServers:
        servers: dict[str, RegistryServer] = {}
        notes: list[Message] = []
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            asked = {"version": "latest", "limit": str(limit)}
            asked |= ({"search": query} if query else {}) | ({"cursor": cursor} if cursor else {})
            answer = await self._page(asked)
            notes += [] if notes else _notes(answer)
            try:
                page = page_of(answer.value)
            except ValueError:
                raise RegistryUnavailable(
                    say("{host} answers with something else than a list of servers.", host=self.host)
                ) from None
            for server in page.servers:
                servers.setdefault(server.name, server)
            cursor = page.cursor
            # A cursor that was used leads in a circle.
            if cursor is None or cursor in seen:
                cursor = None
                break
            seen.add(cursor)
            if len(servers) >= limit:
                break
        ordered = sorted(servers.values(), key=lambda server: _rank(server, [query.lower()]))
        return FoundServers(ordered[:MOST_RESULTS], cursor, tuple(notes))

    async def _page(self, asked: Mapping[str, str]) -> RegistryAnswer:
        try:
            return await self._client.get("/v0.1/servers", asked)
        except RegistryNotFound:
            raise RegistryUnavailable(
                say("{host} is no registry of MCP servers. Check the setting registry_url.", host=self.host)
            ) from None

    async def _by_words(self, words: list[str], limit: int) -> FoundServers:
        servers: dict[str, RegistryServer] = {}
        notes: tuple[Message, ...] = ()
        for word in words:
            found = await self._matching(word, limit, None)
            notes = notes or found.notes
            servers |= {server.name: server for server in found.servers}
        ordered = sorted(servers.values(), key=lambda server: _rank(server, words))
        return FoundServers(ordered[:limit], None, notes)

    async def get(self, name: str, version: str = "latest") -> tuple[RegistryServer, tuple[Message, ...]]:
        """Return a server by its name, and notes.

        Raises BadArguments, UnknownName and RegistryUnavailable.
        """
        if not NAME.fullmatch(name):
            raise BadArguments(
                say("{name} is not a name of the registry, such as io.github.user/weather.", name=name),
                "name",
            )
        path = f"/v0.1/servers/{quote(name, safe='')}/versions/{quote(version, safe='')}"
        try:
            answer = await self._client.get(path, {})
        except RegistryNotFound:
            raise await self._unknown(name, version) from None
        server = server_of(answer.value)
        if server is None or server.name.lower() != name.lower():
            raise RegistryUnavailable(say("{host} answers with another server.", host=self.host))
        if server.status == "deleted":
            why = server.status_message
            text = say("{name} was deleted from the registry: {why}", name=name, why=why)
            raise UnknownName(text if why else say("{name} was deleted from the registry.", name=name))
        return server, tuple(_notes(answer))

    async def _unknown(self, name: str, version: str) -> UnknownName:
        if version != "latest":
            return UnknownName(
                say("The registry has no version {version} of {name}.", name=name, version=version)
            )
        try:
            found = await self._matching(name.rpartition("/")[2], 10, None)
        except RegistryUnavailable:
            return UnknownName(say("The registry has no server {name}.", name=name))
        near = [server.name for server in found.servers[:3]]
        if not near:
            return UnknownName(say("The registry has no server {name}.", name=name))
        return UnknownName(
            say("The registry has no server {name}. Did you mean {near}?", name=name, near=", ".join(near)),
            tuple(near),
        )


@asynccontextmanager
async def open_registry(
    address: str,
    environment: Mapping[str, str],
    home: Path,
    *,
    patience: float = PATIENCE,
    search_patience: float = PATIENCE_OF_SEARCH,
) -> AsyncIterator[Registry]:
    """Connect to the registry at an address for the block; its answers are kept below ``home``.

    ``patience`` is how many seconds one request may take, ``search_patience`` those of a search. Raises
    ConfigurationError and UpstreamUnavailable.
    """
    cache = AnswerCache(home / "registry-cache")
    async with registry_client(address, environment, cache, patience) as client:
        yield Registry(client, search_patience)


def _rank(server: RegistryServer, words: Iterable[str]) -> tuple[bool, int, bool, str]:
    """Order by: supported, words that match (names count more), status; the name last."""
    name, text = server.short_name.lower(), f"{server.name} {server.title} {server.description}".lower()
    score = sum(4 * (word == name) + 2 * (word in name) + (word in text) for word in words if word)
    return not server.usable_runs, -score, server.status != "active", server.name


def _notes(answer: RegistryAnswer) -> list[Message]:
    if answer.problem is None:
        return []
    return [
        say(
            "This is a kept answer, {age} old. {problem}",
            age=_age(answer.age),
            problem=answer.problem,
        )
    ]


def _age(seconds: float) -> Message:
    if seconds < 2 * 3_600:
        return say("{count} {count:minute|minutes}", count=max(1, round(seconds / 60)))
    if seconds < 2 * 86_400:
        return say("{count} {count:hour|hours}", count=round(seconds / 3_600))
    return say("{count} {count:day|days}", count=round(seconds / 86_400))
