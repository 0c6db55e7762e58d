"""Requests to Notion's API, page ids in URLs, and the blocks of a page.

https://developers.notion.com/reference: three requests a second on average, pages of a hundred.
"""

from __future__ import annotations

import asyncio
import re
from urllib.parse import SplitResult, parse_qs, quote

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.sites.notion.api_objects import NotionBlock, NotionListing, block_of
from tabane.reader.sites.site_adapter import ReadingTools
from tabane.reader.sites.site_api import SiteApi, decode_each

DEPTH = 10
"""Levels of blocks within blocks."""

REQUESTS = 120
"""Requests for one page: at three a second that is less than a read may take."""

AT_ONCE = 3

# Pages of their own, which are named and not read.
_CLOSED = frozenset({"child_page", "child_database"})


class NotionBlockReader:
    """Reads the blocks of one page, level by level, so that a limit cuts off the deepest ones."""

    def __init__(self, api: NotionApi) -> None:
        self._api, self._left = api, REQUESTS
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._unread = 0
        self._deep = 0
        self._why: ReadError | None = None

    async def of_page(self, id_: str) -> tuple[list[NotionBlock], tuple[Message, ...]]:
        """Return all blocks, with a warning about those that are missing. Raises ReadError if no block could
        be read.
        """
        nodes = await self._children(id_)
        level = nodes
        for _ in range(DEPTH - 1):
            level = await self._below(level)
            if not level:
                break
        self._deep = sum(_has_more(node) for node in level)
        return nodes, tuple(self._warnings())

    async def _below(self, level: list[NotionBlock]) -> list[NotionBlock]:
        """Read the next level, and attach each block to its parent."""
        opened = [node for node in level if _has_more(node)]
        await asyncio.gather(*(self._open(node) for node in opened))
        return [inner for node in opened for inner in node.inner]

    async def _open(self, node: NotionBlock) -> None:
        original = node.content.synced_from
        try:
            node.inner = await self._children((original.block_id if original else None) or node.id)
        except ReadError as error:
            self._unread, self._why = self._unread + 1, error

    async def _children(self, id_: str) -> list[NotionBlock]:
        """Return all children of a block, page by page; those read so far if the next page fails."""
        found: list[NotionBlock] = []
        cursor: str | None = None
        while True:
            if self._left <= 0:
                self._unread += 1
                return found
            self._left -= 1
            try:
                async with self._turns:
                    part = await self._api.get(
                        f"blocks/{quote(id_, safe='')}/children",
                        NotionListing,
                        page_size=100,
                        start_cursor=cursor,
                    )
                    some = await decode_each(part.results, block_of, self._api.host)
            except ReadError as error:
                if not found:
                    raise
                self._unread, self._why = self._unread + 1, error
                return found
            found += some
            cursor = part.next_cursor
            if not part.has_more or not cursor:
                return found

    def _warnings(self) -> list[Message]:
        warnings = []
        if self._why is not None:
            warnings.append(
                say(
                    "{count} {count:part|parts} of the page could not be read: {reason}",
                    count=self._unread,
                    reason=self._why.message,
                )
            )
        elif self._unread:
            warnings.append(
                say(
                    "The page has more parts than can be read at once: {count} {count:part was|parts "
                    "were} left out.",
                    count=self._unread,
                )
            )
        if self._deep:
            warnings.append(say("Blocks below level {depth} are left out.", depth=DEPTH))
        return warnings


def _has_more(node: NotionBlock) -> bool:
    return node.has_children and node.kind not in _CLOSED


_HOSTS = ("notion.so", "notion.site", "app.notion.com")
_ID = re.compile(r"(?:^|-)([0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})$", re.IGNORECASE)


def page_id(host: str, parts: SplitResult) -> str | None:
    """Return the id of the page or database at a URL, as a UUID; None if it has none or is not of Notion.

    A page opened beside its list has its id in ``p``; the id in ``v`` is of a view.
    """
    if not any(host == each or host.endswith("." + each) for each in _HOSTS):
        return None
    beside = parse_qs(parts.query).get("p", [""])[0]
    last = parts.path.rstrip("/").rpartition("/")[2]
    found = _ID.search(beside) or _ID.search(last)
    return uuid(found[1]) if found else None


def uuid(text: str) -> str:
    """Return an id in the spelling of the API."""
    plain = text.replace("-", "").lower()
    return "-".join((plain[:8], plain[8:12], plain[12:16], plain[16:20], plain[20:]))


def address(id_: object) -> str:
    """Return the URL of a page, by its id."""
    return f"https://www.notion.so/{str(id_).replace('-', '')}"


VERSION = "2025-09-03"


class NotionApi(SiteApi):
    """The API for one read."""

    def __init__(self, tools: ReadingTools, base: str, key: str) -> None:
        headers = {"authorization": f"Bearer {key}", "notion-version": VERSION}
        super().__init__(tools, f"{base}/v1/", headers, _explained)


def _explained(error: ReadError) -> tuple[Message, str] | None:
    if error.cause == "rate":
        return say("Notion asks Tabane to wait: {reason}", reason=error.message), "rate"
    if error.status == 401:
        return say("Notion does not accept the NOTION_API_KEY."), "key"
    if error.status == 403:
        message = say(
            "The integration of the NOTION_API_KEY has no permission to read content. Allow it "
            "in the integration's settings."
        )
        return message, "key"
    if error.status == 404:
        message = say(
            "Notion has nothing there, or the page is not shared with the integration of the "
            "NOTION_API_KEY. Open the page and add the integration under its connections."
        )
        return message, error.cause
    return None
