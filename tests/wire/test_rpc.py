"""JSON-RPC 2.0 as specified."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments, HubError, UnknownName
from tabane.messages import say
from tabane.wire import rpc
from tabane.wire.rpc import InvalidRequest, Request, RpcMessage


def invalid(message: RpcMessage) -> list[Any]:
    """The errors that the parts of a message are answered with, as (id, code)."""
    found = [json.loads(part.answer) for part in message.parts if isinstance(part, InvalidRequest)]
    return [(answer["id"], answer["error"]["code"]) for answer in found]


@given(
    st.one_of(
        st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20), st.none()
    ),
    st.text(max_size=20),
    st.lists(st.integers()) | st.dictionaries(st.text(max_size=5), st.integers()),
)
def test_a_request_is_read_and_its_id_kept_as_written(number: Any, method: str, params: Any) -> None:
    line = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params}).encode()
    message = rpc.read(line)
    assert not message.batch
    (part,) = message.parts
    assert isinstance(part, Request)
    assert part.id == json.dumps(number).encode()
    assert (part.method, json.loads(part.params)) == (method, params)


def test_a_request_without_id_is_a_notification_and_without_params_has_none() -> None:
    assert rpc.read(b'{"jsonrpc":"2.0","method":"m"}') == RpcMessage([Request(None, "m", b"{}")], False)


@pytest.mark.parametrize(
    ("line", "errors"),
    [
        (b"{", [(None, -32700)]),
        (b"", [(None, -32700)]),
        (b'{"jsonrpc":"2.0","method":"m"', [(None, -32700)]),
        (b'[{"jsonrpc":"2.0"', [(None, -32700)]),
        (b"\xff\xfe", [(None, -32700)]),
        (b"[]", [(None, -32600)]),
        (b"7", [(None, -32600)]),
        (b'"x"', [(None, -32600)]),
        (b"[1,{}]", [(None, -32600), (None, -32600)]),
        (b'{"method":"m","id":1}', [(1, -32600)]),
        (b'{"jsonrpc":"1.0","method":"m","id":1}', [(1, -32600)]),
        (b'{"jsonrpc":"2.0","method":1,"id":"a"}', [("a", -32600)]),
        (b'{"jsonrpc":"2.0","id":1}', [(1, -32600)]),
        (b'{"jsonrpc":"2.0","method":"m","params":"x","id":1}', [(1, -32600)]),
        (b'{"jsonrpc":"2.0","method":"m","params":null,"id":1}', [(1, -32600)]),
        (b'{"jsonrpc":"2.0","method":"m","id":{}}', [(None, -32600)]),
        (b'{"jsonrpc":"2.0","method":"m","id":true}', [(None, -32600)]),
        (b"[" + b",".join([b"1"] * (rpc.MOST_IN_BATCH + 1)) + b"]", [(None, -32600)]),
    ],
)
def test_what_is_no_request_is_answered_as_the_specification_says(line: bytes, errors: list[Any]) -> None:
    assert invalid(rpc.read(line)) == errors


def test_a_batch_keeps_its_order_and_its_good_parts() -> None:
    line = b'[{"jsonrpc":"2.0","id":1,"method":"a"}, 2, {"jsonrpc":"2.0","method":"b"}]'
    message = rpc.read(line)
    assert message.batch
    assert [part.method if isinstance(part, Request) else None for part in message.parts] == ["a", None, "b"]


@given(st.binary(max_size=200))
def test_nothing_a_peer_sends_raises(line: bytes) -> None:
    assert rpc.read(line).parts


def test_answers() -> None:
    assert rpc.result(b'"a"', {"x": [1]}) == b'{"jsonrpc":"2.0","id":"a","result":{"x":[1]}}\n'
    together = rpc.batch_answer([rpc.result(b"1", 1), rpc.result(b"2", 2)])
    assert [answer["id"] for answer in json.loads(together)] == [1, 2]
    assert together.count(b"\n") == 1


def error(line: bytes) -> Any:
    return json.loads(line)["error"]


def test_our_errors_are_told_with_what_helps() -> None:
    assert error(rpc.failure(b"1", BadArguments(say("limit: too big"), "limit"), "en")) == {
        "code": -32602,
        "message": "limit: too big",
        "data": {"parameter": "limit"},
    }
    near = UnknownName(say("Method not found: {name}", name="x"), ("y", "z"))
    assert error(rpc.failure(b"1", near, "en"))["data"] == {"near": ["y", "z"]}
    assert error(rpc.unknown_method(b"1", near, "en"))["code"] == -32601
    assert error(rpc.failure(b"1", HubError(say("gone")), "en")) == {
        "code": -32603,
        "message": "gone",
        "data": {"reason": "hub"},
    }
    assert error(rpc.internal(b"1"))["code"] == -32603
