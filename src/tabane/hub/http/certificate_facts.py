"""The hub's certificate as a client sees it: names, period and fingerprint, by the standard library."""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path
from typing import Any, NamedTuple

from tabane.errors import ConfigurationError
from tabane.hub.http.tls import server_context
from tabane.messages import say
from tabane.settings import Settings
from tabane.settings.files import read_trusted

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which the module ssl does not name
_END = "-----END CERTIFICATE-----"


class CertificateFacts(NamedTuple):
    """A certificate. ``begins`` and ``ends`` are in seconds since 1970, ``fingerprint`` is its SHA-256."""

    names: tuple[str, ...]
    begins: float
    ends: float
    fingerprint: str


def certificate_facts(settings: Settings) -> CertificateFacts | None:
    """Return the facts of the certificate that the settings name; None if they name none.

    Raises ConfigurationError.
    """
    path, key = settings.tls_certificate, settings.tls_key
    if path is None or key is None:
        return None
    context = server_context(path, key, None)
    try:
        seen = seen_certificate(context, path)
        begins, ends = (ssl.cert_time_to_seconds(str(seen[name])) for name in ("notBefore", "notAfter"))
    except (ssl.SSLError, OSError, KeyError, ValueError) as error:
        raise ConfigurationError(
            say("The certificate in {path} cannot be checked: {reason}", path=path, reason=error)
        ) from None
    names: Any = seen.get("subjectAltName", ())
    return CertificateFacts(tuple(_name(value) for _, value in names), begins, ends, fingerprint_of(path))


def fingerprint_of(path: Path) -> str:
    """Return the SHA-256 of the first certificate of a PEM file, as browsers and openssl show it."""
    text = read_trusted(path).decode("ascii", "replace")
    der = ssl.PEM_cert_to_DER_cert(text[: text.index(_END) + len(_END)].strip())
    return hashlib.sha256(der).digest().hex(":").upper()


def _name(value: str) -> str:
    import ipaddress

    try:
        return str(ipaddress.ip_address(value.strip()))  # the module ssl writes ::1 in full
    except ValueError:
        return value


def seen_certificate(server: ssl.SSLContext, path: Path, host: str | None = None) -> dict[str, object]:
    """Return the certificate as a client sees it, which trusts that certificate and no authority.

    The handshake is in memory. Raises SSLError; SSLCertVerificationError if the certificate does not have
    the name ``host``.
    """
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = host is not None
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    client.load_verify_locations(cafile=path)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(to_client, to_server, server_hostname=host)
    theirs = server.wrap_bio(to_server, to_client, server_side=True)
    for _ in range(4):  # more than a handshake has round trips
        if _shaken(ours):
            return dict(ours.getpeercert() or {})
        _shaken(theirs)
    raise ssl.SSLError("the handshake did not end")


def _shaken(end: ssl.SSLObject) -> bool:
    """Continue a handshake. Return whether it has ended at this end."""
    try:
        end.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True
