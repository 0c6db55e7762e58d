"""Limits over a real hub: what clients get that are over one, and that waiting as long as was said helps."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from tabane.access.limits import REFUSALS
from tabane.operations import Caller, Face
from tests.harness.http_hub import call, http_peer, modern, request
from tests.harness.patience import until
from tests.harness.rpc_hub import rpc_hub, rpc_peer
from tests.harness.running_hub import Json, child, connected_hub

ONE_CALL = '[limits.servers]\nc = { rate = "20/second", burst = 1 }\n'
"""A rate that comes back so soon that a test can wait for it."""

ONE_EVER = '[limits.servers]\nc = { rate = "1/day", burst = 1 }\n'
NO_MORE = '[tiers.local]\nrate = "1/day"\nburst = 1\n'

LIMITED = -31429


def settings(folder: Path, text: str) -> dict[str, Any]:
    folder.chmod(0o700)
    path = folder / "tabane.toml"
    path.write_text(text)
    path.chmod(0o600)
    return {"config": str(path)}


def check(error: Json) -> float:
    """The seconds that an error asks to wait."""
    assert error["code"] == LIMITED
    assert error["data"]["reason"] == "rate"
    assert error["message"].startswith("Too many calls: the limit of ")
    seconds: float = error["data"]["retryAfterSeconds"]
    assert seconds > 0
    return seconds


async def await_end(seconds: float) -> None:
    """Wait as long as the hub said: that this is enough is what is tested."""
    await asyncio.get_running_loop().create_task(asyncio.sleep(seconds))


async def test_a_call_over_its_limit_says_when_to_try_again_and_then_succeeds(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"c": child()}, **settings(tmp_path, ONE_CALL)) as (_, client):
        call = {"name": "c__echo", "arguments": {}}
        await client.request("tools/call", call)
        refused = await client.request("tools/call", call)
        while "result" in refused:  # the machine is so slow that the token has come back
            refused = await client.request("tools/call", call)
        await await_end(check(refused["error"]))
        assert "result" in await client.request("tools/call", call)


async def test_a_limit_counts_the_real_tool_however_it_is_called(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"c": child()}, **settings(tmp_path, ONE_EVER)) as (here, client):
        assert not (await client.through("c__echo")).get("isError")
        check((await client.request("tools/call", {"name": "c__echo"}))["error"])
        refused = await client.through("c__echo")
        assert refused["isError"]
        assert "Try again in" in refused["content"][0]["text"]
        program = Caller("local", Face.RPC, "program")
        body = json.dumps({"requests": [{"name": "c__echo", "arguments": {}}]}).encode()
        report = await here.hub.door.invoke(program, "execute_parallel", body)
        assert report["failed"] == 1


async def test_over_http_it_is_429_with_retry_after(tmp_path: Path) -> None:
    async with http_peer(tmp_path, {"c": child("--era", "dual")}, **settings(tmp_path, ONE_EVER)) as (
        _,
        peer,
    ):
        message, headers = modern(call("c__echo", 1))
        assert (await peer.post(message, **headers)).status == 200
        answer = await peer.post(message, **headers)
        assert answer.status == 429
        assert float(answer.headers["retry-after"]) >= check(answer.json["error"])
        assert answer.json["id"] == 1


async def test_a_client_with_a_session_gets_the_error_that_it_can_read(tmp_path: Path) -> None:
    async with http_peer(tmp_path, {"c": child()}, **settings(tmp_path, ONE_EVER)) as (here, peer):
        headers = await here.session(peer)
        assert "result" in (await peer.post(call("c__echo", 1), **headers)).json
        answer = await peer.post(call("c__echo", 2), **headers)
        assert answer.status == 200
        check(answer.json["error"])


async def test_a_program_that_posts_gets_429_and_in_a_batch_each_its_own_answer(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path, **settings(tmp_path, NO_MORE)) as (_, peer):
        body = request("echo", {"text": "hi"})
        assert (await peer.post(body, "/rpc")).status == 200
        answer = await peer.post(body, "/rpc")
        assert answer.status == 429
        assert float(answer.headers["retry-after"]) >= check(answer.json["error"])
        batch = await peer.post([body, request("echo", {}, 2)], "/rpc")
        assert batch.status == 200
        assert [check(one["error"]) > 0 for one in batch.json] == [True, True]


async def test_a_result_that_looks_like_a_refusal_is_none(tmp_path: Path) -> None:
    async with rpc_peer(tmp_path) as (_, peer):
        words = '","error":{"code":-31429,"data":{"retryAfterSeconds":5}}'
        answer = await peer.post(request("echo", {"text": words}, words), "/rpc")
        assert (answer.status, answer.json["result"], answer.json["id"]) == (200, words, words)


async def test_arguments_of_a_refused_call_are_not_read(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, **settings(tmp_path, NO_MORE)) as here:
        socket = await here.frames(authorization=here.bearer)
        assert (await socket.ask("echo", {"number": "many"}))["error"]["code"] == -32602
        check((await socket.ask("echo", {"number": "many"}))["error"])


async def test_a_program_that_ignores_refusals_is_not_read_on_and_others_are(tmp_path: Path) -> None:
    async with rpc_hub(tmp_path, **settings(tmp_path, NO_MORE)) as here:
        flood = await here.frames(authorization=here.bearer)
        for number in range(3000):
            flood.send(request("echo", {"text": "hi"}, number))
        await until(lambda: here.hub.access.limits.refused > REFUSALS.burst, "it is over its limit for long")
        other = await here.frames()
        assert (await other.ask("echo", {"text": "other"}))["result"] == "other"
        assert here.hub.access.limits.refused < 1000


async def test_changed_limits_apply_without_a_restart(tmp_path: Path) -> None:
    given = settings(tmp_path, ONE_EVER)
    async with connected_hub(tmp_path, {"c": child()}, **given) as (here, client):
        await client.call("c__echo")
        check((await client.request("tools/call", {"name": "c__echo"}))["error"])
        settings(tmp_path, "")
        await until(lambda: not here.hub.settings.limits.caps, "the settings were read again")
        assert "result" in await client.request("tools/call", {"name": "c__echo"})


async def test_calls_beyond_the_places_of_a_server_wait_for_their_turn(tmp_path: Path) -> None:
    text = "[limits.servers]\nc = { concurrency = 1 }\n"
    async with connected_hub(tmp_path, {"c": child()}, **settings(tmp_path, text)) as (here, client):
        hanging = client.begin("tools/call", {"name": "c__hang"}, request_id="h")
        await until(lambda: _row(here.hub)["in_flight"] == 1, "it runs")
        waiting = client.begin("tools/call", {"name": "c__echo"})
        cancelled = client.begin("tools/call", {"name": "c__echo"}, request_id="never")
        await until(lambda: _row(here.hub)["waiting"] == 2, "they wait")
        client.notify("notifications/cancelled", {"requestId": "never"})
        await until(lambda: _row(here.hub)["waiting"] == 1, "it no longer waits")
        client.notify("notifications/cancelled", {"requestId": "h"})
        assert "result" in await waiting
        assert not hanging.done()
        assert not cancelled.done()
        assert (_row(here.hub)["in_flight"], _row(here.hub)["waiting"]) == (0, 0)


async def test_the_statistics_name_callers_and_shared_limits(tmp_path: Path) -> None:
    async with connected_hub(tmp_path, {"c": child()}, **settings(tmp_path, ONE_EVER)) as (here, client):
        await client.call("c__echo")
        await client.request("tools/call", {"name": "c__echo"})
        program = Caller("local", Face.RPC, "program")
        found = await here.hub.door.invoke(program, "get_rate_limit_stats", b'{"holder": "local"}')
        (row,) = found["results"]
        assert (row["holder"], row["tier"], row["refused"], row["in_flight"]) == ("local", "local", 1, 0)
        assert found["refused"] == found["total"] == 1
        assert found["shared"] == [
            {"kind": "server", "pattern": "c", "tokens": 0, "in_flight": None, "waiting": None}
        ]
        nobody = await here.hub.door.invoke(program, "get_rate_limit_stats", b'{"holder": "key:x"}')
        assert nobody["results"] == []


def _row(hub: Any) -> Json:
    rows: list[Json] = list(hub.access.limits.report("local"))
    return rows[0] if rows else {"waiting": 0, "in_flight": 0}
