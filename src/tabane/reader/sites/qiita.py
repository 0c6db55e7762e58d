"""Articles of Qiita, as the Markdown of their authors."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from urllib.parse import SplitResult, urljoin

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.text import bounded, unix
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import KeyLookup, ReadingTools, SitePages, SiteSample, no_keys
from tabane.reader.sites.site_api import Explain, SiteApi, absolute, blocks, comments, facts

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


class QiitaAdapter(SitePages[str]):
    """Articles of Qiita with their comments: two requests. ``keys`` looks up QIITA_TOKEN.

    Without a token the limit is 60 requests an hour, with one 1,000.
    """

    name, title = "qiita", "Qiita"
    sample = SiteSample("https://qiita.com/Qiita/items/c686397e4a0f4f11683d", "Markdown", 1_000)

    def __init__(self, keys: KeyLookup = no_keys, base: str = "https://qiita.com") -> None:
        self._keys, self._base = keys, base

    def place(self, host: str, parts: SplitResult) -> str | None:
        found = _PATH.fullmatch(parts.path) if host in ("qiita.com", "www.qiita.com") else None
        return found[1] if found else None

    async def page(self, place: str, url: str, tools: ReadingTools) -> Page | None:
        token = self._keys("QIITA_TOKEN")
        headers = {"authorization": f"Bearer {token}"} if token else {}
        api = SiteApi(tools, f"{self._base}/api/v2/items/{place}", headers, _explain_errors(bool(token)))
        item = await api.get("", QiitaItem)
        said: list[QiitaComment] = []
        warnings: tuple[Message, ...] = ()
        if item.comments_count:
            try:
                said = await api.get("/comments", list[QiitaComment], per_page=100)
            except ReadError as error:
                warnings = (say("The comments could not be read: {reason}", reason=error.message),)
        return await asyncio.to_thread(_page_of, item, said, warnings)


def _explain_errors(has_token: bool) -> Explain:
    def explain(error: ReadError) -> tuple[Message, str] | None:
        if error.status == 401:
            return say("Qiita does not accept the QIITA_TOKEN."), "key"
        if error.cause == "rate" and not has_token:
            return say("{reason} Set QIITA_TOKEN to raise the limit.", reason=error.message), "rate"
        return None

    return explain


def _page_of(item: QiitaItem, said: Sequence[QiitaComment], warnings: tuple[Message, ...]) -> Page:
    known = {"Tags": ", ".join(tag.name for tag in item.tags), "Likes": item.likes_count}
    body, cut = bounded(unix(item.body).strip("\n"))
    return Page(
        item.url,
        blocks(
            f"# {item.title}",
            facts(known),
            absolute(body, lambda to: urljoin(item.url, to)),
            comments(
                [(f"{_user_name(each.user)} · {each.created_at}", unix(each.body).strip()) for each in said]
            ),
        ),
        title=item.title,
        author=_user_name(item.user),
        date=item.created_at or None,
        site=QiitaAdapter.title,
        lang="ja",
        canonical=item.url or None,
        way=QiitaAdapter.name,
        share=1.0,
        media_type="text/markdown",
        warnings=(*warnings, *cut),
    )


def _user_name(user: QiitaUser | None) -> str:
    return (user.name or user.id if user else "") or "?"
