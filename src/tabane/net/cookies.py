"""Cookies of one server at a URL (RFC 6265): load balancers choose by them who answers the next request."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping
from ipaddress import ip_address
from typing import TYPE_CHECKING, NamedTuple

from tabane.wire.http import http_date

if TYPE_CHECKING:
    from yarl import URL

MOST_COOKIES = 64
LARGEST_COOKIE = 4096
"""Characters of the name and the value of a cookie."""

_seconds = re.compile(r"-?[0-9]{1,15}").fullmatch


class Cookie(NamedTuple):
    """A cookie. ``ends`` is the time at which it expires."""

    name: str
    value: str
    path: str
    secure: bool
    ends: float


class CookieJar:
    """Keeps the cookies of one host with a name, and sends them back to it. ``own`` are those of the user."""

    def __init__(self, own: str) -> None:
        self._own = own
        self._cookies: dict[tuple[str, str], Cookie] = {}

    def take(self, lines: Iterable[str], url: URL) -> None:
        """Keep the cookies of the headers ``Set-Cookie`` in a response of ``url``."""
        host, now = url.raw_host or "", time.time()
        if _is_address(host):
            return
        for line in lines:
            cookie = parse_cookie(line, host, url.raw_path, now)
            if cookie is None:
                continue
            self._cookies.pop((cookie.name, cookie.path), None)
            if cookie.ends > now:
                self._cookies[cookie.name, cookie.path] = cookie
        while len(self._cookies) > MOST_COOKIES:
            del self._cookies[next(iter(self._cookies))]

    def added(self, headers: Mapping[str, str], url: URL) -> Mapping[str, str]:
        """Return the headers of a request, with the cookies for its URL."""
        now, path = time.time(), url.raw_path
        sent = [
            f"{cookie.name}={cookie.value}"
            for cookie in sorted(self._cookies.values(), key=lambda cookie: -len(cookie.path))
            if cookie.ends > now
            and (not cookie.secure or url.scheme == "https")
            and _is_below(path, cookie.path)
        ]
        if not sent:
            return headers
        return {**headers, "Cookie": "; ".join([self._own, *sent] if self._own else sent)}


def parse_cookie(line: str, host: str, path: str, now: float) -> Cookie | None:
    """Return the cookie of a header ``Set-Cookie``; None if it is not for that host or cannot be sent."""
    pair, *attributes = line.split(";")
    name, equals, value = (part.strip() for part in pair.partition("="))
    text = name + value
    if not (name and equals and text.isascii() and text.isprintable() and len(text) <= LARGEST_COOKIE):
        return None
    given = {key.strip().lower(): rest.strip() for key, _, rest in (one.partition("=") for one in attributes)}
    domain = given.get("domain", "").lstrip(".").lower()
    if domain and host != domain and not host.endswith("." + domain):
        return None
    where = given.get("path", "")
    if not where.startswith("/"):
        where = path.rpartition("/")[0] or "/"
    return Cookie(name, value, where, "secure" in given, _end(given, now))


def _end(given: Mapping[str, str], now: float) -> float:
    age = given.get("max-age", "")
    if _seconds(age):
        return now + int(age)
    date = http_date(given["expires"].replace("-", " "), now) if "expires" in given else None
    return float("inf") if date is None else date


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def _is_address(host: str) -> bool:
    try:
        ip_address(host.partition("%")[0])
    except ValueError:
        return False
    return True
