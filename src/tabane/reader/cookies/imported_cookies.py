"""Imported cookies, and the rules by which they are sent (RFC 6265, 5.1.3, 5.1.4 and 5.4). Pure.

The rules are stricter than those of browsers: cookies are sent only over HTTPS, only to the port that they
were imported for, and only to the imported host and hosts below it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tabane.errors import ReadError
from tabane.reader.guard import Target, target


@dataclass(frozen=True, slots=True)
class ImportedCookie:
    """One cookie. ``domain`` is a normalized host without a leading dot.

    ``host_only``: it is not for hosts below ``domain``. ``expires`` is in seconds since 1970, None for a
    cookie of a session.
    """

    name: str
    value: str = field(repr=False)
    domain: str
    path: str = "/"
    host_only: bool = True
    expires: float | None = None

    def is_expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now

    def is_for_host(self, at: Target) -> bool:
        return at.host == self.domain or (not self.host_only and _is_below(at, self.domain))

    def is_for_path(self, path: str) -> bool:
        """Return whether it is for ``path``, which may have a query."""
        path = path.partition("?")[0]
        if not path.startswith(self.path):
            return False
        return len(path) == len(self.path) or self.path.endswith("/") or path[len(self.path)] == "/"


@dataclass(frozen=True, slots=True)
class CookieJar:
    """The cookies of one imported host. ``imported`` is the time of the import, in seconds since 1970."""

    host: str
    port: int
    cookies: tuple[ImportedCookie, ...] = field(repr=False)
    imported: float = 0.0

    @property
    def authority(self) -> str:
        return authority(self.host, self.port)

    def covers(self, at: Target) -> bool:
        """Return whether cookies may be sent there at all: over HTTPS, to this host or one below it."""
        if at.scheme != "https" or at.port != self.port:
            return False
        return at.host == self.host or _is_below(at, self.host)

    def valid(self, now: float) -> tuple[ImportedCookie, ...]:
        """Return the cookies that have not expired."""
        return tuple(cookie for cookie in self.cookies if not cookie.is_expired(now))

    def header(self, at: Target, now: float) -> str | None:
        """Return the value of the header Cookie for a request; None if no cookie is for it."""
        if not self.covers(at):
            return None
        sent = [
            cookie for cookie in self.valid(now) if cookie.is_for_host(at) and cookie.is_for_path(at.path)
        ]
        sent.sort(key=lambda cookie: -len(cookie.path))  # RFC 6265, 5.4: longer paths first
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in sent) or None

    def first_expiry(self, now: float) -> float | None:
        """Return when the first valid cookie expires; None if all are cookies of a session."""
        return min((cookie.expires for cookie in self.valid(now) if cookie.expires is not None), default=None)


def authority(host: str, port: int) -> str:
    """Return an imported host as a person writes it: with its port if it is not that of HTTPS."""
    shown = f"[{host}]" if ":" in host else host
    return shown if port == 443 else f"{shown}:{port}"


def host_of(text: str) -> Target:
    """Return the HTTPS server that a person names: ``example.com``, ``wiki.lan:8443`` or a URL.

    Raises ReadError if it is not one.
    """
    text = text.strip()
    named = text.partition("://")[2] if "://" in text else text
    return target("https://" + named)


def domain_of(text: str) -> str | None:
    """Return the domain of a cookie as a normalized host, without its leading dot; None if it is none."""
    text = text.strip().removeprefix(".")
    if not text or any(character in text for character in "/?#@\\"):
        return None
    if text.count(":") > 1 and not text.startswith("["):
        text = f"[{text}]"
    try:
        return target(f"https://{text}/").host
    except ReadError:
        return None


def _is_below(at: Target, domain: str) -> bool:
    """Return whether a host is a name below ``domain``. An address is below nothing."""
    return at.address is None and at.host.endswith("." + domain)
