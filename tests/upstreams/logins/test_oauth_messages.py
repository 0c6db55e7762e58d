"""Messages of OAuth: requests as servers read them, and answers of hostile servers."""

from __future__ import annotations

import base64
import hashlib
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.upstreams.logins.oauth_messages import (
    TokenAnswerRefused,
    authorization_url,
    code_form,
    device_form,
    own_form,
    pkce_pair,
    refresh_form,
    revocation_form,
    token_answer,
    with_fields,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
FIELDS = st.dictionaries(st.sampled_from(["resource", "audience"]), TEXTS)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
)
KEYS = st.sampled_from(
    ["access_token", "refresh_token", "token_type", "scope", "expires_in", "expires_at", "error"]
)


def test_the_challenge_of_a_login_is_that_of_its_secret() -> None:
    verifier, challenge = pkce_pair()
    digest = hashlib.sha256(verifier.encode()).digest()
    assert challenge == base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert 43 <= len(verifier) <= 128
    assert pkce_pair()[0] != verifier


@pytest.mark.parametrize("endpoint", ["https://as.example/a;b?tenant=1&x=", "http://127.0.0.1:9/authorize"])
@given(state=TEXTS, fields=FIELDS)
def test_the_url_of_a_login_keeps_the_endpoint_and_has_every_field(
    endpoint: str, state: str, fields: dict[str, str]
) -> None:
    redirect = "http://localhost:7/callback"
    url = authorization_url(endpoint, "me & you", redirect, state, "c", ("read", "write"), fields)
    base, _, query = url.partition("?")
    assert base == endpoint.partition("?")[0]
    wanted = {
        "response_type": "code", "client_id": "me & you", "redirect_uri": redirect, "scope": "read write",
        "state": state, "code_challenge": "c", "code_challenge_method": "S256", **fields,
        **dict(parse_qsl(urlsplit(endpoint).query, keep_blank_values=True)),
    }  # fmt: skip
    assert parse_qs(query, keep_blank_values=True) == {key: [value] for key, value in wanted.items()}


@given(secret=TEXTS, fields=FIELDS)
def test_a_form_has_its_fields_and_no_client_until_one_is_added(secret: str, fields: dict[str, str]) -> None:
    device = "urn:ietf:params:oauth:grant-type:device_code"
    forms = [
        (
            code_form(secret, "http://localhost:7", "v", fields),
            {"grant_type": "authorization_code", "code": secret, "redirect_uri": "http://localhost:7",
             "code_verifier": "v", **fields},
        ),
        (refresh_form(secret, fields), {"grant_type": "refresh_token", "refresh_token": secret, **fields}),
        (own_form(("a", "b"), fields), {"grant_type": "client_credentials", "scope": "a b", **fields}),
        (own_form((), fields), {"grant_type": "client_credentials", **fields}),
        (device_form(secret, fields), {"grant_type": device, "device_code": secret, **fields}),
        (revocation_form(secret, "refresh_token"), {"token": secret, "token_type_hint": "refresh_token"}),
    ]  # fmt: skip
    for form, wanted in forms:
        sent = with_fields(form, {"client_id": secret})
        assert form.isascii()
        assert sorted(parse_qsl(form)) == sorted(wanted.items())
        assert sorted(parse_qsl(sent)) == sorted({**wanted, "client_id": secret}.items())


@given(st.dictionaries(KEYS, VALUES))
def test_any_answer_is_tokens_or_refused(document: dict[str, Any]) -> None:
    has_error = isinstance(document.get("error"), str)
    if has_error or not isinstance(document.get("access_token"), str):
        with pytest.raises(TokenAnswerRefused) as refused:
            token_answer(document)
        assert refused.value.has_error == has_error
        return
    found = token_answer(document)
    assert found["access_token"] == document["access_token"]
    assert isinstance(found.get("expires_in", 0), int)
    assert all(isinstance(each, str) for each in found.get("scope", []))


@pytest.mark.parametrize(
    ("life", "seconds"),
    [(60, 60), ("60", 60), (59.9, 59), (None, None), ("soon", None), ("", None), (True, None), (1e300, None),
     ("9" * 5_000, None), ([60], None), (-5, -5)],
)  # fmt: skip
def test_a_lifetime_that_cannot_be_read_is_unknown(life: object, seconds: int | None) -> None:
    found = token_answer({"access_token": "x", "token_type": "Bearer", "expires_in": life})
    assert found.get("expires_in") == seconds


def test_an_error_is_seen_beside_a_token() -> None:
    with pytest.raises(TokenAnswerRefused) as refused:
        token_answer({"access_token": "x", "token_type": "Bearer", "error": "access_denied"})
    assert refused.value.has_error
