"""Addresses of a site: its folder, spellings of one page, files that are no pages, and traps."""

from __future__ import annotations

import pytest

from tabane.reader.crawling.addresses import SiteScope, address_key, most_alike, path_pattern, scope_of

AT = "https://docs.test"
GUIDE = SiteScope(AT, "/guide/")


@pytest.mark.parametrize(
    ("start", "links", "folder"),
    [
        (f"{AT}/", (), "/"),
        (f"{AT}/guide/", (), "/guide/"),
        (f"{AT}/guide/intro.html", (), "/guide/"),
        (f"{AT}/guide/intro", (), "/guide/"),
        (f"{AT}/guide?page=2", (f"{AT}/guide/a",), "/guide/"),
        (f"{AT}/guide", (f"{AT}/guide/a", f"{AT}/blog/"), "/guide/"),
        (f"{AT}/guide", (f"{AT}/blog/", "https://other.test/guide/a"), "/"),
        (f"{AT}/v1.2/", (f"{AT}/v1.2/a",), "/v1.2/"),
    ],
)
def test_the_folder_is_that_of_the_start_page(start: str, links: tuple[str, ...], folder: str) -> None:
    assert scope_of(start, links) == SiteScope(AT, folder)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"{AT}/guide/a.html#part", f"{AT}/guide/a.html"),
        (f"{AT}/guide", f"{AT}/guide"),
        (f"{AT}/guide/a?utm_source=x&page=2&gclid=1", f"{AT}/guide/a?page=2"),
        (f"{AT}/guide/a;jsessionid=12?b=1", f"{AT}/guide/a?b=1"),
        (f"{AT}/guide/a?sid=0123456789abcdef", f"{AT}/guide/a"),
        (f"{AT}/guide/a?sid=17", f"{AT}/guide/a?sid=17"),
        (f"{AT}/guide/x/../b.PDF", f"{AT}/guide/b.PDF"),
        (f"{AT}/guide/v1.2", f"{AT}/guide/v1.2"),
        (f"{AT}/guide/../blog/", None),
        (f"{AT}/guides/a", None),
        ("http://docs.test/guide/a", None),
        (f"{AT}:8443/guide/a", None),
        ("https://other.test/guide/a", None),
        (f"{AT}/guide/logo.svg", None),
        (f"{AT}/guide/all.tar.gz", None),
        ("mailto:a@docs.test", None),
        (f"{AT}/guide/" + "a/b/" * 4, None),
        (f"{AT}/guide/" + "x/" * 20, None),
        (f"{AT}/guide/2026/01/01/01", f"{AT}/guide/2026/01/01/01"),
        (f"{AT}/guide/?q=" + "x" * 2_000, None),
    ],
)
def test_pages_of_the_folder_are_taken_under_a_plain_address(url: str, address: str | None) -> None:
    assert GUIDE.address(url) == address


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("/guide/", "/guide", True),
        ("/guide/index.html", "/guide/", True),
        ("/guide/a?b=1&a=2", "/guide/a?a=2&b=1", True),
        ("/guide/a?b=1", "/guide/a?b=2", False),
        ("/guide/index.html?id=1", "/guide/?id=1", False),
        ("/guide/A", "/guide/a", False),
    ],
)
def test_spellings_of_one_page_have_one_key(one: str, other: str, same: bool) -> None:
    assert (address_key(AT + one) == address_key(AT + other)) is same


@pytest.mark.parametrize(
    ("url", "pattern", "most"),
    [
        ("/posts/17", "/posts/#", None),
        ("/posts/17-a-title", "/posts/#-a-title", None),
        ("/calendar/2026/12", "/calendar/#/#", 50),
        ("/calendar?month=12&year=2026", "/calendar?month&year", 20),
        ("/list?page=3", "/list?page", 100),
    ],
)
def test_patterns_of_calendars_and_filters_are_limited(url: str, pattern: str, most: int | None) -> None:
    assert path_pattern(AT + url) == pattern
    assert most_alike(pattern) == most
