"""Every kind of server on the official SDK as an HTTP upstream."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tabane.upstreams.subscriptions import ModernSubscriber
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, connected_hub, running_hub, text
from tests.harness.servers.http_process import Official, official

KINDS = ("modern", "stateful", "stateless", "json", "resumable", "sse")
KEEPS_SESSIONS = ("stateful", "resumable", "sse")


def at(server: Official, **keys: object) -> dict[str, Json]:
    kind = "sse" if server.kind == "sse" else "http"
    return {"web": {"type": kind, "url": server.url, **keys}}


def subscribed(hub: RunningHub) -> bool:
    subscriber = hub.hub.gateway.instances("web")[0].offers._subscriptions._asking
    return isinstance(subscriber, ModernSubscriber) and subscriber._current is not None


@pytest.mark.parametrize("kind", KINDS)
async def test_tools_are_listed_and_called(tmp_path: Path, kind: str) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (hub, client),
    ):
        assert text(await client.call("web__echo", text="はい")) == "はい"
        assert text(await client.through("web__echo", text="yes")) == "yes"
        calls = [client.call("web__echo", text=str(n)) for n in range(50)]
        assert [text(result) for result in await asyncio.gather(*calls)] == [str(n) for n in range(50)]
        row = hub.hub.gateway.catalogs.listing("web")
        assert row is not None
        assert row.era.value == ("modern" if kind == "modern" else "legacy")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "json"])
async def test_progress_comes_while_a_call_runs(tmp_path: Path, kind: str) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (_, client),
    ):
        params = {"name": "web__steps", "arguments": {}, "_meta": {"progressToken": "mine"}}
        assert text(await client.result("tools/call", params)) == "all"
        notes = [n["params"] for n in client.notifications if n["method"] == "notifications/progress"]
        assert [(note["progressToken"], note["progress"]) for note in notes] == [
            ("mine", n) for n in (1, 2, 3)
        ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "stateless"])
async def test_a_cancelled_call_ends_at_the_server(tmp_path: Path, kind: str) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (_, client),
    ):
        client.begin("tools/call", {"name": "web__wait", "arguments": {}}, request_id=77)
        await until(lambda: server.marks == 1, "the call has begun")
        client.notify("notifications/cancelled", {"requestId": 77})
        await until(lambda: server.marks == 2, "the call was cancelled at the server")


@pytest.mark.parametrize("kind", ["modern", *KEEPS_SESSIONS])
async def test_a_tool_that_is_new_is_seen(tmp_path: Path, kind: str) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (hub, client),
    ):
        if kind == "modern":
            # Nobody is told of a change before the subscription is accepted.
            assert text(await client.call("web__echo", text="begin")) == "begin"
            await until(lambda: subscribed(hub), "the hub is subscribed")
        assert text(await client.call("web__grow")) == "grown"
        names = hub.hub.gateway.catalog
        await until(lambda: any(name == "web__grown" for name in names.names), "the new tool is listed")


@pytest.mark.parametrize("kind", KEEPS_SESSIONS)
async def test_a_question_reaches_the_client_and_its_answer_the_server(tmp_path: Path, kind: str) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server), "2025-11-25", capabilities={"elicitation": {}}) as (
            _,
            client,
        ),
    ):
        client.answer = lambda question: {"result": {"action": "accept", "content": {"name": "Hana"}}}
        assert text(await client.call("web__ask")) == "accept:Hana"


async def test_arguments_are_mirrored_in_headers_also_behind_call_tool(tmp_path: Path) -> None:
    async with (
        official("modern", tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (_, client),
    ):
        assert text(await client.call("web__region", name="eu")) == "eu"
        assert text(await client.through("web__region", name="asia")) == "asia"


async def test_a_stream_that_the_server_closes_is_gone_on_with(tmp_path: Path) -> None:
    async with official("resumable", tmp_path) as server, running_hub(tmp_path / "home", at(server)) as hub:
        client = await hub.connect()
        assert text(await client.call("web__breaks")) == "resumed"


@pytest.mark.parametrize("kind", ["modern", "stateful", "sse"])
async def test_every_call_is_answered_once_while_the_server_is_killed_and_started_anew(
    tmp_path: Path, kind: str
) -> None:
    async with (
        official(kind, tmp_path) as server,
        connected_hub(tmp_path / "home", at(server)) as (_, client),
    ):
        first = text(await client.call("web__peek"))
        answers: list[tuple[str, bool]] = []
        calling = True

        async def keep_calling(name: str, **arguments: object) -> None:
            while calling:
                answer = await client.request("tools/call", {"name": name, "arguments": arguments})
                answers.append((name, "error" in answer or answer["result"].get("isError", False)))

        callers = [asyncio.create_task(keep_calling("web__count")) for _ in range(4)]
        callers += [asyncio.create_task(keep_calling("web__slow", seconds=0.3)) for _ in range(4)]
        callers += [asyncio.create_task(keep_calling("web__peek", seconds=0.1)) for _ in range(4)]
        kinds = {(name, False) for name in ("web__count", "web__slow", "web__peek")}
        await until(lambda: len(answers) > 30 and kinds <= set(answers), "calls of each kind are answered")
        await server.kill()
        await server.start()

        async def works() -> bool:
            # While the server cannot be reached yet, the answer is an error.
            answer = await client.request("tools/call", {"name": "web__peek", "arguments": {}})
            result = answer.get("result", {"isError": True})
            return not result.get("isError") and text(result) != first

        await until(works, "calls reach the new process")
        calling = False
        await asyncio.gather(*callers)
        assert client.unexpected == []
        marking = [failed for name, failed in answers if name != "web__peek"]
        # What leaves a mark is never sent twice, and what is said to be done is done.
        assert marking.count(False) <= server.marks <= len(marking)
