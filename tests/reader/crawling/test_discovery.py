"""Links of pages, directives for robots, and sitemaps, also of hostile sites."""

from __future__ import annotations

import gzip

import pytest

from tabane.reader.crawling.discovery import (
    MOST_ENTRIES,
    MOST_LINKS,
    PageLinks,
    links_of,
    links_of_markdown,
    sitemap_of,
)
from tests.harness.patience import assert_in_proportion
from tests.reader.fakes import answer

AT = "https://docs.test/guide/"


@pytest.mark.parametrize(
    ("html", "links"),
    [
        (
            "<a href=a.html>A</a><a href='/b'>B</a><a href=a.html#x>A</a>",
            (f"{AT}a.html", "https://docs.test/b"),
        ),
        ("<base href='/v2/'><a href=a>A</a>", ("https://docs.test/v2/a",)),
        ("<a href='mailto:a@b.test'>M</a><a href='javascript:x()'>J</a><a href='#top'>T</a><a>N</a>", ()),
        ("<a rel='nofollow noopener' href=a>A</a><a rel=noopener href=b>B</a>", (f"{AT}b",)),
        ("<frameset><frame src=menu.html></frameset>", (f"{AT}menu.html",)),
        ("<link rel=next href=2><link rel=stylesheet href=x.css>", (f"{AT}2",)),
        ("<a href='//other.test/x'>O</a>", ("https://other.test/x",)),
        ("<a href='http://[bad'>B</a><a href=ok>O</a>", (f"{AT}ok",)),
        ("<a href='日本'>J</a>", (f"{AT}%E6%97%A5%E6%9C%AC",)),
    ],
)
def test_links_are_absolute_and_each_once(html: str, links: tuple[str, ...]) -> None:
    assert links_of(answer(AT, f"<meta charset=utf-8>{html}")) == PageLinks(links)


@pytest.mark.parametrize(
    ("html", "header", "expected"),
    [
        ("<meta name=robots content='NOINDEX, follow'><a href=a>", "", PageLinks((f"{AT}a",), True, False)),
        ("<meta name=robots content=nofollow><a href=a>", "", PageLinks((), False, True)),
        ("<meta name=Robots content=none><a href=a>", "", PageLinks((), False, False)),
        ("<a href=a>", "noindex", PageLinks((f"{AT}a",), True, False)),
        ("<meta name=googlebot content=noindex><a href=a>", "", PageLinks((f"{AT}a",), True, True)),
    ],
)
def test_what_a_page_asks_of_robots_is_known(html: str, header: str, expected: PageLinks) -> None:
    assert links_of(answer(AT, html, x_robots_tag=header)) == expected


def test_links_of_markdown_are_those_it_shows() -> None:
    text = "[A](https://docs.test/a) [B](<https://docs.test/b>) [W](https://docs.test/A_(b)) [r](rel.md)"
    assert links_of_markdown(text) == (
        "https://docs.test/a",
        "https://docs.test/b",
        "https://docs.test/A_(b)",
    )


def test_hostile_pages_cost_in_proportion_to_their_size() -> None:
    assert len(links_of(answer(AT, "".join(f"<a href={n}>" for n in range(100_000)))).links) == MOST_LINKS
    assert links_of(answer(AT, "<div>" * 200_000 + "<a href=a>")).links in ((), (f"{AT}a",))
    assert links_of(answer(AT, "<a href='" + "x" * 3_000_000 + "'>")).links == ()
    assert_in_proportion(lambda n: links_of(answer(AT, "<i>" * n)), 20_000)


SITEMAP = (
    "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9' "
    "xmlns:image='http://www.google.com/schemas/sitemap-image/1.1'>"
    "<url><loc> https://docs.test/a </loc><lastmod>2026-01-02</lastmod>"
    "<image:image><image:loc>https://docs.test/i.png</image:loc></image:image></url>"
    "<url><loc>https://docs.test/b?x=1&amp;y=2</loc></url></urlset>"
)


def test_sitemaps_are_read_in_every_form() -> None:
    entries = [("https://docs.test/a", "2026-01-02"), ("https://docs.test/b?x=1&y=2", "")]
    assert sitemap_of(SITEMAP.encode()) == (entries, False)
    assert sitemap_of(gzip.compress(SITEMAP.encode())) == (entries, False)
    assert sitemap_of(b"https://docs.test/a\nhttps://docs.test/c\n") == (
        [("https://docs.test/a", ""), ("https://docs.test/c", "")],
        False,
    )
    index = (
        SITEMAP.replace("urlset", "sitemapindex")
        .replace("<url>", "<sitemap>")
        .replace("</url>", "</sitemap>")
    )
    assert sitemap_of(index.encode()).nested


def test_broken_and_hostile_sitemaps_give_what_they_can() -> None:
    assert len(sitemap_of(SITEMAP[:-40].encode()).entries) == 1
    assert sitemap_of(b"\x1f\x8bnot gzip").entries == []
    names = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 10))
    bomb = (
        f"<!DOCTYPE x [<!ENTITY e0 'aaaaaaaaaa'>{names}]><urlset><url><loc>https://docs.test/&e9;</loc></url>"
    )
    assert all(len(entry.url) <= 2_000 for entry in sitemap_of(bomb.encode()).entries)
    secret = (
        "<!DOCTYPE x [<!ENTITY s SYSTEM 'file:///etc/passwd'>]><urlset><url><loc>http://a/&s;</loc></url>"
    )
    assert "root" not in str(sitemap_of(secret.encode()))
    many = "<urlset>" + "<url><loc>https://docs.test/</loc></url>" * (MOST_ENTRIES + 10)
    assert len(sitemap_of(many.encode()).entries) == MOST_ENTRIES
