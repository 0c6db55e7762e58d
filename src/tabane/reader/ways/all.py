"""Every way to single sites, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tabane.reader.ways.github import GitHubWay
from tabane.reader.ways.notion import NotionWay
from tabane.reader.ways.way import Way


def all_ways(keys: Callable[[str], str | None]) -> tuple[Way, ...]:
    """The ways, each with its key: ``keys`` looks one up by the name of its variable, at each read."""
    return (
        GitHubWay(lambda: keys("GITHUB_TOKEN")),
        NotionWay(lambda: keys("NOTION_API_KEY")),
    )
