"""GitHub's URLs, the pages that they address, and its API: responses and requests, with a token or anonymous.

Shapes: https://docs.github.com/en/rest. Only fields that are used are declared. Fields that are sometimes
missing have defaults.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.site_adapter import ReadingTools, SiteApi, absolute

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
        """Full name of the repository: ``owner/repository``."""
        return f"{self.owner}/{self.repository}"


def place_of(host: str, parts: SplitResult) -> GitHubAddress | None:
    """Return the page of a URL with these parts; None if the API does not have it, or it is not on GitHub."""
    segments = tuple(unquote(segment) for segment in parts.path.split("/") if segment)
    if len(segments) > _MOST or any(segment in (".", "..") or "\0" in segment for segment in segments):
        return None
    host = host.removeprefix("www.")
    found = _LINES.fullmatch(parts.fragment)
    if found is None:
        lines = None
    else:
        ends = sorted((max(1, int(found[1])), max(1, int(found[2] or found[1]))))
        lines = ends[0], ends[1]
    if host == "gist.github.com":
        # gist.github.com/ID or /USER/ID, and a revision behind either.
        owner, rest = (segments[0], segments[1:]) if len(segments) > 1 else ("", segments)
        if not rest or not re.fullmatch(r"[0-9a-fA-F]{5,64}", rest[0]):
            if not owner or not re.fullmatch(r"[0-9a-fA-F]{20,64}", owner):
                return None
            owner, rest = "", segments
        revision = rest[1:2] if len(rest) == 2 and re.fullmatch(r"[0-9a-fA-F]{40}", rest[1]) else ()
        return (
            GitHubAddress("gist", owner, "", (rest[0], *revision)) if len(rest) == 1 + len(revision) else None
        )
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
    found = _page_kind(what, rest)
    return GitHubAddress(found[0], owner, repository, found[1], lines, query) if found else None


def _page_kind(what: str, rest: tuple[str, ...]) -> tuple[GitHubPageKind, tuple[str, ...]] | None:
    if not what:
        return "repository", ()
    if what == "tree":
        return ("folder", rest) if rest else ("repository", ())
    if what in _FILES:
        return ("file", rest) if len(rest) > 1 else None
    if what in ("issues", "pull", "pulls"):
        if not rest:
            return ("issues", (what,)) if what != "pull" else None
        if not _NUMBER.fullmatch(rest[0]):
            return None
        if what == "issues":
            return ("issue", rest) if len(rest) == 1 else None
        if len(rest) == 3 and rest[1] in ("commits", "changes"):
            return "commit", rest[2:]
        return ("pull", rest) if len(rest) == 1 or (len(rest) == 2 and rest[1] in _PULLS) else None
    if what == "tags" and not rest:
        return "tags", ()
    if what in ("releases", "tags"):
        return _release_kind(rest)
    if what == "commit" and len(rest) == 1:
        return ("commit", rest) if not rest[0].endswith((".diff", ".patch")) else None
    if what == "commits":
        return "commits", rest
    if what == "compare" and rest and not rest[-1].endswith((".diff", ".patch")):
        return "compare", ("/".join(rest),)
    return None


def _release_kind(rest: tuple[str, ...]) -> tuple[GitHubPageKind, tuple[str, ...]] | None:
    if not rest:
        return "releases", ()
    if rest == ("latest",):
        return "release", ()
    return ("release", ("/".join(rest[1:]),)) if rest[0] == "tag" and len(rest) > 1 else None


def _are_names(segments: tuple[str, ...]) -> bool:
    return all(_NAME.fullmatch(segment) for segment in segments)


class GitHubAccount(Struct, frozen=True, gc=False):
    """A user or an organization."""

    login: str = ""


class GitHubRepository(Struct, frozen=True):
    """A repository."""

    full_name: str
    html_url: str = ""
    description: str | None = None
    default_branch: str = "HEAD"
    archived: bool = False
    pushed_at: str | None = None
    owner: GitHubAccount | None = None


class GitHubEntry(Struct, frozen=True):
    """A file, folder, link or submodule; a file requested alone comes with its content."""

    name: str
    path: str
    type: str
    size: int = 0
    sha: str = ""
    download_url: str | None = None
    target: str | None = None
    encoding: str | None = None
    content: str | None = None
    submodule_git_url: str | None = None


class GitHubRef(Struct, frozen=True):
    ref: str


class GitHubLabel(Struct, frozen=True):
    """A label of an issue."""

    name: str | None = None


class GitHubMilestone(Struct, frozen=True):
    title: str = ""


class GitHubReactions(Struct, frozen=True, gc=False, rename={"up": "+1", "down": "-1"}):
    """Counts of the reactions to a text."""

    total_count: int = 0
    up: int = 0
    down: int = 0


class GitHubIssue(Struct, frozen=True):
    """An issue; ``pull_request`` is set if it is a pull request."""

    number: int
    title: str
    state: str = "open"
    state_reason: str | None = None
    html_url: str = ""
    user: GitHubAccount | None = None
    body: str | None = None
    labels: list[GitHubLabel | str] = []
    assignees: list[GitHubAccount] | None = None
    milestone: GitHubMilestone | None = None
    comments: int = 0
    created_at: str = ""
    closed_at: str | None = None
    updated_at: str | None = None
    locked: bool = False
    reactions: GitHubReactions | None = None
    pull_request: dict[str, object] | None = None


class GitHubBranch(Struct, frozen=True):
    label: str | None = None
    ref: str = ""
    sha: str = ""


class GitHubPull(GitHubIssue, frozen=True):
    """A pull request, with its branches and the size of its changes."""

    draft: bool = False
    merged: bool = False
    merged_at: str | None = None
    merged_by: GitHubAccount | None = None
    head: GitHubBranch | None = None
    base: GitHubBranch | None = None
    review_comments: int = 0
    commits: int = 0
    additions: int = 0
    deletions: int = 0
    changed_files: int = 0


class GitHubComment(Struct, frozen=True, gc=False):
    """A comment on an issue, a pull request or a gist."""

    user: GitHubAccount | None = None
    body: str | None = None
    created_at: str = ""
    author_association: str = ""
    reactions: GitHubReactions | None = None


class GitHubReviewComment(GitHubComment, frozen=True, gc=False):
    """A comment on a line of a patch; the replies to it name its ``id``."""

    id: int = 0
    in_reply_to_id: int | None = None
    path: str = ""
    line: int | None = None
    original_line: int | None = None
    start_line: int | None = None
    diff_hunk: str = ""


class GitHubReview(Struct, frozen=True):
    """A review of a pull request."""

    user: GitHubAccount | None = None
    body: str | None = None
    state: str = ""
    submitted_at: str | None = None


class GitHubChangedFile(Struct, frozen=True):
    """A file as a commit, a comparison or a pull request changes it."""

    filename: str
    status: str = ""
    additions: int = 0
    deletions: int = 0
    patch: str | None = None
    previous_filename: str | None = None


class GitHubSignature(Struct, frozen=True):
    name: str | None = None
    date: str | None = None


class GitHubCommitText(Struct, frozen=True):
    message: str = ""
    author: GitHubSignature | None = None
    committer: GitHubSignature | None = None
    comment_count: int = 0


class GitHubStats(Struct, frozen=True):
    additions: int = 0
    deletions: int = 0


class GitHubParent(Struct, frozen=True):
    sha: str


class GitHubCommit(Struct, frozen=True):
    """A commit."""

    sha: str
    commit: GitHubCommitText
    html_url: str = ""
    author: GitHubAccount | None = None
    parents: list[GitHubParent] = []
    stats: GitHubStats | None = None
    files: list[GitHubChangedFile] | None = None


class GitHubComparison(Struct, frozen=True, kw_only=True):
    """The commits and files between two points of a history."""

    html_url: str = ""
    status: str
    ahead_by: int = 0
    behind_by: int = 0
    total_commits: int
    commits: list[GitHubCommit]
    files: list[GitHubChangedFile] | None = None


class GitHubAsset(Struct, frozen=True):
    """A file of a release."""

    name: str
    size: int = 0
    download_count: int = 0
    browser_download_url: str = ""


class GitHubRelease(Struct, frozen=True):
    """A release, with its notes and files."""

    tag_name: str
    name: str | None = None
    body: str | None = None
    html_url: str = ""
    draft: bool = False
    prerelease: bool = False
    published_at: str | None = None
    created_at: str | None = None
    author: GitHubAccount | None = None
    assets: list[GitHubAsset] = []


class GitHubTag(Struct, frozen=True):
    """A tag and its commit."""

    name: str
    commit: GitHubParent


class GitHubSearchPage(Struct, frozen=True):
    """A page of search results."""

    total_count: int
    items: list[GitHubIssue]


class GistFile(Struct, frozen=True):
    """A file of a gist; ``content`` may be cut."""

    filename: str | None = None
    size: int = 0
    raw_url: str = ""
    language: str | None = None
    truncated: bool = False
    content: str | None = None


class Gist(Struct, frozen=True):
    """A gist with its files by name."""

    id: str
    html_url: str = ""
    description: str | None = None
    owner: GitHubAccount | None = None
    created_at: str = ""
    updated_at: str = ""
    files: dict[str, GistFile | None] = {}
    comments: int = 0
    truncated: bool = False


JSON = "application/vnd.github+json"
RAW = "application/vnd.github.raw+json"
VERSION = "2022-11-28"

PAGE = 100
"""Items of a page, the most that GitHub gives."""

PAGES = 10
"""Most pages of a list that are requested: without a token, the limit is 60 requests an hour."""

_Shape = TypeVar("_Shape")
_Value = TypeVar("_Value")


def only_first(shown: int, count: int | None = None) -> Message:
    """Return the warning that a list is cut off; ``count`` is the number of all its entries, if known."""
    if count is None:
        return say("Only the first {shown} {shown:entry is|entries are} shown.", shown=shown)
    return say("Only the first {shown} of {all} {all:entry is|entries are} shown.", shown=shown, all=count)


@dataclass(frozen=True, slots=True)
class GitHubEndpoints:
    """Base URLs of GitHub."""

    api: str = "https://api.github.com"
    raw: str = "https://raw.githubusercontent.com"
    media: str = "https://media.githubusercontent.com/media"
    site: str = "https://github.com"


class GitHubApi(SiteApi):
    """The API for one read. ``token`` may be None; ``clock`` returns seconds since 1970."""

    accept = JSON

    def __init__(
        self, tools: ReadingTools, endpoints: GitHubEndpoints, token: str | None, clock: Callable[[], float]
    ) -> None:
        key = {"authorization": f"Bearer {token}"} if token else {}
        super().__init__(tools, endpoints.api, {"x-github-api-version": VERSION, **key}, self._explain)
        self.endpoints, self._has_token, self._clock = endpoints, bool(token), clock

    async def pages(
        self, path: str, shape: type[_Shape], count: int | None = None, /, **parameters: object
    ) -> tuple[list[_Shape], tuple[Message, ...]]:
        """Return the items of a list of which there are ``count``, and a warning if some are missing."""
        found: list[_Shape] = []
        for number in range(1, PAGES + 1):
            try:
                some = await self.get(path, list[shape], **parameters, per_page=PAGE, page=number)  # type: ignore[valid-type]
            except ReadError as error:
                if count is None and number == 1:
                    raise
                return found, (say("Some of it could not be read: {reason}", reason=error.message),)
            found += some
            if len(some) < PAGE or (count is not None and len(found) >= count):
                return found, ()
        return found, (only_first(len(found), count),)

    async def at_ref(
        self, repository: str, rest: tuple[str, ...], load: Callable[[str, str], Awaitable[_Value]]
    ) -> tuple[str, str, _Value]:
        """Split ``rest`` into branch and path; return both, and what ``load`` returns for them.

        The first segment is usually the branch. If nothing is there, branches and tags that begin with the
        first two segments are requested: at most four requests.
        """
        ref, path = rest[0], "/".join(rest[1:])
        try:
            return ref, path, await load(ref, path)
        except ReadError as error:
            if error.status != 404 or len(rest) < 2:
                raise
            longer = await self._longer_ref(repository, rest)
            if longer is None:
                raise
        path = "/".join(rest)[len(longer) + 1 :]
        return longer, path, await load(longer, path)

    async def located(
        self, repository: str, rest: tuple[str, ...]
    ) -> tuple[str, str, GitHubEntry | list[GitHubEntry]]:
        """Return branch, path, and the file or folder there."""
        return await self.at_ref(repository, rest, lambda ref, path: self.contents(repository, path, ref))

    async def _longer_ref(self, repository: str, rest: tuple[str, ...]) -> str | None:
        """Return the branch or else the tag of more than one segment that ``rest`` begins with.

        There is only one: in git, no branch can be below another.
        """
        whole = "/".join(rest) + "/"
        for kind in ("heads", "tags"):
            start = quote(f"{kind}/{rest[0]}/{rest[1]}", safe="/")
            refs = await self.get(f"/repos/{repository}/git/matching-refs/{start}", list[GitHubRef])
            names = [each.ref.removeprefix(f"refs/{kind}/") for each in refs]
            found = next((name for name in names if whole.startswith(name + "/")), None)
            if found is not None:
                return found
        return None

    async def contents(self, repository: str, path: str, ref: str | None) -> GitHubEntry | list[GitHubEntry]:
        """Return the file, or the entries of the folder, at a path. Raises ReadError."""
        where = f"/repos/{repository}/contents/{quote(path, safe='/')}".removesuffix("/")
        return await self.get(where, GitHubEntry | list[GitHubEntry], ref=ref)  # type: ignore[arg-type]

    def _explain(self, error: ReadError) -> tuple[Message, str] | None:
        if error.cause == "rate":
            if error.wait is None:
                until = say("for a while")
            else:
                moment = datetime.fromtimestamp(self._clock() + min(error.wait, 1e7), UTC)
                until = say(
                    "until {time} UTC, {minutes} min from now",
                    time=moment.strftime("%H:%M"),
                    minutes=max(1, round(error.wait / 60)),
                )
            if self._has_token:
                spent = say("GitHub's request limit is used up {until}.", until=until)
            else:
                spent = say(
                    "GitHub's request limit is used up {until}. Without a token it is 60 an hour; set "
                    "GITHUB_TOKEN for 5,000.",
                    until=until,
                )
            return spent, "rate"
        if error.status == 401:
            return say("GitHub does not accept the GITHUB_TOKEN: it has expired or is not valid."), "key"
        if error.status == 403:
            message = say(
                "GitHub refused the request (HTTP 403): too many requests at once (wait a minute), "
                "or no permission to read this."
            )
            return message, error.cause
        return (self._missing_message(error.status), error.cause) if error.status in (404, 410, 451) else None

    def _missing_message(self, status: int | None) -> Message:
        if status == 451:
            return say("GitHub blocks this page for legal reasons (HTTP 451).")
        if self._has_token:
            return say(
                "GitHub has nothing there, or the GITHUB_TOKEN has no access to it (HTTP {status}).",
                status=status,
            )
        return say(
            "GitHub has nothing there, or it is private (HTTP {status}). Set GITHUB_TOKEN to "
            "read private repositories.",
            status=status,
        )
