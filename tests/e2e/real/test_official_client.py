"""The official client finds, calls and reads back through the hub, in every mode it connects in."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp import Client
from mcp.client.client import ConnectMode
from mcp_types import CallToolResult, ImageContent

from tests.e2e.real.conftest import Workplace
from tests.harness.official_client import text
from tests.harness.patience import until

MODES: tuple[ConnectMode, ...] = ("auto", "legacy", "2026-07-28")
every_mode = pytest.mark.parametrize("mode", MODES)


async def call(client: Client, name: str, **arguments: Any) -> CallToolResult:
    """Call a tool the way a model in search mode does; it must not fail."""
    result = await client.call_tool("call_tool", {"name": name, "arguments": arguments})
    assert not result.is_error, text(result)
    return result


@every_mode
async def test_servers_from_pypi_are_found_and_called(python_servers: Workplace, mode: ConnectMode) -> None:
    async with python_servers.client(mode=mode) as client:
        found = text(await client.call_tool("search_tools", {"query": "what time is it"}))
        assert "time__get_current_time(" in found
        converted = await call(
            client,
            "time__convert_time",
            source_timezone="Asia/Tokyo",
            time="09:30",
            target_timezone="UTC",
        )
        assert "T00:30:00" in json.loads(text(converted))["target"]["datetime"]
        log = await call(client, "git__git_log", repo_path=str(python_servers.repository))
        assert "The first entry" in text(log)


@every_mode
@pytest.mark.node
async def test_servers_from_npm_are_found_called_and_read_back(
    node_servers: Workplace, mode: ConnectMode
) -> None:
    path = node_servers.notes / "日記.txt"
    entity = {"name": "竹", "entityType": "plant", "observations": ["grows in bundles 🎋"]}
    async with node_servers.client(mode=mode) as client:
        found = text(await client.call_tool("search_tools", {"query": "ファイルを書く"}))
        assert "filesystem__write_file(" in found
        await call(client, "filesystem__write_file", path=str(path), content="束ねる 🎋\n")
        assert path.read_text(encoding="utf-8") == "束ねる 🎋\n"
        read = await call(client, "filesystem__read_text_file", path=str(path))
        assert text(read) == "束ねる 🎋\n"
        await call(client, "memory__create_entities", entities=[entity])
        recalled = await call(client, "memory__open_nodes", names=["竹"])
        assert json.loads(text(recalled))["entities"] == [entity]


@every_mode
def test_the_full_list_has_every_definition_as_its_server_gave_it(
    python_servers: Workplace, mode: ConnectMode
) -> None:
    asyncio.run(compare_definitions(python_servers, mode))


@every_mode
@pytest.mark.node
def test_the_full_list_has_every_definition_of_npm_servers(
    node_servers: Workplace, mode: ConnectMode
) -> None:
    asyncio.run(compare_definitions(node_servers, mode))


async def compare_definitions(place: Workplace, mode: ConnectMode) -> None:
    async with place.client("--mode", "full", mode=mode) as client:
        through = await place.whole_list(client)
    for server in place.servers:
        async with place.direct(server) as client:
            direct = (await client.list_tools()).tools
        for tool in direct:
            theirs = tool.model_dump(by_alias=True, exclude_unset=True)
            ours = through[f"{server}__{tool.name}"].model_dump(by_alias=True, exclude_unset=True)
            assert ours == theirs | {"name": f"{server}__{tool.name}"}
        assert sum(name.startswith(f"{server}__") for name in through) == len(direct)


@every_mode
@pytest.mark.node
async def test_results_come_through_as_the_server_gave_them(
    node_servers: Workplace, mode: ConnectMode
) -> None:
    """Images, structured content, resource links and annotations, called by the tools' own names."""
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("get-tiny-image", {}),
        ("get-structured-content", {"location": "New York"}),
        ("get-resource-links", {"count": 3}),
        ("get-annotated-message", {"messageType": "error", "includeImage": True}),
    )
    async with node_servers.client("--mode", "full", mode=mode) as client:
        await node_servers.whole_list(client)
        through = [await client.call_tool(f"everything__{name}", arguments) for name, arguments in calls]
    async with node_servers.direct("everything") as client:
        direct = [await client.call_tool(name, arguments) for name, arguments in calls]
    for ours, theirs in zip(through, direct, strict=True):
        assert (ours.content, ours.structured_content, ours.is_error) == (
            theirs.content,
            theirs.structured_content,
            theirs.is_error,
        )
    assert any(isinstance(block, ImageContent) for block in through[0].content)
    assert through[1].structured_content


@every_mode
@pytest.mark.node
async def test_progress_of_a_long_call_reaches_the_client(node_servers: Workplace, mode: ConnectMode) -> None:
    steps: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        steps.append((progress, total))

    async with node_servers.client(mode=mode) as client:
        await client.call_tool("search_tools", {"query": "long running"})
        result = await client.call_tool(
            "everything__trigger-long-running-operation",
            {"duration": 0.4, "steps": 4},
            progress_callback=note,
        )
        assert not result.is_error, text(result)
        # The client tells of progress beside its answers.
        await until(lambda: any(done == 4 for done, _ in steps), "the last step is told")
    assert [total for _, total in steps] == [4] * len(steps)
    assert sorted(done for done, _ in steps)[-1] == 4


@pytest.mark.node
async def test_what_a_server_refuses_is_a_failed_result_in_its_own_words(node_servers: Workplace) -> None:
    async with node_servers.client() as client:
        await client.call_tool("search_tools", {"query": "read file"})
        result = await client.call_tool(
            "call_tool", {"name": "filesystem__read_text_file", "arguments": {"path": "/etc/hostname"}}
        )
        assert result.is_error
        assert "Access denied" in text(result)


async def test_a_call_that_only_reads_is_told_from_one_that_writes(python_servers: Workplace) -> None:
    async with python_servers.client() as client:
        await client.call_tool("search_tools", {"query": "git log"})
        repository = str(python_servers.repository)
        read = await client.call_tool(
            "call_readonly_tool", {"name": "git__git_log", "arguments": {"repo_path": repository}}
        )
        assert "The first entry" in text(read)
        write = await client.call_tool(
            "call_readonly_tool",
            {
                "name": "git__git_create_branch",
                "arguments": {"repo_path": repository, "branch_name": "b"},
            },
        )
        assert write.is_error
        assert not (python_servers.repository / ".git" / "refs" / "heads" / "b").exists()
