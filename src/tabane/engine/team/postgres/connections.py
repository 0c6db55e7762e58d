"""Connections to a server: bounded waits, spare ones for reads, and errors with advice.

A connection that gives a server up that is silent for too long. The server ends statements by its own
limit. It cannot do that if it hangs, or if something between it and the hub takes what is sent and
answers nothing. TCP notices neither.

Conversion of errors of PostgreSQL and libpq to :class:`~tabane.errors.StoreError`, with advice. ``place``
is the address of the database without user and password. libpq's own messages have no code before a
connection stands, so they are recognized by their words.

Connections for reads that no read uses at the moment. The one that was used last is taken first. A
connection is made by the read that needs it, so its error is known at once, and nothing waits for
attempts of others after the server is back. For a few seconds, reads wait for a server that restarts.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any, TypeVar

import psycopg
from psycopg import IsolationLevel, errors

from tabane.errors import StoreBusy, StoreCorrupt, StoreError, StoreFull, StoreNewer, StoreReadOnly
from tabane.messages import Message, say

T = TypeVar("T")


class AnswerLimit:
    """The longest silence, in seconds. It may be lowered while connections wait."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds


class SilentServer(psycopg.OperationalError):
    """Nothing came from the server and nothing could be sent for as long as the limit says."""


class BoundedConnection(psycopg.Connection[tuple[Any, ...]]):
    """``limit`` is None while statements run that may take any time."""

    limit: AnswerLimit | None = None

    def wait(self, gen: Generator[Any, Any, T], *given: Any, **named: Any) -> T:
        """Wait as psycopg does, within the limit. Raises SilentServer, and the connection is closed then."""
        try:
            return super().wait(self._within_limit(gen), *given, **named)
        except SilentServer:
            self.pgconn.finish()
            raise

    def _within_limit(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Pass on what a generator of psycopg wants, which is told several times a second if nothing came."""
        heard = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = time.monotonic()
                elif self.limit is not None and time.monotonic() - heard > self.limit.seconds:
                    raise SilentServer(f"no answer within {self.limit.seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as end:
            found: T = end.value
            return found


@contextlib.contextmanager
def unlimited(connection: psycopg.Connection) -> Iterator[None]:
    """Wait as long as it takes, for statements that have no limit at the server either."""
    if not isinstance(connection, BoundedConnection):
        yield
        return
    limit, connection.limit = connection.limit, None
    try:
        yield
    finally:
        connection.limit = limit


_GONE = (
    "57P01",
    "57P02",
    "57P03",
    "57P05",
    "25P03",
)  # shut down, crashed, starting, session ended by the server
_LOGIN = ("28000", "28P01")
_BUSY = ("57014", "55P03", "53300", "53200", "40P01", "40001", "53000")
_LOGIN_WORDS = ("authentication failed", "no password supplied", "no pg_hba.conf entry", "role ")
_TLS_WORDS = ("ssl", "certificate", "tls")
_CUT_WORDS = (
    "closed unexpectedly",
    "syscall error",
    "connection has been closed",
)  # of an encrypted one, too
_FULL_WORDS = ("too many", "remaining connection slots")
_OTHER_WORDS = (*_FULL_WORDS, "does not exist", "invalid", "could not translate", "failed to resolve")


class LostCommit(Exception):
    """The connection ended during a commit, and the server does not know the transaction any more."""


def store_error(error: BaseException, place: str) -> BaseException:
    """Return the error for the caller: a :class:`StoreError` if it comes from the database."""
    if isinstance(error, LostCommit):
        return _uncertain(place)
    if not isinstance(error, psycopg.Error):
        return error
    return _by_code(error, place) if error.sqlstate else _by_words(error, place)


def is_lost(error: BaseException) -> bool:
    """Return whether the connection or the server is gone, so that another connection may work.

    A server that is silent is not gone: whoever waited for it has waited long enough.
    """
    if not isinstance(error, psycopg.OperationalError) or isinstance(error, SilentServer):
        return False
    return error.sqlstate is None or error.sqlstate in _GONE or error.sqlstate.startswith("08")


def is_away(error: psycopg.OperationalError) -> bool:
    """Return whether no connection was made because the server does not run, or has just been started."""
    words = _detail(error).lower()
    return is_lost(error) and not (_is_tls(words) or _has_word(words, *_LOGIN_WORDS, *_OTHER_WORDS))


def is_changed(error: BaseException) -> bool:
    """Return whether the tables changed during a read, which therefore has to be repeated."""
    return isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.SerializationFailure)


def _by_code(error: psycopg.Error, place: str) -> StoreError:
    code, detail = error.sqlstate or "", _detail(error)
    if code in _LOGIN:
        return refused_login(place, detail)
    if code == "3D000":
        return StoreError(
            say("{place}: there is no such database. Create it, or correct the setting engine", place=place)
        )
    if code == "42501":
        return denied(place, detail)
    if code == "53100":
        message = say(
            "{place}: the disk of the database server is full. Stored data is not lost", place=place
        )
        return StoreFull(message)
    if code == "25006":
        message = say(
            "{place} accepts no writes, as a standby server does. Name the primary in the setting engine",
            place=place,
        )
        return StoreReadOnly(message)
    if code in _BUSY:
        return busy(place)
    if code in _GONE or code.startswith("08"):
        return unreachable(place, detail)
    if code.startswith("XX"):
        return StoreCorrupt(
            say("{place} reports damaged data ({detail}). Restore a backup", place=place, detail=detail)
        )
    return StoreError(say("{place} could not be read or written ({detail})", place=place, detail=detail))


def _by_words(error: psycopg.Error, place: str) -> StoreError:
    detail = _detail(error)
    words = detail.lower()
    if _has_word(words, *_FULL_WORDS):
        return busy(place)
    if _has_word(words, *_LOGIN_WORDS):
        return refused_login(place, detail)
    if "database" in words and "does not exist" in words:
        return StoreError(
            say("{place}: there is no such database. Create it, or correct the setting engine", place=place)
        )
    if _is_tls(words):
        message = say(
            "no encrypted connection to {place} ({detail}). Check sslmode and sslrootcert in the setting "
            "engine",
            place=place,
            detail=detail,
        )
        return StoreError(message)
    return unreachable(place, detail)


def _has_word(words: str, *looked_for: str) -> bool:
    return any(each in words for each in looked_for)


def _is_tls(words: str) -> bool:
    """Return whether the encryption failed, not the connection below it."""
    return _has_word(words, *_TLS_WORDS) and not _has_word(words, *_CUT_WORDS)


def _detail(error: psycopg.Error) -> str:
    """Return the first line of the server's message."""
    text = error.diag.message_primary or str(error)
    return (text.strip().splitlines() or [type(error).__name__])[0].strip()


def unreachable(place: str, detail: str) -> StoreError:
    """Return the error for a server that does not answer, or cannot be connected to."""
    message = say(
        "{place} cannot be reached ({detail}). Check that the database server runs, and the setting engine",
        place=place,
        detail=detail,
    )
    return StoreError(message)


def refused_login(place: str, detail: str) -> StoreError:
    """Return the error for a wrong user or password."""
    message = say(
        "{place} refused the login ({detail}). Check the user in the setting engine, and the password in "
        "secrets.env or the password file",
        place=place,
        detail=detail,
    )
    return StoreError(message)


def denied(place: str, detail: str) -> StoreReadOnly:
    """Return the error for a missing permission."""
    message = say(
        "{place}: a permission is missing ({detail}). The user needs CREATE on the database and owns the "
        "schema of Tabane",
        place=place,
        detail=detail,
    )
    return StoreReadOnly(message)


def busy(place: str) -> StoreBusy:
    """Return the error for a server or a queue that is overloaded."""
    return StoreBusy(say("{place} is too busy to answer in time. Try again later", place=place))


def newer(place: str, version: int, ours: int) -> StoreNewer:
    """Return the error for a schema of a newer version of Tabane."""
    message = say(
        "{place} was written by a newer version of Tabane (schema {version}; this one knows {ours}). Update "
        "Tabane",
        place=place,
        version=version,
        ours=ours,
    )
    return StoreNewer(message)


def closed(place: str) -> StoreError:
    """Return the error for a request after the store was closed."""
    return StoreError(say("{path} is closed", path=place))


def unfit_server(place: str, problem: Message) -> StoreError:
    """Return the error for a server that Tabane cannot use."""
    return StoreError(say("{place}: {problem}", place=place, problem=problem))


def _uncertain(place: str) -> StoreError:
    message = say(
        "the connection to {place} ended during a commit, and the server does not know any more whether "
        "it was made. Look before you write again",
        place=place,
    )
    return StoreError(message)


_LONGEST_IDLE = 300.0  # seconds
_PAUSE = 0.1  # seconds between two attempts


class SpareConnections:
    """Made by ``connect``. There are as many as reads that ran at the same time, less those that idled.

    ``restart``: seconds after the first failure in which a server may come back.
    """

    def __init__(self, connect: Callable[[], BoundedConnection], restart: float) -> None:
        self._connect, self._restart = connect, restart
        self._gate = threading.Lock()
        self._spare: list[tuple[float, BoundedConnection]] = []
        self._away_since: float | None = None

    def take(self) -> BoundedConnection:
        """Return a spare connection, or a new one. Raises psycopg's errors."""
        with self._gate:
            if self._spare:
                return self._spare.pop()[1]
        made = self.connect(self._connect)
        made.isolation_level, made.read_only = IsolationLevel.REPEATABLE_READ, True
        return made

    def connect(self, connect: Callable[[], BoundedConnection]) -> BoundedConnection:
        """Return a new connection that may write. Raises psycopg's errors."""
        while True:
            began = time.monotonic()
            try:
                made = connect()
            except psycopg.OperationalError as error:
                if not (is_away(error) and self._may_come_back(began)):
                    raise
                time.sleep(_PAUSE)
            else:
                self._away_since = None
                return made

    def _may_come_back(self, tried: float) -> bool:
        with self._gate:
            if self._away_since is None:
                self._away_since = tried
            return time.monotonic() - self._away_since < self._restart

    def put_back(self, connection: BoundedConnection) -> None:
        """Keep a connection for the next read, unless it is broken, and close those that nobody used."""
        now, idle = time.monotonic(), list[BoundedConnection]()
        with self._gate:
            while self._spare and now - self._spare[0][0] > _LONGEST_IDLE:
                idle.append(self._spare.pop(0)[1])
            if not connection.closed:
                self._spare.append((now, connection))
        _close_all(idle)

    def clear(self) -> None:
        """Close all of them: one was lost, so the others probably are as well."""
        with self._gate:
            spare, self._spare = self._spare, []
        _close_all([connection for _, connection in spare])


def _close_all(connections: list[BoundedConnection]) -> None:
    for each in connections:
        with contextlib.suppress(psycopg.Error):
            each.close()
