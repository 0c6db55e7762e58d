"""Requests to GitHub's API, with a token or anonymous."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeVar
from urllib.parse import quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.fetching.interface import FetchedResource
from tabane.reader.sites.github.api_objects import GitHubEntry, GitHubRef
from tabane.reader.sites.site_adapter import ReadingTools, parse_json, query

JSON = "application/vnd.github+json"
RAW = "application/vnd.github.raw+json"
VERSION = "2022-11-28"

PAGE = 100
"""Items of a page, the most that GitHub gives."""

PAGES = 10
"""Most pages of a list that are requested: without a token, the limit is 60 requests an hour."""

_Shape = TypeVar("_Shape")


@dataclass(frozen=True, slots=True)
class GitHubEndpoints:
    """Base URLs of GitHub."""

    api: str = "https://api.github.com"
    raw: str = "https://raw.githubusercontent.com"
    media: str = "https://media.githubusercontent.com/media"
    site: str = "https://github.com"


@dataclass(frozen=True, slots=True)
class GitHubApi:
    """The API for one read. ``token`` may be None; ``clock`` returns seconds since 1970."""

    tools: ReadingTools
    endpoints: GitHubEndpoints
    token: str | None
    clock: Callable[[], float]

    async def get(self, path: str, shape: type[_Shape], /, **parameters: object) -> _Shape:
        """Return the object at ``path``. Raises ReadError that explains the status."""
        return await parse_json(await self.fetch(query(self.endpoints.api + path, **parameters), JSON), shape)

    async def fetch(self, url: str, accept: str | None = None) -> FetchedResource:
        """Return the resource at ``url`` of GitHub, requested with the token."""
        headers = {"authorization": f"Bearer {self.token}"} if self.token else {}
        if url.startswith(self.endpoints.api):
            headers["x-github-api-version"] = VERSION
        try:
            return await self.tools.fetcher.fetch(url, headers=headers, accept=accept)
        except ReadError as error:
            raise self._explained(error) from None

    async def pages(
        self, path: str, shape: type[_Shape], count: int | None = None, /, **parameters: object
    ) -> tuple[list[_Shape], tuple[Message, ...]]:
        """Return all items of a list of which there are ``count``, as far as they are to be had, with a
        word on the rest."""
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
        if count is None:
            return found, (
                say("Only the first {shown} {shown:entry is|entries are} shown.", shown=len(found)),
            )
        return found, (
            say(
                "Only the first {shown} of {all} {all:entry is|entries are} shown.",
                shown=len(found),
                all=count,
            ),
        )

    async def located(
        self, repository: str, rest: tuple[str, ...]
    ) -> tuple[str, str, GitHubEntry | list[GitHubEntry]]:
        """Split ``rest`` into branch and path; return both, and the object at them.

        The first segment is usually the branch. If nothing is there, branches and tags that begin with the
        first two segments are requested: at most four requests.
        """
        ref, path = rest[0], "/".join(rest[1:])
        try:
            return ref, path, await self.contents(repository, path, ref)
        except ReadError as error:
            if error.status != 404 or len(rest) < 2:
                raise
            longer = await self.ref(repository, rest)
            if longer is None:
                raise
        path = "/".join(rest)[len(longer) + 1 :]
        return longer, path, await self.contents(repository, path, longer)

    async def ref(self, repository: str, rest: tuple[str, ...]) -> str | None:
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

    def _explained(self, error: ReadError) -> ReadError:
        message = self._message(error)
        if message is None:
            return error
        cause = "key" if error.status == 401 else error.cause
        return ReadError(message, cause, status=error.status, wait=error.wait)

    def _message(self, error: ReadError) -> Message | None:
        if error.cause == "rate":
            return self._spent(error.wait)
        if error.status == 401:
            return say("GitHub does not accept the GITHUB_TOKEN: it has expired or is not valid.")
        if error.status == 403:
            return say(
                "GitHub refused the request (HTTP 403): too many requests at once (wait a minute), "
                "or no permission to read this."
            )
        if error.status in (404, 410, 451):
            return self._missing(error.status)
        return None

    def _missing(self, status: int) -> Message:
        if status == 451:
            return say("GitHub blocks this page for legal reasons (HTTP 451).")
        if self.token:
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
        if self.token:
            return say("GitHub's request limit is used up {until}.", until=until)
        return say(
            "GitHub's request limit is used up {until}. Without a token it is 60 an hour; set "
            "GITHUB_TOKEN for 5,000.",
            until=until,
        )

    def _until(self, wait: float | None) -> Message:
        if wait is None:
            return say("for a while")
        moment = datetime.fromtimestamp(self.clock() + min(wait, 1e7), UTC)
        return say(
            "until {time} UTC, {minutes} min from now",
            time=moment.strftime("%H:%M"),
            minutes=max(1, round(wait / 60)),
        )
