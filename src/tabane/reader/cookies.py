"""Cookies that a person imports for one host, so that the reader can read pages that need a login.

The rules by which they are sent (RFC 6265, 5.1.3, 5.1.4 and 5.4) are stricter than those of browsers: only
over HTTPS, only to the port that they were imported for, and only to the imported host and hosts below it.

Imported files are cookies.txt (Netscape), and the JSON that browser extensions export. A file comes from a
browser, but may have been edited. Its cookies go into a header, so a cookie whose name or value cannot be
there is left out and counted.

A home has a file for each host, in the folder ``cookies``. The command line writes it, and each request for a
page reads it, so that a running hub sees changes at once. Only its owner can read it. No message names a
value.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import msgspec

from tabane.errors import ConfigurationError, ReadError, StoreError
from tabane.messages import say
from tabane.reader.guard import Target, target
from tabane.settings.files import private_folder, read_private, write_private


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
        """Return whether the cookie has expired at ``now``, in seconds since 1970."""
        return self.expires is not None and self.expires <= now

    def is_for_host(self, at: Target) -> bool:
        """Return whether the cookie is for the host of ``at``, or for a domain above it."""
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
        """Host of the cookies, with its port if that is not 443."""
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


LONGEST_COOKIE = 8_192
"""Characters of a name and its value. Browsers keep 4,096 bytes."""

MOST_COOKIES = 300
"""Cookies of one host. Browsers keep 180 for each domain."""

LARGEST_FILE = 8 << 20
"""Bytes of a file."""

_HTTP_ONLY = "#HttpOnly_"
_FIELDS = 7
_NAMES = frozenset(
    "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz()/:<>?@[]{}"
)
"""Characters of names: those of tokens, and others that browsers accept."""


@dataclass(frozen=True, slots=True)
class CookieFile:
    """The cookies of a file. ``unusable`` counts its lines or objects that cannot be sent as a cookie."""

    cookies: tuple[ImportedCookie, ...] = field(default=(), repr=False)
    unusable: int = 0


@dataclass(frozen=True, slots=True)
class CookieChoice:
    """The cookies of a file that are for one host.

    ``ignored`` counts those of other hosts, ``expired`` those of this host that have expired. ``domains`` are
    those of the file, the most frequent first.
    """

    taken: tuple[ImportedCookie, ...] = field(repr=False)
    ignored: int
    expired: int
    domains: tuple[str, ...]


def parse_cookies(text: str) -> CookieFile | None:
    """Return the cookies of a file; None if it is not a file of cookies."""
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
            return None
        if isinstance(value, dict):
            value = value.get("cookies")
        if not isinstance(value, list):
            return None
        read = [_of_object(row) for row in value]
        found = tuple(cookie for cookie in read if cookie is not None)
        return CookieFile(found, len(read) - len(found)) if found else None
    return _of_lines(text)


def choose(cookies: tuple[ImportedCookie, ...], at: Target, now: float) -> CookieChoice:
    """Return the valid cookies that a browser would send to the host. The last one of a name wins."""
    taken: dict[tuple[str, str, str], ImportedCookie] = {}
    ignored = expired = 0
    for cookie in cookies:
        if not cookie.is_for_host(at):
            ignored += 1
        elif cookie.is_expired(now):
            expired += 1
        else:
            key = (cookie.name, cookie.domain, cookie.path)
            taken.pop(key, None)
            taken[key] = cookie
    domains = Counter(cookie.domain for cookie in cookies)
    return CookieChoice(
        tuple(taken.values()), ignored, expired, tuple(name for name, _ in domains.most_common())
    )


def _of_lines(text: str) -> CookieFile | None:
    """Return the cookies of a cookies.txt: lines of seven fields, separated by tabs."""
    found: list[ImportedCookie] = []
    unusable = 0
    headed = False
    for line in text.split("\n"):
        line = line.removesuffix("\r")
        if line.startswith(_HTTP_ONLY):
            line = line[len(_HTTP_ONLY) :]
        elif line.startswith("#") or not line.strip():
            headed = headed or "HTTP Cookie File" in line[:100]
            continue
        cookie = _of_fields(line.split("\t", _FIELDS - 1))
        if cookie is None:
            unusable += 1
        else:
            found.append(cookie)
    if not found and not headed:
        return None
    return CookieFile(tuple(found), unusable)


def _of_fields(fields: list[str]) -> ImportedCookie | None:
    if len(fields) == _FIELDS - 1:
        fields = [*fields, ""]  # editors remove the tab before an empty value
    if len(fields) != _FIELDS:
        return None
    domain, below, path, _, expires, name, value = fields
    if below.upper() not in ("TRUE", "FALSE"):
        return None
    try:
        moment = float(expires or 0)
    except ValueError:
        return None
    return _cookie_of_fields(
        name, value, domain, path, below.upper() == "FALSE", moment if moment > 0 else None
    )


def _of_object(row: Any) -> ImportedCookie | None:
    if not isinstance(row, dict):
        return None
    name, value, domain = (row.get(key) for key in ("name", "value", "domain"))
    path = row.get("path", "/")
    if not all(isinstance(text, str) for text in (name, value, domain, path)):
        return None
    below = row.get("hostOnly")
    host_only = below if isinstance(below, bool) else not str(domain).startswith(".")
    return _cookie_of_fields(str(name), str(value), str(domain), str(path), host_only, _expiry(row))


def _expiry(row: dict[str, Any]) -> float | None:
    """Return the expiry; extensions name it differently, and a negative one is that of a session."""
    for key in ("expirationDate", "expires", "expiry"):
        value = row.get(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return float(value)
    return None


def _cookie_of_fields(
    name: str, value: str, domain: str, path: str, host_only: bool, expires: float | None
) -> ImportedCookie | None:
    host = domain_of(domain) if len(domain) <= 300 else None
    if host is None or not may_be_sent(name, value) or expires != expires:
        return None
    return ImportedCookie(name, value, host, path if path.startswith("/") else "/", host_only, expires)


def may_be_sent(name: str, value: str) -> bool:
    """Return whether a name and a value can be in the header Cookie."""
    if not name or len(name) + len(value) > LONGEST_COOKIE or not _NAMES.issuperset(name):
        return False
    # No control character, no end of the cookie, no half of a surrogate pair.
    return all(
        character >= " " and character not in ";\x7f" and not "\ud800" <= character <= "\udfff"
        for character in value
    )


FOLDER = "cookies"
LARGEST = 8 << 20
"""Bytes of one file."""

_SUFFIX = ".json"


class CookieFolder:
    """The imported cookies of a home."""

    def __init__(self, home: Path) -> None:
        self._folder = home / FOLDER

    @property
    def is_used(self) -> bool:
        """Return whether cookies were ever imported."""
        return self._folder.is_dir()

    def jars(self) -> list[CookieJar]:
        """Return all, by host. Raises ConfigurationError and StoreError."""
        return [jar for name in sorted(self._file_names()) if (jar := self._read_jar(name)) is not None]

    def jar_for(self, at: Target) -> CookieJar | None:
        """Return the cookies of the imported host that a request is to: the longest if several cover it.

        Raises ConfigurationError and StoreError if they cannot be read.
        """
        names = self._file_names()
        for host in _host_and_parents(at):
            if (name := _file_name(host, at.port)) in names:
                return self._read_jar(name)
        return None

    def keep(self, jar: CookieJar) -> None:
        """Replace the cookies of a host. Raises ConfigurationError, and StoreError if they cannot be kept."""
        private_folder(self._folder.parent)
        private_folder(self._folder)
        path = self._folder / _file_name(jar.host, jar.port)
        try:
            os.chmod(self._folder, 0o700)
            # Whoever adds the folder above to documents or to a repository, adds no cookies.
            write_private(self._folder / ".gitignore", b"*\n")
            write_private(path, msgspec.json.encode(jar))
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(path), detail=error.strerror or str(error))
            ) from None

    def remove(self, host: str, port: int) -> bool:
        """Remove the cookies of a host. Return whether there were any. Raises StoreError."""
        path = self._folder / _file_name(host, port)
        try:
            path.unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StoreError(
                say("{path} cannot be written: {detail}", path=str(path), detail=error.strerror or str(error))
            ) from None
        return True

    def _file_names(self) -> frozenset[str]:
        try:
            return frozenset(name for name in os.listdir(self._folder) if _is_jar(name))
        except (FileNotFoundError, NotADirectoryError):
            return frozenset()
        except OSError as error:
            raise ConfigurationError(
                say("{path} cannot be read: {reason}.", path=self._folder, reason=error.strerror or "")
            ) from None

    def _read_jar(self, name: str) -> CookieJar | None:
        """Return one file; None if it was removed meanwhile."""
        path = self._folder / name
        try:
            jar = msgspec.json.decode(read_private(path, LARGEST), type=CookieJar)
        except FileNotFoundError:
            return None
        except (msgspec.DecodeError, RecursionError):
            # The error of the decoder is left out: it may quote the file.
            raise StoreError(
                say(
                    "{path} is broken. Import the cookies again, or remove them with: tabane reader cookies "
                    "{host} --remove",
                    path=str(path), host=unquote(name.removesuffix(_SUFFIX)),
                )
            ) from None  # fmt: skip
        if _file_name(jar.host, jar.port) != name:
            raise StoreError(
                say("{path} holds the cookies of another host, so it is not used.", path=str(path))
            )
        return jar


def _host_and_parents(at: Target) -> Iterator[str]:
    """Yield the host, then those above it."""
    yield at.host
    rest = at.host
    while at.address is None and "." in rest:
        rest = rest.partition(".")[2]
        yield rest


def _file_name(host: str, port: int) -> str:
    return quote(authority(host, port), safe="") + _SUFFIX


def _is_jar(name: str) -> bool:
    """Return whether a file is one of ours: others, such as parts of files, are ignored."""
    if not name.endswith(_SUFFIX) or name.startswith("."):
        return False
    try:
        found = host_of(unquote(name.removesuffix(_SUFFIX)))
    except ReadError:
        return False
    return _file_name(found.host, found.port) == name
