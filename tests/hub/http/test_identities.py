"""Identities over HTTP and WebSocket: who is known by what, and what is one's own."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import websockets
from hypothesis import given, settings
from hypothesis import strategies as st

from tabane.hub.http.door import HttpWaits
from tests.harness.http_hub import BOTH, HttpClient, HttpHub, call, http_hub, http_peer, modern, request
from tests.harness.identities import (
    GivenAccess,
    GivenKeys,
    GivenProfiles,
    GivenTokens,
    RecordedRefusals,
    identities,
)
from tests.harness.patience import until
from tests.harness.running_hub import SOON, child

MCP_FULL = "/mcp/full"
SOONER = HttpWaits(revoked=0.05)


def as_(name: str) -> str:
    return f"Bearer tbn_{name}"


async def listed(peer: HttpClient, shown: str | None, path: str = "/mcp/full") -> Any:
    """The answer to a request of 2026-07-28 with that Authorization header."""
    message, headers = modern(request("tools/list"))
    return await peer.post(message, path, **{**headers, "authorization": shown})


async def test_the_token_a_key_and_a_token_of_oauth_are_known_and_nothing_else_is(tmp_path: Path) -> None:
    keys, tokens = GivenKeys(a=GivenAccess("key:a")), GivenTokens(good=GivenAccess("oauth:me"))
    async with http_peer(tmp_path, identities=identities(keys, tokens)) as (here, peer):
        for shown in (here.bearer, as_("a"), "Bearer good", "bearer  good"):
            assert (await listed(peer, shown)).status == 200
        for shown in (None, "Bearer tbn_b", "Bearer other", "Basic tbn_a", "tbn_a", "Bearer tbn_a x"):
            assert (await listed(peer, shown)).status == 401, shown
        assert "tbn_b" not in tokens.asked


async def test_a_refusal_is_the_same_for_each_wrong_key(tmp_path: Path) -> None:
    gone = GivenAccess("key:gone")
    gone.ended = True
    async with http_peer(tmp_path, identities=identities(GivenKeys(gone=gone))) as (_, peer):
        answers = [await listed(peer, as_(name)) for name in ("gone", "never")]
        assert [answer.status for answer in answers] == [401, 401]
        assert answers[0].body == answers[1].body
        assert answers[0].headers["www-authenticate"] == answers[1].headers["www-authenticate"]


async def test_a_key_in_the_address_is_not_looked_at(tmp_path: Path) -> None:
    async with http_peer(tmp_path, identities=identities(GivenKeys(a=GivenAccess("key:a")))) as (_, peer):
        for path in ("/mcp/full?key=tbn_a", "/mcp/full?access_token=tbn_a", "/mcp/full?token=tbn_a"):
            assert (await listed(peer, None, path)).status == 401


async def session_of(peer: HttpClient, shown: str, path: str = "/mcp/full") -> dict[str, str | None]:
    """A session of the handshake era, as the headers of its requests."""
    params = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    answer = await peer.post(request("initialize", params, 0), path, authorization=shown)
    assert answer.status == 200, answer
    return {
        "mcp_session_id": answer.headers["mcp-session-id"],
        "mcp_protocol_version": "2025-11-25",
        "authorization": shown,
    }


async def test_a_session_belongs_to_the_identity_that_made_it(tmp_path: Path) -> None:
    keys = GivenKeys(a=GivenAccess("key:a"), b=GivenAccess("key:b"))
    async with http_peer(tmp_path, {"small": child()}, identities=identities(keys)) as (here, peer):
        own = await session_of(peer, as_("a"))
        assert (await peer.post(request("tools/list"), MCP_FULL, **own)).status == 200
        unknown = await peer.post(
            request("tools/list"), MCP_FULL, **{**own, "mcp_session_id": "x" * 32, "authorization": as_("b")}
        )
        for other in (as_("b"), str(here.bearer)):
            stolen = {**own, "authorization": other}
            answer = await peer.post(request("tools/list"), MCP_FULL, **stolen)
            assert (answer.status, answer.body) == (404, unknown.body)
            assert (await peer.get("/mcp/full", accept=BOTH, **stolen)).status == 404
            named = {name.replace("_", "-"): value for name, value in stolen.items()}
            peer.send("DELETE", "/mcp/full", named)
            assert (await peer.answer()).status == 404
        assert (await peer.post(request("tools/list"), MCP_FULL, **own)).status == 200


async def test_the_parts_of_a_long_result_are_read_by_nobody_else(tmp_path: Path) -> None:
    keys = GivenKeys(a=GivenAccess("key:a"), b=GivenAccess("key:b"))
    servers = {"small": child()}
    async with http_peer(tmp_path, servers, identities=identities(keys), result_tokens=1000) as (here, peer):
        asked = call("call_tool", name="small__echo", arguments={"text": "long " * 5_000})
        message, headers = modern(asked)
        peer.send_message(message, **{**headers, "authorization": as_("a")})
        handles = re.findall(r"\b[0-9a-f]{12,}\.\d+", json.dumps(await peer.reply()))
        name = handles[-1]
        for shown, found in ((as_("b"), False), (str(here.bearer), False), (as_("a"), True)):
            message, headers = modern(call("read_more", handle=name))
            peer.send_message(message, **{**headers, "authorization": shown})
            reply = await peer.reply()
            assert ("long long" in json.dumps(reply)) == found, shown


async def test_a_revoked_key_ends_its_sessions_and_streams(tmp_path: Path) -> None:
    access = GivenAccess("key:a")
    given = identities(GivenKeys(a=access, b=GivenAccess("key:b")))
    async with http_hub(tmp_path, {"small": child()}, identities=given, waits=SOONER) as here:
        peer, other, single, kept = [await here.peer() for _ in range(4)]
        own, others = await session_of(peer, as_("a")), await session_of(kept, as_("b"))
        peer.send("GET", "/mcp/full", {**_dashed(own), "accept": BOTH})
        assert (await peer.head()).status == 200
        kept.send("GET", "/mcp/full", {**_dashed(others), "accept": BOTH})
        assert (await kept.head()).status == 200
        message, headers = modern(
            request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        )
        single.send_message(message, **{**headers, "authorization": as_("a")})
        assert (await single.head()).status == 200
        access.ended = True
        assert (await other.post(request("tools/list"), MCP_FULL, **own)).status == 401
        while await single.event():
            pass
        while await peer.event():
            pass
        assert len(list(here.hub.sessions)) == 1
        assert (await other.post(request("tools/list"), MCP_FULL, **others)).status == 200


def _dashed(headers: dict[str, str | None]) -> dict[str, str | None]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


async def test_a_revoked_key_ends_its_websocket(tmp_path: Path) -> None:
    access = GivenAccess("key:a")
    keys = GivenKeys(a=access)
    async with http_hub(tmp_path, identities=identities(keys), waits=SOONER) as here:
        for protocols in ([], ["mcp"]):
            access.ended = False
            async with websockets.connect(
                here.url("/rpc"),
                additional_headers={"Authorization": as_("a")},
                subprotocols=protocols or None,  # type: ignore[arg-type]
            ) as socket:
                access.ended = True
                await asyncio.wait_for(socket.wait_closed(), SOON)
                assert socket.close_code == 1008
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(here.url("/rpc"), additional_headers={"Authorization": as_("a")})
        assert refused.value.response.status_code == 401


async def test_a_message_after_the_revocation_is_not_answered(tmp_path: Path) -> None:
    access = GivenAccess("key:a")
    keys, slow = GivenKeys(a=access), HttpWaits(revoked=3600)
    async with (
        http_hub(tmp_path, identities=identities(keys), waits=slow) as here,
        websockets.connect(here.url(), additional_headers={"Authorization": as_("a")}) as socket,
    ):
        access.ended = True
        await socket.send(json.dumps(request("get_status")))
        with pytest.raises(websockets.ConnectionClosed):
            await asyncio.wait_for(socket.recv(), SOON)
        assert socket.close_code == 1008


async def test_a_token_of_oauth_opens_a_websocket_after_it_was_verified(tmp_path: Path) -> None:
    tokens = GivenTokens(good=GivenAccess("oauth:me"))
    async with http_hub(tmp_path, identities=identities(None, tokens)) as here:
        async with websockets.connect(
            here.url("/rpc"),
            additional_headers={"Authorization": "Bearer good"},
            subprotocols=["mcp"],  # type: ignore[list-item]
        ) as socket:
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t"}}
            params["clientInfo"]["version"] = "1"  # type: ignore[index]
            await socket.send(json.dumps(request("initialize", params)))
            assert "serverInfo" in str(await asyncio.wait_for(socket.recv(), SOON))
        with pytest.raises(websockets.InvalidStatus) as refused:
            await websockets.connect(here.url("/rpc"), additional_headers={"Authorization": "Bearer bad"})
        assert refused.value.response.status_code == 401
        await until(lambda: here.door.connections == 0, "nothing is left")


async def test_a_profile_is_a_path_and_narrows(tmp_path: Path) -> None:
    keys = GivenKeys(a=GivenAccess("key:a"))
    profiles = GivenProfiles(work=("small__*",), home=("none",))
    given = identities(keys, profiles=profiles)
    async with http_peer(tmp_path, {"small": child()}, identities=given) as (_, peer):
        for path in ("/mcp/p/work", "/mcp/p/work/full", "/mcp/p/home/search"):
            assert (await listed(peer, as_("a"), path)).status == 200
        answer = await listed(peer, as_("a"), "/mcp/p/wrok")
        assert answer.status == 404
        assert "work" in answer.json["error"]["message"]
        answer = await listed(peer, None, "/mcp/p/wrok")
        assert answer.status == 401
        assert "work" not in answer.body.decode()
        for path in ("/mcp/p", "/mcp/p/", "/mcp/p/work/none", "/mcp/p/work/full/x", "/mcp/full/p/work"):
            assert (await listed(peer, as_("a"), path)).status == 404
        own = await session_of(peer, as_("a"), "/mcp/p/work/full")
        assert (await peer.post(request("tools/list"), "/mcp/p/work", **own)).status == 200
        for path in ("/mcp", "/mcp/p/home"):
            assert (await peer.post(request("tools/list"), path, **own)).status == 404


async def test_failed_attempts_are_slowed_down_and_reported_and_valid_keys_are_not(tmp_path: Path) -> None:
    refused = RecordedRefusals()
    given = identities(GivenKeys(a=GivenAccess("key:a")), refused=refused)
    async with http_peer(tmp_path, identities=given) as (here, peer):
        peers = [await here.peer() for _ in range(40)]
        tried = [asyncio.ensure_future(listed(one, as_(f"wrong{n}"))) for n, one in enumerate(peers)]
        await asyncio.wait(tried, timeout=SOON, return_when=asyncio.FIRST_COMPLETED)
        assert (await listed(peer, as_("a"))).status == 200
        answers = [await one for one in tried]
        statuses = {answer.status for answer in answers}
        assert statuses == {401, 429}
        late = next(answer for answer in answers if answer.status == 429)
        assert int(late.headers["retry-after"]) >= 1
        assert late.json["error"]["data"]["retryAfterSeconds"] >= 1
        assert set(refused.seen) == {("127.0.0.1", "key")}
        page = (await peer.get("/metrics")).body.decode()
        assert 'tabane_http_refused_total{reason="limited"}' in page
        assert f'tabane_http_refused_total{{reason="key"}} {len(refused.seen)}' in page


async def test_a_client_that_leaves_while_its_refusal_waits_leaves_nothing_behind(tmp_path: Path) -> None:
    async with http_hub(tmp_path, identities=identities(GivenKeys())) as here:
        for _ in range(12):
            peer = await here.peer()
            message, headers = modern(request("tools/list"))
            peer.send_message(message, **{**headers, "authorization": as_("wrong")})
            peer.abort()
        await until(lambda: here.door.connections == 0, "nothing is left")
        assert not here.door.busy


@settings(max_examples=60, deadline=None)
@given(st.lists(st.binary(max_size=200).map(lambda b: b.replace(b"\r", b"").replace(b"\n", b"")), max_size=4))
def test_no_authorization_header_that_was_made_up_lets_anybody_in(values: list[bytes]) -> None:
    from tabane.hub.http.authentication import Authenticator
    from tabane.wire.http import bearer

    authenticator = Authenticator("s" * 43, identities(GivenKeys(a=GivenAccess("key:a"))), None)  # type: ignore[arg-type]
    for value in values:
        for prefix in ("", "Bearer ", "Bearer tbn_", "bearer tbn_a"):
            shown = bearer(prefix + value.decode("latin-1"))
            if shown and shown not in ("tbn_a", "s" * 43):
                assert authenticator.known(shown) is None


async def test_made_up_authorization_headers_are_refused_on_the_wire(tmp_path: Path) -> None:
    values = [
        *("Bearer", "Bearer ", "Bearer tbn_", "Bearer " + "A" * 20_000, "Bearer tbn_a\ttbn_a"),
        *("Bearer tbn_a,", "Bearer tbn_a;x", "Bearer\ttbn_a", "BEARER=tbn_a", "Bearer \xfftbn_a"),
        *(
            "Bearer tbn_A",
            "Bearer tbn_a=",
            "Bearer null",
            "Bearer undefined",
            "Negotiate tbn_a",
            "Bearer %74bn_a",
        ),
    ]
    async with http_hub(tmp_path, identities=identities(GivenKeys(a=GivenAccess("key:a")))) as here:
        answers = await asyncio.gather(*(_once(here, value) for value in values))
        assert {answer.status for answer in answers} <= {400, 401, 429}
        peer = await here.peer()
        peer.write(
            b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            b"Authorization: Bearer x\r\nAuthorization: Bearer tbn_a\r\n\r\n"
        )
        assert (await peer.answer()).status == 400


async def _once(here: HttpHub, shown: str) -> Any:
    return await listed(await here.peer(), shown)


async def test_metrics_name_servers_to_administrators_only(tmp_path: Path) -> None:
    keys = GivenKeys(admin=GivenAccess("key:admin", admin=True), plain=GivenAccess("key:plain"))
    async with http_peer(tmp_path, {"small": child()}, identities=identities(keys)) as (here, peer):
        for shown, named in ((as_("admin"), True), (here.bearer, True), (as_("plain"), False), (None, False)):
            answer = await peer.get("/metrics", authorization=shown)
            assert answer.status == 200
            assert (b'server="small"' in answer.body) == named
        assert (await peer.get("/metrics", authorization=as_("wrong"))).status == 401
