"""The official SDK's client over HTTP, in both eras, before servers of both."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client, types
from mcp.client.streamable_http import streamable_http_client

from tests.harness.http_hub import HttpHub, http_hub
from tests.harness.patience import LONG, until
from tests.harness.running_hub import child

MODES = ["legacy", "2026-07-28", "auto"]
SERVERS = {"old": child("--era", "legacy"), "new": child("--era", "modern")}


@asynccontextmanager
async def client(here: HttpHub, mode: Any, **options: Any) -> AsyncIterator[Client]:
    headers = {"authorization": str(here.bearer)}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=LONG) as http,
        Client(streamable_http_client(f"{here.mcp_url}/full", http_client=http), mode=mode, **options) as it,
    ):
        yield it


@pytest.mark.parametrize("mode", MODES)
async def test_tools_are_listed_and_called(tmp_path: Path, mode: str) -> None:
    async with http_hub(tmp_path, SERVERS, list_wait=20) as here, client(here, mode) as it:
        names = {tool.name for tool in (await it.list_tools()).tools}
        assert {"old__echo", "new__echo"} <= names
        for name in ("old__echo", "new__echo"):
            result = await it.call_tool(name, {"text": "やあ"})
            assert result.structured_content == {"text": "やあ"}
        assert (await it.call_tool("old__fail", {"text": "no"})).is_error


@pytest.mark.parametrize("mode", MODES)
async def test_progress_arrives_before_the_answer(tmp_path: Path, mode: str) -> None:
    seen: list[float] = []

    async def progressed(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with http_hub(tmp_path, SERVERS) as here, client(here, mode) as it:
        for name in ("old__progress", "new__progress"):
            seen.clear()
            await it.call_tool(name, {"steps": 3}, progress_callback=progressed)
            assert len(seen) == 3


@pytest.mark.parametrize("mode", MODES)
async def test_a_call_that_the_client_gives_up_is_cancelled(tmp_path: Path, mode: str) -> None:
    async with http_hub(tmp_path, SERVERS) as here, client(here, mode) as it:

        def works() -> bool:
            return any(instance.in_flight for instance in here.hub.gateway.instances("old"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(it.call_tool, "old__hang", {})
            await until(works, "the server has the call")
            tasks.cancel_scope.cancel()
        await until(lambda: not works(), "the call is cancelled")
        assert not (await it.call_tool("old__echo", {})).is_error


async def test_a_question_of_an_old_server_reaches_an_old_client(tmp_path: Path) -> None:
    async def answer(context: Any, params: types.CreateMessageRequestParams) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text="forty-two")
        return types.CreateMessageResult(role="assistant", content=content, model="m")

    async with http_hub(tmp_path, SERVERS) as here, client(here, "legacy", sampling_callback=answer) as it:
        asked = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 9}}
        assert "forty-two" in str(await it.call_tool("old__ask", asked))


@pytest.mark.parametrize("mode", MODES)
async def test_many_calls_at_once_each_get_their_own_answer(tmp_path: Path, mode: str) -> None:
    async with http_hub(tmp_path, SERVERS) as here, client(here, mode) as it:
        found: dict[int, Any] = {}

        async def one(number: int) -> None:
            found[number] = (await it.call_tool("old__echo", {"n": number})).structured_content

        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(one, number)
        assert found == {number: {"n": number} for number in range(50)}
