"""Cookies that servers set while they redirect one read, by RFC 6265, 5.2 to 5.4. Pure, and never stored.

Some sites set a cookie, redirect to the same page, and go in a circle without it. A cookie is sent to the
host that set it and, if it names a domain above that host, to the hosts of that domain.
"""

from __future__ import annotations

from email.utils import parsedate_to_datetime

from tabane.reader.cookies.cookie_formats import LONGEST_COOKIE, may_be_sent
from tabane.reader.cookies.imported_cookies import ImportedCookie, domain_of
from tabane.reader.guard import Target

MOST = 50
"""Cookies of one read. Further ones are ignored."""


class SetCookies:
    """The cookies of one read. Those of the session live until it ends."""

    def __init__(self) -> None:
        self._cookies: dict[tuple[str, str, str], tuple[ImportedCookie, bool]] = {}

    def take(self, at: Target, header: str, now: float) -> None:
        """Add the cookies of a response from ``at``. ``header`` has one Set-Cookie in each line."""
        for line in header.split("\n")[:MOST]:
            pair, *attributes = line.split(";")
            name, equals, value = (part.strip() for part in pair.partition("="))
            if not equals or not may_be_sent(name, value):
                continue
            said = {
                key.strip().lower(): text.strip()
                for key, _, text in (each[:LONGEST_COOKIE].partition("=") for each in attributes)
            }
            domain = domain_of(said.get("domain", "")) or at.host
            if domain != at.host and (at.address is not None or not _is_above(domain, at.host)):
                continue
            path = said.get("path", "")
            path = path if path.startswith("/") else at.path.partition("?")[0].rpartition("/")[0] or "/"
            host_only = domain_of(said.get("domain", "")) is None
            self._cookies.pop((name, domain, path), None)
            if not _is_over(said, now) and len(self._cookies) < MOST:
                cookie = ImportedCookie(name, value, domain, path, host_only)
                self._cookies[name, domain, path] = cookie, "secure" in said

    def pairs(self, at: Target) -> dict[str, str]:
        """Return name and value of the cookies for a request, the one with the longest path of each name."""
        found = [
            cookie
            for cookie, secure in self._cookies.values()
            if cookie.is_for_host(at) and cookie.is_for_path(at.path) and (at.scheme == "https" or not secure)
        ]
        return {cookie.name: cookie.value for cookie in sorted(found, key=lambda each: len(each.path))}


def _is_above(domain: str, host: str) -> bool:
    """Return whether a host is below a domain that is more than a top-level one."""
    return "." in domain and host.endswith("." + domain)


def _is_over(said: dict[str, str], now: float) -> bool:
    """Return whether the attributes delete the cookie: Max-Age counts, else Expires."""
    age = said.get("max-age", "")
    if age.lstrip("-").isdecimal():
        return age.startswith("-") or not age.strip("0")
    try:
        return "expires" in said and parsedate_to_datetime(said["expires"]).timestamp() <= now
    except (ValueError, OverflowError):
        return False
