"""Messages in every spelling that servers and clients use; what leaves the hub is JSON."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import get_args

import pytest

from tests.conftest import ROOT
from tests.harness.http_hub import http_hub
from tests.harness.running_hub import Client, Json, SocketClient, running_hub, text


def spelling(*ways: str) -> Json:
    arguments = ["-m", "tests.harness.servers.spelling", *ways]
    return {"command": sys.executable, "args": arguments, "cwd": str(ROOT), "timeout": 20}


WAYS = [(), ("marks",), ("text-ids",), ("float-ids",), ("id-last",), ("undeclared",)]


@pytest.mark.parametrize("ways", WAYS)
async def test_a_server_is_understood_in_every_spelling(tmp_path: Path, ways: tuple[str, ...]) -> None:
    async with running_hub(tmp_path, {"up": spelling(*ways)}) as here:
        line = await here.connect(mode="full")
        names = [tool["name"] for tool in (await line.result("tools/list"))["tools"]]
        assert {"up__echo", "up__odd", "up__slow", "up__scaled"} <= set(names)
        assert text(await line.call("up__echo", n=1)) == '{"n": 1}'


@pytest.mark.parametrize("client", get_args(Client))
async def test_a_client_may_begin_its_lines_with_a_byte_order_mark(tmp_path: Path, client: Client) -> None:
    async with running_hub(tmp_path, {"up": spelling()}) as here:
        line = await here.connect(client)
        send = line.send_raw
        line.send_raw = lambda data: send(b"\xef\xbb\xbf" + data)  # type: ignore[method-assign]
        assert text(await line.call("up__echo", n=1)) == '{"n": 1}'


async def failure_of(line: SocketClient, method: str, params: Json) -> str:
    answer = await line.request(method, params)
    assert "error" in answer or answer["result"].get("isError"), answer
    return json.dumps(answer)


@pytest.mark.parametrize("client", get_args(Client))
@pytest.mark.parametrize("ways", [(), ("id-last",)])
async def test_a_result_that_is_not_json_is_an_error_at_once(
    tmp_path: Path, client: Client, ways: tuple[str, ...]
) -> None:
    async with running_hub(tmp_path, {"up": spelling(*ways)}) as here:
        line = await here.connect(client, mode="full")
        asked: list[tuple[str, Json]] = [
            ("tools/call", {"name": "up__odd", "arguments": {}}),
            ("tools/call", {"name": "call_tool", "arguments": {"name": "up__odd"}}),
            ("resources/read", {"uri": "odd://a"}),
            ("prompts/get", {"name": "up__ask", "arguments": {}}),
        ]
        for method, params in asked:
            assert "NaN or Infinity" in await failure_of(line, method, params)
        tools = {tool["name"]: tool for tool in (await line.result("tools/list"))["tools"]}
        assert tools["up__scaled"]["inputSchema"]["properties"] == {"by": {"type": "number"}}
        (resource,) = [
            each for each in (await line.result("resources/list"))["resources"] if each["uri"] == "odd://a"
        ]
        assert "size" not in resource
        assert [each["name"] for each in (await line.result("prompts/list"))["prompts"]] == ["up__ask"]
        assert line.unexpected == []


async def test_progress_that_is_no_number_is_not_passed_on(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": spelling()}) as here:
        line = await here.connect()
        params = {"name": "up__slow", "arguments": {}, "_meta": {"progressToken": "p"}}
        assert text(await line.result("tools/call", params)) == "slowly"
        told = [each["params"]["progress"] for each in line.notifications if "progress" in each["method"]]
        assert told == [1, 3]


async def test_a_request_that_is_not_json_is_refused_by_its_id(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": spelling()}) as here:
        line = await here.connect()
        awaited = line.expect(77)
        line.send_raw(
            b'{"jsonrpc":"2.0","id":77,"method":"tools/call",'
            b'"params":{"name":"up__echo","arguments":{"n":NaN}}}\n'
        )
        assert (await awaited)["error"]["code"] == -32700


async def test_bytes_that_grow_beyond_the_limit_when_they_are_replaced_fail_their_call_alone(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": spelling()}, max_line=1 << 20, outbox=1 << 20) as here:
        line = await here.connect()
        assert "MiB can be sent" in await failure_of(line, "tools/call", {"name": "up__garbage"})
        assert text(await line.call("up__echo", n=1)) == '{"n": 1}'


async def test_rpc_and_http_answer_with_json_too(tmp_path: Path) -> None:
    async with http_hub(tmp_path, {"up": spelling()}) as served:
        client = await served.peer()
        asked = {"jsonrpc": "2.0", "id": 1, "method": "call_tool", "params": {"name": "up__odd"}}
        answer = await client.post(asked, "/rpc")
        assert b"NaN or Infinity" in answer.body
        assert b":NaN" not in answer.body.replace(b" ", b"")
