"""Tokens that a model pays: for the lists, for a search, for a description, for a whole task."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.gateway.client import Client, Json
from benchmarks.gateway.home import upstream
from benchmarks.gateway.tokens import NOTHING, Counter, Tokens
from benchmarks.gateway.wares import KINDS, definitions
from benchmarks.gateway.ways import ARGUMENTS, daemon

MODES = ("search", "light", "full")

CROWD = 500
"""Tools of the larger catalog: those of the four servers, and the rest on a fifth."""

TASK: tuple[tuple[str, str, Json], ...] = (
    ("read a text file", "files__read_text", ARGUMENTS),
    (
        "run a read-only SQL query",
        "sql__run_query",
        {"statement": "select count(*) from orders where placed_at > :day", "values": {"day": "2026-11-01"}},
    ),
    (
        "send a message to a channel",
        "chat__post_message",
        {"channel": "C024BE91L", "message": "The report is ready."},
    ),
)
"""A task with three tools: what is searched for, which tool is meant, how it is called."""

QUERIES = (
    *(query for query, _, _ in TASK),
    "find duplicate files",
    "unpack a zip archive",
    "scientific papers about batteries",
    "which restaurants are near",
    "foreign keys of a table",
    "who wrote this in the channel",
    "ファイルを書く",
    "メッセージを検索する",
)


@dataclass(frozen=True)
class Sizes:
    """All counts of one run. ``lists`` and ``instructions`` by mode, ``list_ms`` too."""

    tools: int
    without: Tokens
    lists: dict[str, Tokens]
    instructions: dict[str, Tokens]
    list_ms: dict[str, float]
    search: Tokens
    described: Tokens
    task: Tokens
    crowded_task: Tokens


async def sizes(folder: Path, count: Counter) -> Sizes:
    """Everything counted through a daemon, with a bridge for each mode."""
    tools = [tool for kind in KINDS for tool in definitions(kind)]
    lists, instructions, list_ms = {}, {}, {}
    async with daemon(folder / "home") as (home, _):
        for mode in MODES:
            client = await home.client("--mode", mode)
            try:
                told = (await client.initialize()).get("instructions") or ""
                instructions[mode] = count(told)
                lists[mode], list_ms[mode] = await _list(client, count)
            finally:
                await client.close()
        client = await home.client("--mode", "search")
        try:
            await client.initialize()
            search = [await _step(client, "search_tools", {"query": query}, count) for query in QUERIES]
            names = [f"{kind}__{tool['name']}" for kind in KINDS for tool in definitions(kind)]
            described = [await _answer(client, "describe_tools", {"names": [name]}, count) for name in names]
            task = await _task(client, count)
        finally:
            await client.close()
    others = {"many": upstream("many", str(CROWD - len(tools)))}
    async with daemon(folder / "crowd", others) as (home, _):
        client = await home.client("--mode", "search")
        try:
            told = (await client.initialize()).get("instructions") or ""
            listed, _ = await _list(client, count, 1)
            crowded_task = listed + count(told) + await _task(client, count)
        finally:
            await client.close()
    return Sizes(
        tools=len(tools),
        without=count({"tools": tools}),
        lists=lists,
        instructions=instructions,
        list_ms=list_ms,
        search=_sum(search).over(len(search)),
        described=_sum(described).over(len(described)),
        task=lists["search"] + instructions["search"] + task,
        crowded_task=crowded_task,
    )


async def _list(client: Client, count: Counter, times: int = 20) -> tuple[Tokens, float]:
    taken: list[float] = []
    listed: Json = await client.request("tools/list", {})
    for _ in range(times):
        began = time.perf_counter()
        listed = await client.request("tools/list", {})
        taken.append((time.perf_counter() - began) * 1e3)
    return count({"tools": listed["tools"]}), median(taken)


async def _task(client: Client, count: Counter) -> Tokens:
    """What the model writes and reads until three tools have been found, read about and called."""
    total = NOTHING
    for query, name, arguments in TASK:
        total += await _step(client, "search_tools", {"query": query}, count)
        total += await _step(client, "describe_tools", {"names": [name]}, count)
        total += await _step(client, "call_tool", {"name": name, "arguments": arguments}, count)
    return total


async def _step(client: Client, tool: str, arguments: Json, count: Counter) -> Tokens:
    return count({"name": tool, "arguments": arguments}) + await _answer(client, tool, arguments, count)


async def _answer(client: Client, tool: str, arguments: Json, count: Counter) -> Tokens:
    return count(await client.call({"name": tool, "arguments": arguments}))


def _sum(several: list[Tokens]) -> Tokens:
    total = NOTHING
    for one in several:
        total += one
    return total
