"""Sessions of browsers that signed in, and links that sign in once. Sessions outlive a restart of the hub."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from tabane.errors import ConfigurationError
from tabane.operations import LOCAL, Access, CallTarget
from tabane.settings.files import read_private, write_private

log = logging.getLogger(__name__)

IDLE = 14 * 86_400.0
"""Seconds without a request, after which a session ends."""

LONGEST = 90 * 86_400.0
"""Seconds after which a session ends in any case."""

MOST_SESSIONS = 256
"""Sessions at the same time; a further one ends the one that was not used for the longest time."""

NOTED = 3_600.0
"""Seconds between two records of the last use."""


class WebSession(msgspec.Struct):
    """One browser that signed in. ``cookie`` and ``page`` are the hashes of its two secrets.

    Times are in seconds since 1970.
    """

    id: str
    cookie: str
    page: str
    holder: str
    created: float
    used: float


class SignedIn(NamedTuple):
    """The secrets of a new session: one for the cookie, one that the page keeps and sends as a header."""

    cookie: str
    page: str
    session: WebSession


class FoundSession(NamedTuple):
    """A session, and what its identity may do now."""

    session: WebSession
    access: Access


_PRESENCE = CallTarget("ping", source="hub", kind="operation", changes=False)
"""The permissions of every identity, until it ends."""

_rows = msgspec.json.Decoder(list[WebSession])


class WebSessions:
    """The sessions of a hub, kept in ``path``. ``restore`` returns the access of a holder that exists."""

    def __init__(
        self, path: Path, clock: Callable[[], float], restore: Callable[[str], Access | None]
    ) -> None:
        self._path, self._clock, self._restore = path, clock, restore
        self._writing = asyncio.Lock()
        self._by_cookie = {row.cookie: row for row in self._read()}

    async def begin(self, holder: str) -> SignedIn:
        """Begin a session of an identity, and return its secrets: they are not kept."""
        cookie, page = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        now = self._clock()
        session = WebSession(secrets.token_hex(8), _hash(cookie), _hash(page), holder, now, now)
        self._drop_old()
        while len(self._by_cookie) >= MOST_SESSIONS:
            del self._by_cookie[min(self._by_cookie.values(), key=lambda row: row.used).cookie]
        self._by_cookie[session.cookie] = session
        await self._write()
        return SignedIn(cookie, page, session)

    async def find(self, cookie: str, page: str) -> FoundSession | None:
        """Return the session with both secrets, if it has not ended and its identity still exists."""
        session = self._by_cookie.get(_hash(cookie))
        now = self._clock()
        if session is None or _ended(session, now):
            return None
        if not hmac.compare_digest(_hash(page), session.page):
            return None
        access = self._restore(session.holder)
        if access is None or not self.is_live(session, access):
            return None
        if now - session.used > NOTED:
            session.used = now
            await self._write()
        return FoundSession(session, access)

    async def end(self, session: WebSession) -> None:
        """Sign a browser out."""
        if self._by_cookie.pop(session.cookie, None) is not None:
            await self._write()

    def is_live(self, session: WebSession, access: Access) -> bool:
        """Return whether a session, and its identity, have not ended; for streams that stay open."""
        if session.cookie not in self._by_cookie or _ended(session, self._clock()):
            return False
        return access.holder == LOCAL.holder or access.allows(_PRESENCE)

    def _drop_old(self) -> None:
        now = self._clock()
        self._by_cookie = {key: row for key, row in self._by_cookie.items() if not _ended(row, now)}

    def _read(self) -> list[WebSession]:
        try:
            return _rows.decode(read_private(self._path))
        except FileNotFoundError:
            return []
        except (ConfigurationError, msgspec.MsgspecError, OSError) as error:
            # Nobody loses anything by it: they sign in again.
            log.warning("the sessions of browsers are forgotten: %s", error)
            return []

    async def _write(self) -> None:
        async with self._writing:
            data = msgspec.json.encode(list(self._by_cookie.values()))
            try:
                await asyncio.to_thread(write_private, self._path, data)
            except OSError as error:
                log.warning("the sessions of browsers are lost when the hub ends: %s", error)


def _ended(session: WebSession, now: float) -> bool:
    return now - session.used > IDLE or now - session.created > LONGEST


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


LASTS = 120.0
"""Seconds that a link can be used."""

MOST_LINKS = 16
"""Links that wait to be used; a further one replaces the oldest."""


class SignInLinks:
    """The codes of links that were not used yet. ``clock`` returns seconds that never go back."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._ends: dict[bytes, float] = {}

    def make(self) -> str:
        """Return a new code."""
        self._drop_old()
        while len(self._ends) >= MOST_LINKS:
            del self._ends[next(iter(self._ends))]
        code = secrets.token_urlsafe(24)
        self._ends[_code_hash(code)] = self._clock() + LASTS
        return code

    def use(self, code: str) -> bool:
        """Return whether the code was valid. It is not, from now on."""
        self._drop_old()
        return self._ends.pop(_code_hash(code), None) is not None

    def _drop_old(self) -> None:
        now = self._clock()
        self._ends = {hashed: end for hashed, end in self._ends.items() if end > now}


def _code_hash(code: str) -> bytes:
    return hashlib.sha256(code.encode("utf-8", "surrogatepass")).digest()
