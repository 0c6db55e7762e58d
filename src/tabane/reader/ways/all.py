"""Every way to single sites, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from tabane.reader.ways.arxiv import ArxivWay
from tabane.reader.ways.github import GitHubWay
from tabane.reader.ways.note import NoteWay
from tabane.reader.ways.notion import NotionWay
from tabane.reader.ways.qiita import QiitaWay
from tabane.reader.ways.stackoverflow import StackOverflowWay
from tabane.reader.ways.way import Way
from tabane.reader.ways.wikipedia import WikipediaWay
from tabane.reader.ways.youtube import YouTubeWay
from tabane.reader.ways.zenn import ZennWay


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
