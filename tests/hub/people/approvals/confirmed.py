"""A hub over a server whose tool ``count`` a person has to confirm: it says how often it was called."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tabane.operations import LOCAL, Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Json, RunningHub, child, running_hub, text

FORMS: Json = {"elicitation": {"form": {}}}
COUNT: Json = {"name": "up__count", "arguments": {"n": 1}}
PERSON = Caller("local", Face.RPC, "person", pid=1)


@asynccontextmanager
async def confirming(folder: Path, *arguments: str, **settings: Any) -> AsyncIterator[RunningHub]:
    """The hub, once it knows the tools of its server. Nobody waits for a person unless a test says so."""
    servers = {"up": child(*arguments, confirm=["cou*"])}
    async with running_hub(folder, servers, **{"approval_wait": 0, **settings}) as here:
        await here.hub.door.invoke(PERSON, "list_tools", b'{"server": "up"}')
        yield here


@asynccontextmanager
async def open_page(here: RunningHub) -> AsyncIterator[None]:
    """A person has the web page open, so that calls may wait for their decision."""

    async def look() -> None:
        async for _ in here.hub.audit.live.follow(None, LOCAL):
            pass

    looking = asyncio.ensure_future(look())
    await until(lambda: here.hub.audit.live.is_watched, "the page is open")
    try:
        yield
    finally:
        looking.cancel()
        await asyncio.wait([looking])


async def person(here: RunningHub, operation: str, **params: Any) -> Any:
    """What a person gets who calls an operation."""
    import msgspec

    return await here.hub.door.invoke(PERSON, operation, msgspec.json.encode(params))


async def waiting(here: RunningHub, count: int = 1) -> list[Json]:
    """The approvals that are asked for, once there are so many."""
    desk = here.hub.guards.desk()
    approvals = await desk.approvals()
    await until(lambda: len(approvals.listed()) == count, f"{count} calls wait")
    rows: list[Json] = (await person(here, "list_approvals"))["results"]
    return rows


def refusal(result: Json) -> str:
    assert result["isError"] is True, result
    return text(result)


async def counted(here: RunningHub) -> int:
    """How often the tool was called without us: this call is approved too."""
    line = await here.connect("2025-11-25", mode="full", capabilities=FORMS)
    line.answer = lambda question: {"result": {"action": "accept", "content": {}}}
    return int(text(await line.call("up__count", look=True))) - 1
