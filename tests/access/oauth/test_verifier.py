"""Verification of access tokens, before an authorization server in memory."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.oauth.fetching import FetchFailed
from tabane.access.oauth.refusals import AuthorizationServerUnavailable, ScopeMissing, TokenRefused
from tabane.access.oauth.verifier import OAuthVerifier
from tabane.operations.caller import CallTarget
from tests.access.oauth.forging import (
    AUDIENCE,
    INTROSPECTION,
    ISSUER,
    JWKS,
    NOW,
    MemoryRequests,
    TestTime,
    claims,
    part,
    private_key,
    verifier,
)
from tests.harness.patience import until
from tests.harness.running_hub import loop_turns

LOOK = CallTarget("search_documents", source="documents", changes=False)
PUT = CallTarget("put_document", source="documents")
STOP = CallTarget("stop_upstream", source="admin")


async def fault(of: OAuthVerifier, token: str) -> str:
    """Return why a token is refused; "accepted" if it is not."""
    try:
        await of.verify(token)
    except TokenRefused as refused:
        said = refused
    else:
        return "accepted"
    assert len(token) < 16 or token not in f"{said} {said.detail}"
    return said.fault


@pytest.mark.parametrize(
    "algorithm", ["RS256", "RS384", "RS512", "PS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
)
async def test_a_token_gives_the_access_of_its_scopes_until_it_expires(algorithm: str) -> None:
    key, time = private_key("one", algorithm), TestTime()
    found = await verifier(MemoryRequests([key]), time).verify(key.sign(claims(name="Alice A.")))
    assert (found.holder, found.label, found.tier) == ("oauth:alice", "Alice A.", "authenticated")
    assert found.allows(LOOK)
    assert not found.allows(PUT)
    assert not found.allows(STOP)
    assert not found.everything
    before = found.revision
    time.now += 631
    assert not found.allows(LOOK)
    assert not found.sees_server("github")
    assert found.revision != before


@pytest.mark.parametrize(
    ("changes", "header", "expected"),
    [
        ({"aud": "https://other.example.com/mcp"}, {}, "audience"),
        ({"aud": ["https://other.example.com", AUDIENCE + "/"]}, {}, "audience"),
        ({"aud": None}, {}, "audience"),
        ({"aud": []}, {}, "audience"),
        ({"aud": ["https://other.example.com", AUDIENCE]}, {}, "accepted"),
        ({"iss": ISSUER + "/"}, {}, "issuer"),
        ({"iss": None}, {}, "issuer"),
        ({"exp": NOW - 31}, {}, "expired"),
        ({"exp": NOW - 29}, {}, "accepted"),
        ({"exp": None}, {}, "expired"),
        ({"exp": "tomorrow"}, {}, "malformed"),
        ({"exp": True}, {}, "malformed"),
        ({"exp": -1}, {}, "expired"),
        ({"nbf": NOW + 31}, {}, "early"),
        ({"nbf": NOW + 29}, {}, "accepted"),
        ({"iat": NOW + 31}, {}, "early"),
        ({"sub": None}, {}, "accepted"),
        ({"sub": None, "client_id": None}, {}, "subject"),
        ({"sub": "", "client_id": ""}, {}, "subject"),
        ({"sub": 7}, {}, "malformed"),
        ({"sub": "x" * 600}, {}, "subject"),
        ({"scope": "openid"}, {}, "scope"),
        ({"scope": None}, {}, "scope"),
        ({"scope": None, "scp": ["tabane:read"]}, {}, "accepted"),
        ({"scope": None, "scp": "tabane:read profile"}, {"typ": "JWT"}, "accepted"),
        ({"cnf": {"jkt": "x"}}, {}, "bound"),
        ({"token_type": "DPoP"}, {}, "bound"),
        ({}, {"typ": "application/at+jwt"}, "accepted"),
        ({}, {"typ": "AT+JWT"}, "accepted"),
        ({}, {"typ": None}, "accepted"),
        ({}, {"typ": "dpop+jwt"}, "type"),
        ({}, {"typ": "logout+jwt"}, "type"),
        ({"nonce": "n"}, {"typ": "JWT"}, "type"),
        ({"at_hash": "h"}, {"typ": None}, "type"),
        ({"scope": None}, {"typ": None}, "type"),
        ({"typ": "ID"}, {"typ": "JWT"}, "type"),
        ({"typ": "Bearer"}, {"typ": "JWT"}, "accepted"),
        ({"token_use": "id"}, {"typ": None}, "type"),
        ({"events": {}}, {}, "type"),
        ({}, {"crit": ["exp"]}, "malformed"),
        ({}, {"b64": False, "crit": ["b64"]}, "malformed"),
        ({}, {"kid": "two"}, "key"),
        ({}, {"kid": None}, "accepted"),
        ({}, {"kid": 7}, "malformed"),
        ({}, {"kid": "x" * 600}, "malformed"),
        ({}, {"jwk": {"kty": "oct", "k": "AA"}, "jku": "https://evil.example.com", "x5u": "x"}, "accepted"),
    ],
)  # fmt: skip
async def test_each_claim_and_header_is_checked(
    changes: dict[str, Any], header: dict[str, Any], expected: str
) -> None:
    requests = MemoryRequests()
    token = private_key().sign(claims(**changes), **header)
    assert await fault(verifier(requests), token) == expected
    assert set(requests.asked) <= {JWKS}


async def test_a_signature_that_only_the_server_could_not_have_made_is_refused() -> None:
    key = private_key("one", "RS256")
    here = verifier(MemoryRequests([key]))
    good = key.sign(claims())
    head, body, signature = good.split(".")
    public = key.key.public_key()
    for name in ("none", "None", "NONE", "nOnE", ""):
        forged = f"{part({'alg': name, 'typ': 'at+jwt', 'kid': 'one'})}.{body}."
        assert await fault(here, forged) in ("algorithm", "malformed")
        assert await fault(here, forged + signature) in ("algorithm", "malformed")
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        json.dumps(key.published()).encode(),
        b"",
    ):
        signed = f"{part({'alg': 'HS256', 'typ': 'at+jwt', 'kid': 'one'})}.{body}"
        mac = hmac.new(secret, signed.encode(), hashlib.sha256).digest()
        assert await fault(here, f"{signed}.{part(mac)}") == "algorithm"
    stranger = private_key("other", "RS512")
    assert await fault(here, stranger.sign(claims(), kid="one")) == "signature"
    assert await fault(here, f"{head}.{part(claims(sub='bob'))}.{signature}") == "signature"
    assert await fault(here, f"{head}.{body}.{part(bytes(256))}") == "signature"
    assert await fault(here, f"{head}.{body}.") == "signature"
    assert await fault(here, good) == "accepted"


async def test_algorithms_that_the_settings_do_not_allow_are_refused() -> None:
    here = verifier(MemoryRequests([private_key("one", "RS256")]), algorithms=frozenset({"RS512"}))
    assert await fault(here, private_key("one", "RS256").sign(claims())) == "algorithm"


async def test_the_size_of_a_token_is_limited() -> None:
    requests = MemoryRequests()
    here = verifier(requests)
    assert await fault(here, private_key().sign(claims(note="x" * 16_000))) == "malformed"
    assert await fault(here, "a" * 20_000) == "malformed"
    assert await fault(here, private_key().sign(claims(note="x" * 8_000))) == "accepted"


async def test_a_removed_key_is_refused_and_a_new_one_accepted_without_a_restart() -> None:
    old, new, time = private_key("one"), private_key("two"), TestTime()
    requests = MemoryRequests([old])
    here = verifier(requests, time)
    before = old.sign(claims(exp=NOW + 9_000))
    access = await here.verify(before)
    requests.keys = [new]
    time.now += 61
    assert await fault(here, new.sign(claims(sub="bob"))) == "accepted"
    assert not access.allows(LOOK)
    assert await fault(here, before) == "key"
    assert requests.asked == [JWKS, JWKS]


async def test_keys_are_fetched_again_in_the_background_when_tokens_are_used() -> None:
    old, time = private_key("one"), TestTime()
    requests = MemoryRequests([old])
    here = verifier(requests, time)
    token = old.sign(claims(exp=NOW + 9_000))
    access = await here.verify(token)
    requests.keys = [private_key("two")]
    time.now += 301
    assert await here.verify(token) is access
    await until(lambda: not access.allows(LOOK))
    assert await fault(here, token) == "key"


async def test_a_flood_of_invented_key_ids_asks_the_server_once_a_minute() -> None:
    requests, time = MemoryRequests(), TestTime()
    here = verifier(requests, time)
    for number in range(200):
        assert await fault(here, private_key().sign(claims(), kid=f"invented {number}")) == "key"
    assert len(requests.asked) == 1
    time.now += 61
    for number in range(200):
        assert await fault(here, private_key().sign(claims(), kid=f"again {number}")) == "key"
    assert len(requests.asked) == 2
    assert await fault(here, private_key().sign(claims())) == "accepted"


async def test_a_server_that_does_not_answer_stalls_only_those_who_need_it() -> None:
    requests, time = MemoryRequests(), TestTime()
    here = verifier(requests, time)
    good = private_key().sign(claims(exp=NOW + 9_000))
    await here.verify(good)
    time.now += 61
    requests.held = asyncio.Event()
    waits = [
        asyncio.ensure_future(here.verify(private_key().sign(claims(), kid=f"new {number}")))
        for number in range(3)
    ]
    await until(lambda: len(requests.asked) == 2)
    assert await fault(here, good) == "accepted"
    assert await fault(here, private_key().sign(claims(sub="bob"))) == "accepted"
    requests.failure = FetchFailed("no answer within 5 s")
    requests.held.set()
    for wait in waits:
        with pytest.raises(AuthorizationServerUnavailable) as caught:
            await wait
        assert "no answer" in caught.value.detail
    assert len(requests.asked) == 2


async def test_a_dead_server_is_asked_seldom_and_old_keys_are_not_trusted_for_ever() -> None:
    requests, time = MemoryRequests(failure=FetchFailed("refused")), TestTime()
    here = verifier(requests, time)
    token = private_key().sign(claims(exp=NOW + 90_000))
    for _ in range(20):
        with pytest.raises(AuthorizationServerUnavailable):
            await here.verify(token)
    assert len(requests.asked) == 1
    time.now += 6
    requests.failure = None
    assert await fault(here, token) == "accepted"
    requests.failure = FetchFailed("refused")
    time.now += 3_000
    assert await fault(here, token) == "accepted"
    time.now += 601
    with pytest.raises(AuthorizationServerUnavailable):
        await here.verify(token)


async def test_a_client_that_goes_away_does_not_stop_the_check_for_others() -> None:
    requests = MemoryRequests(held=asyncio.Event())
    here, token = verifier(requests), private_key().sign(claims())
    first, second = (asyncio.ensure_future(here.verify(token)) for _ in range(2))
    await until(lambda: requests.asked)
    first.cancel()
    assert requests.held
    requests.held.set()
    assert (await second).holder == "oauth:alice"
    assert requests.asked == [JWKS]


async def test_sessions_go_on_when_a_client_renews_its_token() -> None:
    time = TestTime()
    here = verifier(MemoryRequests(), time)
    first = await here.verify(private_key().sign(claims()))
    time.now += 500
    renewed = private_key().sign(claims(iat=NOW + 490, exp=NOW + 1_100))
    assert await here.verify(renewed) is first
    time.now += 400
    assert first.allows(LOOK)
    more = private_key().sign(claims(exp=NOW + 2_000, scope="tabane:*"))
    other = private_key().sign(claims(exp=NOW + 2_000, client_id="another"))
    assert await here.verify(more) is not first
    assert await here.verify(other) is not first
    assert not first.allows(PUT)
    time.now += 300
    assert not first.allows(LOOK)


async def test_an_opaque_token_is_introspected_and_its_revocation_noticed_within_a_minute() -> None:
    requests, time = MemoryRequests(active={"opaque": {**claims(), "active": True}}), TestTime()
    here = verifier(requests, time, introspection_url=INTROSPECTION, client_id="hub")
    access = await here.verify("opaque")
    assert await here.verify("opaque") is access
    assert requests.asked == [INTROSPECTION]
    requests.active.clear()
    time.now += 61
    assert await fault(here, "opaque") == "inactive"
    assert not access.allows(LOOK)
    for _ in range(20):
        assert await fault(here, "opaque") == "inactive"
    assert requests.asked == [INTROSPECTION] * 2


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"aud": "https://other.example.com/mcp"}, "audience"),
        ({"aud": None}, "audience"),
        ({"iss": "https://evil.example.com"}, "issuer"),
        ({"iss": None}, "accepted"),
        ({"exp": None}, "accepted"),
        ({"exp": NOW - 60}, "expired"),
        ({"active": False}, "inactive"),
        ({"active": None}, "inactive"),
        ({"token_type": "DPoP"}, "bound"),
        ({"typ": "Refresh"}, "type"),
        ({"sub": None, "client_id": None}, "subject"),
    ],
)
async def test_the_answer_of_introspection_is_checked(changes: dict[str, Any], expected: str) -> None:
    requests = MemoryRequests(active={"opaque": claims(**{"active": True, **changes})})
    here = verifier(requests, introspection_url=INTROSPECTION, client_id="hub")
    assert await fault(here, "opaque") == expected


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"active":"yes"}', b"\xff", b"[" * 50_000])
async def test_an_answer_of_introspection_that_cannot_be_read_is_the_fault_of_the_server(
    answer: bytes,
) -> None:
    requests = MemoryRequests(documents={INTROSPECTION: answer or b" "})
    here = verifier(requests, introspection_url=INTROSPECTION, client_id="hub")
    with pytest.raises(AuthorizationServerUnavailable):
        await here.verify("opaque")


async def test_a_revoked_jwt_is_refused_if_introspection_is_always_asked() -> None:
    token = private_key().sign(claims())
    requests = MemoryRequests(active={token: {**claims(), "active": True}})
    time = TestTime()
    here = verifier(requests, time, introspection_url=INTROSPECTION, client_id="hub", always_introspect=True)
    assert await fault(here, token) == "accepted"
    requests.active.clear()
    time.now += 61
    assert await fault(here, token) == "inactive"
    forged = private_key("other").sign(claims(), kid="one")
    asked = len(requests.asked)
    assert await fault(here, forged) == "signature"
    assert len(requests.asked) == asked


async def test_many_opaque_tokens_at_once_do_not_pile_up() -> None:
    requests = MemoryRequests(held=asyncio.Event())
    here = verifier(requests, introspection_url=INTROSPECTION, client_id="hub")
    waits = [asyncio.ensure_future(here.verify(f"invented{number}")) for number in range(200)]
    await until(lambda: sum(wait.done() for wait in waits) == 200 - 64)
    # The secret is read in a thread before each request, which may take its time.
    await until(lambda: len(requests.asked) >= 8, "as many are asked about as may be at once")
    await loop_turns()
    assert len(requests.asked) == 8
    assert requests.held
    requests.held.set()
    results = await asyncio.gather(*waits, return_exceptions=True)
    assert sum(isinstance(result, AuthorizationServerUnavailable) for result in results) == 136
    assert sum(isinstance(result, TokenRefused) for result in results) == 64


async def test_a_token_without_a_scope_of_ours_says_which_scopes_help() -> None:
    with pytest.raises(ScopeMissing) as caught:
        await verifier(MemoryRequests()).verify(private_key().sign(claims(scope="email")))
    assert caught.value.scopes == ("tabane:read", "tabane:*")
    assert (caught.value.error, caught.value.status) == ("insufficient_scope", 403)


async def test_a_client_without_a_user_has_a_name_that_no_user_can_have() -> None:
    here = verifier(MemoryRequests())
    alone = await here.verify(private_key().sign(claims(sub=None, client_id="robot")))
    posing = await here.verify(private_key().sign(claims(sub="client/robot")))
    odd = await here.verify(private_key().sign(claims(sub="a\n\u202eb", name="N\x00\n\u202e")))
    assert alone.holder == "oauth:client/robot"
    assert posing.holder == "oauth:client%2Frobot"
    assert odd.holder.isascii()
    assert odd.holder.isprintable()
    assert odd.label == "N"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "alg": st.sampled_from(["none", "HS256", "ES256", "RS256", "EdDSA", "ES256K", ""]) | JSON,
        "kid": st.sampled_from(["one", "", "two"]) | JSON,
        "typ": st.sampled_from(["at+jwt", "JWT", ""]) | JSON,
        "jwk": JSON,
        "crit": JSON,
    },
)
FORGED = st.builds(
    lambda header, body, signature: f"{part(header)}.{part(body)}.{signature}",
    HEADERS | JSON | st.binary(),
    st.just(claims()) | JSON | st.binary(),
    st.binary(max_size=100).map(part) | st.text("AZaz09-_=.", max_size=100),
)


@given(FORGED | st.text(max_size=300) | st.text("ey.AQ_-=", max_size=100))
async def test_no_forged_token_is_accepted_and_none_breaks_the_verifier(token: str) -> None:
    with pytest.raises(TokenRefused):
        await verifier(MemoryRequests()).verify(token)


@given(
    st.dictionaries(st.sampled_from([*claims(), "nbf", "scp", "azp", "cnf", "typ", "nonce", "email"]), JSON)
)
async def test_no_claims_break_the_verifier(changes: dict[str, Any]) -> None:
    try:
        found = await verifier(MemoryRequests()).verify(private_key().sign({**claims(), **changes}))
    except TokenRefused:
        return
    assert found.holder.isascii()
    assert not found.allows(STOP)


@given(st.integers(0, 10_000), st.integers(1, 255))
async def test_a_token_with_one_changed_byte_is_refused(place: int, change: int) -> None:
    token = bytearray(private_key().sign(claims()).encode())
    token[place % len(token)] ^= change
    with pytest.raises(TokenRefused):
        await verifier(MemoryRequests()).verify(token.decode("latin-1"))
