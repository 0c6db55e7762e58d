"""Services as the ways to them find them: on the local site of tests/reader/site.py, answering in JSON."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from tabane.reader import ThreadedConversion
from tabane.reader.fetching import PageFetcher
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SiteAdapter
from tabane.reader.url_reader import CachedPage, PageCaching, ReadingRules, UrlReader
from tests.reader.site import Answer, Asked, Site


def read(site: Site, url: str, *ways: SiteAdapter, shelf: PageCaching | None = None, times: int = 1) -> Page:
    """The page by these ways and then the general one, over the network, as the product reads it."""

    async def work() -> Page:
        fetching = PageFetcher(site.policy, resolve=site.names)
        reading = UrlReader(
            ReadingTools(fetching, ThreadedConversion()), ways, shelf, rules=lambda: ReadingRules(fresh=0.0)
        )
        try:
            for _ in range(times - 1):
                await reading.read(url)
            return await reading.read(url)
        finally:
            await fetching.close()

    return asyncio.run(work())


def tell(site: Site, path: str, value: Any, status: int = 200, **headers: str) -> None:
    """JSON at a path; ``headers`` have underscores for dashes."""
    said = {name.replace("_", "-"): text for name, text in headers.items()}
    site.put(path, json.dumps(value), "application/json; charset=utf-8", status=status, headers=said)


def pages(site: Site, path: str, items: list[Any], size: int = 100) -> None:
    """A list that is given ``size`` items at a time, by ?page=, as GitHub's are."""

    def answering(asked: Asked) -> Answer:
        at = dict(each.partition("=")[::2] for each in asked.target.partition("?")[2].split("&"))
        number = int(at.get("page", "1"))
        some = items[(number - 1) * size : number * size]
        return Answer(body=json.dumps(some).encode(), media_type="application/json")

    site.ask(path, answering)


def said(page: Page) -> str:
    """All warnings of a page, in English."""
    return "\n".join(str(warning) for warning in page.warnings)


class Shelf:
    """Pages that are kept in a dictionary."""

    def __init__(self) -> None:
        self.pages: dict[tuple[str, bool], CachedPage] = {}

    async def get(self, url: str, *, raw: bool = False) -> CachedPage | None:
        return self.pages.get((url, raw))

    async def put(self, url: str, kept: CachedPage, *, raw: bool = False) -> None:
        self.pages[url, raw] = kept
