"""Functions of the reader as a library, without a hub. ``tabane.reader`` imports them on first use."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tabane.reader.extraction.article import extract as extracted
from tabane.reader.fetching import PageFetcher, Policy
from tabane.reader.formats import page_of, plain_page_of
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SiteAdapter
from tabane.reader.url_reader import UrlReader, shown


def extract(html: str | bytes, url: str, charset: str | None = None) -> Page:
    """Return the content of an HTML page, without invisible text.

    Links are made absolute against ``url``. ``charset`` is that of the HTTP header, for bytes. Any input
    gives a page: if no content is found, ``markdown`` is empty and ``warnings`` say so.
    """
    return shown(extracted(html, url, charset))


async def read(url: str, *, policy: Policy | None = None) -> Page:
    """Return the page at ``url``, read by the best adapter for it. Raises ReadError if no adapter can read
    it.

    ``policy`` sets the allowed hosts and the limits; by default, every public address is allowed. Keys of
    single sites (GITHUB_TOKEN, NOTION_API_KEY) are taken from the environment.
    """
    # extract() needs no adapters.
    from tabane.reader.sites.registry import all_site_adapters

    async with reading(policy, all_site_adapters(os.environ.get)) as reader:
        return await reader.read(url)


class ThreadedConversion:
    """Converts bytes into pages in a thread of this process: one page is not worth a process."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        """Return the page that the bytes contain. Raises ReadError."""
        return await asyncio.to_thread(page_of, body, url, media_type, charset, name)

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        """Return the visible text of the bytes as a page. Raises ReadError."""
        return await asyncio.to_thread(plain_page_of, body, url, media_type, charset, with_scripts=False)


@asynccontextmanager
async def reading(policy: Policy | None = None, ways: Sequence[SiteAdapter] = ()) -> AsyncIterator[UrlReader]:
    """Yield a reader without a cache, until the end of the block; ``ways`` are adapters of single sites."""
    limits = policy or Policy()
    fetching = PageFetcher(lambda: limits)
    try:
        yield UrlReader(ReadingTools(fetching, ThreadedConversion()), ways)
    finally:
        await fetching.close()
