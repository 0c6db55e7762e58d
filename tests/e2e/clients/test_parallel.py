"""Parallel calls: ordered, bounded, independent, and canceled together."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tabane.errors import BadArguments, UnknownName
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.caller import LocalAccess
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, child, running_hub, text

PROGRAM = Caller("local", Face.RPC, "program")


def request(name: str, /, **arguments: Any) -> Json:
    return {"name": name, "arguments": arguments}


async def execute(here: RunningHub, *requests: Json, caller: Caller = PROGRAM, **params: Any) -> Json:
    """The report of execute_parallel, as a program gets it."""
    body = json.dumps({"requests": list(requests), **params}).encode()
    value = await here.hub.door.invoke(caller, "execute_parallel", body)
    report: Json = json.loads(msgspec.json.encode(value))
    return report


async def test_results_come_in_order_each_with_its_own_fate(tmp_path: Path) -> None:
    async with running_hub(
        tmp_path, {"one": child(), "two": child("--era", "modern"), "three": child()}
    ) as here:
        report = await execute(
            here,
            request("one__wait", seconds=0.2),
            request("two.echo", n=1),
            request("one__ecko"),
            request("one__wait", seconds="soon"),
            request("two__fail", text="told"),
            request("one__refuse", code=-31000),
            request("three__crash"),
            {"name": "two__pid"},
        )
        rows = report["results"]
        assert [row["ok"] for row in rows] == [True, True, False, False, False, False, False, True]
        assert [row["name"] for row in rows[:3]] == ["one__wait", "two.echo", "one__ecko"]
        assert rows[0]["ms"] >= 200
        assert rows[1]["result"]["structuredContent"] == {"n": 1}
        assert rows[2]["error"]["code"] == -32602
        assert "one__echo" in rows[2]["error"]["data"]["near"]
        assert "seconds" in rows[3]["error"]["message"]
        assert rows[4]["result"]["isError"] is True
        assert "-31000" in rows[5]["error"]["message"]
        assert "ended during the call" in rows[6]["error"]["message"]
        assert (report["succeeded"], report["failed"]) == (3, 5)


async def test_no_more_run_at_once_than_asked_for_and_than_the_server_bears(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(), "narrow": child(maxConcurrency=2)}) as here:
        line = await here.connect()
        for server, asked, expected in (("up", 3, 3), ("narrow", 50, 2)):
            await line.call(f"{server}__echo")
            (instance,) = here.hub.gateway.instances(server)
            requests = [request(f"{server}__wait", seconds=0.05) for _ in range(20)]
            working = asyncio.ensure_future(execute(here, *requests, max_concurrency=asked))
            most = 0
            while not working.done():
                assert instance.connection is not None
                most = max(most, instance.connection.conversation.in_flight)
                await asyncio.sleep(0.005)
            assert most == expected
            assert (await working)["succeeded"] == 20


async def test_a_failure_ends_the_rest_where_that_is_wished(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        requests = [request("up__hang"), request("up__fail"), *[request("up__count")] * 5]
        report = await execute(here, *requests, max_concurrency=2, continue_on_error=False)
        errors = [row.get("error", {}).get("message", "") for row in report["results"]]
        assert report["failed"] == 7
        assert errors[0].startswith("Cancelled because another call failed.")
        assert errors[1] == ""
        assert errors[2:] == ["Not called because another call failed."] * 5
        (instance,) = here.hub.gateway.instances("up")
        assert instance.in_flight == 0
        line = await here.connect()
        assert text(await line.call("up__count")) == "1"


async def test_the_timeout_is_for_all_together(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        assert (await execute(here, request("up__echo")))["succeeded"] == 1
        requests = [request("up__echo", n=1), request("up__hang"), request("up__echo")]
        report = await execute(here, *requests, max_concurrency=1, timeout=5.0)
        assert [row["ok"] for row in report["results"]] == [True, False, False]
        messages = [row["error"]["message"] for row in report["results"][1:]]
        assert messages[0].startswith("Cancelled because the time for all calls (5 s) ran out.")
        assert messages[1] == "Not called because the time for all calls (5 s) ran out."


async def test_a_caller_that_gives_up_leaves_no_call_behind(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect()
        await line.call("up__echo")
        (instance,) = here.hub.gateway.instances("up")
        requests = [request("up__hang")] * 5 + [request("up__count")] * 5
        working = asyncio.ensure_future(execute(here, *requests, max_concurrency=5))
        await until(lambda: instance.in_flight == 5, "they hang")
        working.cancel()
        await until(lambda: instance.in_flight == 0, "they are cancelled")
        assert text(await line.call("up__count")) == "1"


class NoHarm(LocalAccess):
    """Lets everything pass but one tool."""

    everything = False

    def allows(self, target: CallTarget) -> bool:
        return target.name != "up__count"


async def test_each_tool_wants_its_own_permission(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        caller = Caller("key", Face.RPC, "1", access=NoHarm())
        await (await here.connect()).call("up__echo")
        report = await execute(here, request("up__count"), request("up__echo"), caller=caller)
        assert [row["ok"] for row in report["results"]] == [False, True]
        assert "Unknown tool: up__count" in report["results"][0]["error"]["message"]


async def test_it_is_no_tool_of_an_assistant(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        assistant = Caller("local", Face.MCP, "1")
        with pytest.raises(UnknownName):
            await execute(here, request("up__echo"), caller=assistant)
        line = await here.connect()
        asked = {"name": "execute_parallel", "arguments": {"requests": [request("up__echo")]}}
        assert (await line.request("tools/call", asked))["error"]["code"] == -32602


@pytest.mark.parametrize(
    ("params", "parameter"),
    [
        ({"requests": []}, "requests"),
        ({"requests": [request("up__echo")] * 101}, "requests"),
        ({"requests": [{"arguments": {}}]}, "requests[0]"),
        ({"requests": [request("x")], "max_concurrency": 51}, "max_concurrency"),
        ({"requests": [request("x")], "maxConcurrency": 0}, "max_concurrency"),
        ({"requests": [request("x")], "timeout": 0}, "timeout"),
        ({"requests": [request("x")], "continue_on_error": "no"}, "continue_on_error"),
    ],
)
async def test_wrong_parameters_are_named(tmp_path: Path, params: Json, parameter: str) -> None:
    async with running_hub(tmp_path, {}) as here:
        with pytest.raises(BadArguments) as caught:
            await here.hub.door.invoke(PROGRAM, "execute_parallel", json.dumps(params).encode())
        assert (caught.value.parameter or "").startswith(parameter)


async def test_the_names_of_the_original_are_understood(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        report = await execute(
            here, request("up__fail"), request("up__pid"), maxConcurrency=1, continueOnError=False
        )
        assert [row["ok"] for row in report["results"]] == [False, False]


async def test_results_that_are_too_large_together_are_left_out_one_by_one(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        large = request("up__huge", bytes=20 << 20)
        report = await execute(here, large, large, request("up__echo", n=1), max_concurrency=1)
        first, second, third = report["results"]
        assert [first["ok"], second["ok"], third["ok"]] == [True, False, True]
        assert len(text(first["result"])) == 20 << 20
        assert "32 MiB" in second["error"]["message"]
        assert third["result"]["structuredContent"] == {"n": 1}
