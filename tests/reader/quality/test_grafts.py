"""News-like pages for training are articles with parts of other sites' pages."""

from __future__ import annotations

from benchmarks.reader.grafts import MARK, foreign_parts, news_like
from benchmarks.reader.pages import Gold
from lxml.html import fromstring

PARAGRAPHS = [
    f"Paragraph {number} tells at some length what the children of the school read on the thermometer that"
    f" stood on the roof of mill {number} for many years."
    for number in range(6)
]


def gold(site: str, kind: str = "article") -> Gold:
    text = "".join(f"<p>{site}: {paragraph}</p>" for paragraph in PARAGRAPHS)
    more = "".join(f"<li><a href='/{n}'>Another story of {site} about rain</a> today</li>" for n in range(8))
    html = (
        f"<html><body><nav><ul><li><a href='/'>Start</a></li><li>All the pages of this site</li></ul></nav>"
        f"<main><article>{text}</article><div class='more'><h3>More stories</h3><ul>{more}</ul></div></main>"
        "</body></html>"
    )
    wanted = "\n".join(f"{site}: {paragraph}" for paragraph in PARAGRAPHS)
    return Gold(site, f"https://{site}.example/story", kind, html, wanted)


GOLDS = [gold("north"), gold("south"), gold("shop", "product")]


def test_parts_that_nobody_wanted_are_found_but_not_menus() -> None:
    parts = list(foreign_parts(GOLDS[0]))
    assert [part.html.count("Another story of north") for part in parts] == [8]
    assert not any("All the pages" in part.html for part in parts)


def test_an_article_keeps_its_text_and_gets_parts_of_other_sites_only() -> None:
    made = [page for seed in range(6) for page in news_like(GOLDS, seed)]
    assert {page.kind for page in made} == {"news-like"}
    assert {page.name.split("~")[0] for page in made} == {"north", "south"}
    for page in made:
        root = fromstring(str(page.html))
        sites = {element.get(MARK) for element in root.iter() if element.get(MARK)}
        assert sites == {"south.example" if page.url.startswith("https://north") else "north.example"}
        for line in page.text.splitlines():
            assert line in root.text_content()


def test_the_same_seed_makes_the_same_pages() -> None:
    assert list(news_like(GOLDS, 3)) == list(news_like(GOLDS, 3))
