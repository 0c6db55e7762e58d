"""URLs of GitHub and the pages that they address, and links in Markdown of repositories. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urljoin

from tabane.reader.sites.site_markdown import absolute

_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".svg", ".webp", ".avif", ".ico", ".mp4", ".webm")


def linked(text: str, repository: str, ref: str, folder: str, site: str) -> str:
    """Return Markdown of a repository with absolute links: images to their raw files, other files to their
    pages.
    """
    place = quote(f"{folder}/" if folder else "", safe="/")

    def whole(to: str) -> str:
        raw = to.partition("?")[0].partition("#")[0].lower().endswith(_PICTURES)
        root = f"{site}/{repository}/{'raw' if raw else 'blob'}/{quote(ref, safe='/')}/"
        try:
            return root + to.lstrip("/") if to.startswith("/") else urljoin(root + place, to)
        except ValueError:
            return to

    return absolute(text, whole)


GitHubPageKind = Literal[
    "repository", "folder", "file", "issue", "pull", "issues", "commit", "commits", "compare", "release",
    "releases", "tags", "gist",
]  # fmt: skip

# First segments of github.com that are not accounts.
_NO_OWNERS = frozenset({
    "about", "account", "apps", "blog", "codespaces", "collections", "contact", "customer-stories",
    "dashboard", "discussions", "enterprise", "events", "explore", "features", "github-copilot", "issues",
    "join", "login", "logout", "marketplace", "mobile", "new", "notifications", "orgs", "organizations",
    "premium-support", "pricing", "pulls", "readme", "resources", "search", "security", "sessions",
    "settings", "signup", "site", "solutions", "sponsors", "stars", "team", "topics", "trending", "users",
    "watching", "why-github",
})  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9._-]{1,100}")
_LINES = re.compile(r"L(\d{1,7})(?:C\d{1,7})?(?:-L?(\d{1,7})(?:C\d{1,7})?)?")
_NUMBER = re.compile(r"[1-9]\d{0,9}")
_MOST = 40  # segments behind the name of a repository

_FILES = frozenset({"blob", "raw", "blame"})
_PULLS = frozenset({"commits", "files", "changes", "checks", "conflicts"})


@dataclass(frozen=True, slots=True)
class GitHubAddress:
    """A parsed URL of GitHub: ``rest`` are the segments that its kind needs, decoded.

    For folders and files they begin with the name of a branch, whose end is not known from the URL. ``lines``
    are the first and last requested line, from 1.
    """

    kind: GitHubPageKind
    owner: str
    repository: str
    rest: tuple[str, ...] = ()
    lines: tuple[int, int] | None = None
    query: str = ""

    @property
    def name(self) -> str:
        return f"{self.owner}/{self.repository}"


def place_of(host: str, parts: SplitResult) -> GitHubAddress | None:
    """Return the page of a URL with these parts; None if the API does not have it, or it is not on GitHub."""
    segments = tuple(unquote(segment) for segment in parts.path.split("/") if segment)
    if len(segments) > _MOST or any(segment in (".", "..") or "\0" in segment for segment in segments):
        return None
    host = host.removeprefix("www.")
    lines = _lines(parts.fragment)
    if host == "gist.github.com":
        return _gist(segments)
    if host == "raw.githubusercontent.com" and len(segments) > 3 and _are_names(segments[:2]):
        return GitHubAddress("file", segments[0], segments[1], segments[2:], lines)
    if host == "github.com" and len(segments) > 1 and _are_names(segments[:2]):
        return _of_repository(segments, lines, parts.query)
    return None


def _of_repository(
    segments: tuple[str, ...], lines: tuple[int, int] | None, query: str
) -> GitHubAddress | None:
    owner, repository = segments[0], segments[1].removesuffix(".git")
    if owner.lower() in _NO_OWNERS or not repository:
        return None
    what, rest = (segments[2], segments[3:]) if len(segments) > 2 else ("", ())
    found = _kind(what, rest)
    return GitHubAddress(found[0], owner, repository, found[1], lines, query) if found else None


def _kind(what: str, rest: tuple[str, ...]) -> tuple[GitHubPageKind, tuple[str, ...]] | None:
    if not what:
        return "repository", ()
    if what == "tree":
        return ("folder", rest) if rest else ("repository", ())
    if what in _FILES:
        return ("file", rest) if len(rest) > 1 else None
    if what in ("issues", "pull", "pulls"):
        return _thread(what, rest)
    if what == "tags" and not rest:
        return "tags", ()
    if what in ("releases", "tags"):
        return _release(rest)
    if what == "commit" and len(rest) == 1:
        return ("commit", rest) if not rest[0].endswith((".diff", ".patch")) else None
    if what == "commits":
        return "commits", rest
    if what == "compare" and rest and not rest[-1].endswith((".diff", ".patch")):
        return "compare", ("/".join(rest),)
    return None


def _thread(what: str, rest: tuple[str, ...]) -> tuple[GitHubPageKind, tuple[str, ...]] | None:
    if not rest:
        return ("issues", (what,)) if what != "pull" else None
    if not _NUMBER.fullmatch(rest[0]):
        return None
    if what == "issues":
        return ("issue", rest) if len(rest) == 1 else None
    if len(rest) == 3 and rest[1] in ("commits", "changes"):
        return "commit", rest[2:]
    return ("pull", rest) if len(rest) == 1 or (len(rest) == 2 and rest[1] in _PULLS) else None


def _release(rest: tuple[str, ...]) -> tuple[GitHubPageKind, tuple[str, ...]] | None:
    if not rest:
        return "releases", ()
    if rest == ("latest",):
        return "release", ()
    return ("release", ("/".join(rest[1:]),)) if rest[0] == "tag" and len(rest) > 1 else None


def _gist(segments: tuple[str, ...]) -> GitHubAddress | None:
    """gist.github.com/ID or /USER/ID, and a revision behind either."""
    owner, rest = (segments[0], segments[1:]) if len(segments) > 1 else ("", segments)
    if not rest or not re.fullmatch(r"[0-9a-fA-F]{5,64}", rest[0]):
        if not owner or not re.fullmatch(r"[0-9a-fA-F]{20,64}", owner):
            return None
        owner, rest = "", segments
    revision = rest[1:2] if len(rest) == 2 and re.fullmatch(r"[0-9a-fA-F]{40}", rest[1]) else ()
    return GitHubAddress("gist", owner, "", (rest[0], *revision)) if len(rest) == 1 + len(revision) else None


def _are_names(segments: tuple[str, ...]) -> bool:
    return all(_NAME.fullmatch(segment) for segment in segments)


def _lines(fragment: str) -> tuple[int, int] | None:
    found = _LINES.fullmatch(fragment)
    if found is None:
        return None
    ends = sorted((max(1, int(found[1])), max(1, int(found[2] or found[1]))))
    return ends[0], ends[1]
