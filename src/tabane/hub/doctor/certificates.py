"""Checks of the hub's certificate: its files, when it ends, and the name that clients use."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tabane.errors import ConfigurationError
from tabane.hub.doctor.files import closing
from tabane.hub.doctor.installation import DoctorFinding, Fix, Installation, fault, ok, warning
from tabane.hub.http.tls import server_context
from tabane.messages import Message, say
from tabane.settings import Settings

DAY = 86_400

SOON = 14 * DAY
"""Seconds before the end of a certificate from which on it should be renewed; less if it is short-lived."""

_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which the module ssl does not name


class CertificatePeriod(NamedTuple):
    """When a certificate is valid, in seconds since 1970."""

    begins: float
    ends: float

    def finding(self, now: float, path: Path) -> DoctorFinding:
        """Return whether it is valid, and for how long."""
        day = datetime.fromtimestamp(self.ends).astimezone().strftime("%Y-%m-%d")
        renew = say("Renew it. The running hub uses new files within a second")
        if now >= self.ends:
            return fault(say("The certificate in {path} expired on {day}", path=path, day=day), renew)
        if now < self.begins:
            return fault(
                say("The certificate in {path} is not valid yet", path=path),
                say("Check the clock of this machine: date"),
            )
        if self.ends - now < min(SOON, (self.ends - self.begins) / 3):
            return warning(say("The certificate in {path} expires on {day}", path=path, day=day), renew)
        return ok(say("The certificate in {path} is valid until {day}", path=path, day=day))


def certificate(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the files of the certificate can be used, that it is valid, and that its name is right."""
    settings = installation.settings
    path, key = settings.tls_certificate, settings.tls_key
    if not settings.http or path is None or key is None:
        return
    live = installation.live.status.get("tls_problem") if installation.live else None
    try:
        context = server_context(path, key, settings.tls_client_ca)
    except ConfigurationError as error:
        yield fault(error.message, _continues() if live else None, _closing(error.message, settings))
        return
    context.verify_mode = ssl.CERT_NONE  # no client certificate is needed to look at the hub's
    try:
        yield _period(context, path).finding(time.time(), path)
        yield from _name(context, path, settings)
    except (ssl.SSLError, OSError, KeyError, ValueError) as error:
        yield warning(say("The certificate in {path} cannot be checked: {reason}", path=path, reason=error))


def _continues() -> Message:
    return say("Until then, the running hub continues with the certificate that it had before")


def _closing(problem: Message, settings: Settings) -> Fix | None:
    """Return a fix that removes others' permissions from a file that was refused because of them."""
    path = problem.fields.get("path")
    if not isinstance(path, str | Path) or "mode" not in problem.fields:
        return None
    return closing(Path(path), 0o077 if Path(path) == settings.tls_key else 0o022)


def _name(context: ssl.SSLContext, path: Path, settings: Settings) -> Iterator[DoctorFinding]:
    """Check that the certificate has the name in public_url. Behind a proxy, clients see another one."""
    host = urlsplit(settings.public_url).hostname
    if not host or settings.trusted_proxies:
        return
    try:
        _seen(context, path, host)
    except ssl.SSLCertVerificationError:
        yield fault(
            say(
                "The certificate in {path} does not have the name {host} of public_url", path=path, host=host
            ),
            say("Get a certificate for {host}, or correct public_url", host=host),
        )


def _period(context: ssl.SSLContext, path: Path) -> CertificatePeriod:
    seen = _seen(context, path)
    begins, ends = (ssl.cert_time_to_seconds(str(seen[name])) for name in ("notBefore", "notAfter"))
    return CertificatePeriod(begins, ends)


def _seen(server: ssl.SSLContext, path: Path, host: str | None = None) -> dict[str, object]:
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
