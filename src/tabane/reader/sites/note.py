"""Articles of note, read from the data that its own pages load."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace
from urllib.parse import SplitResult

from msgspec import Struct

from tabane.messages import Message, say
from tabane.reader.formats.media_type_detection import WHOLE_MEDIA
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SitePages, SiteSample
from tabane.reader.sites.site_api import SiteApi, blocks, one_line

_PATH = re.compile(r"/[\w-]{1,60}/n/(n[0-9a-f]{8,16})/?")
_EMBEDDED = re.compile(r"<figure\b[^<>]{0,3000}?\bdata-src=\"(https?://[^\"\s]{1,3000}+)\"[^<>]{0,3000}+>")


class NoteUser(Struct, frozen=True):
    nickname: str = ""
    urlname: str = ""


class NoteHashtag(Struct, frozen=True):
    name: str = ""


class NoteTagging(Struct, frozen=True):
    hashtag: NoteHashtag | None = None


class NoteArticle(Struct, frozen=True):
    """``body`` is HTML; of a paid note, only the free part."""

    key: str
    name: str | None = None
    body: str | None = None
    type: str = ""
    price: int = 0
    is_limited: bool = False
    remained_char_num: int | None = None
    publish_at: str | None = None
    created_at: str | None = None
    note_url: str = ""
    like_count: int = 0
    user: NoteUser | None = None
    hashtag_notes: list[NoteTagging] = []


class NoteResponse(Struct, frozen=True):
    data: NoteArticle


class NoteAdapter(SitePages[str]):
    """Articles of note, by one request; of a paid one, the free part. The adapter for any page reads audio
    and video notes.
    """

    name, title = "note", "note"
    sample = SiteSample("https://note.com/info/n/nea1b96233fbf", "", 200)

    def __init__(self, base: str = "https://note.com") -> None:
        self._base = base

    def place(self, host: str, parts: SplitResult) -> str | None:
        found = _PATH.fullmatch(parts.path) if host == "note.com" else None
        return found[1] if found else None

    async def page(self, place: str, url: str, tools: ReadingTools) -> Page | None:
        note = (await SiteApi(tools, self._base).get(f"/api/v3/notes/{place}", NoteResponse)).data
        if not note.body:
            return None
        home = note.note_url or url
        body = await asyncio.to_thread(_written, note.body)
        page = await tools.converting.page(body.encode(), home, WHOLE_MEDIA, "utf-8")
        title = one_line(note.name)
        tags = " ".join(each.hashtag.name for each in note.hashtag_notes if each.hashtag)
        return replace(
            page,
            url=home,
            markdown=blocks(f"# {title}" if title else "", page.markdown, tags),
            title=title or None,
            author=(note.user.nickname or note.user.urlname) if note.user else None,
            date=note.publish_at or note.created_at,
            site=self.title,
            lang="ja",
            canonical=home,
            way=self.name,
            warnings=(*_paywall_warning(note), *page.warnings),
        )


def _paywall_warning(note: NoteArticle) -> tuple[Message, ...]:
    if not (note.is_limited or note.remained_char_num):
        return ()
    if note.price:
        return (say("This is only the free part. The rest costs {price} yen.", price=f"{note.price:,}"),)
    return (say("This is only the public part. The rest is for members."),)


def _written(body: str) -> str:
    """Return the body with links in place of embedded content of other sites."""
    return _EMBEDDED.sub(_link_of, body)


def _link_of(found: re.Match[str]) -> str:
    url = html.escape(html.unescape(found[1]))
    return f'{found[0]}<a href="{url}">{url}</a>'
