"""Rules of HTTP upstreams: when to retry, which redirects to follow, how to read an answer."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from tabane.errors import UpstreamUnavailable
from tabane.net.http_responses import error_in, messages, one_line
from tabane.net.routes import is_permanent, redirect_target
from tabane.servers.server import is_hub
from tabane.upstreams.http_session import BUSY, HttpRetryPolicy, is_expired
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner),
    max_leaves=10,
)


@given(st.booleans(), st.lists(st.tuples(st.sampled_from(sorted(BUSY)), st.none() | st.floats(0, 100))))
def test_a_busy_server_is_asked_again_twice_at_most_and_within_five_seconds(
    safe: bool, answers: list[tuple[int, float | None]]
) -> None:
    patience = HttpRetryPolicy(safe)
    waits = [wait for status, after in answers if (wait := patience.wait(status, after)) is not None]
    assert len(waits) <= 2
    assert sum(waits) <= 5


@given(st.sampled_from([502, 504]), st.none() | st.floats(0, 100))
def test_what_may_have_been_begun_is_not_asked_again(status: int, after: float | None) -> None:
    assert HttpRetryPolicy(False).wait(status, after) is None


@pytest.mark.parametrize("safe", [False, True])
def test_a_break_is_survived_once_where_that_is_safe(safe: bool) -> None:
    patience = HttpRetryPolicy(safe)
    assert [patience.survives_break() for _ in range(3)] == [safe, False, False]


@pytest.mark.parametrize(("url", "target", "goes"), CASES["a_redirect_leads_to_the_same_place_or_nowhere"])
def test_a_redirect_leads_to_the_same_place_or_nowhere(url: str, target: str, goes: bool) -> None:
    if goes:
        assert redirect_target("web", "POST", 307, URL(url), URL(target)) == URL(target)
        return
    with pytest.raises(UpstreamUnavailable) as refused:
        redirect_target("web", "GET", 302, URL(url), URL(target))
    assert str(URL(target).host) in str(refused.value)


def test_a_slash_that_lacked_is_remembered_a_detour_is_not() -> None:
    url = URL("https://a.example/mcp")
    assert is_permanent(307, url, URL("https://a.example/mcp/"))
    assert is_permanent(308, url, URL("https://a.example/new"))
    assert not is_permanent(307, url, URL("https://a.example/busy"))


@pytest.mark.parametrize(
    ("status", "text", "expired"),
    [
        (404, b"", True),
        (404, b'{"code": -32001, "message": "Session not found"}', True),
        (404, b'{"code": -32601, "message": "no such method"}', False),
        (400, b'{"code": -32000, "message": "Bad Request: No valid session ID provided"}', True),
        (400, b'{"code": -32600, "message": "Bad Request"}', False),
        (400, b"no such tool", False),
        (400, b"unknown session", True),
        (400, b'{"code": -32000, "message": "Bad Request: Server not initialized"}', True),
        (410, b"", True),
        (500, b"the session is gone", False),
    ],
)
def test_a_session_that_is_gone_is_told_from_other_refusals(status: int, text: bytes, expired: bool) -> None:
    assert is_expired(status, text, text if text.startswith(b"{") else None) is expired


@given(values, st.sampled_from([None, 1, 4]))
def test_a_message_over_many_lines_is_the_same_in_one(value: object, indent: int | None) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=False).replace("\n", "\r\n").encode()
    assert b"\n" not in one_line(text)
    assert b"\r" not in one_line(text)
    assert json.loads(one_line(text)) == value


@pytest.mark.heavy("real servers as processes")
@given(st.lists(st.dictionaries(texts, values)))
def test_a_batch_is_its_messages(batch: list[dict[str, object]]) -> None:
    text = json.dumps(batch, indent=1).encode()
    assert [json.loads(message) for message in messages(text)] == batch


@given(st.binary())
def test_any_body_of_an_error_is_looked_at(text: bytes) -> None:
    assert error_in(text) is None or error_in(text)


def test_an_error_is_found_in_a_body() -> None:
    error = {"code": 1, "message": "x"}
    found = error_in(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode())
    assert found is not None
    assert json.loads(bytes(found)) == error
    assert error_in(b'{"error": "unauthorized"}') is None


@pytest.mark.parametrize(("url", "hub"), CASES["the_hub_itself_is_known_by_its_url"])
def test_the_hub_itself_is_known_by_its_url(url: str, hub: bool) -> None:
    assert is_hub(url) is hub
