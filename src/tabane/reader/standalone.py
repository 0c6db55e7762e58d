"""Reading without a hub: in this process, without a cache."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tabane.reader.fetching import PageFetcher, Policy
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SiteAdapter
from tabane.reader.url_reader import UrlReader


class ThreadedConversion:
    """Makes pages in a thread of this process: who reads one page needs no process for it."""

    async def page(
        self, body: bytes, url: str, media_type: str = "", charset: str | None = None, *, name: str = ""
    ) -> Page:
        from tabane.reader.formats import page_of

        return await asyncio.to_thread(page_of, body, url, media_type, charset, name)

    async def text(self, body: bytes, url: str, media_type: str = "", charset: str | None = None) -> Page:
        from tabane.reader.formats import plain_page_of

        return await asyncio.to_thread(plain_page_of, body, url, media_type, charset, with_scripts=False)


@asynccontextmanager
async def reading(policy: Policy | None = None, ways: Sequence[SiteAdapter] = ()) -> AsyncIterator[UrlReader]:
    """What reads pages until the end of the block; ``ways`` are those of single sites."""
    policy = policy or Policy()
    fetching = PageFetcher(lambda: policy)
    try:
        yield UrlReader(lambda: ReadingTools(fetching, ThreadedConversion()), ways)
    finally:
        await fetching.close()
