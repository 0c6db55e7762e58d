"""Metadata of the hub as a protected resource, and challenges."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.oauth.refusals import (
    ScopeMissing,
    TokenRefused,
    challenge,
    metadata_url,
    resource_metadata,
)

RESOURCE = "https://hub.example.com/mcp"
METADATA = "https://hub.example.com/.well-known/oauth-protected-resource/mcp"


def test_the_document_has_what_clients_look_for() -> None:
    assert resource_metadata(RESOURCE, "https://login.example.com", ["tabane:read"]) == {
        "resource": RESOURCE,
        "authorization_servers": ["https://login.example.com"],
        "scopes_supported": ["tabane:read"],
        "bearer_methods_supported": ["header"],
        "resource_name": "Tabane",
    }


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (RESOURCE, METADATA),
        ("https://hub.example.com/", "https://hub.example.com/.well-known/oauth-protected-resource"),
        ("http://[::1]:8765/mcp", "http://[::1]:8765/.well-known/oauth-protected-resource/mcp"),
    ],
)
def test_the_path_of_the_resource_comes_after_the_well_known_one(resource: str, expected: str) -> None:
    assert metadata_url(resource) == expected


def test_a_challenge_names_the_metadata_and_the_error() -> None:
    assert challenge(METADATA) == f'Bearer realm="tabane", resource_metadata="{METADATA}"'
    refused = challenge(METADATA, TokenRefused("expired", "exp is 5 s ago"))
    assert 'error="invalid_token"' in refused
    assert "expired" in refused
    assert "5 s ago" not in refused
    missing = challenge(METADATA, ScopeMissing(("tabane:read", "tabane:*")))
    assert 'error="insufficient_scope"' in missing
    assert 'scope="tabane:read tabane:*"' in missing


@given(st.text(), st.text())
def test_a_challenge_is_one_header_whatever_is_in_it(path: str, scope: str) -> None:
    header = challenge(metadata_url(f"https://hub.example.com/{path}"), ScopeMissing((scope,)))
    assert re.fullmatch(r'Bearer( [a-z_]+="[ !#-\[\]-~]*",?)+', header)
