"""Servers that one hub of a group runs for all: the others use it there, and one takes over when it goes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tabane.catalog.operations.server_operations import server_row
from tabane.errors import UpstreamDied
from tabane.group.signatures import ForgedRequest, LinkFrames, LinkHead
from tabane.hub.group.server_relay import failure_in, failure_line
from tabane.messages import say
from tests.harness.http_hub import HttpClient, HttpHub, call, modern, request
from tests.harness.hub_group import GroupOfHubs, hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import Json, child


async def said(peer: HttpClient, name: str, **arguments: object) -> str:
    sent, headers = modern(call(name, **arguments))
    return _text((await peer.post(sent, **headers)).json)


@pytest.mark.heavy("a real PostgreSQL")
async def test_all_hubs_use_the_process_of_one(tmp_path: Path, postgres: PostgresServer) -> None:
    modern_one = child("--era", "modern", "--offers", run="group")
    servers = {"c": child("--offers", run="group"), "own": child(), "m": modern_one}
    async with hubs_in_group(tmp_path, postgres, "shared", servers) as group:
        first, second = group.hubs
        here, there = await first.peer(), await second.peer()
        assert await said(here, "c__pid") == await said(there, "c__pid")
        assert await said(here, "own__pid") != await said(there, "own__pid")
        address = group.group(0).me.address
        await until(lambda: {_row(hub)["runs_at"] for hub in group.hubs} == {address})
        assert [len(_row(hub)["pids"]) for hub in group.hubs] == [1, 0]
        session = await second.session(there, sampling={})
        await _call_with_everything(await second.peer(), session)
        # What the server offers, and its changes, come through to the other hub.
        read = await there.post(request("resources/subscribe", {"uri": _uri(second)}, 20), **session)
        assert read.json["result"] == {}
        listening = await second.peer()
        assert (await listening.get("/mcp/full", accept="text/event-stream", **_named(session))).status == 200
        await said(here, "c__touch", uri=second.hub.gateway.resources.items()[0].uri)
        assert (await listening.message())["method"] == "notifications/resources/updated"
        await said(here, "c__change_tools", names=["echo", "hang"])
        assert (await listening.message())["method"] == "notifications/tools/list_changed"
        assert {tool.name for tool in second.hub.gateway.catalog.of_server("c")} == {
            "echo",
            "hang",
            "change_tools",
        }
        assert await said(here, "m__pid") == await said(there, "m__pid")
        await said(here, "m__change_tools", names=["echo"])
        tools = second.hub.gateway.catalog.of_server
        await until(lambda: len(tools("m")) == 2, "the other hub reads the list again")
        # A call that its client gives up ends at the server.
        there.send_message(call("c__hang", 6), **session)
        await until(lambda: _in_flight(first) == 1, "the call runs at the other hub")
        there.abort()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 6}}
        other = await second.peer()
        assert (await other.post(cancel, **session)).status == 202
        await until(lambda: _in_flight(first) == 0, "the call is cancelled")
        # A hub that learns that another one has its server stops it, and uses it there.
        taken = f"UPDATE \"shared\".hub_lease SET hub = '{group.group(1).me.id}' WHERE server = 'm'"
        postgres.execute(taken)
        await until(lambda: [len(_row(hub, "m")["pids"]) for hub in group.hubs] == [0, 1])
        assert [await said(peer, "m__echo", n=1) for peer in (here, other)] == ['{"n": 1}', '{"n": 1}']


async def _call_with_everything(peer: HttpClient, session: dict[str, str]) -> None:
    """Make calls with progress, with a question to the client, and with an error."""
    message = call("c__progress", 3, steps=2)
    message["params"]["_meta"] = {"progressToken": "mine"}
    assert (await peer.begin(message, **session)).streams
    progress = [(await peer.message())["params"] for _ in range(2)]
    assert [(each["progressToken"], each["progress"]) for each in progress] == [("mine", 1), ("mine", 2)]
    assert _text(await peer.message()) == "done"
    asked = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    asking, other = await peer.hub.peer(), await peer.hub.peer()
    assert (await asking.begin(call("c__ask", 4, **asked), **session)).streams
    question = await asking.message()
    answer = {"role": "assistant", "content": {"type": "text", "text": "42"}, "model": "m"}
    reply = {"jsonrpc": "2.0", "id": question["id"], "result": answer}
    assert (await other.post(reply, **session)).status == 202
    assert "42" in str((await asking.message())["result"])
    refused = await other.post(call("c__refuse", 5, code=-31000), **session)
    assert refused.json["error"]["code"] == -31000


@pytest.mark.heavy("a real PostgreSQL")
async def test_another_hub_takes_a_server_over(tmp_path: Path, postgres: PostgresServer) -> None:
    counted = tmp_path / "pids"
    servers = {"c": child("--pids", str(counted), run="group", timeout=60)}
    async with hubs_in_group(tmp_path, postgres, "moves", servers, 3) as group:
        peers = [await hub.peer() for hub in group.hubs]
        pids = [await said(peer, "c__pid") for peer in peers]
        assert len(set(pids)) == 1
        # The hub that runs it leaves: the call there finishes, and later ones go to another process.
        waiting = asyncio.ensure_future(said(await group.hubs[1].peer(), "c__wait", seconds=1.5))
        await until(lambda: _in_flight(group.hubs[0]) == 1, "the call runs")
        await group.group(0).announce("leaving")
        await until(lambda: _runner(group, 1) in (1, 2), "another hub has it")
        assert await waiting == "waited"
        taken = [await said(peer, "c__pid") for peer in peers[1:]]
        assert len({*taken, *pids}) == 2
        # The hub that runs it is killed in the middle of a call: that is not made again.
        runner = _runner(group, 1)
        user = 3 - runner
        lost = asyncio.ensure_future(_posted(await group.hubs[user].peer(), call("c__hang")))
        await until(lambda: _in_flight(group.hubs[runner]) == 1, "the call runs")
        await group.kill(runner, postgres, "moves")
        assert "It is not known whether the call took effect" in str(await lost)
        assert await said(peers[user], "c__count") == "1"
        assert len(counted.read_text().splitlines()) == 3


def _text(answer: Json) -> str:
    return "".join(part["text"] for part in answer["result"]["content"])


async def _posted(peer: HttpClient, message: Json) -> Json:
    sent, headers = modern(message)
    answer: Json = (await peer.post(sent, **headers)).json
    return answer


def _row(hub: HttpHub, server: str = "c") -> Json:
    gateway = hub.hub.gateway
    return server_row(gateway, gateway.servers[server], "en")


def _in_flight(hub: HttpHub) -> int:
    return sum(instance.in_flight for instance in hub.hub.gateway.instances("c"))


def _runner(group: GroupOfHubs, seen_by: int) -> int:
    found = group.group(seen_by).runner("c")
    hubs = range(len(group.hubs))
    return next((number for number in hubs if group.group(number).me.id == found), -1)


def _uri(hub: HttpHub) -> str:
    return hub.hub.gateway.resources.items()[0].shown


def _named(session: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in session.items()}


def test_messages_of_a_link_cannot_be_changed_repeated_or_left_out() -> None:
    uses, runs = (LinkFrames(b"k" * 32, "opening", runs=runs) for runs in (False, True))
    head = LinkHead(7, "s", "c", "key:1", 30.0)
    sent = [uses.sealed(head, line) for line in (b"{}", b'{"id": 2}', b"{}")]
    assert runs.opened(sent[0]) == (head, b"{}")
    attempts: list[Callable[[], object]] = [
        lambda: runs.opened(sent[0]),  # again
        lambda: LinkFrames(b"k" * 32, "opening", runs=True).opened(sent[1]),  # without the first
        lambda: LinkFrames(b"k" * 32, "opening", runs=True).opened(sent[0][:-1] + b"]"),
        lambda: LinkFrames(b"k" * 32, "another", runs=True).opened(sent[0]),
        lambda: LinkFrames(b"k" * 32, "opening", runs=False).opened(sent[0]),  # back to its sender
        lambda: LinkFrames(b"k" * 32, "opening", runs=True).opened(b""),
    ]
    for attempt in attempts:
        with pytest.raises(ForgedRequest):
            attempt()


def test_a_failure_keeps_its_class_and_can_be_translated() -> None:
    why = say(
        "It has ended ({why}).", why=say("{name!n} is {count} {count:day|days} old", name="a b", count=2)
    )
    number, found = failure_in(*failure_line(7, UpstreamDied(why)))
    assert (number, type(found), found.message) == (7, UpstreamDied, why)
