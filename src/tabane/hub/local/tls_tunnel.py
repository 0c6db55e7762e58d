"""TLS for a client of a hub at an address: a tunnel that a thread carries, behind an ordinary socket.

The bridge and the command line read and write a descriptor, without a library for asynchronous work. With
TLS, they get one end of a socket pair. A thread carries its bytes to the hub and back. It uses only the
standard library, and is imported for an address with TLS alone.

Variables: TABANE_CA is a PEM file of authorities that are trusted besides the system's. TABANE_CERT is a PEM
file with a certificate of the client and its key, for a hub that asks for one.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import selectors
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping

CA, CERTIFICATE = "TABANE_CA", "TABANE_CERT"

MOST_WAITING = 256 << 10
"""Bytes that wait for one side. Above it, the other side is not read."""

CHUNK = 64 << 10

ENDING = 1.0
"""Seconds that the end of this process waits for what was written last."""

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")


class TlsFailure(OSError):
    """No TLS connection, because of a certificate or a file. The text says which."""


def client_context(environ: Mapping[str, str], authority: str | None = None) -> ssl.SSLContext:
    """Return the context of a client. ``authority`` is the file to trust if TABANE_CA names none.

    Raises TlsFailure if a file cannot be used.
    """
    context = ssl.create_default_context()
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    authorities = environ.get(CA) or authority
    if authorities:
        with _naming_file(CA, authorities):
            context.load_verify_locations(cafile=authorities)
    elif not context.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        for path in [path for path in _BUNDLES if os.path.exists(path)][:1]:
            context.load_verify_locations(cafile=path)
    own = environ.get(CERTIFICATE)
    if own:
        with _naming_file(CERTIFICATE, own):
            context.load_cert_chain(own, password=b"")  # else OpenSSL asks on the terminal
    return context


@contextlib.contextmanager
def _naming_file(variable: str, path: str) -> Iterator[None]:
    """Raise TlsFailure with the variable and its file if what is done in the block fails."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error.args[-1]
        raise TlsFailure(f"{variable}: {path}: {str(reason).replace('_', ' ').lower()}") from None


def secured(
    peer: socket.socket,
    host: str,
    context: ssl.SSLContext,
    deadline: float,
    pause: Callable[[float, int], object],
) -> socket.socket:
    """Return a socket whose bytes travel over ``peer`` inside TLS. It takes the peer over.

    ``host`` is the name that the certificate must have, ``pause`` waits some seconds for a descriptor to
    become readable. Raises TlsFailure if the certificate is not trusted, TimeoutError at the deadline
    (``time.monotonic``), and OSError. Then the peer is closed.
    """
    peer.setblocking(False)
    try:
        tls = context.wrap_socket(peer, server_hostname=host, do_handshake_on_connect=False)
    except BaseException:
        peer.close()
        raise
    try:
        _shake_hands(tls, deadline, pause)
    except ssl.SSLCertVerificationError as error:
        tls.close()
        raise TlsFailure(
            f"certificate not trusted ({error.verify_message}); {CA} names the file of your own authority"
        ) from None
    except ssl.SSLError as error:
        tls.close()
        raise TlsFailure(str(error.reason or error).replace("_", " ").lower()) from None
    except BaseException:
        tls.close()
        raise
    near, far = socket.socketpair()
    near.setblocking(False)
    TlsTunnel(tls, far).start()
    return near


def _shake_hands(tls: ssl.SSLSocket, deadline: float, pause: Callable[[float, int], object]) -> None:
    while True:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        try:
            tls.do_handshake()
            return
        except ssl.SSLWantReadError:
            pause(min(left, 1.0), tls.fileno())
        except ssl.SSLWantWriteError:
            pause(0.01, -1)


class TlsTunnel:
    """Carries bytes between a TLS connection and a socket of this process, until one of them ends."""

    def __init__(self, tls: ssl.SSLSocket, inner: socket.socket) -> None:
        self._tls, self._inner = tls, inner
        inner.setblocking(False)
        self._out, self._in = bytearray(), bytearray()
        self._inner_ended = self._tls_ended = False

    def start(self) -> None:
        """Carry bytes in a thread of its own, which the end of the process waits for shortly."""
        thread = threading.Thread(target=self._run, name="tls", daemon=True)
        thread.start()
        atexit.register(thread.join, ENDING)

    def _run(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                while self._step(selector):
                    pass
        except (OSError, ValueError):
            pass  # The connection broke: both ends are closed, which the reader sees.
        finally:
            for end in (self._tls, self._inner):
                with contextlib.suppress(OSError):
                    end.close()

    def _step(self, selector: selectors.BaseSelector) -> bool:
        """Wait until something can be carried, and carry it. Return False at the end."""
        if (self._inner_ended and not self._out) or (self._tls_ended and not self._in):
            with contextlib.suppress(OSError, ValueError):
                self._tls.unwrap()
            return False
        reads_inner = not self._inner_ended and len(self._out) < MOST_WAITING
        reads_tls = not self._tls_ended and len(self._in) < MOST_WAITING
        _watch(selector, self._inner, reads_inner, bool(self._in))
        _watch(selector, self._tls, reads_tls, bool(self._out))
        # Bytes that TLS has decrypted already are not announced by the system.
        selector.select(0 if reads_tls and self._tls.pending() else None)
        if reads_tls:
            self._receive()
        if reads_inner:
            with contextlib.suppress(BlockingIOError):
                chunk = self._inner.recv(CHUNK)
                self._inner_ended = not chunk
                self._out += chunk
        self._deliver()
        self._send()
        return True

    def _receive(self) -> None:
        while len(self._in) < MOST_WAITING:
            try:
                chunk = self._tls.recv(CHUNK)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                return
            if not chunk:
                self._tls_ended = True
                return
            self._in += chunk

    def _deliver(self) -> None:
        try:
            if self._in:
                del self._in[: self._inner.send(self._in)]
        except BlockingIOError:
            return
        except OSError:
            # Nobody reads any more; what was written is still sent.
            self._in.clear()
            self._inner_ended = True

    def _send(self) -> None:
        with contextlib.suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):
            while self._out:
                del self._out[: self._tls.send(self._out[:CHUNK])]


def _watch(selector: selectors.BaseSelector, end: socket.socket, reads: bool, writes: bool) -> None:
    events = (selectors.EVENT_READ if reads else 0) | (selectors.EVENT_WRITE if writes else 0)
    known = selector.get_map().get(end)
    if known is None:
        if events:
            selector.register(end, events)
    elif not events:
        selector.unregister(end)
    elif known.events != events:
        selector.modify(end, events)
