"""Permissions over TCP: the token allows everything; without it only public operations are allowed."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect

from tabane.errors import Forbidden
from tabane.hub.context import HubContext
from tabane.hub.rpc.permission import LOOPBACK, LoopbackAccess
from tabane.hub.rpc.tcp_peers import SocketAddress, uid_in, uid_of_peer
from tabane.settings import load_settings
from tests.harness.http_hub import request
from tests.harness.rpc_hub import FakeOperations, RpcHub, rpc_hub

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the kernel's table is Linux's")


async def asked(here: RpcHub, method: str, **options: Any) -> Any:
    async with connect(here.url(), **options) as client:
        await client.send(json.dumps(request(method)))
        return json.loads(await client.recv())


async def test_without_the_token_only_what_is_public_is_served(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        assert (await asked(here, "echo"))["result"] == ""
        error = (await asked(here, "secret"))["error"]
        assert error["code"] == -31403
        assert "Authorization: Bearer" in error["message"]
        assert str(here.door.token_path) in error["message"]
        assert (await asked(here, "nothing"))["error"]["code"] == -32601
        assert [caller.identity for caller in here.works.callers] == [LOOPBACK]


async def test_the_token_opens_everything_however_it_is_shown(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        assert "result" in await asked(here, "secret", additional_headers={"authorization": here.bearer})
        offered = ["tabane.rpc", f"tabane.token.{here.door.token}"]
        async with connect(here.url(), subprotocols=offered) as client:  # type: ignore[arg-type]
            assert client.subprotocol == "tabane.rpc"
            await client.send(json.dumps(request("secret")))
            assert "result" in json.loads(await client.recv())
        assert {caller.identity for caller in here.works.callers} == {"local"}
        assert len({caller.session for caller in here.works.callers}) == 2


async def test_the_setting_closes_the_archive_and_says_so(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, open_archive=False) as here:
        assert (await asked(here, "echo"))["error"]["code"] == -31403
        assert "result" in await asked(here, "echo", additional_headers={"authorization": here.bearer})


async def test_a_hub_without_a_token_knows_everybody(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, http_token=False) as here:
        assert "result" in await asked(here, "secret")
        assert "result" in await asked(here, "secret", additional_headers={"authorization": "Bearer x"})


@LINUX
async def test_a_process_of_the_hubs_user_may_stop_it_without_the_token(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path) as here:
        assert (await asked(here, "stop_server"))["result"] == {"status": "stopping"}
        assert here.works.stopped


@pytest.mark.parametrize("uid", [None, os.getuid() + 1])
async def test_a_process_of_another_user_may_not(tmp_path: Path, uid: int | None) -> None:
    targets = {each.name: each.target for each in FakeOperations().table()}
    settings = load_settings({"home": tmp_path, "open_archive": True}, {})
    context = HubContext(settings, {}, asyncio.get_running_loop())
    other = LoopbackAccess(context, lambda: uid)
    own = LoopbackAccess(context, os.getuid)
    page = LoopbackAccess(context, os.getuid, page=True)
    for stranger in (other, page):
        with pytest.raises(Forbidden, match="needs the hub's token"):
            stranger.allows(targets["stop_server"])
    assert own.allows(targets["stop_server"])
    for access in (own, other, page):
        assert access.allows(targets["echo"])
        with pytest.raises(Forbidden, match="needs the hub's token"):
            access.allows(targets["secret"])


@LINUX
@pytest.mark.parametrize(
    ("server", "client"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("127.0.0.1", "::ffff:127.0.0.1")]
)
def test_the_kernel_says_whose_connection_it_is(server: str, client: str) -> None:
    kinds = [socket.AF_INET6 if ":" in host else socket.AF_INET for host in (server, client)]
    with socket.socket(kinds[0]) as listening, socket.socket(kinds[1]) as peer:
        try:
            listening.bind((server, 0))
        except OSError:
            pytest.skip("no IPv6 here")
        listening.listen()
        peer.connect((client, listening.getsockname()[1]))
        accepted, _ = listening.accept()
        with accepted:
            ends = SocketAddress(*accepted.getpeername()[:2]), SocketAddress(*accepted.getsockname()[:2])
            assert uid_of_peer(*ends) == os.getuid()
            assert uid_of_peer(SocketAddress(server, 1), ends[1]) is None


@pytest.mark.skipif(sys.byteorder != "little", reason="the sample is of such a machine")
def test_a_table_is_read_as_the_kernel_writes_it() -> None:
    table = [
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        "   0: 0100007F:223D 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1",
        "   1: 0100007F:223D 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 2 1",
        "   2: 0100007F:D431 0100007F:223D 01 00000000:00000000 02:0000A3B9 00000000  1001        0 3 2",
    ]
    peer, own = SocketAddress("127.0.0.1", 0xD431), SocketAddress("127.0.0.1", 0x223D)
    assert uid_in(table, peer, own) == 1001
    assert uid_in(table, own, peer) == 1000
    assert uid_in(table, SocketAddress("127.0.0.2", 0xD431), own) is None


@given(st.lists(st.text(max_size=60)))
def test_a_table_that_is_none_tells_nothing(lines: list[str]) -> None:
    assert uid_in(lines, SocketAddress("127.0.0.1", 1), SocketAddress("127.0.0.1", 2)) is None
