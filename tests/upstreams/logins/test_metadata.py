"""Metadata of strangers: whatever a server names, it is used or refused with a reason."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import UpstreamUnavailable
from tabane.upstreams.logins.metadata import (
    InvalidMetadata,
    authorization_server,
    authorization_server_urls,
    is_safe,
    origin_of,
    resource_for,
    resource_metadata,
)

STRANGE = (
    "https://[::1", "https://h:99999/", "https://h:-1/", "https://[::1]:x/", "https://a b/", "https://\ud800/",
    "https://例え.jp/", "https://h\\@other/", "https://u:p@h/", "https://h/#f", "https://h:/", "//h",
    "https:///x", "https://[v1.x]/", "https://[fe80::1%25eth0]/", "https://h/\u202e", "https://xn--\x00",
)  # fmt: skip
URLS = st.sampled_from(STRANGE) | st.text(max_size=30).map("https://{}".format) | st.text(max_size=30)
KEYS = (
    "resource", "authorization_servers", "scopes_supported", "issuer", "token_endpoint",
    "registration_endpoint", "authorization_endpoint", "device_authorization_endpoint",
    "code_challenge_methods_supported",
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | URLS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=len(KEYS))


@given(DOCUMENTS, st.booleans())
def test_metadata_of_a_server_is_used_or_refused(document: dict[str, Any], loopback: bool) -> None:
    with suppress(InvalidMetadata, UpstreamUnavailable):
        found = resource_metadata(document)
        resource_for("https://h/mcp", "", found)
        for issuer in found.authorization_servers:
            if is_safe(issuer, loopback=loopback):
                assert all(origin_of(url) for url in authorization_server_urls(issuer))


@given(DOCUMENTS, URLS, st.booleans())
def test_metadata_of_an_authorization_server_is_used_or_refused(
    document: dict[str, Any], issuer: str, loopback: bool
) -> None:
    with suppress(InvalidMetadata):
        found = authorization_server(document | {"issuer": issuer}, issuer, loopback=loopback)
        assert is_safe(found.token_endpoint, loopback=loopback)


@pytest.mark.parametrize("named", STRANGE)
def test_an_issuer_that_is_no_url_is_another_issuer(named: str) -> None:
    with pytest.raises(InvalidMetadata):
        authorization_server({"issuer": named, "token_endpoint": "https://h/t"}, "https://h", loopback=False)
