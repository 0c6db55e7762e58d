"""The handshake with an upstream: its era, its capabilities, its name and version, and a chain of hubs.

Hubs recognize each other by marks in it, so that no hub becomes a server of itself.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence

from msgspec import Raw, Struct

from tabane import __version__
from tabane.errors import UpstreamError
from tabane.messages import Message, say
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson, Members
from tabane.wire.negotiation import extensions_in

HUBS = "io.github.tabane/hubs"
"""The key of the ids in ``_meta`` of initialize and server/discover, and of their results."""

MOST = 32
"""Ids of one list."""

MOST_CLIENTS = 256
REMEMBERED = 600.0
"""Seconds for which a hub without a session counts as a client."""

_LONGEST = 64


def hub_ids(meta: Members) -> tuple[str, ...]:
    """Return the ids in the ``_meta`` of another hub; empty if it is none."""
    try:
        found = json.decode(meta[HUBS]) if HUBS in meta else None
    except InvalidJson:
        return ()
    listed = found[:MOST] if isinstance(found, list) else []
    return tuple(each for each in listed if isinstance(each, str) and 0 < len(each) <= _LONGEST)


class HubChain:
    """The hubs before and behind this one. ``behind`` returns the ids of those among its servers.

    ``on_circle`` is called with the name of each server that is this hub itself.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.own = secrets.token_hex(8)
        self.behind: Callable[[], Iterable[str]] = tuple
        self.on_circle: Callable[[str], None] = lambda server: None
        self._clock = clock
        self._clients: dict[str, tuple[float, tuple[str, ...]]] = {}

    def mark(self) -> Members:
        """Return the ``_meta`` with which this hub introduces itself to a server."""
        now = self._clock()
        before = (id for until, ids in self._clients.values() if until > now for id in ids)
        return {HUBS: _encode_ids([self.own, *before])}

    def arrived(self, session: str, meta: Members, *, stays: bool) -> Members:
        """Return the ``_meta`` for the answer to a client that is a hub; empty if it is none.

        ``stays``: it counts as a client until it leaves. Otherwise, it counts for ten minutes. A client that
        closes a circle finds its own id in the answer.
        """
        ids = hub_ids(meta)
        if not ids:
            return {}
        behind = tuple(self.behind())
        if self.own in ids or set(ids) & set(behind):
            return {HUBS: _encode_ids([*ids, self.own, *behind])}
        while len(self._clients) >= MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        until = float("inf") if stays else self._clock() + REMEMBERED
        self._clients[session if stays else ids[0]] = (until, ids)
        return {HUBS: _encode_ids([self.own, *behind])}

    def left(self, session: str) -> None:
        """Forget the hubs of a client that has gone."""
        self._clients.pop(session, None)

    def fault(self, server: str, hubs: Iterable[str]) -> Message | None:
        """Return why a server with these ids must not be used; None if it may."""
        if self.own not in hubs:
            return None
        return say(
            "{server!n} is this hub itself, or another hub that leads back to it. Remove it from the servers "
            "file: tabane servers remove {server!c}",
            server=server,
        )


def _encode_ids(ids: Iterable[str]) -> Raw:
    return Raw(json.encode(list(dict.fromkeys(ids))[:MOST]))


CLIENT = json.encode({"name": "tabane", "title": "Tabane", "version": __version__})
"""The name and version that the hub gives to upstreams."""

CAPABILITIES = b'{"elicitation":{"form":{},"url":{}},"sampling":{}}'
"""Client capabilities announced to a legacy upstream that all clients share. Its questions go to the one
client whose call is in flight, if that can answer them; otherwise they are refused with a reason."""

KINDS = ("tools", "prompts", "resources")
"""Kinds of things that are offered in lists, each with a capability of its own."""


class Peer(Struct, frozen=True):
    """An upstream as it described itself.

    ``info`` is its serverInfo, verbatim. ``hubs`` are the ids that another hub answers with.
    """

    era: Era
    version: str
    name: str
    capabilities: Members
    instructions: str = ""
    info: bytes = b"{}"
    hubs: tuple[str, ...] = ()

    def has(self, capability: str) -> bool:
        """Return whether it announced a capability, or the extension with that identifier."""
        return capability in self.capabilities or self.carries(capability)

    def carries(self, extension: str) -> bool:
        """Return whether it announced the extension with that identifier."""
        return extension in extensions_in(self.capabilities)

    def can(self, capability: str, feature: str) -> bool:
        """Return whether a capability has a feature, such as ``tools`` and ``listChanged``."""
        value = json.member(self.capabilities, capability)
        return isinstance(value, dict) and value.get(feature) is True


class UpstreamRefused(UpstreamError):
    """The upstream answered with a JSON-RPC error.

    ``versions`` are the protocol versions that it supports, if the error says so.
    """

    def __init__(self, code: int, message: Message, versions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code_answered = code
        self.versions = versions

    @property
    def code(self) -> int:  # type: ignore[override]
        """Return the code of the error, as the upstream gave it."""
        return self.code_answered


def peer_of(era: Era, version: str, result: Members, info: Raw | None) -> Peer:
    """Return the peer that a result of ``server/discover`` or ``initialize`` describes."""
    try:
        name = json.text(json.fields(info).get("name")) if info is not None else None
    except InvalidJson:
        name = None
    try:
        capabilities = json.fields(result.get("capabilities", Raw(b"{}")))
    except InvalidJson:
        capabilities = {}
    return Peer(
        era,
        version,
        name or "",
        capabilities,
        json.text(result.get("instructions")) or "",
        b"{}" if info is None or name is None else bytes(info),
        _hubs(result),
    )


def _hubs(result: Members) -> tuple[str, ...]:
    try:
        return hub_ids(json.fields(result["_meta"])) if "_meta" in result else ()
    except InvalidJson:
        return ()


HandshakeRequest = Callable[[bytes, Members, Era], Awaitable[Members]]
"""Sends a request of the hub's own, by method and members, in the form of that era. Returns its result."""


class Handshake:
    """Settles the era and introduces the hub.

    ``capabilities`` are the client capabilities announced to a legacy upstream, None if all clients share it.
    ``roots`` is whether it may ask for folders, ``extensions`` are those that a shared upstream is told of.
    ``tell`` sends a notification.
    """

    def __init__(
        self,
        ask: HandshakeRequest,
        tell: Callable[[bytes], None],
        capabilities: bytes | None,
        *,
        roots: bool,
        extensions: Members,
    ) -> None:
        self._ask, self._tell = ask, tell
        self._capabilities = declared(capabilities, roots=roots, extensions=extensions)

    async def perform(self, known: Era | None, probe_timeout: float) -> Peer:
        """Return the peer. ``known`` is what it was last time.

        A server of unknown era is sent ``server/discover`` first. If it does not answer within
        ``probe_timeout`` seconds, it is sent ``initialize`` as well, and the first success counts: a slow
        start looks the same as silence. Raises UpstreamError.
        """
        if known is Era.LEGACY:
            return await self._initialize_or_discover()
        return await self._discover_or_initialize(probe_timeout)

    async def _initialize_or_discover(self) -> Peer:
        try:
            return await self._initialize()
        except UpstreamRefused as refusal:
            # The server may have been replaced by another version. If not, its first error is the reason.
            try:
                return await self._discover()
            except UpstreamRefused:
                raise refusal from None

    async def _discover_or_initialize(self, probe_timeout: float) -> Peer:
        probe = asyncio.ensure_future(self._discover())
        # If the start is given up meanwhile, nobody waits for its failure any more.
        probe.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait([probe], timeout=probe_timeout)
        if done:
            error = probe.exception()
            if error is None:
                return probe.result()
            if not isinstance(error, UpstreamRefused):
                raise error
            return await self._initialize()
        handshake = asyncio.ensure_future(self._initialize())
        return await _first_success([handshake, probe])

    async def _discover(self) -> Peer:
        result = await self._request_discovery()
        versions = json.member(result, "supportedVersions")
        if not isinstance(versions, list) or eras.MODERN not in versions:
            raise UpstreamRefused(
                0,
                say(
                    "it supports only protocol versions that Tabane does not support: {versions}",
                    versions=versions,
                ),
            )
        meta = json.fields(result["_meta"]) if "_meta" in result else {}
        return peer_of(Era.MODERN, eras.MODERN, result, meta.get(eras.META_SERVER))

    async def _request_discovery(self) -> Members:
        try:
            return await self._ask(b"server/discover", {}, Era.MODERN)
        except UpstreamRefused as refusal:
            # It does support the version, for example in another process behind the same URL: ask once more.
            if refusal.code != eras.UNSUPPORTED_VERSION or eras.MODERN not in refusal.versions:
                raise
        return await self._ask(b"server/discover", {}, Era.MODERN)

    async def _initialize(self) -> Peer:
        params = {
            "protocolVersion": Raw(json.quote(eras.LEGACY[0])),
            "capabilities": Raw(self._capabilities),
            "clientInfo": Raw(CLIENT),
        }
        result = await self._ask(b"initialize", params, Era.LEGACY)
        version = json.text(result.get("protocolVersion"))
        if version not in eras.LEGACY:
            raise UpstreamRefused(
                0, say("it uses protocol version {version}, which Tabane does not support", version=version)
            )
        self._tell(json.notification_line("notifications/initialized"))
        return peer_of(Era.LEGACY, version, result, result.get("serverInfo"))


def declared(capabilities: bytes | None, *, roots: bool, extensions: Members) -> bytes:
    """Return the capabilities for ``initialize``: the one client's, or those of a shared upstream.

    ``extensions`` are those that a shared upstream is told of.
    """
    members = json.fields(CAPABILITIES if capabilities is None else capabilities)
    if capabilities is None and extensions:
        members["extensions"] = Raw(json.join(extensions))
    if roots:
        members["roots"] = Raw(b"{}")
    return json.join(members)


async def _first_success(tasks: list[asyncio.Future[Peer]]) -> Peer:
    """Return the first result. If every task failed, raise the exception of the first."""
    waiting: set[asyncio.Future[Peer]] = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None:
                    return task.result()
        raise tasks[0].exception() or AssertionError
    finally:
        for task in tasks:
            task.cancel()
