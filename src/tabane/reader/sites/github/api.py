"""Requests to GitHub's API, with a token or anonymous."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.github.api_objects import GitHubEntry, GitHubRef
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.sites.site_api import SiteApi

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
        super().__init__(tools, endpoints.api, {"x-github-api-version": VERSION, **key}, self._explained)
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
        where = f"/repos/{repository}/contents/{quote(path, safe='/')}".removesuffix("/")
        return await self.get(where, GitHubEntry | list[GitHubEntry], ref=ref)  # type: ignore[arg-type]

    def _explained(self, error: ReadError) -> tuple[Message, str] | None:
        if error.cause == "rate":
            return self._spent(error.wait), "rate"
        if error.status == 401:
            return say("GitHub does not accept the GITHUB_TOKEN: it has expired or is not valid."), "key"
        if error.status == 403:
            message = say(
                "GitHub refused the request (HTTP 403): too many requests at once (wait a minute), "
                "or no permission to read this."
            )
            return message, error.cause
        return (self._missing(error.status), error.cause) if error.status in (404, 410, 451) else None

    def _missing(self, status: int | None) -> Message:
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

    def _spent(self, wait: float | None) -> Message:
        until = self._until(wait)
        if self._has_token:
            return say("GitHub's request limit is used up {until}.", until=until)
        return say(
            "GitHub's request limit is used up {until}. Without a token it is 60 an hour; set "
            "GITHUB_TOKEN for 5,000.",
            until=until,
        )

    def _until(self, wait: float | None) -> Message:
        if wait is None:
            return say("for a while")
        moment = datetime.fromtimestamp(self._clock() + min(wait, 1e7), UTC)
        return say(
            "until {time} UTC, {minutes} min from now",
            time=moment.strftime("%H:%M"),
            minutes=max(1, round(wait / 60)),
        )
