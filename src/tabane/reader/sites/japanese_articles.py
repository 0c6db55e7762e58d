"""Articles of Zenn and note, read from the data that their own pages load, and of Qiita, by its API."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from urllib.parse import SplitResult, unquote, urljoin

from msgspec import Struct

from tabane.errors import ReadError
from tabane.messages import Message, say
from tabane.reader.formats.media_type_detection import WHOLE_MEDIA
from tabane.reader.formats.text import bounded, unix
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import (
    KeyLookup,
    ReadingTools,
    SiteApi,
    SitePages,
    SiteSample,
    absolute,
    blocks,
    comments,
    facts,
    no_keys,
    one_line,
)


class _ArticlePages(SitePages[re.Match[str]]):
    """The articles of a site: those at its ``hosts`` whose paths have the pattern ``path``."""

    hosts: tuple[str, ...]
    path: re.Pattern[str]

    def __init__(self, base: str = "") -> None:
        self._base = base or f"https://{self.hosts[0]}"

    def place(self, host: str, parts: SplitResult) -> re.Match[str] | None:
        return self.path.fullmatch(parts.path) if host in self.hosts else None

    async def _page_of_html(
        self, tools: ReadingTools, body: str, written: Callable[[str], str], home: str
    ) -> Page:
        """Return the page of an article's HTML, after ``written`` has replaced what only the site has."""
        source = await asyncio.to_thread(written, body)
        page = await tools.converting.page(source.encode(), home, WHOLE_MEDIA, "utf-8")
        return replace(page, site=self.title, lang="ja", canonical=home, way=self.name)


_FORMULA = re.compile(r"<embed-katex\b([^<>]{0,200})>((?:[^<]|<(?!/?embed-katex)){0,20000})</embed-katex>")
_IFRAME = re.compile(
    r"<iframe\b[^<>]{0,3000}?\bdata-content=\"([^\"<>]{1,3000})\"[^<>]{0,3000}>\s*(?:</iframe>)?"
)


class ZennUser(Struct, frozen=True):
    username: str = ""
    name: str = ""


class ZennTopic(Struct, frozen=True):
    display_name: str = ""


class ZennArticle(Struct, frozen=True):
    title: str
    body_html: str
    path: str = ""
    article_type: str = ""
    published_at: str | None = None
    liked_count: int = 0
    user: ZennUser | None = None
    topics: list[ZennTopic] = []


class ZennResponse(Struct, frozen=True):
    article: ZennArticle


class ZennAdapter(_ArticlePages):
    """Articles of Zenn, by one request. The adapter for any page reads books and scraps."""

    name, title = "zenn", "Zenn"
    sample = SiteSample("https://zenn.dev/zenn/articles/markdown-guide", "Markdown", 1_000)
    hosts = ("zenn.dev",)
    path = re.compile(r"/([\w-]{1,60})/articles/([a-z0-9_-]{1,60})/?")

    async def page(self, place: re.Match[str], url: str, tools: ReadingTools) -> Page | None:
        user, slug = place.groups()
        article = (await SiteApi(tools, self._base).get(f"/api/articles/{slug}", ZennResponse)).article
        home = f"https://zenn.dev{article.path or f'/{user}/articles/{slug}'}"
        page = await self._page_of_html(tools, article.body_html, zenn_html, home)
        topics = ", ".join(topic.display_name for topic in article.topics if topic.display_name)
        known = {"Topics": topics, "Kind": article.article_type, "Likes": article.liked_count}
        return replace(
            page,
            markdown=blocks(f"# {article.title}", facts(known), page.markdown),
            title=article.title,
            author=(article.user.name or article.user.username) if article.user else user,
            date=article.published_at,
        )


def zenn_html(body: str) -> str:
    """Return the body with Zenn's own elements as HTML: formulas, and links to embedded content."""

    def formula(found: re.Match[str]) -> str:
        marks = "$$" if "display-mode" in found[1] else "$"
        tex = re.sub(r"</?eqn?\b[^<>]*+>", "", found[2]).strip()
        return f'<span class="math-container">{marks}{tex}{marks}</span>'

    def link(found: re.Match[str]) -> str:
        url = unquote(html.unescape(found[1]))
        if not url.startswith(("https://", "http://")):
            return ""
        return f'<a href="{html.escape(url)}">{html.escape(url)}</a>'

    return _IFRAME.sub(link, _FORMULA.sub(formula, body))


_FIGURE = re.compile(r"<figure\b[^<>]{0,3000}?\bdata-src=\"(https?://[^\"\s]{1,3000}+)\"[^<>]{0,3000}+>")


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
    price: int = 0
    is_limited: bool = False
    remained_char_num: int | None = None
    publish_at: str | None = None
    created_at: str | None = None
    note_url: str = ""
    user: NoteUser | None = None
    hashtag_notes: list[NoteTagging] = []


class NoteResponse(Struct, frozen=True):
    data: NoteArticle


class NoteAdapter(_ArticlePages):
    """Articles of note, by one request; of a paid one, the free part. The adapter for any page reads audio
    and video notes.
    """

    name, title = "note", "note"
    sample = SiteSample("https://note.com/info/n/nea1b96233fbf", "", 200)
    hosts = ("note.com",)
    path = re.compile(r"/[\w-]{1,60}/n/(n[0-9a-f]{8,16})/?")

    async def page(self, place: re.Match[str], url: str, tools: ReadingTools) -> Page | None:
        note = (await SiteApi(tools, self._base).get(f"/api/v3/notes/{place[1]}", NoteResponse)).data
        if not note.body:
            return None
        page = await self._page_of_html(tools, note.body, note_html, note.note_url or url)
        title = one_line(note.name)
        tags = " ".join(each.hashtag.name for each in note.hashtag_notes if each.hashtag)
        if not (note.is_limited or note.remained_char_num):
            paywall = []
        elif note.price:
            price = f"{note.price:,}"
            paywall = [say("This is only the free part. The rest costs {price} yen.", price=price)]
        else:
            paywall = [say("This is only the public part. The rest is for members.")]
        return replace(
            page,
            url=note.note_url or url,
            markdown=blocks(f"# {title}" if title else "", page.markdown, tags),
            title=title or None,
            author=(note.user.nickname or note.user.urlname) if note.user else None,
            date=note.publish_at or note.created_at,
            warnings=(*paywall, *page.warnings),
        )


def note_html(body: str) -> str:
    """Return the body with links behind embedded content of other sites."""

    def with_link(found: re.Match[str]) -> str:
        url = html.escape(html.unescape(found[1]))
        return f'{found[0]}<a href="{url}">{url}</a>'

    return _FIGURE.sub(with_link, body)


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
    comments_count: int = 0
    likes_count: int = 0
    tags: list[QiitaTag] = []
    user: QiitaUser | None = None


class QiitaComment(Struct, frozen=True):
    body: str = ""
    created_at: str = ""
    user: QiitaUser | None = None


class QiitaAdapter(_ArticlePages):
    """Articles of Qiita with their comments: two requests. ``keys`` looks up QIITA_TOKEN.

    Without a token the limit is 60 requests an hour, with one 1,000.
    """

    name, title = "qiita", "Qiita"
    sample = SiteSample("https://qiita.com/Qiita/items/c686397e4a0f4f11683d", "Markdown", 1_000)
    hosts = ("qiita.com", "www.qiita.com")
    path = re.compile(r"/[\w@-]{1,60}/items/([0-9a-f]{20})(?:\.md)?/?")

    def __init__(self, keys: KeyLookup = no_keys, base: str = "") -> None:
        super().__init__(base)
        self._keys = keys

    async def page(self, place: re.Match[str], url: str, tools: ReadingTools) -> Page | None:
        token = self._keys("QIITA_TOKEN")

        def explain(error: ReadError) -> tuple[Message, str] | None:
            if error.status == 401:
                return say("Qiita does not accept the QIITA_TOKEN."), "key"
            if error.cause == "rate" and not token:
                return say("{reason} Set QIITA_TOKEN to raise the limit.", reason=error.message), "rate"
            return None

        headers = {"authorization": f"Bearer {token}"} if token else {}
        api = SiteApi(tools, f"{self._base}/api/v2/items/{place[1]}", headers, explain)
        item = await api.get("", QiitaItem)
        replies: list[QiitaComment] = []
        warnings: tuple[Message, ...] = ()
        if item.comments_count:
            try:
                replies = await api.get("/comments", list[QiitaComment], per_page=100)
            except ReadError as error:
                warnings = (say("The comments could not be read: {reason}", reason=error.message),)
        return await asyncio.to_thread(_qiita_page, item, replies, warnings)


def _qiita_page(item: QiitaItem, replies: Sequence[QiitaComment], warnings: tuple[Message, ...]) -> Page:
    def name_of(user: QiitaUser | None) -> str:
        return (user.name or user.id if user else "") or "?"

    known = {"Tags": ", ".join(tag.name for tag in item.tags), "Likes": item.likes_count}
    body, cut = bounded(unix(item.body).strip("\n"))
    return Page(
        item.url,
        blocks(
            f"# {item.title}",
            facts(known),
            absolute(body, lambda to: urljoin(item.url, to)),
            comments(
                [(f"{name_of(each.user)} · {each.created_at}", unix(each.body).strip()) for each in replies]
            ),
        ),
        title=item.title,
        author=name_of(item.user),
        date=item.created_at or None,
        site=QiitaAdapter.title,
        lang="ja",
        canonical=item.url or None,
        way=QiitaAdapter.name,
        share=1.0,
        media_type="text/markdown",
        warnings=(*warnings, *cut),
    )
