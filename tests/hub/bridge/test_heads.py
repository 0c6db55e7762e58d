"""Ids and methods that a bridge reads from lines."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.hub.bridge import ledger
from tabane.hub.bridge.ledger import ClientMessageHead, HubMessageHead
from tabane.wire.json import error_line, request_line, result_line

IDS = st.one_of(st.integers(), st.text(max_size=30), st.none())
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=20)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
METHODS = st.sampled_from(["tools/call", "initialize", "x", "日本", 'a"b', "notifications/cancelled"])


@given(IDS, METHODS, JSON, st.permutations(["jsonrpc", "id", "method", "params"]), st.booleans())
def test_a_request_is_read_whatever_its_spelling(
    number: Any, method: str, params: Any, order: list[str], ascii_only: bool
) -> None:
    members = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    line = json.dumps({name: members[name] for name in order}, ensure_ascii=ascii_only).encode()
    assert ledger.client_heads(line) == [ClientMessageHead(ledger.canonical(number), method)]


@given(IDS, METHODS, JSON, st.permutations(["jsonrpc", "id", "method", "params"]))
def test_a_large_request_is_read_the_same(number: Any, method: str, params: Any, order: list[str]) -> None:
    members = {
        "jsonrpc": "2.0",
        "id": number,
        "method": method,
        "params": [params, {"id": 9}, "x" * ledger.LARGE],
    }
    line = json.dumps({name: members[name] for name in order}).encode()
    assert ledger.client_heads(line) == [ClientMessageHead(ledger.canonical(number), method)]


@pytest.mark.parametrize("inner", ['{"id":7}', '"\\"id\\":7}"', '"},\\"id\\":7}"'])
def test_an_id_inside_a_large_request_is_not_taken_for_its_own(inner: str) -> None:
    text = '{"id":1,"method":"m","params":{"x":"%s","y":%s}}' % ("x" * ledger.LARGE, inner)  # noqa: UP031
    assert ledger.client_heads(text.encode()) == [ClientMessageHead(b"1", "m")]


@given(st.binary(max_size=200))
def test_anything_else_is_no_message_and_does_no_harm(line: bytes) -> None:
    assert isinstance(ledger.client_heads(line), list)
    assert isinstance(ledger.hub_heads(line), list)
    assert isinstance(ledger.hub_heads(b'{"jsonrpc":"2.0","id":' + line), list)
    ledger.reason(line)
    ledger.id_at_head(line)


@given(IDS, JSON)
def test_the_answers_that_the_hub_writes_are_recognised(number: Any, value: Any) -> None:
    spelled, body = (
        json.dumps(number, ensure_ascii=False).encode("utf-8", "replace"),
        json.dumps(value).encode(),
    )
    name = ledger.canonical(json.loads(spelled))
    assert ledger.hub_heads(result_line(spelled, body).rstrip()) == [HubMessageHead(name, False, False)]
    assert ledger.hub_heads(error_line(spelled, b'{"code":1,"message":""}').rstrip()) == [
        HubMessageHead(name, False, True)
    ]


def test_a_question_of_the_hub_is_told_from_an_answer() -> None:
    assert ledger.hub_heads(request_line(3, b'"ping"', b"{}").rstrip()) == [HubMessageHead(b"3", True, False)]
    assert ledger.hub_heads(b'{"jsonrpc":"2.0","method":"notifications/progress"}') == []


def test_a_batch_is_all_its_messages() -> None:
    batch = b'[{"id":1,"method":"a"},{"method":"b"},{"id":"c","result":1},7]'
    assert ledger.client_heads(batch) == [
        ClientMessageHead(b"1", "a"),
        ClientMessageHead(None, "b"),
        ClientMessageHead(b'"c"', None),
    ]
    answers = b'[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":2,"error":{}}]'
    assert ledger.hub_heads(answers) == [
        HubMessageHead(b"1", False, False),
        HubMessageHead(b"2", False, True),
    ]


def test_ids_are_the_same_however_they_are_escaped() -> None:
    assert ledger.client_heads('{"id":"あ","method":"m"}'.encode()) == ledger.client_heads(
        b'{"id":"\\u3042","method":"m"}'
    )
    assert ledger.hub_heads('{"jsonrpc":"2.0","id":"あ","result":1}'.encode())[0].id == ledger.canonical("あ")


def test_the_reason_of_an_error() -> None:
    assert ledger.reason(b'{"id":1,"error":{"data":{"reason":"draining"}}}') == "draining"
    assert ledger.reason(b'{"id":1,"error":{"data":[]}}') is None
    assert ledger.reason(b'{"id":1,"result":{}}') is None


@pytest.mark.parametrize(
    ("head", "found"),
    [
        (b'{"jsonrpc":"2.0","id":12,"method":"tools/call","params":{"x":"yyy', b"12"),
        (b'{ "id" : "a" , "method', b'"a"'),
        (b'{"method":"tools/call","params":{"id":3,', None),
    ],
)
def test_the_id_of_a_line_of_which_only_the_head_is_left(head: bytes, found: bytes | None) -> None:
    assert ledger.id_at_head(head) == found


@given(IDS, METHODS, JSON, st.sampled_from([(",", ":"), (", ", ": ")]), st.booleans())
def test_a_plain_request_is_read_as_any_other(
    number: Any, method: str, params: Any, separators: tuple[str, str], cut: bool
) -> None:
    members = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    line = json.dumps(members, separators=separators).encode()[: -1 if cut else None]
    plain = ledger.plain_request(line)
    if plain is not None:
        assert [ClientMessageHead(plain[1], plain[2].decode())] == [
            ClientMessageHead(ledger.canonical(number), method)
        ]
        assert not cut or line.endswith(b"}")  # the server refuses a line that lost its last brace alone


@given(st.one_of(IDS, st.sampled_from(["007", 7, "7"])), JSON, st.booleans())
def test_a_plain_result_is_read_as_any_other(number: Any, value: Any, failed: bool) -> None:
    name = json.dumps(number).encode()
    make = error_line if failed else result_line
    line = make(name, json.dumps(value).encode()).rstrip(b"\n")
    plain = ledger.plain_result(line)
    assert plain is None or ledger.hub_heads(line) == [HubMessageHead(plain, False, False)]
    assert (plain is not None) == (type(number) is int and number >= 0 and not failed)


def test_a_question_of_the_hub_is_no_plain_result() -> None:
    assert ledger.plain_result(b'{"jsonrpc":"2.0","id":1,"method":"ping"}') is None
    assert ledger.plain_result(b'{"jsonrpc":"2.0","id":1,"error":{}}') is None
    assert ledger.plain_result(b'{"jsonrpc":"2.0","id":1') is None
