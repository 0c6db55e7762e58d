"""Kinds of pages: what stands before the content is recognized, and content about it is not."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tabane.reader.extraction.article import extract

SITE = "https://www.shop.test/things/1"
STORY = "".join(
    f"<p>In the {number} chapter of this report we describe how the ferry crossed the strait, who was "
    "on board, and why the harbor had been closed for a week before the storm reached the northern islands."
    "</p>"
    for number in ("first", "second", "third", "fourth", "fifth", "sixth")
)
NEWS = (
    "<p>本紙の取材によると、市は来年度から図書館の開館時間を延長し、平日の夜間にも利用できるようにする方針を固めた。"
    "職員の配置や費用については、九月の議会で説明する予定である。</p>"
)
MENU = "<nav>" + "".join(f"<a href=/{n}>Section {n}</a> " for n in range(20)) + "</nav>"
TEXTS = {
    "STORY": STORY,
    "STORY_BEGIN": STORY[:700],
    "NEWS": NEWS,
    "NEWS_END": NEWS[3:],
    "MENU": MENU,
    "TOPICS": "".join(f"<h3>Topic {n}</h3><p>Asked by user {n} about ferries.</p>" for n in range(30)),
    "LINKS": "".join(f"<li><a href=/{n}>Story {n} of the ferry</a></li>" for n in range(40)),
    "BANNER": "<div id=cookie-banner class=cookie-banner><p>We use cookies to improve your experience.</p>"
    "<button>Accept all</button><button>Reject</button></div>",
    "PAYWALLED": '<script type="application/ld+json">{"@context": "https://schema.org", "@type": '
    '"NewsArticle", "headline": "A story", "isAccessibleForFree": false}</script>',
}


def page(
    url: str = SITE, body: str = "", title: str = "", head: str = "", article: str = ""
) -> tuple[str, str]:
    """Return the URL and the HTML of an entry of the table."""
    if article:
        title = title or "A story"
        body = f"{MENU}<main><article><h1>{title}</h1>{article}</article></main><footer>© Shop</footer>"
    html = f"<!doctype html><html><head><title>{title}</title>{head}</head><body>{body}</body></html>"
    repeated = re.compile(r"\{([A-Z_]+)(?: \* (\d+))?\}")
    return url, repeated.sub(lambda m: TEXTS[m[1]] * int(m[2] or 1), html.replace("\n", ""))


TABLE = tomllib.loads(Path(__file__).with_name("page_kinds.toml").read_text("utf-8"))
CONTENT = {name: page(**entry) for name, entry in TABLE.pop("content").items()}
INSTEAD = {name: (kind, *page(**entry)) for kind, pages in TABLE.items() for name, entry in pages.items()}


@pytest.mark.parametrize(("kind", "url", "html"), INSTEAD.values(), ids=INSTEAD)
def test_what_stands_before_the_content_is_recognized(kind: str, url: str, html: str) -> None:
    found = extract(html, url)
    assert found.kind == kind
    assert found.warnings


@pytest.mark.parametrize(("url", "html"), CONTENT.values(), ids=CONTENT)
def test_content_is_content(url: str, html: str) -> None:
    assert extract(html, url).kind == ""


def test_the_tables_are_long_enough_to_mean_something() -> None:
    assert len(INSTEAD) >= 40
    assert len(CONTENT) >= 40
