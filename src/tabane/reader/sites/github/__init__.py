"""GitHub by its API: repositories, folders, files, issues, pull requests, commits, releases, gists."""

from __future__ import annotations

import re
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from urllib.parse import SplitResult

from tabane.errors import ReadError
from tabane.reader.page import Page
from tabane.reader.sites.github import files, pages
from tabane.reader.sites.github.api import (
    GitHubAddress,
    GitHubApi,
    GitHubEndpoints,
    GitHubEntry,
    GitHubPageKind,
    place_of,
)
from tabane.reader.sites.site_adapter import KeyLookup, ReadingTools, SitePages, SiteSample, no_keys

__all__ = ["GitHubAdapter"]

# Refs of one segment: a branch name rarely begins with one of these and a slash.
_WHOLE_REFS = re.compile(r"main|master|HEAD|trunk|develop|dev|gh-pages|[0-9a-f]{40}|v?\d+(?:\.\d+)+[\w.-]*")


class GitHubAdapter(SitePages[GitHubAddress]):
    """Pages of GitHub through its API. The adapter for any page reads discussions, wikis and profiles.

    ``keys`` looks up GITHUB_TOKEN. Causes of its ReadErrors in addition to those of fetching: rate
    with the time to wait, key for a token that is not accepted, status for a missing or private page.
    """

    name, title = "github", "GitHub"
    sample = SiteSample("https://github.com/python/cpython", "python/cpython", 2_000)

    def __init__(
        self,
        keys: KeyLookup = no_keys,
        endpoints: GitHubEndpoints | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._keys, self._endpoints, self._clock = keys, endpoints or GitHubEndpoints(), clock

    def place(self, host: str, parts: SplitResult) -> GitHubAddress | None:
        return place_of(host, parts)

    async def page(self, place: GitHubAddress, url: str, tools: ReadingTools) -> Page | None:
        api = GitHubApi(tools, self._endpoints, self._keys("GITHUB_TOKEN") or None, self._clock)
        return await _READERS[place.kind](place, api)


async def _read_folder(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return the folder at a branch, tag or commit; the URL may also lead to a file."""
    ref, path, entry = await api.located(place.name, place.rest)
    if isinstance(entry, GitHubEntry):
        return await files.of_entry(place, ref, entry, api)
    return await pages.of_entries(place, ref, path, entry, api)


async def _read_file(place: GitHubAddress, api: GitHubApi) -> Page:
    """Return a file at any branch. If the end of the branch is clear from the URL, one request for the raw
    file is enough, which does not count against the rate limit. Else the API resolves it.
    """
    rest = place.rest[2:] if place.rest[:2] in (("refs", "heads"), ("refs", "tags")) else place.rest
    place = replace(place, rest=rest)
    if len(rest) > 1 and _WHOLE_REFS.fullmatch(rest[0]):
        try:
            return await files.raw(place, rest[0], "/".join(rest[1:]), api)
        except ReadError as error:
            if error.status != 404:
                raise
    try:
        ref, path, entry = await api.located(place.name, rest)
    except ReadError as error:
        if error.cause != "rate" or len(rest) < 2:
            raise
        return await files.raw(place, rest[0], "/".join(rest[1:]), api)
    if isinstance(entry, list):
        return await pages.of_entries(place, ref, path, entry, api)
    return await files.of_entry(place, ref, entry, api)


_READERS: Mapping[GitHubPageKind, Callable[[GitHubAddress, GitHubApi], Awaitable[Page]]] = {
    "repository": pages.repository,
    "folder": _read_folder,
    "file": _read_file,
    "issue": pages.issue,
    "pull": pages.pull,
    "issues": pages.issues,
    "commit": pages.commit,
    "commits": pages.commits,
    "compare": pages.compare,
    "release": pages.release,
    "releases": pages.releases,
    "tags": pages.tags,
    "gist": files.gist,
}
