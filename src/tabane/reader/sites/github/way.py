"""The way to what is on GitHub."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from tabane.reader.page import Page
from tabane.reader.sites.github import changes, gists, listings, lists, paths, releases, threads
from tabane.reader.sites.github.addresses import Kind, Place, place_of
from tabane.reader.sites.github.api import Api, Endpoints
from tabane.reader.sites.site_adapter import Means

_READERS: Mapping[Kind, Callable[[Place, Api], Awaitable[Page]]] = {
    "repository": listings.repository,
    "folder": paths.folder,
    "file": paths.file,
    "issue": threads.issue,
    "pull": threads.pull,
    "issues": lists.issues,
    "commit": changes.commit,
    "commits": changes.commits,
    "compare": changes.compare,
    "release": releases.release,
    "releases": releases.releases,
    "tags": releases.tags,
    "gist": gists.gist,
}


class GitHubWay:
    """Pages of GitHub through its API; discussions, wikis and profiles are left to the general way.

    ``token`` gives GITHUB_TOKEN or None. Causes of its ReadErrors beside those of fetching: rate with the
    time to wait, key for a token that is not accepted, status for what is missing or private.
    """

    name = "github"

    def __init__(
        self,
        token: Callable[[], str | None] = lambda: None,
        endpoints: Endpoints | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._token, self._endpoints, self._clock = token, endpoints or Endpoints(), clock

    def takes(self, url: str) -> bool:
        return place_of(url) is not None

    async def read(self, url: str, means: Means) -> Page | None:
        place = place_of(url)
        if place is None:
            return None
        api = Api(means, self._endpoints, self._token() or None, self._clock)
        return await _READERS[place.kind](place, api)
