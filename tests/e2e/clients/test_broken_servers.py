"""A server that does not start is told to a model once, where its tools may be meant."""

from __future__ import annotations

from pathlib import Path

from tests.harness.running_hub import child, running_hub, text

SERVERS = {
    "up": child(),
    "tracker": {"command": "/nowhere/tracker", "description": "Issues and pull requests of a project."},
}


async def test_its_failure_is_told_once_and_only_where_it_may_be_meant(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=5) as here:
        line = await here.connect()

        async def said(query: str) -> bool:
            return "tracker" in text(await line.call("search_tools", query=query))

        assert not await said("echo a text")
        assert await said("list pull requests, and echo them")
        assert not await said("list pull requests, and echo them")
        assert not await said("echo a text")
        other = await here.connect()
        assert "tracker" in text(await other.call("search_tools", query="echo issues"))


async def test_its_failure_is_told_if_nothing_is_found(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=5) as here:
        line = await here.connect()
        found = text(await line.call("search_tools", query="zzzqqq"))
        assert "tracker" in found


async def test_a_call_of_its_tool_is_answered_with_its_failure(tmp_path: Path) -> None:
    async with running_hub(tmp_path, SERVERS, list_wait=5) as here:
        line = await here.connect()
        assert "/nowhere/tracker does not exist" in text(await line.call("call_tool", name="tracker__list"))
        assert "search_tools" in text(await line.call("call_tool", name="nothing"))
