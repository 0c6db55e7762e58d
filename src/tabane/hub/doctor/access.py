"""Checks of who may use the hub: API keys, access from other machines, certificate, OAuth, and packages."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Iterator
from datetime import datetime
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tabane.access.key_store import FILE, KeyStore
from tabane.access.oauth.fetching import AuthorizationServerHttp, FetchFailed
from tabane.access.oauth.signing_keys import discover_jwks_url
from tabane.access.profiles import read_profiles
from tabane.errors import ConfigurationError, TabaneError
from tabane.extras import extra_command
from tabane.hub.doctor.files import closing
from tabane.hub.doctor.installation import DoctorFinding, Fix, Installation, fault, note, ok, warning
from tabane.hub.http.certificate_facts import seen_certificate
from tabane.hub.http.tls import server_context
from tabane.hub.people.oauth import client_secret
from tabane.hub.telemetry.tracing import NoTracing, check_installed
from tabane.messages import Message, say
from tabane.net.own_authority import is_own
from tabane.settings import Settings
from tabane.settings.addresses import is_this_machine

MOST_KEY_BYTES = 1 << 20
"""Longest answer with the keys of an authorization server."""


def keys(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the API keys and the profiles can be read, and that others cannot read the keys."""
    path = installation.settings.home / FILE
    try:
        count = _count(installation)
    except TabaneError as error:
        yield fault(error.message, say("Until then, every API key is refused"), closing(path, 0o077))
    else:
        if count:
            yield ok(say("API keys: {count}, in {path}", count=count, path=path))
    if installation.settings_problem:
        return
    try:
        read_profiles(installation.settings.config)
    except TabaneError as error:
        yield fault(error.message)


def proxies(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that what the proxies in front of the hub send is not refused, and that nobody can read it."""
    settings = installation.settings
    if settings.http and settings.trusted_proxies and not settings.proxy_tls:
        yield note(
            say("proxy_tls is off: clients may send their keys to the proxy without TLS"),
            say("Make sure that nobody else can read that way: only a private network may reach the proxy"),
        )
    for peer in installation.live.status.get("http_exposed", ()) if installation.live else ():
        address, requests = peer["address"], peer["requests"]
        if peer["proxied"]:
            yield warning(
                say(
                    "The hub refuses what the proxy at {address} sends, because clients reach the proxy "
                    "without TLS ({requests} {requests:request|requests})",
                    address=address,
                    requests=requests,
                ),
                say(
                    "Give the proxy a certificate. If only this machine or a private network can reach it, "
                    "set proxy_tls = false instead"
                ),
            )
        else:
            yield warning(
                say(
                    "The hub refuses what {address} sends, because it comes without TLS "
                    "({requests} {requests:request|requests})",
                    address=address,
                    requests=requests,
                ),
                say("If {address} is your proxy, add it to trusted_proxies", address=address),
            )


def reach(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that somebody may come in if other machines can reach the hub. A running hub says so itself."""
    settings = installation.settings
    if installation.live or not settings.http or is_this_machine(settings.host) or settings.oauth_issuer:
        return
    try:
        count = _count(installation)
    except TabaneError:
        return  # which is a finding already
    if not count:
        yield warning(
            say(
                "host is {host}, which other machines can reach, but there is no API key and no OAuth "
                "server: the next hub does not serve HTTP",
                host=settings.host,
            ),
            say("Create a key: tabane keys create NAME --allow PATTERN"),
        )


def _count(installation: Installation) -> int:
    """Return the number of keys that are not revoked. Raises TabaneError."""
    try:
        store = KeyStore(installation.settings.home / FILE)
    except FileNotFoundError:
        return 0
    try:
        return store.count()
    finally:
        store.close()


def oauth(installation: Installation) -> Iterator[DoctorFinding]:
    """Check what access tokens need on this machine: packages, and the secret for introspection."""
    settings = installation.settings
    if not settings.oauth_issuer:
        return
    if not all(find_spec(package) for package in ("jwt", "cryptography")):
        yield fault(
            say("oauth_issuer is set, but the packages of tabane[oauth] are missing"),
            say("Install them: {command}", command=extra_command("oauth")),
        )
    if settings.oauth_introspection_url and settings.oauth_client_secret:
        try:
            client_secret(settings, installation.environ)
        except TabaneError as error:
            yield fault(error.message)


def traces(installation: Installation) -> Iterator[DoctorFinding]:
    """Check that the packages for traces are installed if a collector is configured."""
    if not installation.settings.otel_endpoint:
        return
    try:
        check_installed()
    except NoTracing:
        yield warning(
            say("otel_endpoint is set, but the packages of tabane[otel] are missing: no spans are sent"),
            say("Install them: {command}", command=extra_command("otel")),
        )


def authorization_server(installation: Installation) -> Iterator[DoctorFinding]:
    """Ask the authorization server for its keys."""
    settings = installation.settings
    if not settings.oauth_issuer or not installation.online:
        return
    try:
        asyncio.run(_ask(installation))
    except FetchFailed as failed:
        # A server whose tokens are all opaque may publish no keys.
        found = note if settings.oauth_introspection_url else warning
        yield found(
            say(
                "The authorization server {issuer} does not give its keys: {reason}",
                issuer=settings.oauth_issuer,
                reason=failed,
            ),
            say("Check oauth_issuer, oauth_ca and the network. Until then, access tokens are refused"),
        )
    else:
        yield ok(say("The authorization server {issuer} gives its keys", issuer=settings.oauth_issuer))


async def _ask(installation: Installation) -> None:
    settings = installation.settings
    requests = AuthorizationServerHttp(settings.oauth_timeout, settings.oauth_ca, installation.environ)
    try:
        url = settings.oauth_jwks_url or await discover_jwks_url(settings.oauth_issuer, requests)
        await requests.get(url, MOST_KEY_BYTES)
    finally:
        await requests.close()


DAY = 86_400

SOON = 14 * DAY
"""Seconds before the end of a certificate from which on it should be renewed; less if it is short-lived."""


class CertificatePeriod(NamedTuple):
    """When a certificate is valid, in seconds since 1970."""

    begins: float
    ends: float

    def finding(self, now: float, path: Path, *, own: bool) -> DoctorFinding:
        """Return whether it is valid, and for how long. ``own``: Tabane made it."""
        day = datetime.fromtimestamp(self.ends).astimezone().strftime("%Y-%m-%d")
        renew = (
            say("Renew it: tabane tls create. The running hub uses the new files within a second")
            if own
            else say("Renew it. The running hub uses new files within a second")
        )
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
        meanwhile = say("Until then, the running hub continues with the certificate that it had before")
        yield fault(error.message, meanwhile if live else None, _closing(error.message, settings))
        return
    context.verify_mode = ssl.CERT_NONE  # no client certificate is needed to look at the hub's
    try:
        seen = seen_certificate(context, path)
        begins, ends = (ssl.cert_time_to_seconds(str(seen[name])) for name in ("notBefore", "notAfter"))
        yield CertificatePeriod(begins, ends).finding(time.time(), path, own=is_own(path, settings.home))
        yield from _name(context, path, settings)
    except (ssl.SSLError, OSError, KeyError, ValueError) as error:
        yield warning(say("The certificate in {path} cannot be checked: {reason}", path=path, reason=error))


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
        seen_certificate(context, path, host)
    except ssl.SSLCertVerificationError:
        yield fault(
            say(
                "The certificate in {path} does not have the name {host} of public_url", path=path, host=host
            ),
            say("Get a certificate for {host}, or correct public_url", host=host),
        )
