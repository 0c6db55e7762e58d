"""Where requests come from: connections, proxies that are trusted, and those that are not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.hub.http.sources import AmbiguousOrigin, RequestOrigin, TrustedProxies
from tabane.settings import load_settings
from tabane.settings.addresses import networks
from tests.harness.cases import cases_beside
from tests.harness.http_hub import http_hub, http_peer, modern, request
from tests.harness.identities import GivenAccess, GivenKeys, RecordedRefusals, identities

CASES = cases_beside(__file__)

TRUSTED = TrustedProxies(networks(["10.0.0.0/8", "2001:db8::/32"]))


def origin(peer: str, /, **headers: str) -> RequestOrigin:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return TRUSTED.origin(peer, False, named, list(named.items()))


@pytest.mark.parametrize(
    ("headers", "address", "secure"), CASES["the_client_is_the_last_address_that_is_no_trusted_proxy"]
)
def test_the_client_is_the_last_address_that_is_no_trusted_proxy(
    headers: dict[str, str], address: str, secure: bool
) -> None:
    found = origin("10.0.0.1", **headers)
    assert (found.address, found.secure, found.proxied) == (address, secure, True)
    assert not found.local


def test_what_others_say_is_ignored() -> None:
    found = origin("9.9.9.9", x_forwarded_for="127.0.0.1", x_forwarded_proto="https", x_forwarded_host="x")
    assert found == RequestOrigin("9.9.9.9", False, False, None, claimed=True)
    assert not origin("127.0.0.1", x_forwarded_for="1.2.3.4").local
    assert origin("127.0.0.1").local
    assert origin("::1").local
    assert origin("::ffff:127.0.0.1").local
    assert not TRUSTED.origin("9.9.9.9", True, {}, []).local


def test_without_tls_at_the_proxy_only_what_the_proxy_sends_is_let_in() -> None:
    plain = TrustedProxies(networks(["10.0.0.0/8"]), plain=True)
    for headers in ({}, {"x-forwarded-for": "8.8.8.8", "x-forwarded-proto": "http"}):
        from_proxy = plain.origin("10.0.0.1", False, headers, list(headers.items()))
        assert (from_proxy.secure, from_proxy.tls, from_proxy.local) == (True, False, False)
        assert not plain.origin("9.9.9.9", False, headers, list(headers.items())).secure


def test_both_kinds_of_headers_are_refused() -> None:
    with pytest.raises(AmbiguousOrigin):
        origin("10.0.0.1", x_forwarded_for="1.2.3.4", forwarded="for=127.0.0.1;proto=https")


@given(st.dictionaries(
    st.sampled_from(["x_forwarded_for", "x_forwarded_proto", "x_forwarded_host"]), st.text(max_size=80)),
    st.text(max_size=120),
)  # fmt: skip
def test_no_header_makes_anybody_a_program_of_this_machine(headers: dict[str, str], forwarded: str) -> None:
    for peer in ("10.0.0.1", "9.9.9.9"):
        assert not origin(peer, **headers).local
        assert not origin(peer, forwarded=forwarded).local


@pytest.mark.parametrize("entry", ["0.0.0.0/0", "::/0", "proxy.example.com", "10.0.0.1/40", "10.0.0", ""])
def test_a_proxy_is_named_by_its_address(tmp_path: Path, entry: str) -> None:
    with pytest.raises(ConfigurationError, match="trusted_proxies"):
        networks([entry])


def test_a_hub_without_a_token_is_not_put_behind_a_proxy(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="http_token"):
        load_settings(
            {"trusted_proxies": "127.0.0.1", "http_token": False},
            {"TABANE_HOME": str(tmp_path), "HOME": str(tmp_path)},
        )


CLIENT = {
    "x_forwarded_for": "203.0.113.9",
    "x_forwarded_proto": "https",
    "x_forwarded_host": "hub.example.com",
}


async def test_a_hub_behind_a_proxy_serves_identities_alone(tmp_path: Path) -> None:
    refused = RecordedRefusals()
    given = identities(GivenKeys(a=GivenAccess("key:a")), refused=refused)
    async with http_hub(
        tmp_path, identities=given, trusted_proxies=["127.0.0.1"], hosts=["hub.example.com"]
    ) as here:
        peer = await here.peer()
        message, headers = modern(request("tools/list"))
        headers = {**headers, **CLIENT, "host": "backend:9000"}
        answer = await peer.post(message, **{**headers, "authorization": "Bearer tbn_a"})
        assert answer.status == 200
        assert answer.headers["strict-transport-security"]
        answer = await peer.post(message, **{**headers, "authorization": "Bearer tbn_x"})
        assert answer.status == 401
        assert refused.seen == [("203.0.113.9", "key")]
        assert str(here.door.token_path) not in answer.body.decode()
        answer = await peer.post(
            request("get_status"), "/rpc", **{**CLIENT, "host": "hub.example.com", "authorization": None}
        )
        assert answer.status == 401
        evil = {**headers, "x_forwarded_host": "evil.example.com", "authorization": "Bearer tbn_a"}
        assert (await peer.post(message, **evil)).status == 421
        both = {**headers, "forwarded": "for=127.0.0.1", "authorization": "Bearer tbn_a"}
        assert (await peer.post(message, **both)).status == 400


async def test_a_program_that_says_it_forwards_for_another_gets_no_open_archive(tmp_path: Path) -> None:
    async with http_peer(tmp_path) as (_, peer):
        plain = await peer.post(request("get_status"), "/rpc", authorization=None)
        assert plain.status == 200
        for name, value in (("x_forwarded_for", "1.2.3.4"), ("forwarded", "for=1.2.3.4"), ("x_real_ip", "1")):
            answer = await peer.post(request("get_status"), "/rpc", authorization=None, **{name: value})
            assert answer.status == 401
