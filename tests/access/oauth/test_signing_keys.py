"""Public keys of a JWKS, with anything else in it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.oauth.signing_keys import MOST_KEYS, parse_signing_keys
from tabane.settings.addresses import ASYMMETRIC
from tests.access.oauth.forging import private_key

ALLOWED = frozenset(ASYMMETRIC)
GOOD = private_key("good", "RS256").published()


def ids(*entries: Any) -> list[str | None]:
    """Return the ids of the keys that are found among the entries, the good one last."""
    keys = parse_signing_keys(json.dumps({"keys": [*entries, GOOD]}).encode(), ALLOWED)
    return [key.id for algorithm in ("RS256", "ES256", "EdDSA") for key in keys.fitting(None, algorithm)]


@pytest.mark.parametrize(
    "junk",
    [
        None,
        "key",
        [],
        {},
        {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
        {"kty": "oct", "k": "c2VjcmV0"},
        {**GOOD, "kid": "enc", "use": "enc"},
        {**GOOD, "kid": "wrap", "key_ops": ["wrapKey"]},
        {**GOOD, "kid": "hmac", "alg": "HS256"},
        {**GOOD, "kid": "none", "alg": "none"},
        {**GOOD, "kid": 7},
        {**GOOD, "kid": "no e", "e": None},
        {**GOOD, "kid": "bad n", "n": "!!"},
        {**GOOD, "kid": "short", "n": "AQAB"},
        {**GOOD, "kid": "long", "n": "A" * 5000},
        {**GOOD, "kid": "large", "n": "v" + "A" * 1500},
        {**GOOD, "kid": "e", "e": "_" * 100},
        {**GOOD, "kid": "one", "e": "AQ"},
        {"kty": "EC", "kid": "x", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": "EC", "kid": "x", "crv": "P-999", "x": "AA", "y": "AA"},
        {"kty": "EC", "kid": "x", "crv": ["P-256"]},
        {"kty": "OKP", "kid": "x", "crv": "X25519", "x": "AA"},
        {"kty": ["RSA"]},
    ],
)
def test_entries_that_are_no_keys_for_signatures_are_ignored(junk: Any) -> None:
    assert ids(junk) == ["good"]


def test_a_private_key_that_was_published_is_used_as_its_public_one() -> None:
    assert ids({**GOOD, "kid": "leaked", "d": "AQAB", "p": "AQAB"}) == ["leaked", "good"]


def test_a_key_is_used_with_its_own_algorithms_alone() -> None:
    entries = [
        private_key("p256", "ES256").published(),
        private_key("ed", "EdDSA").published(alg="Ed25519"),
        {**GOOD, "kid": "pss", "alg": "PS256"},
        GOOD,
    ]
    keys = parse_signing_keys(json.dumps({"keys": entries}).encode(), ALLOWED)
    found = {name: [key.id for key in keys.fitting(None, name)] for name in ASYMMETRIC}
    assert found["ES256"] == ["p256"]
    assert found["ES384"] == []
    assert found["EdDSA"] == ["ed"]
    assert found["RS256"] == ["good"]
    assert found["PS256"] == ["pss", "good"]
    assert keys.fitting("p256", "RS256") == ()


def test_the_number_of_keys_and_of_tries_is_limited() -> None:
    entries = [{**GOOD, "kid": "same"} for _ in range(1000)]
    keys = parse_signing_keys(json.dumps({"keys": entries}).encode(), ALLOWED)
    assert len(keys) == MOST_KEYS
    assert len(keys.fitting("same", "RS256")) == 4


@pytest.mark.parametrize("document", [b"", b"[]", b"null", b"{}", b'{"keys":{}}', b"\xff", b"[" * 100_000])
def test_a_document_that_is_no_jwks_is_an_error(document: bytes) -> None:
    with pytest.raises(ValueError):
        parse_signing_keys(document, ALLOWED)


JSON = st.none() | st.booleans() | st.integers() | st.text() | st.lists(st.text())


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(["kty", "crv", "n", "e", "x", "y", "alg", "use", "kid", "key_ops"]),
            st.sampled_from(["RSA", "EC", "OKP", "P-256", "Ed25519", "sig", "AQAB"]) | JSON,
        )
    )
)
def test_no_entry_breaks_the_others(entries: list[dict[str, Any]]) -> None:
    assert "good" in ids(*entries)
