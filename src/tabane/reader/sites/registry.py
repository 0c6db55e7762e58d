"""Every way to single sites, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tabane.reader.sites.arxiv import ArxivWay
from tabane.reader.sites.github import GitHubWay
from tabane.reader.sites.note import NoteWay
from tabane.reader.sites.notion import NotionWay
from tabane.reader.sites.qiita import QiitaWay
from tabane.reader.sites.site_adapter import Way
from tabane.reader.sites.stackoverflow import StackOverflowWay
from tabane.reader.sites.wikipedia import WikipediaWay
from tabane.reader.sites.youtube import YouTubeWay
from tabane.reader.sites.zenn import ZennWay


def all_ways(keys: Callable[[str], str | None]) -> tuple[Way, ...]:
    """The ways, each with its key: ``keys`` looks one up by the name of its variable, at each read."""
    return (
        GitHubWay(lambda: keys("GITHUB_TOKEN")),
        NotionWay(lambda: keys("NOTION_API_KEY")),
        WikipediaWay(),
        StackOverflowWay(lambda: keys("STACKEXCHANGE_KEY")),
        QiitaWay(lambda: keys("QIITA_TOKEN")),
        ZennWay(),
        NoteWay(),
        ArxivWay(),
        YouTubeWay(),
    )
