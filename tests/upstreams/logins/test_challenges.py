"""Challenges in WWW-Authenticate, as servers write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.upstreams.logins.metadata import BearerChallenge, bearer_challenge, covers


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ('Bearer resource_metadata="https://a/b", scope="x y"', BearerChallenge("https://a/b", ("x", "y"))),
        ("bearer scope=x,error=insufficient_scope", BearerChallenge("", ("x",), "insufficient_scope")),
        ('Basic realm="a, Bearer scope=no", Bearer scope="yes"', BearerChallenge("", ("yes",))),
        ('Negotiate abc==, Bearer error="invalid_token"', BearerChallenge("", (), "invalid_token")),
        (r'Bearer error="a\"b"', BearerChallenge("", (), 'a"b')),
        ("Bearer", BearerChallenge()),
        ('Basic realm="x"', None),
        ("", None),
    ],
)
def test_a_challenge_is_read_as_it_is_meant(header: str, found: BearerChallenge | None) -> None:
    assert bearer_challenge([header]) == found


@given(st.text(max_size=300))
def test_no_header_is_too_strange(header: str) -> None:
    found = bearer_challenge([header, "Bearer " + header])
    assert found is None or all(scope.isascii() for scope in found.scopes)


@pytest.mark.parametrize(
    ("resource", "server", "covered"),
    [
        ("https://a/mcp", "https://a/mcp", True),
        ("https://a", "https://a/mcp", True),
        ("https://a/", "https://A:443/mcp/", True),
        ("https://a/mc", "https://a/mcp", False),
        ("https://a/mcp/x", "https://a/mcp", False),
        ("http://a/mcp", "https://a/mcp", False),
        ("https://a:1/mcp", "https://a/mcp", False),
        ("https://b/mcp", "https://a/mcp", False),
    ],
)
def test_a_resource_covers_its_own_paths(resource: str, server: str, covered: bool) -> None:
    assert covers(resource, server) is covered
