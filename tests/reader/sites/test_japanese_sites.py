"""Articles of Qiita, Zenn and note."""

from __future__ import annotations

from typing import Any

import pytest

from tabane.errors import ReadError
from tabane.reader.sites.japanese_articles import NoteAdapter, QiitaAdapter, ZennAdapter
from tabane.reader.sites.site_adapter import SiteAdapter
from tests.reader.site import Site
from tests.reader.sites.service import read, said, tell

ID = "0123456789abcdef0123"
QIITA = f"https://qiita.com/neko/items/{ID}"
ZENN = "https://zenn.dev/neko/articles/a-b_c0123456789"
NOTE = "https://note.com/neko/n/n0123456789ab"


def qiita(site: Site, token: str | None = None) -> QiitaAdapter:
    return QiitaAdapter(lambda _: token, site.url("/qiita"))


def item(**changes: Any) -> dict[str, Any]:
    known = {
        "id": ID,
        "title": "猫の話",
        "body": "# はじめに\r\n\r\n```python:cat.py\nx = 1\n```\n\n[次](/neko/items/abc)\n",
        "rendered_body": "<h1>はじめに</h1>",
        "url": QIITA,
        "created_at": "2026-01-02T03:04:05+09:00",
        "comments_count": 1,
        "likes_count": 12,
        "tags": [{"name": "Python", "versions": []}, {"name": "猫", "versions": []}],
        "user": {"id": "neko", "name": "ねこ"},
    }
    return known | changes


def test_an_article_of_qiita_is_its_own_markdown_and_its_comments(site: Site) -> None:
    tell(site, f"/qiita/api/v2/items/{ID}", item())
    comments = [{"body": "なるほど", "created_at": "2026-01-03", "user": {"id": "inu", "name": ""}}]
    tell(site, f"/qiita/api/v2/items/{ID}/comments", comments)
    page = read(site, f"{QIITA}#はじめに", qiita(site, "secret"))
    assert page.markdown == (
        "# 猫の話\n\n- Tags: Python, 猫\n- Likes: 12\n\n# はじめに\n\n```python:cat.py\nx = 1\n```\n\n"
        "[次](https://qiita.com/neko/items/abc)\n\n## Comments (1)\n\n### inu · 2026-01-03\n\nなるほど"
    )
    assert (page.title, page.author, page.way, page.url) == ("猫の話", "ねこ", "qiita", QIITA)
    assert {asked.headers.get("authorization") for asked in site.asked} == {"Bearer secret"}


def test_comments_of_qiita_that_cannot_be_read_leave_the_article(site: Site) -> None:
    tell(site, f"/qiita/api/v2/items/{ID}", item())
    page = read(site, QIITA, qiita(site))
    assert "x = 1" in page.markdown
    assert "comments could not be read" in said(page)


def failure(site: Site, url: str, way: SiteAdapter) -> ReadError:
    with pytest.raises(ReadError) as raised:
        read(site, url, way)
    return raised.value


def test_limits_and_tokens_of_qiita_are_named(site: Site) -> None:
    tell(site, f"/qiita/api/v2/items/{ID}", {"type": "rate_limit_exceeded"}, 429, Retry_After="600")
    error = failure(site, QIITA, qiita(site))
    assert (error.cause, error.wait) == ("rate", 600.0)
    assert "QIITA_TOKEN" in str(error)
    tell(site, f"/qiita/api/v2/items/{ID}", {"type": "unauthorized"}, 401)
    assert failure(site, QIITA, qiita(site, "old")).cause == "key"


def article(**changes: Any) -> dict[str, Any]:
    body = (
        '<h2 id="a">見出し<a class="header-anchor-link" href="#a" aria-hidden="true"></a></h2>'
        '<p>式 <embed-katex><eq class="zenn-katex">x^2</eq></embed-katex> と</p>'
        '<section class="zenn-katex"><eqn><embed-katex display-mode="1">y = '
        "\\sqrt{2}</embed-katex></eqn></section>"
        '<pre class="language-python"><code class="language-python">x = 1\n</code></pre>'
        '<span class="embed-block zenn-embedded"><iframe id="i" src="https://embed.zenn.studio/card"'
        ' data-content="https%3A%2F%2Fa.test%2F%3Fx%3D1" frameborder="0"></iframe></span>'
        "<ul><li>一つ<ul><li>二つ</li></ul></li></ul>"
    )
    known = {
        "id": 1,
        "title": "猫の型",
        "slug": "a-b_c0123456789",
        "path": "/neko/articles/a-b_c0123456789",
        "body_html": body,
        "emoji": "🐈",
        "article_type": "tech",
        "published_at": "2026-01-02T03:04:05.000+09:00",
        "liked_count": 3,
        "user": {"username": "neko", "name": "ねこ"},
        "topics": [{"name": "py", "display_name": "Python"}],
    }
    return known | changes


def test_an_article_of_zenn_keeps_its_formulas_code_and_links(site: Site) -> None:
    tell(site, "/zenn/api/articles/a-b_c0123456789", {"article": article()})
    page = read(site, ZENN, ZennAdapter(site.url("/zenn")))
    assert page.markdown == (
        "# 猫の型\n\n- Topics: Python\n- Kind: tech\n- Likes: 3\n\n## 見出し\n\n式 $x^2$ と\n\n"
        "$$y = \\sqrt{2}$$\n\n```python\nx = 1\n```\n\n[https://a.test/?x=1](https://a.test/?x=1)\n\n- "
        "一つ\n  - 二つ"
    )
    assert (page.title, page.author, page.way, page.url) == ("猫の型", "ねこ", "zenn", ZENN)


def note(**changes: Any) -> dict[str, Any]:
    body = (
        '<h2 name="x">春</h2><p name="y">夜の<b>雨</b>。</p>'
        '<figure name="z" data-src="https://www.youtube.com/watch?v=abcdefghijk" '
        'embedded-service="youtube"></figure>'
        '<figure name="w"><a href="https://a.test/i.png"><img src="https://a.test/i.png" alt="画像"></a>'
        "<figcaption>庭</figcaption></figure>"
    )
    known = {
        "id": 1,
        "key": "n0123456789ab",
        "type": "TextNote",
        "name": "春の夜",
        "body": body,
        "price": 0,
        "is_limited": False,
        "publish_at": "2026-01-02T03:04:05.000+09:00",
        "note_url": NOTE,
        "like_count": 5,
        "user": {"nickname": "ねこ", "urlname": "neko"},
        "hashtag_notes": [{"hashtag": {"name": "#日記"}}],
    }
    return known | changes


def test_an_article_of_note_keeps_its_pictures_and_what_is_shown(site: Site) -> None:
    tell(site, "/note/api/v3/notes/n0123456789ab", {"data": note()})
    page = read(site, NOTE, NoteAdapter(site.url("/note")))
    assert page.markdown == (
        "# 春の夜\n\n## 春\n\n夜の**雨**。\n\n[https://www.youtube.com/watch?v=abcdefghijk]"
        "(https://www.youtube.com/watch?v=abcdefghijk)\n\n[![画像](https://a.test/i.png)](https://a.test/i.png)\n\n"
        "庭\n\n#日記"
    )
    assert (page.title, page.author, page.way, page.warnings) == ("春の夜", "ねこ", "note", ())


def test_an_article_that_is_sold_says_that_a_part_is_here(site: Site) -> None:
    tell(site, "/note/api/v3/notes/n0123456789ab", {"data": note(price=1500, is_limited=True)})
    assert "1,500 yen" in said(read(site, NOTE, NoteAdapter(site.url("/note"))))
    tell(site, "/note/api/v3/notes/n0123456789ab", {"data": note(is_limited=True)})
    assert "members" in said(read(site, NOTE, NoteAdapter(site.url("/note"))))


def test_a_sound_of_note_is_left_to_the_general_way(site: Site) -> None:
    tell(site, "/note/api/v3/notes/n0123456789ab", {"data": note(type="SoundNote", body=None)})
    error = failure(site, NOTE, NoteAdapter(site.url("/note")))
    assert error.cause == "dns"  # the general way asked note.com itself, which no test reaches


def test_answers_of_another_form_leave_their_cause_and_go_on(site: Site) -> None:
    tell(site, "/note/api/v3/notes/n0123456789ab", {"error": {}})
    tell(site, "/zenn/api/articles/a-b_c0123456789", {"article": {"title": 3}})
    tell(site, f"/qiita/api/v2/items/{ID}", [])
    ways: dict[str, SiteAdapter] = {
        NOTE: NoteAdapter(site.url("/note")),
        ZENN: ZennAdapter(site.url("/zenn")),
        QIITA: qiita(site),
    }
    for url, way in ways.items():
        assert "unknown form" in str(failure(site, url, way)), url


@pytest.mark.parametrize(
    "url",
    [
        "https://qiita.com/neko",
        "https://qiita.com/tags/python",
        f"https://qiita.com/neko/private/{ID}",
        "https://zenn.dev/neko",
        "https://zenn.dev/neko/scraps/abc",
        "https://zenn.dev/neko/books/abc/viewer/1",
        "https://note.com/neko",
        "https://note.com/neko/m/m0123456789ab",
        f"https://a.test/neko/items/{ID}",
        "https://evil.zenn.dev/neko/articles/abc",
        "http://[note.com",
    ],
)
def test_what_is_no_article_is_left_to_the_general_way(site: Site, url: str) -> None:
    assert not any(way.takes(url) for way in (QiitaAdapter(), ZennAdapter(), NoteAdapter()))
