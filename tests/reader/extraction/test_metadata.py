"""What a page says of itself is read, best source first."""

from __future__ import annotations

import json

import pytest

from tabane.reader.extraction.html_tree import parsed
from tabane.reader.extraction.metadata import PageMetadata, iso, metadata

URL = "https://site.example/a/page"


def read(head: str, body: str = "", attributes: str = "") -> PageMetadata:
    return metadata(parsed(f"<html {attributes}><head>{head}</head><body>{body}</body></html>"), URL)


def linked(**thing: object) -> str:
    return f'<script type="application/ld+json">{json.dumps(thing)}</script>'


def test_everything_from_meta_elements() -> None:
    found = read(
        '<title>Trees | The Forest</title><meta property="og:title" content="Trees | The Forest">'
        '<meta property="og:site_name" content="The Forest"><meta name="author" content="By Ada Moss">'
        '<meta property="article:published_time" content="2025-04-11T09:30:00+0900">'
        '<link rel="canonical" href="/trees">',
        attributes='lang="en-GB"',
    )
    assert found == PageMetadata(
        "Trees", "Ada Moss", "2025-04-11T09:30:00+09:00", "The Forest", "en-GB", "https://site.example/trees"
    )


def test_json_ld_goes_first() -> None:
    thing = linked(
        **{"@graph": [{"@type": "BlogPosting", "headline": "Trees", "datePublished": "2025-04-11",
                       "author": [{"@type": "Person", "name": "Ada Moss"}, {"name": "Jo Pell"}],
                       "publisher": {"name": "The Forest"}, "articleBody": "They grow."}]}
    )  # fmt: skip
    found = read(f'<meta name="author" content="admin"><meta name="date" content="2020-01-01">{thing}')
    assert (found.title, found.author, found.date) == ("Trees", "Ada Moss, Jo Pell", "2025-04-11")
    assert (found.site, found.body) == ("The Forest", "They grow.")


def test_broken_json_ld_is_passed_over() -> None:
    assert read('<title>A</title><script type="application/ld+json">{"@type": </script>').title == "A"


def test_a_heading_within_the_title_is_the_title() -> None:
    assert (
        read("<title>Sapling care - Forest - 2025</title>", "<h1>Sapling care - Forest</h1>").title
        == "Sapling care - Forest"
    )


def test_what_stands_in_the_page_is_read_where_its_head_says_nothing() -> None:
    found = read(
        "", '<h1>Trees</h1><a rel="author">by Jo Pell</a> <span class="post-date">3. März 9 May 2024</span>'
    )
    assert (found.title, found.author, found.date) == ("Trees", "Jo Pell", "2024-05-09")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024年3月9日", "2024-03-09"),
        ("March 9th, 2024", "2024-03-09"),
        ("9 March 2024", "2024-03-09"),
        ("2024-03-09T10:00:00.000Z", "2024-03-09T10:00:00Z"),
        ("2024/3/9 10:00", "2024-03-09"),
        ("2024-13-40", None),
        ("last Tuesday", None),
        ("", None),
        (None, None),
    ],
)
def test_dates_are_iso(text: str | None, date: str | None) -> None:
    assert iso(text) == date


@pytest.mark.parametrize("link", ["javascript:alert(1)", "http://[", "file:///etc/passwd", ""])
def test_a_canonical_address_is_one_of_the_web(link: str) -> None:
    assert read(f'<link rel="canonical" href="{link}">').canonical in (None, URL)


def test_a_page_that_says_nothing_has_nothing() -> None:
    assert read("") == PageMetadata()
