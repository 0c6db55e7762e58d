"""Addresses of a site: which of them belong to it, which are the same page, and which look like a trap. Pure.

All functions take absolute URLs as :func:`tabane.reader.guard.target` writes them, without a fragment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from tabane.errors import ReadError
from tabane.reader.guard import Target, target

LONGEST = 1_000
"""Characters of an address that is followed. Longer ones are mostly states of a program."""

DEEPEST = 16
"""Segments of a path that is followed."""

MOST_REPEATS = 3
"""Times that a path may have the same segment: relative links without a base grow by one with each page."""

MOST_OF_QUERIES, MOST_OF_QUERY, MOST_OF_NUMBERS = 20, 100, 50
"""Pages of one pattern that are read: with several query parameters, with one, with several numbers in the
path. Calendars and lists with filters have more addresses than anybody has pages."""

_NO_PAGES = re.compile(
    r"7z|aac|apk|avif?|bin|bmp|bz2|cab|css|csv|dat|deb|dmg|docx?|eot|epub|exe|flac|gif|gz|ico|img|ipa|iso|jar|"
    r"jpe?g|js|json(?:ld)?|m4[av]|map|mid|mjs|mkv|mov|mp[34]|mpe?g|msi|od[pst]|og[gv]|otf|pkg|png|pptx?|psd|"
    r"rar|rpm|rss|sqlite|svg|swf|tar|tgz|tiff?|toml|ttf|wasm|wav|web[mp]|webmanifest|whl|wmv|woff2?|xlsx?|xml|"
    r"xz|ya?ml|zip|zst",
    re.IGNORECASE,
)
"""Endings of files that are no pages."""

_SESSIONS = re.compile(r"phpsessid|jsessionid|aspsessionid\w*|cfid|cftoken|zenid|osc?sid", re.IGNORECASE)
_MAYBE_SESSIONS = re.compile(r"s|sid|session|session_?id", re.IGNORECASE)
_SESSION_VALUE = re.compile(r"[0-9A-Za-z_-]{16,}")
_TRACKING = re.compile(
    r"utm_\w+|gclid|fbclid|msclkid|yclid|dclid|mc_[ce]id|igshid|_ga|_gl|_hsenc|_hsmi", re.IGNORECASE
)
_SESSION_OF_PATH = re.compile(r";(?:jsessionid|phpsessid)=[^/;?]*", re.IGNORECASE)
_INDEX = re.compile(r"/(?:index|default)\.x?html?$", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_NUMBER = re.compile(r"[-_.]?\d+[-_.]?")


@dataclass(frozen=True, slots=True)
class SiteScope:
    """The part of a site that is read: all addresses of an origin whose path begins with a folder."""

    origin: str
    folder: str

    @property
    def url(self) -> str:
        """Return the address of the folder."""
        return self.origin + self.folder

    def holds(self, at: Target) -> bool:
        """Return whether an address is in the folder, or is the folder without its final slash."""
        path = at.path.partition("?")[0]
        return at.origin == self.origin and (path.startswith(self.folder) or path == self.folder[:-1])

    def address(self, url: str) -> str | None:
        """Return the address under which a page of this folder is read; None if it is no page of it."""
        if len(url) > LONGEST:
            return None
        try:
            at = target(url)
        except ReadError:
            return None
        return plain_address(at) if self.holds(at) and _is_page(at.path.partition("?")[0]) else None


def scope_of(start: str, links: Iterable[str]) -> SiteScope:
    """Return the folder of a start page: ``/guide/`` of ``/guide/``, and of ``/guide/intro.html``.

    An address without an ending, such as ``/guide``, is a folder if the page has ``links`` into it.
    """
    at = target(start)
    path = at.path.partition("?")[0]
    folder, _, name = path.rpartition("/")
    if name and "." not in name and any(link.startswith(f"{at.origin}{path}/") for link in links):
        return SiteScope(at.origin, f"{path}/")
    return SiteScope(at.origin, f"{folder}/")


def plain_address(at: Target) -> str:
    """Return an address without parameters that only name a session or a campaign."""
    path, _, query = at.path.partition("?")
    kept = [part for part in query.split("&") if part and not _is_noise(*part.partition("=")[::2])]
    return at.origin + _SESSION_OF_PATH.sub("", path) + ("?" + "&".join(kept) if kept else "")


def address_key(url: str) -> str:
    """Return what is the same for the addresses of one page.

    The order of the query, a final slash and the name of an index page make no difference.
    """
    base, _, query = url.partition("?")
    base = base if query else _INDEX.sub("/", base)
    return base.rstrip("/") + ("?" + "&".join(sorted(query.split("&"))) if query else "")


def path_pattern(url: str) -> str:
    """Return the pattern of an address: its path with # for numbers, and the names of its query."""
    base, _, query = url.partition("?")
    names = sorted({part.partition("=")[0] for part in query.split("&")}) if query else []
    return _DIGITS.sub("#", urlsplit(base).path) + ("?" + "&".join(names) if names else "")


def most_alike(pattern: str) -> int | None:
    """Return how many pages of a pattern are read; None if that is not limited."""
    path, _, query = pattern.partition("?")
    if query:
        return MOST_OF_QUERIES if "&" in query else MOST_OF_QUERY
    return MOST_OF_NUMBERS if len(re.findall(r"/[-_.#]*#[-_.#]*(?=/|$)", path)) > 1 else None


def _is_noise(name: str, value: str) -> bool:
    """Return whether a parameter of a query only names a session or a campaign."""
    if _SESSIONS.fullmatch(name) or _TRACKING.fullmatch(name):
        return True
    return bool(_MAYBE_SESSIONS.fullmatch(name) and _SESSION_VALUE.fullmatch(value))


def _is_page(path: str) -> bool:
    """Return whether a path may be that of a page: no file of another kind, and no endless path."""
    segments = path.split("/")[1:]
    if len(segments) > DEEPEST:
        return False
    names = [segment for segment in segments if segment and not _NUMBER.fullmatch(segment)]
    if any(names.count(name) > MOST_REPEATS for name in set(names)):
        return False
    stem, dot, ending = segments[-1].rpartition(".")
    return not (stem and dot and _NO_PAGES.fullmatch(ending))
