"""TLS of the hub's own port: its context, and the entrance that accepts connections.

The context is made of certificate, key and authorities, and loaded again when they change. The entrance
starts the handshakes of connections, and answers clients without TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.hub.http.sources import SourceBuckets, source_of
from tabane.hub.servers.configuration import FileFollower
from tabane.messages import Message, say
from tabane.settings import Settings
from tabane.settings.files import read_private, read_trusted
from tabane.wire import json

log = logging.getLogger(__name__)


CIPHERS = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Ciphers of TLS 1.2: with forward secrecy and authenticated encryption. Those of TLS 1.3 all are."""

PROTOCOLS = ["http/1.1"]
"""The protocols that ALPN offers: a client that insists on HTTP/2 learns it in the handshake."""


class TlsFiles:
    """The TLS context of new connections. It follows its files, and connections keep the one they began with.

    ``problem`` is why the changed files are not used; None if all is well. Raises ConfigurationError that
    names the file, if the hub cannot start with them.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, settings: Settings) -> None:
        assert settings.tls_certificate is not None  # checked with the settings
        assert settings.tls_key is not None
        self._certificate, self._key = settings.tls_certificate, settings.tls_key
        self._authorities = settings.tls_client_ca
        self.context = server_context(self._certificate, self._key, self._authorities)
        """The context for a new connection."""
        files = [self._certificate, self._key, *([self._authorities] if self._authorities else [])]
        self._follower = FileFollower(loop, files, self._reload)
        self._follower.start()

    @property
    def problem(self) -> Message | None:
        """Why the changed files are not used; None if all is well."""
        return self._follower.problem

    def look(self) -> None:
        """Read the files now, changed or not."""
        self._follower.now()

    def close(self) -> None:
        """Follow the files no longer."""
        self._follower.close()

    def _reload(self) -> None:
        self.context = server_context(self._certificate, self._key, self._authorities)
        log.info("new connections use the certificate in %s", self._certificate)


def server_context(certificate: Path, key: Path, authorities: Path | None) -> ssl.SSLContext:
    """Return a context for the hub's port. ``authorities`` are those that clients' certificates need.

    Raises ConfigurationError that names the file with the problem.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION
    context.set_ciphers(CIPHERS)
    context.set_alpn_protocols(PROTOCOLS)
    _check_readable(certificate, "tls_certificate")
    try:
        text = read_private(key)
    except FileNotFoundError:
        raise ConfigurationError(_missing_file("tls_key", key)) from None
    if b"ENCRYPTED" in text:
        raise ConfigurationError(
            say(
                "tls_key: the key in {path} has a password, which the hub cannot ask for. Write it without "
                "one: openssl pkey -in KEY -out NEW_KEY",
                path=key,
            )
        )
    _load_pair(context, certificate, key)
    if authorities is not None:
        _check_readable(authorities, "tls_client_ca")
        try:
            context.load_verify_locations(cafile=authorities)
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                say(
                    "tls_client_ca: {path} cannot be used: {reason}.", path=authorities, reason=_reason(error)
                )
            ) from None
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def _check_readable(path: Path, setting: str) -> None:
    try:
        read_trusted(path)
    except FileNotFoundError:
        raise ConfigurationError(_missing_file(setting, path)) from None


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=b"")  # else OpenSSL asks on the terminal
    except (OSError, ValueError) as error:
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            raise ConfigurationError(
                say(
                    "The key in {key} does not belong to the certificate in {certificate}. Check tls_key and "
                    "tls_certificate.",
                    key=key,
                    certificate=certificate,
                )
            ) from None
        raise ConfigurationError(
            say(
                "tls_certificate {certificate} and tls_key {key} cannot be used: {reason}. Both must be PEM "
                "files.",
                certificate=certificate,
                key=key,
                reason=_reason(error),
            )
        ) from None


def _missing_file(setting: str, path: Path) -> Message:
    return say("{setting}: there is no file {path}.", setting=setting, path=path)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason or error).replace("_", " ").lower()


HANDSHAKE = 10.0
"""Seconds from the connection to the end of its handshake."""

SHUTDOWN = 2.0
"""Seconds that a client has to confirm the end of TLS."""

MOST_PENDING = 256
"""Connections without a finished handshake. A further one replaces the oldest."""

MOST_OF_SOURCE = 64
"""Those of one source."""

RATE, BURST = 32.0, 128.0
"""Handshakes that a source may begin a second, and at once: each takes about a millisecond."""

AT_ONCE = 64
"""Connections that are accepted before others get a turn."""

PAUSE = 1.0
"""Seconds without accepting, after the limit of open files was reached."""

_HANDSHAKE_RECORD = b"\x16"
_NO_FILES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class TlsEntrance:
    """Accepts connections from a listening socket, and gives each to a protocol after its TLS handshake.

    ``tls`` has the TLS context for a new connection. ``trusted`` returns whether an address is that of a
    proxy, which may begin any number of handshakes. ``full`` is asked before anything is done for a client.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        listening: socket.socket,
        tls: TlsFiles,
        protocol: Callable[[], asyncio.Protocol],
        *,
        trusted: Callable[[str], bool],
        full: Callable[[], bool],
    ) -> None:
        self._loop, self._listening = loop, listening
        self._tls, self._protocol, self._trusted, self._full = tls, protocol, trusted, full
        self._buckets = SourceBuckets(loop.time, RATE, BURST)
        self._arrivals: dict[TlsArrival, None] = {}
        self._timer: asyncio.TimerHandle | None = None
        self.failed = self.refused = 0
        """Handshakes that failed, and connections that were closed because there were too many."""
        loop.add_reader(listening, self._accept)

    @property
    def pending(self) -> int:
        """Return the number of connections without a finished handshake."""
        return len(self._arrivals)

    def close(self) -> None:
        """Accept no more, and close what has not finished its handshake."""
        self._loop.remove_reader(self._listening)
        if self._timer:
            self._timer.cancel()
        for arrival in list(self._arrivals):
            arrival.drop()

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                client, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_FILES:
                    raise
                log.warning("no connection is accepted for a second: %s", error.strerror)
                self._loop.remove_reader(self._listening)
                self._timer = self._loop.call_later(
                    PAUSE, self._loop.add_reader, self._listening, self._accept
                )
                return
            self._take_connection(client, str(address[0]))

    def _take_connection(self, client: socket.socket, address: str) -> None:
        client.setblocking(False)
        source = source_of(address)
        if self._full() or not (self._trusted(address) or self._admits(source)):
            self.refused += 1
            client.close()
            return
        if len(self._arrivals) >= MOST_PENDING:
            self.refused += 1
            next(iter(self._arrivals)).drop()
        self._arrivals[TlsArrival(self._loop, client, source, self._begin, self._left)] = None

    def _admits(self, source: str) -> bool:
        waiting = sum(1 for arrival in self._arrivals if arrival.source == source)
        return waiting < MOST_OF_SOURCE and self._buckets.take(source)

    def _begin(self, arrival: TlsArrival) -> None:
        arrival.task = self._loop.create_task(self._shake_hands(arrival))

    def _left(self, arrival: TlsArrival) -> None:
        self._arrivals.pop(arrival, None)

    async def _shake_hands(self, arrival: TlsArrival) -> None:
        try:
            await self._loop.connect_accepted_socket(
                self._protocol,
                arrival.client,
                ssl=self._tls.context,
                ssl_handshake_timeout=HANDSHAKE,
                ssl_shutdown_timeout=SHUTDOWN,
            )
        except (OSError, ValueError) as error:
            # A client that does not trust the certificate, a scanner, or one that went away.
            self.failed += 1
            log.debug("a TLS handshake failed: %s", error)
        finally:
            arrival.passed()


class TlsArrival:
    """A connection that has not finished its handshake. ``begin`` is called when its first bytes are TLS."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        client: socket.socket,
        source: str,
        begin: Callable[[TlsArrival], None],
        left: Callable[[TlsArrival], None],
    ) -> None:
        self.client, self.source = client, source
        self.task: asyncio.Task[None] | None = None
        self._loop, self._begin, self._left = loop, begin, left
        loop.add_reader(client, self._readable)
        self._timer = loop.call_later(HANDSHAKE, self.drop)

    def drop(self) -> None:
        """Close it."""
        self._timer.cancel()
        if self.task is None:
            self._loop.remove_reader(self.client)
            self.client.close()
        else:
            self.task.cancel()
        self._left(self)

    def passed(self) -> None:
        """Forget it: its handshake has ended, one way or the other."""
        self._timer.cancel()
        self._left(self)

    def _readable(self) -> None:
        try:
            first = self.client.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.drop()
        elif first == _HANDSHAKE_RECORD:
            self._loop.remove_reader(self.client)
            self._timer.cancel()
            self._begin(self)
        else:
            self._answer_plainly()

    def _answer_plainly(self) -> None:
        """Say that the port speaks TLS, and close when the client has read it."""
        self._loop.remove_reader(self.client)
        with contextlib.suppress(OSError):
            self.client.send(PLAIN)
            # Closing now, with bytes unread, would reset the connection, and the answer be lost.
            self.client.shutdown(socket.SHUT_WR)
        self._loop.add_reader(self.client, self._discard)
        self._timer.cancel()
        self._timer = self._loop.call_later(SHUTDOWN, self.drop)

    def _discard(self) -> None:
        try:
            if self.client.recv(1 << 16):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self.drop()


def _plain_answer() -> bytes:
    body = json.error_line(None, json.error_object(-32600, "this port speaks TLS: use https:// or wss://"))
    head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
    return head % len(body) + b"connection: close\r\n\r\n" + body


PLAIN = _plain_answer()
"""The answer to a request without TLS."""
