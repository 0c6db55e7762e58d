"""Marks by which hubs recognize each other, so that no hub becomes a server of itself.

A hub introduces itself to its servers with its id, and the ids of the hubs that are its clients. It answers
another hub with its id, and the ids of the hubs among its servers. A hub that finds its own id in an answer
does not use that server. If the asked hub sees the circle first, it answers with the ids that it was sent.
Ids are random and belong to a process, so they say nothing about a user.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable

from msgspec import Raw

from tabane.messages import Message, say
from tabane.wire import json
from tabane.wire.json import InvalidJson, Members

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
        self.behind: Callable[[], Iterable[str]] = lambda: ()
        self.on_circle: Callable[[str], None] = lambda server: None
        self._clock = clock
        self._clients: dict[str, tuple[float, tuple[str, ...]]] = {}

    def mark(self) -> Members:
        """Return the ``_meta`` with which this hub introduces itself to a server."""
        now = self._clock()
        before = (id for until, ids in self._clients.values() if until > now for id in ids)
        return {HUBS: _listed([self.own, *before])}

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
            return {HUBS: _listed([*ids, self.own, *behind])}
        while len(self._clients) >= MOST_CLIENTS:
            del self._clients[next(iter(self._clients))]
        until = float("inf") if stays else self._clock() + REMEMBERED
        self._clients[session if stays else ids[0]] = (until, ids)
        return {HUBS: _listed([self.own, *behind])}

    def left(self, session: str) -> None:
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


def _listed(ids: Iterable[str]) -> Raw:
    return Raw(json.encode(list(dict.fromkeys(ids))[:MOST]))
