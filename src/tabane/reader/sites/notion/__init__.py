"""Notion by its API: pages with all their blocks, and the columns of databases."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from urllib.parse import SplitResult, quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.page import Page
from tabane.reader.sites.notion.api import NotionApi, NotionBlockReader, page_id
from tabane.reader.sites.notion.api_objects import NotionBlock, NotionObject
from tabane.reader.sites.notion.as_markdown import line, markdown, named, odd, plain, title, unwritten
from tabane.reader.sites.site_adapter import ReadingTools, SitePages, SiteSample
from tabane.reader.sites.site_markdown import blocks, facts, one_line

__all__ = ["NotionAdapter"]

_SOURCES = 5  # of one database
_NO_PAGE = (400, 404)


class NotionAdapter(SitePages[str]):
    """Pages of Notion through its API. Without a key, the adapter for any page reads them.

    ``key`` returns NOTION_API_KEY or None. Causes of its ReadErrors in addition to those of fetching: key if
    it is missing or not accepted, status 404 if the page is not shared with the integration.
    """

    name, title = "notion", "Notion"
    sample = SiteSample(
        "https://www.notion.so/Notion-Official-83715d7703ee4b8699b5e659a4712dd8",
        "",
        0,
        "NOTION_API_KEY",
        shared=True,
    )

    def __init__(
        self, key: Callable[[], str | None] = lambda: None, base: str = "https://api.notion.com"
    ) -> None:
        self._key, self._base = key, base

    def place(self, host: str, parts: SplitResult) -> str | None:
        return page_id(host, parts)

    async def page(self, place: str, url: str, tools: ReadingTools) -> Page | None:
        key = self._key()
        if not key:
            raise ReadError(
                say("To read whole Notion pages, set NOTION_API_KEY to the key of an integration."), "key"
            )
        api = NotionApi(tools, self._base, key)
        try:
            found = await api.get(f"pages/{place}", NotionObject)
        except ReadError as error:
            if error.status not in _NO_PAGE:
                raise
            return await _database(url, place, api)
        return await _page(url, found, api)


async def _page(url: str, found: NotionObject, api: NotionApi) -> Page:
    nodes, warnings = await NotionBlockReader(api).of_page(found.id)
    return await asyncio.to_thread(_laid_out, url, found, nodes, warnings)


def _laid_out(
    url: str, found: NotionObject, nodes: Sequence[NotionBlock], warnings: tuple[Message, ...]
) -> Page:
    if count := odd(nodes):
        warnings = (
            *warnings,
            say(
                "{count} {count:block has|blocks have} a form that is not known, and no text here.",
                count=count,
            ),
        )
    if count := unwritten(nodes):
        warnings = (
            *warnings,
            say(
                "{count} {count:block has a type|blocks have types} that Notion's API does not return.",
                count=count,
            ),
        )
    known = facts(dict(named(found.properties)))
    return _page_of(url, found, title(found.properties), known, markdown(nodes), warnings)


async def _database(url: str, id_: str, api: NotionApi) -> Page:
    """Return a database: its name and its columns. Its rows would need queries, not only reads."""
    found = await api.get(f"databases/{id_}", NotionObject)
    parts = []
    for source in found.data_sources[:_SOURCES]:
        columns = await api.get(f"data_sources/{quote(source.id, safe='')}", NotionObject)
        parts.append(_columns(source.name or "", columns, alone=len(found.data_sources) == 1))
    warning = say("The rows of a database are not read. Read its pages one by one.")
    name = one_line(plain(found.title))
    return _page_of(url, found, name, line(found.description), "\n\n".join(parts), (warning,))


def _columns(name: str, source: NotionObject, *, alone: bool) -> str:
    head = "## Columns" if alone or not name else f"## {name}"
    lines = (
        f"- {key} ({each.get('type', '?')})"
        for key, each in source.properties.items()
        if isinstance(each, dict)
    )
    return f"{head}\n\n" + "\n".join(lines)


def _page_of(
    url: str, found: NotionObject, name: str, known: str, body: str, warnings: tuple[Message, ...]
) -> Page:
    return Page(
        url,
        blocks(f"# {name}" if name else "", known, body),
        title=name or None,
        date=found.last_edited_time or found.created_time,
        site=NotionAdapter.title,
        canonical=found.public_url or found.url or None,
        way=NotionAdapter.name,
        share=1.0,
        warnings=warnings,
    )
