"""Articles of Qiita, as the Markdown of their authors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import bounded, unix
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SiteSample, absolute, parse_json, query

_Shape = TypeVar("_Shape")

_PATH = re.compile(r"/[\w@-]{1,60}/items/([0-9a-f]{20})(?:\.md)?/?")


class QiitaUser(Struct, frozen=True):
    id: str = ""
    name: str = ""


class QiitaTag(Struct, frozen=True):
    name: str


class QiitaItem(Struct, frozen=True):
    id: str
    title: str
    body: str
    url: str = ""
    created_at: str = ""
    updated_at: str = ""
    comments_count: int = 0
    likes_count: int = 0
    tags: list[QiitaTag] = []
    user: QiitaUser | None = None


class QiitaComment(Struct, frozen=True):
    body: str = ""
    created_at: str = ""
    user: QiitaUser | None = None


class QiitaAdapter:
    """Articles of Qiita with their comments: two requests. ``token`` returns QIITA_TOKEN or None.

    Without one the limit is 60 requests an hour, with one 1,000.
    """

    name, title = "qiita", "Qiita"
    sample = SiteSample("https://qiita.com/Qiita/items/c686397e4a0f4f11683d", "Markdown", 1_000)

    def __init__(
        self, token: Callable[[], str | None] = lambda: None, base: str = "https://qiita.com"
    ) -> None:
        self._token, self._base = token, base

    def takes(self, url: str) -> bool:
        return _id_of(url) is not None

    async def read(self, url: str, tools: ReadingTools) -> Page | None:
        id_ = _id_of(url)
        if id_ is None:
            return None
        token = self._token()
        headers = {"authorization": f"Bearer {token}"} if token else {}
        where = f"{self._base}/api/v2/items/{id_}"
        item = await _got(tools, where, QiitaItem, headers)
        comments: list[QiitaComment] = []
        warnings: tuple[Message, ...] = ()
        if item.comments_count:
            try:
                comments = await _got(
                    tools, query(f"{where}/comments", per_page=100), list[QiitaComment], headers
                )
            except ReadError as error:
                warnings = (say("The comments could not be read: {reason}", reason=error.message),)
        return await asyncio.to_thread(_page_of, item, comments, warnings)


async def _got(tools: ReadingTools, url: str, shape: type[_Shape], headers: dict[str, str]) -> _Shape:
    try:
        return await parse_json(
            await tools.fetcher.fetch(url, headers=headers, accept="application/json"), shape
        )
    except ReadError as error:
        if error.status == 401:
            raise ReadError(say("Qiita does not accept the QIITA_TOKEN."), "key", status=401) from None
        if error.cause == "rate" and not headers:
            message = say("{reason} Set QIITA_TOKEN to raise the limit.", reason=error.message)
            raise ReadError(message, "rate", status=error.status, wait=error.wait) from None
        raise


def _id_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        found = _PATH.fullmatch(parts.path) if parts.hostname in ("qiita.com", "www.qiita.com") else None
    except ValueError:
        return None
    return found[1] if found else None


def _page_of(item: QiitaItem, comments: Sequence[QiitaComment], warnings: tuple[Message, ...]) -> Page:
    facts = {"Tags": ", ".join(tag.name for tag in item.tags), "Likes": item.likes_count or ""}
    lines = "\n".join(f"- {name}: {value}" for name, value in facts.items() if value)
    body, cut = bounded(absolute(unix(item.body).strip("\n"), lambda to: urljoin(item.url, to)))
    said = [f"### {_name(each.user)} · {each.created_at}\n\n{unix(each.body).strip()}" for each in comments]
    head = f"## Comments ({len(said)})" if said else ""
    return Page(
        item.url,
        "\n\n".join(filter(None, (f"# {item.title}", lines, body, head, *said))),
        title=item.title,
        author=_name(item.user),
        date=item.created_at or None,
        site="Qiita",
        lang="ja",
        canonical=item.url or None,
        way=QiitaAdapter.name,
        share=1.0,
        media_type="text/markdown",
        warnings=(*warnings, *cut),
    )


def _name(user: QiitaUser | None) -> str:
    return (user.name or user.id if user else "") or "?"
