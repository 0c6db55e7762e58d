"""Rules of MCP over HTTP, as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS

from tabane.settings.origins import allowed_entry, canonical_origin
from tabane.wire import http
from tabane.wire.era import LEGACY, MODERN, UNSUPPORTED_VERSION, Era, ProtocolRefusal
from tabane.wire.http import AcceptedTypes

BOTH, JSON, EVENTS, NONE = (
    AcceptedTypes(*kinds) for kinds in ((True, True), (True, False), (False, True), (False, False))
)


@given(st.sampled_from(sorted(ERROR_CODE_HTTP_STATUS)) | st.integers(-32800, -31900))
def test_errors_have_the_status_that_the_official_sdk_gives_them(code: int) -> None:
    assert http.status_of(code) == ERROR_CODE_HTTP_STATUS.get(code, 200)


# -- media types ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "kinds"),
    [
        ("application/json, text/event-stream", BOTH),
        ("text/event-stream;q=0.9,APPLICATION/JSON ; charset=utf-8", BOTH),
        ("application/json", JSON),
        ("application/*", JSON),
        ("text/event-stream", EVENTS),
        ("text/*", EVENTS),
        ("*/*", BOTH),
        ("text/html, */*;q=0.8", BOTH),
        ("application/json, text/event-stream;q=0", JSON),
        ("application/json; q=0.000, text/event-stream;q=0.001", EVENTS),
        ("text/html", NONE),
        ("application/jsonp", NONE),
        (",;", NONE),
        (None, BOTH),
        ("", BOTH),
    ],
)
def test_what_a_client_takes_is_read(header: str | None, kinds: AcceptedTypes) -> None:
    assert http.accepted(header) == kinds


@pytest.mark.parametrize(
    ("kinds", "method", "served"),
    [
        (BOTH, "tools/call", True),
        (JSON, "tools/call", True),
        (EVENTS, "tools/call", True),
        (NONE, "tools/call", False),
        (JSON, None, True),
        (BOTH, "subscriptions/listen", True),
        (EVENTS, "subscriptions/listen", True),
        (JSON, "subscriptions/listen", False),
    ],
)
def test_a_post_is_served_where_it_can_be_answered(
    kinds: AcceptedTypes, method: str | None, served: bool
) -> None:
    assert http.may_post(kinds, method) is served


@pytest.mark.parametrize(
    ("kinds", "method", "begun", "json"),
    [
        (BOTH, "tools/call", False, True),
        (JSON, "tools/call", False, True),
        (BOTH, "tools/call", True, False),
        (EVENTS, "tools/call", False, False),
        (BOTH, "subscriptions/listen", False, False),
    ],
)
def test_an_answer_is_json_unless_something_was_sent_before_it(
    kinds: AcceptedTypes, method: str, begun: bool, json: bool
) -> None:
    assert http.answers_json(kinds, method, begun) is json


@pytest.mark.parametrize(
    ("header", "kind", "json"),
    [
        ("application/json", "application/json", True),
        ("Application/JSON; charset=UTF-8", "application/json", True),
        ('application/json;charset="utf-8"', "application/json", True),
        ("application/json; charset=shift_jis", "application/json", False),
        ("application/json; profile=x", "application/json", True),
        ("text/event-stream;charset=utf-8", "text/event-stream", False),
        ("text/plain", "text/plain", False),
        ("application/json-seq", "application/json-seq", False),
        ("application/x-www-form-urlencoded", "application/x-www-form-urlencoded", False),
        ("", "", False),
        (None, "", False),
    ],
)
def test_a_body_is_json_where_its_type_says_so(header: str | None, kind: str, json: bool) -> None:
    assert http.media_type(header) == kind
    assert http.is_json(header) is json


# -- versions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "enveloped", "era"),
    [
        (None, False, Era.LEGACY),
        (None, True, Era.MODERN),
        (MODERN, False, Era.MODERN),
        (MODERN, True, Era.MODERN),
        ("2099-01-01", False, Era.MODERN),
        ("", False, Era.MODERN),
        ("2025-11-25", True, Era.MODERN),
        *((version, False, Era.LEGACY) for version in LEGACY),
    ],
)
def test_a_post_is_modern_by_its_header_or_its_envelope(
    version: str | None, enveloped: bool, era: Era
) -> None:
    assert http.era_of(version, enveloped) is era


@pytest.mark.parametrize(
    ("header", "negotiated", "version"),
    [
        (None, None, "2025-03-26"),
        (None, "2025-11-25", "2025-11-25"),
        ("2025-06-18", None, "2025-06-18"),
        ("2025-06-18", "2025-11-25", "2025-06-18"),
        ("2024-11-05", None, "2024-11-05"),
    ],
)
def test_a_legacy_request_speaks_what_it_says_or_what_was_settled(
    header: str | None, negotiated: str | None, version: str
) -> None:
    assert http.legacy_version(header, negotiated) == version


@pytest.mark.parametrize("header", ["", "2025-06-19", "1.0", "x" * 5000])
def test_a_version_that_is_none_is_refused_with_those_there_are(header: str) -> None:
    with pytest.raises(ProtocolRefusal) as caught:
        http.legacy_version(header)
    assert caught.value.code == UNSUPPORTED_VERSION
    assert http.status_of(caught.value.code) == 400
    assert {MODERN, *LEGACY} == set(caught.value.data["supported"])
    assert len(caught.value.message) < 100


# -- who may knock -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "[::1]", "LocalHost:8765", "127.0.0.1:1", "[::1]:65535"]
)
def test_names_of_the_loopback_are_ours_on_any_port(host: str) -> None:
    assert http.allowed_host(host, 8765)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "",
        "evil.example",
        "evil.example:8765",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:80@localhost",
        "localhost:80:80",
        "localhost:",
        "localhost:x",
        "localhost:65536",
        "localhost, evil.example",
        "localhost/",
        "localhost.",
        "127.0.0.2",
        "0.0.0.0:8765",
        "[::1",
        "::1",
        " localhost",
        "localhost\n",
    ],
)
def test_any_other_host_is_not(host: str | None) -> None:
    assert not http.allowed_host(host, 8765)


@pytest.mark.parametrize(
    ("host", "allowed", "ours"),
    [
        ("hub.example", ["hub.example"], True),
        ("Hub.Example:8765", ["HUB.example"], True),
        ("hub.example:9000", ["hub.example"], False),
        ("hub.example:9000", ["hub.example:9000"], True),
        ("hub.example", ["hub.example:9000"], False),
        ("hub.example:9000", ["hub.example:*"], True),
        ("hub.example", ["hub.example:*"], True),
        ("x.hub.example", ["hub.example:*"], False),
        ("hub.example", ["*"], False),
        ("[fe80::1]:8765", ["[fe80::1]"], True),
    ],
)
def test_settings_name_more_hosts(host: str, allowed: list[str], ours: bool) -> None:
    assert http.allowed_host(host, 8765, allowed) is ours


@pytest.mark.parametrize(
    ("origin", "allowed", "may"),
    [
        (None, [], True),
        ("http://localhost", [], False),
        ("http://localhost:6274", [], False),
        ("https://127.0.0.1:8443", [], False),
        ("http://[::1]:3000", [], False),
        ("", [], False),
        ("null", [], False),
        ("null", ["null"], False),
        ("*", ["*"], False),
        ("https://app.example", ["*"], False),
        ("http://localhost:3000", ["http://localhost:3000"], True),
        ("http://localhost:3001", ["http://localhost:3000"], False),
        ("http://127.0.0.1:3000", ["http://localhost:3000"], False),
        ("http://localhost:3001", ["http://localhost:*"], True),
        ("http://localhost", ["http://localhost:*"], True),
        ("https://localhost:3001", ["http://localhost:*"], False),
        ("http://localhost.evil.example", ["http://localhost:*"], False),
        ("http://localhost@evil.example", ["http://localhost:*", "http://localhost"], False),
        ("http://localhost:80@evil.example", ["http://localhost:*"], False),
        ("http://user@localhost:3000", ["http://localhost:3000"], False),
        ("http://evil.example/http://localhost", ["http://localhost"], False),
        ("http://localhost/", ["http://localhost"], False),
        ("http://localhost http://evil.example", ["http://localhost"], False),
        ("http://localhost, http://evil.example", ["http://localhost"], False),
        ("http://localhost,http://localhost", ["http://localhost"], False),
        ("http://localhost.", ["http://localhost"], False),
        ("http://localhost.", ["http://localhost."], True),
        ("http://localhost..", ["http://localhost.."], False),
        ("file://localhost", [], False),
        ("file://", ["file://"], False),
        ("localhost", ["localhost"], False),
        ("http://2130706433", ["http://127.0.0.1"], False),
        ("http://0x7f.1", ["http://127.0.0.1"], False),
        ("http://127.1", ["http://127.1"], False),
        ("http://[0:0:0:0:0:0:0:1]:3000", ["http://[::1]:3000"], True),
        ("http://[::1]:3000", ["http://[0:0:0:0:0:0:0:1]:3000"], True),
        ("http://[::1", ["http://[::1"], False),
        ("http://::1", ["http://::1"], False),
        ("http://localhost:0", ["http://localhost:*"], False),
        ("http://localhost:65536", ["http://localhost:*"], False),
        ("http://localhost:080", ["http://localhost:*"], False),
        ("http://localhost:", ["http://localhost:*"], False),
        ("http://localhost:80", ["http://localhost"], True),
        ("http://localhost", ["http://localhost:80"], True),
        ("https://app.example:80", ["https://app.example"], False),
        ("https://app.example", ["https://app.example"], True),
        ("https://app.example", ["https://app.example/"], True),
        ("https://app.example", ["https://app.example:443"], True),
        ("HTTPS://App.example", ["https://app.EXAMPLE"], True),
        ("http://app.example", ["https://app.example"], False),
        ("https://app.example:8443", ["https://app.example"], False),
        ("https://app.example:8443", ["https://app.example:*"], True),
        ("https://app.example", ["https://app.example:*"], True),
        ("https://x.app.example", ["https://app.example:*"], False),
        ("https://xn--r8jz45g.jp", ["https://例え.jp"], True),
        ("https://例え.jp", ["https://例え.jp"], False),
        ("https://аpp.example", ["https://app.example"], False),
        ("https://app%2eexample", ["https://app.example"], False),
        ("vscode-webview://abc", ["vscode-webview://abc"], True),
        ("vscode-webview://abd", ["vscode-webview://abc"], False),
        ("https://" + "a" * 60_000, ["https://app.example"], False),
    ],
)
def test_only_pages_that_settings_name_may_call(origin: str | None, allowed: list[str], may: bool) -> None:
    assert http.allowed_origin(origin, allowed) is may


@pytest.mark.parametrize(
    ("origin", "host", "own"),
    [
        ("http://127.0.0.1:8765", "127.0.0.1:8765", True),
        ("http://localhost:8765", "LocalHost:8765", True),
        ("http://localhost", "localhost:80", True),
        ("http://[::1]:8765", "[0:0:0:0:0:0:0:1]:8765", True),
        ("http://localhost:8765", "127.0.0.1:8765", False),
        ("http://localhost:3000", "localhost:8765", False),
        ("https://localhost:8765", "localhost:8765", False),
        ("null", "localhost:8765", False),
        (None, "localhost:8765", False),
        ("http://localhost:8765", None, False),
        ("http://localhost:8765", "", False),
        ("http://x", "x@x", False),
    ],
)
def test_a_page_of_the_hub_itself_has_the_host_it_asks_as_its_origin(
    origin: str | None, host: str | None, own: bool
) -> None:
    assert http.own_origin(origin, host) is own


@given(st.text(max_size=80))
def test_any_text_is_an_origin_in_one_spelling_or_none(text: str) -> None:
    for origin in (canonical_origin(text), canonical_origin(f"http://{text}"), allowed_entry(text)):
        if origin is not None and not origin.endswith(":*"):
            assert canonical_origin(origin) == origin
            assert origin.isascii()
            assert not set(origin) & set("@,/ ?#\\") - {"/"}
            assert origin.count("/") == 2


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc-._~+/=", "abc-._~+/="),
        ("bearer  abc ", "abc"),
        ("BEARER abc", "abc"),
        ("Bearer", None),
        ("Bearer ", None),
        ("Bearer a b", None),
        ("Bearer a,b", None),
        ("Bearer é", None),
        ("Bearer abc\n", None),
        ("Basic abc", None),
        ("abc", None),
        ("", None),
        (None, None),
    ],
)
def test_a_token_is_read_from_its_header(header: str | None, token: str | None) -> None:
    assert http.bearer(header) == token


def test_a_token_is_ours_where_it_is_the_same() -> None:
    assert http.same_token("s3cret", "s3cret")
    assert not http.same_token("s3cre", "s3cret")
    assert not http.same_token("é\ud800", "s3cret")
    assert not http.same_token(None, "s3cret")
    assert not http.same_token("", "")
