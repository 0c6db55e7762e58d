"""Approvals with the official client, in both eras and over both ways, and over the end of a hub."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from mcp import Client, MCPError

from tests.e2e.protocol.grid.person import Person
from tests.harness.official_client import Era, GridHub, Kind, grid_hub, over_http, over_stdio, text
from tests.harness.patience import until

KIND = Kind("legacy", "stdio")
NAME = f"{KIND.name}__marks"
WAYS = [(era, way) for era in ("legacy", "modern") for way in ("stdio", "http")]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GridHub]:
    with grid_hub(tmp_path_factory.mktemp("grid"), (KIND,), confirm=["marks"]) as built:
        yield built


def client(here: GridHub, era: Era, way: str, **options: Any) -> AbstractAsyncContextManager[Client]:
    if way == "stdio":
        return over_stdio(here, era, **options)
    return over_http(f"{here.url}/full", era, here.token, **options)


def sent(here: GridHub, token: str) -> int:
    """How often the server got a call with that token."""
    return sum(token in line for line in here.marks(KIND))


def waiting(here: GridHub, token: str) -> str | None:
    """The id of the approval that a call with that token waits for."""
    rows = here.home.run("approve", "--json").json["results"]
    return next((row["id"] for row in rows if token in row["arguments"]), None)


def approve(here: GridHub, token: str) -> None:
    found = waiting(here, token)
    assert found is not None
    done = here.home.run("approve", found)
    assert done.status == 0, done.err
    assert "approved, once" in done.out


@pytest.mark.parametrize(("era", "way"), WAYS)
async def test_a_client_asks_its_user_and_the_call_is_made_once(here: GridHub, era: Era, way: str) -> None:
    token, user = uuid4().hex[:8], Person()
    async with client(here, era, way, elicitation_callback=user.elicit) as line:
        result = await line.call_tool(NAME, {"token": token, "note": token})
        assert not result.is_error, text(result)
    [asked] = user.asked
    assert token in asked["message"]
    assert sent(here, token) == 1


@pytest.mark.parametrize(("era", "way"), WAYS)
async def test_a_user_who_declines_stops_the_call(here: GridHub, era: Era, way: str) -> None:
    token = uuid4().hex[:8]
    async with client(here, era, way, elicitation_callback=Person("decline").elicit) as line:
        result = await line.call_tool(NAME, {"token": token, "note": token})
        assert result.is_error
        assert "A person refused this call" in text(result)
    assert sent(here, token) == 0


@pytest.mark.parametrize(("era", "way"), WAYS)
async def test_a_command_in_a_terminal_approves_a_call_that_was_refused(
    here: GridHub, era: Era, way: str
) -> None:
    """No page is open, and the client cannot ask: the call is refused at once, and says what to run."""
    token = uuid4().hex[:8]
    async with client(here, era, way) as line:
        call = {"token": token, "note": token}
        refused = await line.call_tool(NAME, call)
        assert refused.is_error
        assert f"tabane approve {waiting(here, token)}" in text(refused)
        assert sent(here, token) == 0
        approve(here, token)
        assert not (await line.call_tool(NAME, call)).is_error
    assert sent(here, token) == 1
    found = here.home.run("audit", "--tool", NAME, "--json").out
    assert "approved by local (command)" in found


@pytest.mark.heavy("hubs and servers as processes")
async def test_an_approval_outlives_the_hub_and_is_used_once(tmp_path: Path) -> None:
    with grid_hub(tmp_path, (KIND,), confirm=["marks"]) as here:
        assert here.home.run("settings", "set", "approval_wait", "0").status == 0
        token = uuid4().hex[:8]
        async with over_http(f"{here.url}/full", "modern", here.token) as line:
            assert (await line.call_tool(NAME, {"token": token, "note": token})).is_error  # nobody waits
        approve(here, token)
        os.kill(here.pid, signal.SIGKILL)
        here.start_again()
        assert waiting(here, token) is not None
        async with over_http(f"{here.url}/full", "modern", here.token) as line:
            assert not (await line.call_tool(NAME, {"token": token, "note": token})).is_error
            assert sent(here, token) == 1
            os.kill(here.pid, signal.SIGKILL)
        here.start_again()
        async with over_http(f"{here.url}/full", "modern", here.token) as line:
            again = await line.call_tool(NAME, {"token": token, "note": token})
            assert again.is_error
            assert "tabane approve" in text(again)
        assert sent(here, token) == 1


@pytest.mark.heavy("hubs and servers as processes")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_call_that_its_user_approved_is_not_sent_again_when_the_hub_is_killed(
    tmp_path: Path, era: Era
) -> None:
    with grid_hub(tmp_path, (KIND,), confirm=["hangs"]) as here:
        name, token, user = f"{KIND.name}__hangs", uuid4().hex[:8], Person()
        async with over_stdio(here, era, elicitation_callback=user.elicit) as line:
            call = asyncio.ensure_future(line.call_tool(name, {"token": token}))
            await until(lambda: sent(here, f"begun {token}") == 1, "the server got the call")
            os.kill(here.pid, signal.SIGKILL)
            with contextlib.suppress(MCPError):
                assert (await call).is_error
            user.action = "decline"
            again = await line.call_tool(name, {"token": token})
            assert again.is_error
            assert "A person refused this call" in text(again)
        assert len(user.asked) == 2  # the first answer approves nothing more
        assert sent(here, f"begun {token}") == 1
