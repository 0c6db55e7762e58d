"""TLS towards a server at a URL: authorities, the client's certificate, and files that change."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tabane.errors import ConfigurationError, TabaneError, UpstreamUnavailable
from tabane.messages import say
from tabane.net.target import Target
from tabane.settings.files import read_private

if TYPE_CHECKING:
    from ssl import SSLContext

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at the files."""

_NAMED = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "SSL_CERT_DIR")
"""Variables of files and folders of authorities. Each is set for some programs, and applies here too."""

_BUNDLES = ("/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem")

_Stamps = tuple[tuple[int, int, int] | None, ...]


class UpstreamTls:
    """The TLS context of a server's next connection. It follows its files; broken ones are not used.

    Raises UpstreamUnavailable if a file cannot be used from the start.
    """

    def __init__(self, target: Target, environment: Mapping[str, str]) -> None:
        self._target, self._environment = target, environment
        own = [path for path in (target.ca, target.cert, target.key) if path]
        self._files = [*_named(environment), *own]
        self._stamps = self._seen()
        self._context = context(target, environment)
        self._looked = time.monotonic()

    def context(self) -> SSLContext:
        """Return the context for a request, which opens a connection if none fits."""
        now = time.monotonic()
        if self._files and now - self._looked >= LOOK:
            self._looked = now
            stamps = self._seen()
            if stamps != self._stamps:
                self._stamps = stamps
                self._reload()
        return self._context

    def _reload(self) -> None:
        try:
            self._context = context(self._target, self._environment)
        except TabaneError as error:
            log.error("%s: the certificates before stay in use: %s", self._target.name, error)
        else:
            log.info("%s: new connections use the changed certificates", self._target.name)

    def _seen(self) -> _Stamps:
        return tuple(map(_stamp, self._files))


def context(target: Target, environment: Mapping[str, str]) -> SSLContext:
    """Return the TLS context: it trusts the system's authorities, the environment's, and the server's ``ca``.

    Raises UpstreamUnavailable if ``ca`` or ``SSL_CERT_FILE`` cannot be read. Other variables may be about
    another program, and what cannot be read of them is logged.
    """
    import ssl

    trusted = ssl.create_default_context()
    given = environment.get("SSL_CERT_FILE")
    own = [path for path in (given, target.ca) if path]
    for path in _named(environment):
        if path not in own:
            _trust_if_readable(trusted, path)
    if not trusted.cert_store_stats()["x509_ca"]:
        # A Python that was built elsewhere does not know where this system keeps them.
        own += [path for path in _BUNDLES if os.path.exists(path)][:1]
    for path in own:
        try:
            trusted.load_verify_locations(cafile=path)
        except (OSError, ssl.SSLError) as error:
            raise UpstreamUnavailable(say(
                "the certificates in {path} cannot be read: {error}",
                path=path, error=error.strerror or error)) from None  # fmt: skip
    if not target.verify:
        trusted.check_hostname = False
        trusted.verify_mode = ssl.CERT_NONE
    if target.cert:
        _show_certificate(trusted, target.cert, target.key or target.cert)
    return trusted


def _named(environment: Mapping[str, str]) -> list[str]:
    """Return the files and folders of authorities that the environment names, each once."""
    values = [environment.get(name, "") for name in _NAMED]
    paths = [path for value in values for path in value.split(os.pathsep) if os.path.isabs(path)]
    return list(dict.fromkeys(paths))


def _trust_if_readable(trusted: SSLContext, path: str) -> None:
    import ssl

    try:
        if os.path.isdir(path):
            trusted.load_verify_locations(capath=path)
        else:
            trusted.load_verify_locations(cafile=path)
    except (OSError, ssl.SSLError) as error:
        log.warning("the certificates in %s cannot be read: %s", path, error.strerror or error)


def _show_certificate(trusted: SSLContext, certificate: str, key: str) -> None:
    """Let the context show a certificate. Raises UpstreamUnavailable."""
    try:
        read_private(key)
        trusted.load_cert_chain(certificate, key, password=_no_password)
    except FileNotFoundError:
        missing = certificate if os.path.exists(key) else key
        raise UpstreamUnavailable(
            say('there is no file {path}. Check "cert" and "key" in its "tls".', path=missing)
        ) from None
    except ConfigurationError as error:
        raise UpstreamUnavailable(error.message) from None
    except (OSError, ValueError) as error:
        reason = str(getattr(error, "reason", None) or error).replace("_", " ").lower()
        raise UpstreamUnavailable(
            say(
                'the certificate {certificate} with the key {key} cannot be used: {reason}. Check "cert" and '
                '"key" in its "tls": both must be PEM files, the key without a password.',
                certificate=certificate,
                key=key,
                reason=reason,
            )
        ) from None


def _no_password() -> bytes:
    # Without this, OpenSSL would ask on the terminal.
    return b""


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_ctime_ns
