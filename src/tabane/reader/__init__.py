"""The reader: any URL as clean, complete and safe Markdown.

    page = tabane.reader.extract(html, "https://example.com/")     # pure
    page = await tabane.reader.read("https://example.com/")        # under the guard, without a hub
    page.markdown, page.text, page.title, page.author, page.date, page.warnings …

Each function imports its dependencies on its first call.
"""

from __future__ import annotations

from contextlib import asynccontextmanager

TYPE_CHECKING = False  # as type checkers know it; importing typing takes longer than all the rest
if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from tabane.errors import ReadError
    from tabane.reader.fetching import Policy
    from tabane.reader.page import Page
    from tabane.reader.sites.site_adapter import SiteAdapter
    from tabane.reader.url_reader import UrlReader

__all__ = ["Page", "ReadError", "extract", "read"]

_FROM = {"Page": "tabane.reader.page", "ReadError": "tabane.errors"}


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """Return the content of an HTML page, without invisible text.

    Links are made absolute against ``url``. ``charset`` is that of the HTTP header, for bytes. Any input
    gives a page: if no content is found, ``markdown`` is empty and ``warnings`` say so.
    """
    from tabane.reader.extraction.article import extract as extracted
    from tabane.reader.url_reader import shown

    return shown(extracted(html, url, charset))


async def read(url: str, *, policy: Policy | None = None) -> Page:
    """Return the page at ``url``, read by the best adapter for it. Raises ReadError if no adapter can read
    it.

    ``policy`` sets the allowed hosts and the limits; by default, every public address is allowed. Keys of
    single sites (GITHUB_TOKEN, NOTION_API_KEY) are taken from the environment.
    """
    import os

    from tabane.reader.sites import all_site_adapters

    async with reading(policy, all_site_adapters(os.environ.get)) as reader:
        return await reader.read(url)


class ThreadedConversion:
    """Converts bytes into pages in a thread of this process: one page is not worth a process."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        import asyncio

        from tabane.reader.formats import page_of

        return await asyncio.to_thread(page_of, body, url, media_type, charset, name)

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        import asyncio

        from tabane.reader.formats import plain_page_of

        return await asyncio.to_thread(plain_page_of, body, url, media_type, charset, with_scripts=False)


@asynccontextmanager
async def reading(policy: Policy | None = None, ways: Sequence[SiteAdapter] = ()) -> AsyncIterator[UrlReader]:
    """Yield a reader without a cache, until the end of the block; ``ways`` are adapters of single sites."""
    from tabane.reader.fetching import PageFetcher, Policy
    from tabane.reader.sites.site_adapter import ReadingTools
    from tabane.reader.url_reader import UrlReader

    limits = policy or Policy()
    fetching = PageFetcher(lambda: limits)
    try:
        yield UrlReader(lambda: ReadingTools(fetching, ThreadedConversion()), ways)
    finally:
        await fetching.close()


def __getattr__(name: str) -> object:
    if name in _FROM:
        import importlib

        return getattr(importlib.import_module(_FROM[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
