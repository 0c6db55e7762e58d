"""TLS of the hub's own port: the context from certificate, key and authorities, loaded again on change."""

from __future__ import annotations

import asyncio
import logging
import ssl
from pathlib import Path

from tabane.errors import ConfigurationError
from tabane.hub.servers.servers import FileFollower
from tabane.messages import Message, say
from tabane.settings import Settings
from tabane.settings.files import read_private, read_trusted

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
        self._context = server_context(self._certificate, self._key, self._authorities)
        files = [self._certificate, self._key, *([self._authorities] if self._authorities else [])]
        self._follower = FileFollower(loop, lambda: files, self._reload)
        self._follower.start()

    @property
    def problem(self) -> Message | None:
        return self._follower.problem

    def context(self) -> ssl.SSLContext:
        """Return the context for a new connection."""
        return self._context

    def look(self) -> None:
        """Read the files now, changed or not."""
        self._follower.now()

    def close(self) -> None:
        self._follower.close()

    def _reload(self) -> None:
        self._context = server_context(self._certificate, self._key, self._authorities)
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
    _check_key(key)
    _load_pair(context, certificate, key)
    if authorities is not None:
        _require_clients(context, authorities)
    return context


def _check_readable(path: Path, setting: str) -> None:
    try:
        read_trusted(path)
    except FileNotFoundError:
        raise ConfigurationError(_missing(setting, path)) from None


def _check_key(path: Path) -> None:
    try:
        text = read_private(path)
    except FileNotFoundError:
        raise ConfigurationError(_missing("tls_key", path)) from None
    if b"ENCRYPTED" in text:
        raise ConfigurationError(
            say(
                "tls_key: the key in {path} has a password, which the hub cannot ask for. Write it without "
                "one: openssl pkey -in KEY -out NEW_KEY",
                path=path,
            )
        )


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path) -> None:
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
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


def _require_clients(context: ssl.SSLContext, path: Path) -> None:
    _check_readable(path, "tls_client_ca")
    try:
        context.load_verify_locations(cafile=path)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            say("tls_client_ca: {path} cannot be used: {reason}.", path=path, reason=_reason(error))
        ) from None
    context.verify_mode = ssl.CERT_REQUIRED


def _missing(setting: str, path: Path) -> Message:
    return say("{setting}: there is no file {path}.", setting=setting, path=path)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason or error).replace("_", " ").lower()


def _no_password() -> bytes:
    # Without this, OpenSSL would ask on the terminal.
    return b""
