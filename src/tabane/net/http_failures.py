"""Failures of HTTP requests, and their texts without secrets: of URLs only the host is named."""

from __future__ import annotations

import os
import ssl
from typing import Any

from tabane.messages import Message, say


class HttpFailure(Exception):
    """A request that got no response. ``problem`` says why."""

    def __init__(self, problem: Message) -> None:
        super().__init__(problem)
        self.problem = problem


class HttpUnreachable(HttpFailure):
    """No connection could be made, so nothing was sent. ``untrusted``: the certificate is not trusted."""

    def __init__(self, problem: Message, *, untrusted: bool = False) -> None:
        super().__init__(problem)
        self.untrusted = untrusted


class HttpConnectionBroken(HttpFailure):
    """The connection broke after the request was sent, or may have been."""


class ResponseTooLong(Exception):
    """A body was longer than a message may be; ``head`` is its beginning."""

    def __init__(self, head: bytes) -> None:
        super().__init__("a message is too long")
        self.head = head


def system_text(error: Any) -> str:
    """Return the system's text for an error, since the client's own text repeats the address."""
    number = getattr(error, "errno", None)
    if isinstance(number, int) and number > 0 and not hasattr(error, "reason"):
        return os.strerror(number)
    reason = getattr(error, "reason", None)
    return str(reason or getattr(error, "strerror", None) or error or type(error).__name__)


_CERTIFICATE_ALERTS = frozenset(
    (
        *("TLSV13_ALERT_CERTIFICATE_REQUIRED", "TLSV1_ALERT_UNKNOWN_CA", "SSLV3_ALERT_BAD_CERTIFICATE"),
        *("SSLV3_ALERT_CERTIFICATE_EXPIRED", "SSLV3_ALERT_CERTIFICATE_UNKNOWN"),
    )
)
"""OpenSSL's names of the alerts of a server that does not accept a client's certificate, or misses it."""


def is_certificate_alert(error: BaseException) -> bool:
    """Return whether a server does not accept the client's certificate, or requires one."""
    return getattr(error, "reason", None) in _CERTIFICATE_ALERTS


def certificate_wanted(host: str, error: BaseException) -> Message:
    """Return the text for an alert about the client's certificate."""
    return say(
        "{host} does not accept the client certificate, or requires one ({error}). Set "
        '"tls": {{"cert": FILE, "key": FILE}} to a certificate that it accepts.',
        host=host,
        error=system_text(error),
    )


def handshake_failure(host: str, error: OSError | UnicodeError) -> HttpUnreachable:
    """Return the failure of a TLS handshake with ``host``, which has the port."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return HttpUnreachable(say(
                "the certificate of {host} is not trusted ({error}). If your own authority signed "
                'it, set "ca" to its PEM file.', host=host,
            error=getattr(error, "verify_message", "") or str(error)), untrusted=True)  # fmt: skip
    if is_certificate_alert(error):
        return HttpUnreachable(certificate_wanted(host, error))
    if isinstance(error, ssl.SSLError):
        return HttpUnreachable(
            say("no TLS connection to {host}: {error}", host=host, error=system_text(error))
        )
    if isinstance(error, ConnectionResetError):
        return HttpUnreachable(
            say(
                "{host} closed the connection during the TLS handshake. If it requires a client certificate, "
                'set "tls": {{"cert": FILE, "key": FILE}}.',
                host=host,
            )
        )
    return HttpUnreachable(say("{host} cannot be reached: {error}", host=host, error=system_text(error)))
