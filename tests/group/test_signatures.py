"""What hubs sign for each other cannot be forged, changed, delayed or used twice."""

from __future__ import annotations

import pytest

from tabane.group.signatures import (
    FRESH,
    WINDOW,
    ForgedRequest,
    ForwardedRequest,
    SeenRequests,
    body_digest,
    checked,
    hub_of_session,
    session_name,
    signed,
)

KEY, OTHER = b"k" * 32, b"o" * 32
HEADERS = [("content-type", "application/json"), ("mcp-session-id", "s")]
REQUEST = ForwardedRequest("a", "b", 1, 1000.0, "key:x", False, body_digest(b"{}"))


def test_a_session_names_its_hub_and_cannot_be_forged() -> None:
    name = session_name(KEY, "abc123")
    assert hub_of_session(KEY, name) == "abc123"
    assert name != session_name(KEY, "abc123")
    for forged in (name.replace("abc123", "abc124"), name[:-1], name + "é", "", "a.b.c", "x" * 500):
        assert hub_of_session(KEY, forged) is None
    assert hub_of_session(OTHER, name) is None


def test_a_signature_covers_everything_that_is_used() -> None:
    text = signed(KEY, REQUEST, "POST", "/mcp", HEADERS)
    assert checked(KEY, text, "POST", "/mcp", reversed(HEADERS)) == REQUEST
    changed = [
        (OTHER, text, "POST", "/mcp", HEADERS),
        (KEY, "A" + text[1:], "POST", "/mcp", HEADERS),
        (KEY, text, "GET", "/mcp", HEADERS),
        (KEY, text, "POST", "/mcp/full", HEADERS),
        (KEY, text, "POST", "/mcp", HEADERS[:1]),
        (KEY, text, "POST", "/mcp", [("content-type", "application/json"), ("mcp-session-id", "t")]),
        (KEY, "é" * 8, "POST", "/mcp", HEADERS),
        (KEY, "", "POST", "/mcp", HEADERS),
    ]
    for given in changed:
        with pytest.raises(ForgedRequest):
            checked(*given)


def test_a_request_is_taken_once_in_time_by_the_hub_it_is_for() -> None:
    seen = SeenRequests()
    seen.take(REQUEST, "b", 1000.0 + FRESH)
    seen.take(REQUEST._replace(sender="c"), "b", 1000.0)
    seen.take(REQUEST._replace(number=WINDOW), "b", 1000.0)
    seen.take(REQUEST._replace(number=2), "b", 1000.0)
    refused = [
        (REQUEST, "b", 1000.0),
        (REQUEST._replace(number=2), "b", 1000.0),
        (REQUEST._replace(number=3), "a", 1000.0),
        (REQUEST._replace(number=3), "b", 1001.0 + FRESH),
        (REQUEST._replace(number=3), "b", 999.0 - FRESH),
        (REQUEST._replace(number=0), "b", 1000.0),
    ]
    for request, me, now in refused:
        with pytest.raises(ForgedRequest):
            seen.take(request, me, now)


def test_what_is_remembered_of_requests_is_bounded() -> None:
    seen = SeenRequests()
    for number in range(1, 5 * WINDOW):
        seen.take(REQUEST._replace(number=number), "b", 1000.0)
    assert seen.remembered <= 2 * WINDOW
    for number in range(5 * WINDOW - 100, 5 * WINDOW):
        with pytest.raises(ForgedRequest):
            seen.take(REQUEST._replace(number=number), "b", 1000.0)
