"""Servers found in a registry by words, and one of them by its name.

Requests to the registry's API are bounded in bytes and time. Answers are read without trusting them, and kept
in files for some minutes, or longer while the registry cannot be reached.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import quote, unquote, urlsplit

from msgspec import Struct

from tabane.errors import BadArguments, ConfigurationError, UnknownName, UpstreamError, UpstreamUnavailable
from tabane.messages import Lang, Message, say
from tabane.net.fetching import HttpFetcher, environment_fetcher
from tabane.net.http_failures import HttpFailure, HttpUnreachable, ResponseTooLong
from tabane.net.routes import basic_authorization
from tabane.net.target import is_loopback
from tabane.servers.registry.runs import RegistryRun, items, member, runs_of, shown_text, shown_url
from tabane.servers.server import is_web
from tabane.settings.files import private_folder, read_private, write_private
from tabane.wire.json import InvalidJson, decode

EntryStatus = Literal["active", "deprecated", "deleted"]

MOST_RUNS = 20
MOST_SERVERS = 200
"""Servers of one page of an answer that are read."""

OFFICIAL = "io.modelcontextprotocol.registry/official"

NAME = re.compile(r"[a-zA-Z0-9.-]{1,150}/[a-zA-Z0-9._-]{1,150}")
_LONGEST_CURSOR = 1_000


class RegistryServer(Struct, frozen=True):
    """One version of a server in the registry. ``runs`` are the ways to run it, in the publisher's order."""

    name: str
    version: str
    description: str = ""
    title: str = ""
    status: EntryStatus = "active"
    status_message: str = ""
    repository: str = ""
    website: str = ""
    updated: str = ""
    runs: tuple[RegistryRun, ...] = ()

    @property
    def short_name(self) -> str:
        """A name for the servers file: ``weather`` for ``io.github.user/weather``."""
        return self.name.rpartition("/")[2].strip(".") or "server"

    @property
    def usable_runs(self) -> tuple[RegistryRun, ...]:
        """The ways to run the server that Tabane supports."""
        return tuple(run for run in self.runs if run.why_not is None)

    def row(self, lang: Lang) -> dict[str, Any]:
        """Return the server as JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "version": self.version,
            "status": self.status,
            "status_message": self.status_message,
            "repository": self.repository,
            "website": self.website,
            "updated": self.updated,
            "short_name": self.short_name,
            "runs": [run.row(self.short_name, lang) for run in self.runs],
        }


class RegistryPage(Struct, frozen=True):
    """A page of an answer. ``cursor`` is that of the next page; None if there is none."""

    servers: Sequence[RegistryServer]
    cursor: str | None = None


def page_of(answer: object) -> RegistryPage:
    """Return the servers of an answer, without those that are deleted or cannot be read.

    Raises ValueError if the answer is no list of servers.
    """
    if not isinstance(member(answer, "servers"), list):
        raise ValueError
    found = (server_of(given) for given in items(answer, "servers", MOST_SERVERS))
    cursor = member(member(answer, "metadata"), "nextCursor")
    usable = isinstance(cursor, str) and cursor.isprintable() and 0 < len(cursor) <= _LONGEST_CURSOR
    return RegistryPage(
        [server for server in found if server is not None and server.status != "deleted"],
        cursor if usable else None,
    )


def server_of(answer: object) -> RegistryServer | None:
    """Return a server of an answer; None if its name or version cannot be used."""
    server = member(answer, "server")
    name, version = member(server, "name"), shown_text(member(server, "version"), 100)
    if not isinstance(name, str) or not NAME.fullmatch(name) or not version:
        return None
    official = member(member(answer, "_meta"), OFFICIAL)
    status = member(official, "status")
    return RegistryServer(
        name,
        version,
        shown_text(member(server, "description")),
        shown_text(member(server, "title"), 100),
        cast("EntryStatus", status) if status in ("active", "deprecated", "deleted") else "active",
        shown_text(member(official, "statusMessage")),
        shown_url(member(member(server, "repository"), "url")),
        shown_url(member(server, "websiteUrl")),
        shown_text(member(official, "updatedAt"), 40),
        tuple(runs_of(server, MOST_RUNS)),
    )


FRESH = 600.0
"""Seconds for which an answer is used without asking again."""

OLDEST = 30 * 86_400.0
"""Seconds after which an answer is of no use, even if the registry cannot be reached."""

MOST_FILES = 64
LARGEST = 8 << 20
"""Bytes of all kept answers together."""


@dataclass(frozen=True, slots=True)
class KeptAnswer:
    """An answer, its age in seconds, and the ETag with which the registry is asked whether it changed."""

    body: bytes
    age: float
    etag: str = ""

    @property
    def is_fresh(self) -> bool:
        """Whether the answer is recent enough to be used without a request."""
        return self.age < FRESH


class AnswerCache:
    """Keeps answers by their URL. Blocks. Failures of the disk only mean that nothing is kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def get(self, url: str) -> KeptAnswer | None:
        """Return the kept answer; None if there is none, or it is too old or damaged."""
        try:
            head, _, body = read_private(self._path(url), LARGEST).partition(b"\n")
            kept = json.loads(head)
            age = max(0.0, time.time() - float(kept["at"]))
            if kept["url"] != url or age > OLDEST:
                return None
            return KeptAnswer(body, age, str(kept.get("etag") or ""))
        except (OSError, ConfigurationError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def put(self, url: str, body: bytes, etag: str = "") -> None:
        """Keep an answer, and remove the oldest if there are too many."""
        head = json.dumps({"url": url, "at": time.time(), "etag": etag}).encode()
        with contextlib.suppress(OSError, ConfigurationError):
            private_folder(self._folder)
            write_private(self._path(url), head + b"\n" + body)
            found = []  # the oldest answers are removed
            with os.scandir(self._folder) as files:
                for file in files:
                    with contextlib.suppress(OSError):
                        status = file.stat(follow_symlinks=False)
                        found.append((status.st_mtime, status.st_size, file.path))
            size = 0
            for number, (_, length, path) in enumerate(sorted(found, reverse=True)):
                size += length
                if number >= MOST_FILES or size > LARGEST:
                    with contextlib.suppress(OSError):
                        os.unlink(path)

    def _path(self, url: str) -> Path:
        return self._folder / f"{hashlib.sha256(url.encode()).hexdigest()[:32]}.json"


LARGEST_ANSWER = 4 << 20
"""Bytes of one answer."""

PATIENCE = 20.0
"""Seconds for one request, from the connection to the last byte."""

OFF = "off"
"""Setting of the address if no registry may be asked."""

NOT_FOUND = 404
_UNCHANGED = 304
_OK = 200


@dataclass(frozen=True, slots=True)
class RegistryAnswer:
    """A decoded answer. ``problem`` is why a kept answer of that ``age`` (seconds) is given instead."""

    value: Any
    age: float = 0.0
    problem: Message | None = None


class RegistryUnavailable(UpstreamUnavailable):
    """The registry cannot be asked, and there is no kept answer."""


class RegistryNotFound(UpstreamError):
    """The registry has nothing at that address."""


def checked_address(url: str) -> str:
    """Return the address of a registry without a final slash. Raises ConfigurationError.

    What a registry answers is run, so it is asked over TLS, or on this computer.
    """
    if url.strip() in ("", OFF):
        raise ConfigurationError(say("The registry is turned off by the setting registry_url."))
    parts = urlsplit(url) if is_web(url) else None
    if parts is None or parts.query or parts.fragment:
        raise ConfigurationError(say("The setting registry_url must be the https:// address of a registry."))
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigurationError(
            say("The setting registry_url must begin with https://, because its servers are run here.")
        )
    return url.rstrip("/")


class RegistryClient:
    """Asks one registry. Made by :func:`registry_client`, inside the running loop."""

    def __init__(
        self, address: str, host: str, fetcher: HttpFetcher, cache: AnswerCache, patience: float
    ) -> None:
        self._patience = patience
        self._address, self._fetcher, self._cache = address, fetcher, cache
        self.host = host

    async def get(self, path: str, query: Mapping[str, str]) -> RegistryAnswer:
        """Return the answer to a request. ``path`` begins with a slash and is quoted.

        Raises RegistryNotFound and RegistryUnavailable.
        """
        from urllib.parse import urlencode

        url = self._address + path + (f"?{urlencode(query)}" if query else "")
        kept = await asyncio.to_thread(self._cache.get, url)
        if kept is not None and kept.is_fresh:
            with contextlib.suppress(InvalidJson):
                return RegistryAnswer(await _decode_json(kept.body), kept.age)
        try:
            body, etag = await self._fetch_body(url, kept.etag if kept else "")
            if body is None and kept is not None:
                body, etag = kept.body, kept.etag
            value = await _decode_json(body or b"")
        except InvalidJson:
            problem = say("{host} answers with something else than JSON.", host=self.host)
        except _NoAnswer as failure:
            problem = failure.problem
        else:
            await asyncio.to_thread(self._cache.put, url, body or b"", etag)
            return RegistryAnswer(value)
        if kept is not None:
            with contextlib.suppress(InvalidJson):
                return RegistryAnswer(await _decode_json(kept.body), kept.age, problem)
        raise RegistryUnavailable(say("The registry cannot be asked: {problem}", problem=problem))

    async def _fetch_body(self, url: str, etag: str) -> tuple[bytes | None, str]:
        """Return body and ETag; None as body if it has not changed. Raises _NoAnswer, RegistryNotFound."""
        try:
            answer = await self._fetcher.fetch(
                url,
                limit=LARGEST_ANSWER,
                seconds=self._patience,
                headers={"If-None-Match": etag} if etag else {},
                packed=True,
                redirects=True,
            )
        except TimeoutError:
            problem = say(
                "{host} gave no answer within {seconds:g} s.", host=self.host, seconds=self._patience
            )
        except ResponseTooLong:
            problem = say("the answer of {host} is longer than {limit} MiB.",
                          host=self.host, limit=LARGEST_ANSWER >> 20)  # fmt: skip
        except HttpFailure as failure:
            problem = failure.problem
            if isinstance(failure, HttpUnreachable) and failure.untrusted:
                problem = say(
                    "the certificate of {host} is not trusted. If your own authority signed it, set "
                    "SSL_CERT_FILE to its PEM file.",
                    host=self.host,
                )
        except UpstreamError as error:
            problem = error.message
        else:
            if answer.status == _UNCHANGED and etag:
                return None, etag
            if answer.status == NOT_FOUND:
                raise RegistryNotFound(say("{host} does not have it.", host=self.host))
            if answer.status == _OK:
                tag = answer.headers.get("ETag", "")[:200]
                return answer.body, tag if tag.isascii() and tag.isprintable() else ""
            problem = say("{host} answers with HTTP {status}.", host=self.host, status=answer.status)
        raise _NoAnswer(problem)


class _NoAnswer(Exception):
    def __init__(self, problem: Message) -> None:
        super().__init__(problem)
        self.problem = problem


async def _decode_json(body: bytes) -> Any:
    # Megabytes of hostile JSON take tens of milliseconds.
    return await asyncio.to_thread(decode, body)


@contextlib.asynccontextmanager
async def registry_client(
    address: str, environment: Mapping[str, str], cache: AnswerCache, patience: float
) -> AsyncIterator[RegistryClient]:
    """Connect to a registry: with the proxies and the authorities of the environment, for the block.

    Raises ConfigurationError.
    """
    at = urlsplit(checked_address(address))
    headers = {"Accept": "application/json"}
    if at.username is not None:
        headers["Authorization"] = basic_authorization(unquote(at.username), unquote(at.password or ""))
    plain = at._replace(netloc=at.netloc.rpartition("@")[2])
    fetcher = environment_fetcher(environment, headers)
    try:
        yield RegistryClient(plain.geturl(), at.hostname or "", fetcher, cache, patience)
    finally:
        fetcher.close()


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
                query = " ".join(query.split())
                found = await self._find_matching(query, limit, cursor)
                words = list(
                    dict.fromkeys(word for word in query.lower().split() if len(word) >= _FEWEST_LETTERS)
                )
                if found.servers or cursor or len(words) == 1:
                    return found
                return await self._find_by_words(words[:MOST_WORDS], limit)
        except TimeoutError:
            raise RegistryUnavailable(
                say("{host} is too slow: no result within {seconds:g} s.",
                    host=self.host, seconds=self._patience)
            ) from None  # fmt: skip

    async def _find_matching(self, query: str, limit: int, cursor: str | None) -> FoundServers:
        servers: dict[str, RegistryServer] = {}
        notes: list[Message] = []
        seen: set[str] = set()
        for _ in range(MOST_PAGES):
            asked = {"version": "latest", "limit": str(limit)}
            asked |= ({"search": query} if query else {}) | ({"cursor": cursor} if cursor else {})
            try:
                answer = await self._client.get("/v0.1/servers", asked)
            except RegistryNotFound:
                raise RegistryUnavailable(
                    say(
                        "{host} is no registry of MCP servers. Check the setting registry_url.",
                        host=self.host,
                    )
                ) from None
            notes += [] if notes else _notes_of(answer)
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
        ordered = sorted(servers.values(), key=lambda server: _rank_of(server, [query.lower()]))
        return FoundServers(ordered[:MOST_RESULTS], cursor, tuple(notes))

    async def _find_by_words(self, words: list[str], limit: int) -> FoundServers:
        servers: dict[str, RegistryServer] = {}
        notes: tuple[Message, ...] = ()
        for word in words:
            found = await self._find_matching(word, limit, None)
            notes = notes or found.notes
            servers |= {server.name: server for server in found.servers}
        ordered = sorted(servers.values(), key=lambda server: _rank_of(server, words))
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
            raise await self._unknown_server(name, version) from None
        server = server_of(answer.value)
        if server is None or server.name.lower() != name.lower():
            raise RegistryUnavailable(say("{host} answers with another server.", host=self.host))
        if server.status == "deleted":
            why = server.status_message
            text = say("{name} was deleted from the registry: {why}", name=name, why=why)
            raise UnknownName(text if why else say("{name} was deleted from the registry.", name=name))
        return server, tuple(_notes_of(answer))

    async def _unknown_server(self, name: str, version: str) -> UnknownName:
        if version != "latest":
            return UnknownName(
                say("The registry has no version {version} of {name}.", name=name, version=version)
            )
        near: list[str] = []
        with contextlib.suppress(RegistryUnavailable):
            found = await self._find_matching(name.rpartition("/")[2], 10, None)
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


def _rank_of(server: RegistryServer, words: Iterable[str]) -> tuple[bool, int, bool, str]:
    """Order by: supported, words that match (names count more), status; the name last."""
    name, text = server.short_name.lower(), f"{server.name} {server.title} {server.description}".lower()
    score = sum(4 * (word == name) + 2 * (word in name) + (word in text) for word in words if word)
    return not server.usable_runs, -score, server.status != "active", server.name


def _notes_of(answer: RegistryAnswer) -> list[Message]:
    if answer.problem is None:
        return []
    return [
        say(
            "This is a kept answer, {age} old. {problem}",
            age=_age_message(answer.age),
            problem=answer.problem,
        )
    ]


def _age_message(seconds: float) -> Message:
    if seconds < 2 * 3_600:
        return say("{count} {count:minute|minutes}", count=max(1, round(seconds / 60)))
    if seconds < 2 * 86_400:
        return say("{count} {count:hour|hours}", count=round(seconds / 3_600))
    return say("{count} {count:day|days}", count=round(seconds / 86_400))
