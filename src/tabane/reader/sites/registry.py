"""All site adapters, in the order in which they are tried. Importing this module loads every one of them."""

from __future__ import annotations

from tabane.reader.sites.arxiv import ArxivAdapter
from tabane.reader.sites.github import GitHubAdapter
from tabane.reader.sites.japanese_articles import NoteAdapter, QiitaAdapter, ZennAdapter
from tabane.reader.sites.notion import NotionAdapter
from tabane.reader.sites.site_adapter import KeyLookup, SiteAdapter
from tabane.reader.sites.stackoverflow import StackOverflowAdapter
from tabane.reader.sites.wikipedia import WikipediaAdapter
from tabane.reader.sites.youtube import YouTubeAdapter


def all_site_adapters(keys: KeyLookup) -> tuple[SiteAdapter, ...]:
    """Return the site adapters in the order in which they are tried."""
    return (
        GitHubAdapter(keys),
        NotionAdapter(keys),
        WikipediaAdapter(),
        StackOverflowAdapter(keys),
        QiitaAdapter(keys),
        ZennAdapter(),
        NoteAdapter(),
        ArxivAdapter(),
        YouTubeAdapter(),
    )
