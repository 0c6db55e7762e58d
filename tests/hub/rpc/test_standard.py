"""The examples of JSON-RPC 2.0 (section 7 of its specification), and every legal id, on each way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.wire.websocket import WebSocketMessage
from tests.harness.http_hub import request
from tests.harness.rpc_hub import RpcHub, rpc_frames, rpc_hub
from tests.hub.rpc.test_post import post

ECHO = {"jsonrpc": "2.0", "method": "echo", "params": {"text": "a"}}
DONE = {"jsonrpc": "2.0", "result": "a"}
NOT_A_REQUEST = {"id": None, "code": -32600}

EXAMPLES: list[tuple[str, Any]] = [
    (json.dumps({**ECHO, "id": 1}), {**DONE, "id": 1}),
    # Members in any order.
    ('{"id":4,"params":{"text":"a"},"method":"echo","jsonrpc":"2.0"}', {**DONE, "id": 4}),
    (json.dumps(ECHO), None),
    ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}', {"id": "1", "code": -32601}),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', {"id": None, "code": -32700}),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', NOT_A_REQUEST),
    (
        '[{"jsonrpc": "2.0", "method": "sum", "id": "1"},{"jsonrpc": "2.0", "method"]',
        {"id": None, "code": -32700},
    ),
    ("[]", NOT_A_REQUEST),
    ("[1]", [NOT_A_REQUEST]),
    ("[1,2,3]", [NOT_A_REQUEST] * 3),
    (
        json.dumps(
            [
                {**ECHO, "id": "1"},
                ECHO,
                {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
                {"foo": "boo"},
                {**ECHO, "id": "9"},
            ]
        ),
        [{**DONE, "id": "1"}, {"id": "5", "code": -32601}, NOT_A_REQUEST, {**DONE, "id": "9"}],
    ),
    (json.dumps([ECHO, ECHO]), None),
    # Parameters by position: none of our methods has them.
    ('{"jsonrpc": "2.0", "method": "echo", "params": [42, 23], "id": 1}', {"id": 1, "code": -32602}),
    ('{"jsonrpc": "1.0", "method": "echo", "id": 1}', {"id": 1, "code": -32600}),
    ('{"method": "echo", "id": 1}', {"id": 1, "code": -32600}),
    ('{"jsonrpc": "2.0", "method": "echo", "params": "bar", "id": 1}', {"id": 1, "code": -32600}),
    ('{"jsonrpc": "2.0", "id": 1}', {"id": 1, "code": -32600}),
    ('{"jsonrpc": "2.0", "method": "echo", "id": {}}', NOT_A_REQUEST),
    ('{"jsonrpc": "2.0", "method": "echo", "id": [1]}', NOT_A_REQUEST),
    ('{"jsonrpc": "2.0", "method": "echo", "id": true}', NOT_A_REQUEST),
    ('{"jsonrpc": "2.0", "method": "echo", "id": -Infinity}', {"id": None, "code": -32700}),
    ('{"jsonrpc": "2.0", "method": "echo", "id": NaN}', {"id": None, "code": -32700}),
    (
        '{"jsonrpc": "2.0", "method": "fail", "id": 1}',
        {"id": 1, "code": -32603, "data": {"reason": "internal"}},
    ),
    (
        '{"jsonrpc": "2.0", "method": "loading", "id": 1}',
        {"id": 1, "code": -32603, "data": {"reason": "loading"}},
    ),
    ("7", NOT_A_REQUEST),
    ('"x"', NOT_A_REQUEST),
    ("null", NOT_A_REQUEST),
    ("", {"id": None, "code": -32700}),
    ('{"jsonrpc": "2.0", "method": "echo", "id": 1} x', {"id": None, "code": -32700}),
]


def short(answer: Any) -> Any:
    """An answer as it stands in the table: of an error the code, and the data where it is asked for."""
    if isinstance(answer, list):
        return [short(one) for one in answer]
    assert answer.pop("jsonrpc") == "2.0"
    if "error" not in answer:
        return answer | {"jsonrpc": "2.0"}
    assert isinstance(answer["error"]["message"], str)
    return {"id": answer["id"], "code": answer["error"]["code"], "data": answer["error"].get("data")}


def fits(answer: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(answer) == len(expected)
        for one, other in zip(answer, expected, strict=True):
            fits(one, other)
    elif "code" in expected:
        assert {name: answer[name] for name in expected} == expected
    else:
        assert answer == expected


async def over_websocket(here: RpcHub, text: str, told: bool) -> Any:
    frames = await here.frames()
    frames.write(text.encode())
    if not told:
        return await frames.next()
    # What is only told has no answer: the first that comes is that of the next question.
    assert (await frames.ask("echo", {}, "next"))["id"] == "next"
    return None


async def over_post(here: RpcHub, text: str, told: bool) -> Any:
    client = await here.peer()
    client.send("POST", "/rpc", {"content-type": "application/json", "authorization": None}, text.encode())
    head = await client.head()
    if head.status == 204:
        return None
    assert head.status == 200
    return json.loads(await client.reader.readexactly(int(head.headers["content-length"])))


@pytest.mark.parametrize("way", [over_websocket, over_post])
async def test_the_examples_of_the_standard(tmp_path: Path, way: Any) -> None:
    async with rpc_hub(tmp_path) as here:
        for text, expected in EXAMPLES:
            answer = await way(here, text, expected is None)
            if expected is None:
                assert answer is None, text
            else:
                fits(short(answer), expected)


numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
ids = st.one_of(
    (numbers | st.text() | st.none()).map(json.dumps),
    st.sampled_from(["1.0", "1e3", "-0", "1E400", "0.1", "null", "123456789012345678901234567890", '""']),
)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ids, min_size=30, max_size=60, unique=True))
async def test_every_legal_id_comes_back_as_it_was_written(tmp_path: Path, written: list[str]) -> None:
    async with rpc_frames(tmp_path) as (here, frames):
        for text in written:
            frames.write(f'{{"jsonrpc":"2.0","method":"echo","id":{text}}}'.encode())
            answer = f'{{"jsonrpc":"2.0","id":{text},"result":""}}'
            assert await frames.event() == WebSocketMessage(answer.encode(), True)
        assert (await post(await here.peer(), request("echo"))).status == 200
