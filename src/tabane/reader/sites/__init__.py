"""Site adapters: pages of single sites by their APIs, and any other page."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tabane.reader.sites.site_adapter import SiteAdapter


def all_site_adapters(keys: Callable[[str], str | None]) -> tuple[SiteAdapter, ...]:
    """Return the site adapters in the order in which they are tried. ``keys`` looks up an API key by the name
    of its variable, at each read.
    """
    from tabane.reader.sites.arxiv import ArxivAdapter
    from tabane.reader.sites.github import GitHubAdapter
    from tabane.reader.sites.note import NoteAdapter
    from tabane.reader.sites.notion import NotionAdapter
    from tabane.reader.sites.qiita import QiitaAdapter
    from tabane.reader.sites.stackoverflow import StackOverflowAdapter
    from tabane.reader.sites.wikipedia import WikipediaAdapter
    from tabane.reader.sites.youtube import YouTubeAdapter
    from tabane.reader.sites.zenn import ZennAdapter

    return (
        GitHubAdapter(lambda: keys("GITHUB_TOKEN")),
        NotionAdapter(lambda: keys("NOTION_API_KEY")),
        WikipediaAdapter(),
        StackOverflowAdapter(lambda: keys("STACKEXCHANGE_KEY")),
        QiitaAdapter(lambda: keys("QIITA_TOKEN")),
        ZennAdapter(),
        NoteAdapter(),
        ArxivAdapter(),
        YouTubeAdapter(),
    )
