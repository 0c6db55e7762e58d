"""Approvals in a group of hubs: whatever hub a call comes to, one approval is enough, and for one call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabane.guard.approvals.approvals import Approval, ApprovalBinding
from tests.group.asking import ask
from tests.harness.http_hub import HttpHub, call, modern, request
from tests.harness.hub_group import GroupOfHubs, hubs_in_group
from tests.harness.patience import until
from tests.harness.postgres_server import PostgresServer
from tests.harness.running_hub import child

pytestmark = pytest.mark.heavy("a real PostgreSQL, and servers at two hubs")


@asynccontextmanager
async def confirming(
    folder: Path, postgres: PostgresServer, schema: str, wait: float = 0
) -> AsyncIterator[GroupOfHubs]:
    """Two hubs over a server whose tool ``count`` a person has to confirm, once they know its tools."""
    servers = {"up": child(confirm=["cou*"])}
    async with hubs_in_group(folder, postgres, schema, servers, approval_wait=wait) as group:
        for hub in group.hubs:
            await ask(hub, "list_tools", server="up")
        yield group


async def count(hub: HttpHub, number: int = 1) -> str:
    """Call the tool as a client that has no session. Return what the call answers."""
    message, headers = modern(call("up__count", number, n=number))
    answer = (await (await hub.peer()).post(message, **headers)).json
    return str(answer["result"]["content"][0]["text"])


async def waiting(hub: HttpHub, count: int = 1) -> list[dict[str, Any]]:
    """Return the approvals that a hub lists, once there are so many."""

    async def listed() -> bool:
        return len((await ask(hub, "list_approvals"))["results"]) == count

    await until(listed, f"{count} calls wait")
    found: list[dict[str, Any]] = (await ask(hub, "list_approvals"))["results"]
    return found


async def decide(hub: HttpHub, method: str, id: str) -> None:
    answer = await (await hub.peer()).post(request(method, {"id": id}), "/rpc")
    assert "result" in answer.json, answer.json


async def test_a_call_that_is_repeated_at_another_hub_needs_no_second_approval(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with confirming(tmp_path, postgres, "approvals") as group:
        first, second = group.hubs
        assert "tabane approve" in await count(first)
        (asked,) = await waiting(second)
        assert asked["tool"] == "up__count"
        await decide(second, "approve_call", asked["id"])
        assert await count(second) == "1"
        assert "tabane approve" in await count(first)  # it was for one call
        (asked,) = await waiting(second)
        await decide(first, "approve_call", asked["id"])
        assert await count(second) == "2"  # at once, before any heartbeat
        assert "tabane approve" in await count(second)


async def test_a_call_that_waits_goes_on_when_a_person_decides_at_another_hub(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with confirming(tmp_path, postgres, "waiting", wait=600) as group:
        first, second = group.hubs
        for method, words in (("approve_call", "1"), ("refuse_call", "A person refused this call")):
            calling = asyncio.create_task(count(first))
            (asked,) = await waiting(second)
            await decide(second, method, asked["id"])
            assert words in await calling
            await waiting(second, 0)
        assert "A person refused this call" in await count(second)


async def test_of_two_hubs_that_get_the_same_call_one_makes_it(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with confirming(tmp_path, postgres, "once") as group:
        for turn in range(1, 6):
            assert "tabane approve" in await count(group.hubs[turn % 2], turn)
            (asked,) = await waiting(group.hubs[0])
            await decide(group.hubs[0], "approve_call", asked["id"])
            answers = await asyncio.gather(*(count(hub, turn) for hub in (*group.hubs, *group.hubs)))
            assert sum(answer.isdecimal() for answer in answers) == 1, answers
            (again,) = await waiting(group.hubs[1])
            await decide(group.hubs[1], "refuse_call", again["id"])
            await waiting(group.hubs[0], 0)


def _allows(hub: HttpHub, pair: str) -> bool:
    return pair in hub.hub.flows.state().pairs.of("local")


async def test_what_a_person_allows_for_later_calls_is_allowed_at_every_hub_and_outlives_one(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    async with confirming(tmp_path, postgres, "remembered") as group:
        first, second = group.hubs
        desk, now = first.hub.guards.desk(), first.hub.guards.desk().clock()
        binding = ApprovalBinding("local", "up__count", "up")
        await desk.ask(Approval("one", binding, now, now + 600, pairs=("notes>up",)))
        await ask(second, "approve_call", id="one", remember=True)
        for hub in group.hubs:
            await until(partial(_allows, hub, "notes>up"), "the pair is allowed")
        await desk.ask(Approval("two", binding, now, now + 600))
        await group.kill(0, postgres, "remembered")
        assert {each["id"] for each in await waiting(second)} == {"one"}
