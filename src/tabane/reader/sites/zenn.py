"""Articles of Zenn, read from the data that its own pages load."""

from __future__ import annotations

import asyncio
import html
import re
from dataclasses import replace
from urllib.parse import SplitResult, unquote

from msgspec import Struct

from tabane.reader.formats.media_type_detection import WHOLE_MEDIA
from tabane.reader.page import Page
from tabane.reader.sites.site_adapter import ReadingTools, SitePages, SiteSample
from tabane.reader.sites.site_api import SiteApi, blocks, facts

_PATH = re.compile(r"/([\w-]{1,60})/articles/([a-z0-9_-]{1,60})/?")
_FORMULA = re.compile(r"<embed-katex\b([^<>]{0,200})>((?:[^<]|<(?!/?embed-katex)){0,20000})</embed-katex>")
_EMBEDDED = re.compile(
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
    emoji: str | None = None
    path: str = ""
    article_type: str = ""
    published_at: str | None = None
    body_updated_at: str | None = None
    liked_count: int = 0
    user: ZennUser | None = None
    topics: list[ZennTopic] = []


class ZennResponse(Struct, frozen=True):
    article: ZennArticle


class ZennAdapter(SitePages[tuple[str, str]]):
    """Articles of Zenn, by one request. The adapter for any page reads books and scraps."""

    name, title = "zenn", "Zenn"
    sample = SiteSample("https://zenn.dev/zenn/articles/markdown-guide", "Markdown", 1_000)

    def __init__(self, base: str = "https://zenn.dev") -> None:
        self._base = base

    def place(self, host: str, parts: SplitResult) -> tuple[str, str] | None:
        found = _PATH.fullmatch(parts.path) if host == "zenn.dev" else None
        return (found[1], found[2]) if found else None

    async def page(self, place: tuple[str, str], url: str, tools: ReadingTools) -> Page | None:
        user, slug = place
        article = (await SiteApi(tools, self._base).get(f"/api/articles/{slug}", ZennResponse)).article
        home = f"https://zenn.dev{article.path or f'/{user}/articles/{slug}'}"
        body = await asyncio.to_thread(_written, article.body_html)
        page = await tools.converting.page(body.encode(), home, WHOLE_MEDIA, "utf-8")
        topics = ", ".join(topic.display_name for topic in article.topics if topic.display_name)
        known = {"Topics": topics, "Kind": article.article_type, "Likes": article.liked_count}
        author = article.user
        return replace(
            page,
            markdown=blocks(f"# {article.title}", facts(known), page.markdown),
            title=article.title,
            author=(author.name or author.username) if author else user,
            date=article.published_at,
            site=self.title,
            lang="ja",
            canonical=home,
            way=self.name,
        )


def _written(body: str) -> str:
    """Return the body with Zenn's own elements as HTML: formulas, and links to embedded content."""
    return _EMBEDDED.sub(_link_html, _FORMULA.sub(_formula_html, body))


def _formula_html(found: re.Match[str]) -> str:
    marks = "$$" if "display-mode" in found[1] else "$"
    tex = re.sub(r"</?eqn?\b[^<>]*+>", "", found[2]).strip()
    return f'<span class="math-container">{marks}{tex}{marks}</span>'


def _link_html(found: re.Match[str]) -> str:
    url = unquote(html.unescape(found[1]))
    if not url.startswith(("https://", "http://")):
        return ""
    return f'<a href="{html.escape(url)}">{html.escape(url)}</a>'
