"""Cookies of servers at a URL: which are kept, and which requests carry them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from tabane.net.cookies import LARGEST_COOKIE, MOST_COOKIES, CookieJar

OWN = URL("https://a.example/mcp/x")


def sent(*lines: str, url: URL = OWN, given_by: URL = OWN, own: str = "") -> str | None:
    """The cookies of a request after a response with these headers."""
    jar = CookieJar(own)
    jar.take(lines, given_by)
    return jar.added({}, url).get("Cookie")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a=1", "a=1"),
        (' a = "1" ; Path=/; HttpOnly', 'a="1"'),
        ("a=1; Domain=example", "a=1"),
        ("a=1; Domain=.a.example", "a=1"),
        ("a=1; Domain=b.example", None),
        ("a=1; Domain=ample", None),
        ("a=1; Path=/mcp", "a=1"),
        ("a=1; Path=/mc", None),
        ("a=1; Path=/other", None),
        ("a=1; Secure", "a=1"),
        ("a=1; Max-Age=0", None),
        ("a=1; Max-Age=-5", None),
        ("a=1; Max-Age=--5", "a=1"),
        ("a=1; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", "a=1"),
        ("a=1; Expires=Thu, 01-Jan-1970 00:00:00 GMT", None),
        ("a=1; Expires=whenever", "a=1"),
        ("=1", None),
        ("a", None),
        ("a=1\r\nX-Admin: 1", None),
        ("a=\x00", None),
        ("a=é", None),
        ("a=" + "x" * LARGEST_COOKIE, None),
    ],
)
def test_a_cookie_is_kept_as_the_standard_says(line: str, expected: str | None) -> None:
    assert sent(line) == expected


def test_a_cookie_for_https_is_not_sent_over_http() -> None:
    assert sent("a=1; Secure; Path=/", "b=2; Path=/", url=URL("http://a.example/")) == "b=2"


def test_an_address_gets_no_cookies() -> None:
    assert sent("a=1", given_by=URL("http://127.0.0.1/"), url=URL("http://127.0.0.1/")) is None


def test_cookies_of_the_user_are_sent_too_and_a_new_value_replaces_the_old() -> None:
    assert sent("a=1", "a=2", own="mine=1") == "mine=1; a=2"
    assert sent("a=1", "a=2; Max-Age=0") is None


@given(st.lists(st.text()))
def test_any_header_is_taken_and_only_so_many_are_kept(lines: list[str]) -> None:
    many = [f"n{number}=1" for number in range(2 * MOST_COOKIES)]
    found = sent(*many, *lines) or ""
    assert found.isascii()
    assert found.isprintable()
    assert found.count(";") < MOST_COOKIES
