"""Handles in a group of hubs: a request with the handle of another hub is answered by that one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec import Raw

from tabane.group.marks import NamedHub, may_name_a_hub, named_hub, with_mark, without_mark
from tabane.wire.json import fields
from tests.harness.http_hub import HttpClient, call, modern, request
from tests.harness.hub_group import hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import Json, child
from tests.hub.clients.questions.asking import (
    ACCEPTED,
    FORM_STEP,
    able,
    answered,
    answers_to,
    asking,
    call_of,
)

SERVERS = {"up": asking(), "c": child()}
MARK = "0123abcd"


async def posted(peer: HttpClient, message: Json, **meta: object) -> Json:
    sent, headers = modern(message, **meta)
    answer = await peer.post(sent, **headers)
    found: Json = answer.json
    return found


@pytest.mark.parametrize(
    ("method", "params", "named"),
    [
        ("tools/call", {"name": "x", "requestState": f"tbq.{MARK}.1.1.1.mac"}, NamedHub(MARK, "call")),
        ("tools/call", {"name": "x", "requestState": f"tbh.{MARK}.of a server"}, NamedHub(MARK, "state")),
        ("tasks/get", {"taskId": f"task-{MARK}.secret"}, NamedHub(MARK, "task")),
        (
            "tools/call",
            {"name": "read_more", "arguments": {"handle": f"{MARK}-ff.2"}},
            NamedHub(MARK, "part"),
        ),
        (
            "subscriptions/listen",
            {"notifications": {"taskIds": [f"task-{MARK}.a", "task-b"]}},
            NamedHub(MARK, "task"),
        ),
        (
            "tools/call",
            {"name": "run_script", "arguments": {"code": f"await open_result('{MARK}-{'0f' * 9}')"}},
            NamedHub(MARK, "part"),
        ),
        ("tools/call", {"name": "run_script", "arguments": {"code": "open_result('x')"}}, None),
        ("tasks/get", {"taskId": "task-of-a-server"}, None),
        ("tools/call", {"name": "x", "arguments": {"handle": f"{MARK}-ff.2", "read_more": 1}}, None),
        ("tools/call", {"name": "read_more", "arguments": ["task-"]}, None),
        ("tools/call", {"name": "x", "requestState": ["tbq."]}, None),
    ],
)
def test_the_hub_of_a_handle_is_read_from_the_request(
    method: str, params: Json, named: NamedHub | None
) -> None:
    body = json.dumps({"method": method, "params": params}).encode()
    assert may_name_a_hub(body)
    assert named_hub(method, fields(Raw(json.dumps(params).encode()))) == named


def test_the_state_of_a_server_has_the_mark_of_its_hub_outside_and_not_inside() -> None:
    def answer(state: str) -> bytes:
        result = {"resultType": "input_required", "requestState": state, "inputRequests": {}}
        return json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()

    def repeated(state: str) -> bytes:
        params = {"name": "x", "requestState": state}
        return json.dumps({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": params}).encode()

    given = json.loads(with_mark(answer("花 tbh."), MARK))
    assert (given["id"], given["result"]["requestState"]) == (7, f"tbh.{MARK}.花 tbh.")
    again = json.loads(without_mark(repeated(given["result"]["requestState"]), {MARK}))
    assert again["params"] == {"name": "x", "requestState": "花 tbh."}
    for line in (answer(f"tbq.{MARK}.1.1.1.mac"), b'{"id":1,"result":{"text":"\\"input_required\\""}}'):
        assert with_mark(line, MARK) == line
    for line in (repeated("tbh.ffffffff.x"), repeated("tbh."), repeated("x")):
        assert without_mark(line, {MARK}) == line


@pytest.mark.heavy("a real PostgreSQL")
async def test_any_hub_continues_a_parked_call_and_reads_a_long_result(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with hubs_in_group(tmp_path, postgres, "handles", SERVERS) as group:
        first, second = group.hubs
        here, there = await first.peer(), await second.peer()
        asking_call = request("tools/call", call_of(FORM_STEP))
        asked = (await posted(here, asking_call, **able()))["result"]
        again = request("tools/call", {**call_of(FORM_STEP), **answers_to(asked, ACCEPTED)})
        result = await posted(there, again, **able())
        assert answered(result["result"]) == [[ACCEPTED]]
        assert len(first.hub.tools.questions.parked) == 0
        through = {"name": "c__huge", "arguments": {"size": 100_000}}
        long = await posted(here, call("call_tool", **through))
        more = await posted(there, call("read_more", handle=_handle(long)))
        assert not more["result"].get("isError"), more
        counted = call("read_more", handle=_handle(long), regex="x", aggregate="count")
        assert (await posted(there, counted))["result"]["content"][0]["text"] == "1"
        code = f"from tools import open_result\nlen(await open_result('{_handle(long).partition('.')[0]}'))"
        opened = await posted(there, call("run_script", code=code))
        assert int(opened["result"]["content"][0]["text"]) > 10_000, opened
        # The hub that waits for the answer ends: the call is not made once more.
        asked = (await posted(here, asking_call, **able()))["result"]
        again = request("tools/call", {**call_of(FORM_STEP), **answers_to(asked, ACCEPTED)})
        # While that hub restarts, the client is asked to come again.
        await group.group(0).announce("leaving")
        await until(lambda: group.group(1).another() is None)
        sent, headers = modern(again, **able())
        later = await there.post(sent, **headers)
        assert (later.status, later.headers["retry-after"]) == (503, "1")
        await group.kill(0, postgres, "handles")
        await until(lambda: len(group.group(1).report()["hubs"]) == 1)
        refused = await posted(there, again, **able())
        assert "has ended" in refused["error"]["message"]


def _handle(result: Json) -> str:
    words = json.dumps(result).replace('\\"', '"').replace('\\"', '"')
    return words.split('"handle": "')[1].split('"')[0]
