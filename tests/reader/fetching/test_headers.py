"""Parsed HTTP headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.reader.fetching.responses import declared, lowered, media, seconds_to_wait

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("value", "kind", "charset"),
    [
        ("text/html", "text/html", None),
        ("Text/HTML ; Charset=UTF-8", "text/html", "utf-8"),
        ('text/html; charset="Shift_JIS"; x=y', "text/html", "shift_jis"),
        ("text/html;charset='euc-jp'", "text/html", "euc-jp"),
        ("text/html; charset=", "text/html", None),
        ("text/html; x=charset; charset=a; charset=b", "text/html", "a"),
        ("", "", None),
        ("html", "", None),
        ("; charset=utf-8", "", "utf-8"),
    ],
)
def test_a_content_type_is_a_type_and_a_charset(value: str, kind: str, charset: str | None) -> None:
    assert media(value) == (kind, charset)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "Tue, 14 Nov 2023 22:15:20 GMT"}, 120.0),
        ({"retry-after": "soon"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000060"}, 60.0),
        ({"x-ratelimit-remaining": "1", "x-ratelimit-reset": "1700000060"}, None),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "soon"}, None),
        ({"retry-after": "-1", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1700000060"}, 60.0),
    ],
)
def test_a_wait_is_told_in_several_ways(headers: dict[str, str], wait: float | None) -> None:
    assert seconds_to_wait(headers, NOW) == wait


def test_headers_that_are_said_twice_are_joined() -> None:
    raw = [(b"Vary", b"a"), (b"X", "é".encode()), (b"vary", b" b "), (b"Y", b"\xe9")]
    assert lowered(raw) == {"vary": "a, b", "x": "é", "y": "é"}


@given(st.text(), st.binary())
def test_no_header_is_too_odd_to_be_read(text: str, raw: bytes) -> None:
    media(text)
    wait = seconds_to_wait(
        {"retry-after": text, "x-ratelimit-remaining": "0", "x-ratelimit-reset": text}, NOW
    )
    assert wait is None or wait >= 0
    length = declared({"content-length": text})
    assert length is None or length >= 0
    lowered([(raw, raw)])


def test_what_is_no_media_type_is_none() -> None:
    assert media("text/\x1b[31mhtml") == ("", None)
    assert media("text/html\x9b; charset=UTF-8") == ("", "utf-8")
    assert media("application/vnd.x+json") == ("application/vnd.x+json", None)
