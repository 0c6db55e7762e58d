"""Requests from upstreams of the handshake era go to the one client concerned, or are refused."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.patience import pass_time, until
from tests.harness.running_hub import Json, SocketClient, child, running_hub, text

ALL = {"sampling": {}, "elicitation": {"form": {}}, "roots": {"listChanged": True}}
ASKED = {
    "sampling/createMessage": {"messages": [], "maxTokens": 5, "unknown": {"kept": [1]}},
    "elicitation/create": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
}


def said(result: Json) -> Any:
    return json.loads(text(result))


def ask(line: SocketClient, method: str, name: str = "up__ask") -> asyncio.Future[Json]:
    arguments = {"method": method, "params": ASKED.get(method, {})}
    return line.begin("tools/call", {"name": name, "arguments": arguments})


@pytest.mark.parametrize("method", list(ASKED))
@pytest.mark.parametrize("share", ["hub", "client"])
async def test_a_question_reaches_the_client_whose_call_it_is_and_its_answer_the_server(
    tmp_path: Path, method: str, share: str
) -> None:
    async with running_hub(tmp_path, {"up": child(share=share)}) as here:
        line = await here.connect(capabilities=ALL)
        line.answer = lambda question: {"result": {"model": "m", "extra": [question["method"]]}}
        answered = await ask(line, method)
        assert said(answered["result"]) == {"result": {"model": "m", "extra": [method]}}
        (question,) = line.questions
        assert question["params"] == ASKED[method]
        assert question["method"] == method


async def test_an_error_of_the_client_is_the_servers_answer(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(capabilities=ALL)
        refusal = {"error": {"code": -1, "message": "I will not", "data": {"x": 1}}}
        line.answer = lambda question: refusal
        answered = await ask(line, "elicitation/create")
        assert said(answered["result"]) == refusal


@pytest.mark.parametrize("capabilities", [{}, {"elicitation": {}}])
async def test_a_client_that_cannot_be_asked_is_not_and_the_server_is_told(
    tmp_path: Path, capabilities: Json
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(capabilities=capabilities)
        answered = said((await ask(line, "sampling/createMessage"))["result"])
        assert answered["error"]["code"] == -32601
        assert "no capability" in answered["error"]["message"]
        assert line.questions == []


async def test_a_modern_client_is_sent_no_questions(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect("2026-07-28")
        assert "error" in said((await ask(line, "sampling/createMessage"))["result"])
        assert line.questions == []


async def test_with_calls_of_two_clients_in_flight_nobody_is_asked(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(share="hub")}) as here:
        one, other = await here.connect(capabilities=ALL), await here.connect(capabilities=ALL)
        waiting = other.begin("tools/call", {"name": "up__hang", "arguments": {}})
        await until(lambda: here.hub.gateway.instance("up").in_flight == 1, "the other's call is there")
        answered = await ask(one, "sampling/createMessage")
        assert "no single client" in said(answered["result"])["error"]["message"]
        assert one.questions == other.questions == []
        assert not waiting.done()


async def test_a_server_that_asks_runs_once_for_each_client_from_then_on_and_knows_what_each_can(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        one = await here.connect(capabilities={"sampling": {"tools": {}}})
        one.answer = lambda question: {"result": {}}
        await ask(one, "sampling/createMessage")
        plain = await here.connect()
        told = [said(await line.call("up__session"))["initialize"] for line in (one, plain)]
        assert [what["capabilities"] for what in told] == [
            {"sampling": {"tools": {}}, "roots": {}},
            {"roots": {}},
        ]


async def test_a_call_waits_as_long_as_its_question_is_open(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(timeout=30, share="client")}) as here:
        line = await here.connect(capabilities=ALL)
        answer = ask(line, "elicitation/create")
        question = await line.questioned()
        pass_time(60)
        assert text(await line.call("up__echo")) == "{}"
        assert not answer.done()
        line.reply(question, {"result": {"action": "decline"}})
        assert said((await answer)["result"]) == {"result": {"action": "decline"}}


async def test_a_question_is_withdrawn_with_the_call_it_belongs_to(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(capabilities=ALL)
        ask(line, "elicitation/create")
        question = await line.questioned()
        line.notify("notifications/cancelled", {"requestId": 2, "reason": "changed my mind"})
        cancelled = await line.noticed("notifications/cancelled")
        assert cancelled["params"]["requestId"] == question["id"]
        # A late answer goes nowhere and harms nothing.
        line.reply(question, {"result": {}})
        assert text(await line.call("up__echo", text="on"))


async def test_a_client_that_goes_leaves_no_server_waiting(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(share="hub")}) as here:
        line, other = await here.connect(capabilities=ALL), await here.connect()
        ask(line, "elicitation/create")
        await line.questioned()
        await line.close()
        await until(lambda: here.hub.gateway.instance("up").in_flight == 0, "its call is given up")
        assert said(await other.call("up__echo", text="on")) == {"text": "on"}


async def test_a_made_up_answer_of_a_client_is_passed_over(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect(capabilities=ALL)
        line.reply({"id": "tabane-x-1"}, {"result": {}})
        line.reply({"id": 7}, {"error": {"code": 1, "message": ""}})
        line.reply({"id": None}, {"result": {}})
        assert said(await line.call("up__echo", text="on")) == {"text": "on"}
        assert line.unexpected == []


async def test_a_client_names_its_folders_before_it_is_given_the_server_of_those(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child(share="roots")}) as here:
        line = await here.connect(capabilities=ALL, cwd="/elsewhere")
        line.answer = lambda question: {"result": {"roots": [{"uri": "file:///mine"}]}}
        answered = await ask(line, "roots/list")
        assert said(answered["result"])["result"]["roots"] == [{"uri": "file:///mine"}]
        assert [instance.server.roots for instance in here.hub.gateway.instances("up")] == [("file:///mine",)]


async def test_log_messages_reach_the_client_whose_call_they_belong_to_at_the_level_it_set(
    tmp_path: Path,
) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line, other = await here.connect(), await here.connect()
        await line.result("logging/setLevel", {"level": "warning"})
        for level in ("info", "error"):
            note = {"level": level, "data": {"n": level}, "logger": "x"}
            await line.call("up__notify", method="notifications/message", params=note)
        heard = [n["params"]["level"] for n in line.notifications if n["method"] == "notifications/message"]
        assert heard == ["error"]
        assert said(await line.call("up__session"))["logLevel"] == "warning"
        assert "notifications/message" not in [note["method"] for note in other.notifications]
        wrong = await line.request("logging/setLevel", {"level": "loud"})
        assert wrong["error"]["code"] == -32602
        assert "debug, info" in wrong["error"]["message"]


async def test_a_modern_call_says_itself_which_log_messages_it_wants(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child("--era", "legacy")}) as here:
        line = await here.connect("2026-07-28")
        note = {"method": "notifications/message", "params": {"level": "error", "data": "x"}}
        await line.result("tools/call", {"name": "up__notify", "arguments": note})
        assert line.notifications == []
        meta = {"io.modelcontextprotocol/logLevel": "info"}
        await line.result("tools/call", {"name": "up__notify", "arguments": note, "_meta": meta})
        assert [n["params"] for n in line.notifications] == [{"level": "error", "data": "x"}]
        session = said(await line.call("up__session"))
        assert session["logLevel"] == "info"


async def test_batches_are_taken_where_the_version_has_them(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}) as here:
        line = await here.connect("2025-03-26")
        requests = [
            {"jsonrpc": "2.0", "id": number, "method": "tools/call",
             "params": {"name": "up__echo", "arguments": {"n": number}}}
            for number in (71, 72)
        ]  # fmt: skip
        waiting = [line.expect(number) for number in (71, 72)]
        line.send_raw(
            json.dumps([*requests, {"jsonrpc": "2.0", "method": "notifications/x"}]).encode() + b"\n"
        )
        answers = await asyncio.gather(*waiting)
        assert [said(answer["result"]) for answer in answers] == [{"n": 71}, {"n": 72}]
        newer = await here.connect("2025-06-18")
        newer.send_raw(b"[]\n")
        await until(lambda: bool(newer.unexpected), "it is refused")
        assert json.loads(newer.unexpected[0])["error"]["code"] == -32600
