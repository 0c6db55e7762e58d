"""Large and malformed answers, slow clients and endless lists: each fails only its own request."""

from __future__ import annotations

import asyncio
import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tabane.catalog.operations.server_operations import server_row
from tests.harness.patience import LONG, until
from tests.harness.running_hub import Json, RunningHub, SocketClient, child, running_hub, text

BULKY = str(Path(__file__).parents[2] / "harness" / "servers" / "bulky.py")
ODD = {"surrogate": "\ufffd", "stray": "\ufffd\ufffd"}


def bulky(*arguments: str, **keys: Any) -> Json:
    return {"command": sys.executable, "args": [BULKY, *arguments], "timeout": LONG, **keys}


def begin(line: SocketClient, server: str, size: int, kind: str = "plain") -> asyncio.Future[Json]:
    arguments = {"bytes": size, "kind": kind}
    return line.begin("tools/call", {"name": f"{server}__answer", "arguments": arguments})


async def answered(futures: list[asyncio.Future[Json]]) -> list[Json]:
    return await asyncio.wait_for(asyncio.gather(*futures), LONG)


# -- slow clients --------------------------------------------------------------------------------


@pytest.mark.heavy("kills real processes, many times")
@pytest.mark.parametrize("servers", [1, 3])
async def test_a_client_that_reads_is_given_answers_that_are_larger_than_its_outbox_together(
    tmp_path: Path, servers: int
) -> None:
    names = [f"up{number}" for number in range(servers)]
    async with running_hub(tmp_path, {name: bulky() for name in names}, outbox=4 << 20) as here:
        line = await here.connect()
        for name in names:
            await line.call(f"{name}__echo")
        waiting = [begin(line, names[number % servers], 3 << 20) for number in range(6)]
        answers = await answered(waiting)
        assert [len(text(answer["result"])) for answer in answers] == [3 << 20] * 6
        assert line.unexpected == []


@pytest.mark.heavy("kills real processes, many times")
@pytest.mark.parametrize("at_once", [1, 64])
async def test_a_client_that_does_not_read_holds_up_nobody_else_of_its_server(
    tmp_path: Path, at_once: int
) -> None:
    async with running_hub(tmp_path, {"up": bulky(maxConcurrency=at_once)}, outbox=4 << 20) as here:
        slow, other = await here.connect(), await here.connect()
        await other.call("up__echo")
        slow.pause()
        waiting = [begin(slow, "up", 3 << 20) for _ in range(4)]
        for number in range(3):
            assert json.loads(text(await other.call("up__echo", n=number))) == {"n": number}
        assert not any(future.done() for future in waiting)
        slow.resume()
        answers = await answered(waiting)
        assert [len(text(answer["result"])) for answer in answers] == [3 << 20] * 4


def _died(here: RunningHub, times: int) -> bool:
    return here.hub.gateway.instances("up")[0].vitals.deaths > times


@pytest.mark.heavy("kills real processes, many times")
async def test_a_server_that_dies_after_a_large_answer_has_answered(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": bulky("--once")}, outbox=4 << 20) as here:
        line = await here.connect()
        for number in range(3):
            answer = await asyncio.wait_for(begin(line, "up", 8 << 20), LONG)
            assert len(text(answer["result"])) == 8 << 20
            # a call that reaches the dying server before the hub knows of it fails, rightly
            await until(partial(_died, here, number), "its death is noticed")


# -- malformed answers ---------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 3 << 20])
@pytest.mark.parametrize("kind", ["surrogate", "digits", "stray"])
@pytest.mark.parametrize("version", ["2025-06-18", "2026-07-28"])
async def test_odd_answers_pass_whatever_their_length(
    tmp_path: Path, kind: str, size: int, version: Any
) -> None:
    async with running_hub(tmp_path, {"up": bulky(), "other": child()}) as here:
        line = await here.connect(version)
        answer = await asyncio.wait_for(begin(line, "up", size, kind), LONG)
        assert len(text(answer["result"])) == size
        odd = answer["result"]["structuredContent"]["odd"]
        assert odd == ODD.get(kind, odd)


@pytest.mark.parametrize("size", [0, 3 << 20])
@pytest.mark.parametrize("kind", ["deep", "broken", "nan"])
async def test_an_answer_that_cannot_be_read_fails_its_call_at_once(
    tmp_path: Path, kind: str, size: int
) -> None:
    async with running_hub(tmp_path, {"up": bulky(timeout=600)}) as here:
        line = await here.connect()
        odd, plain = begin(line, "up", size, kind), begin(line, "up", 10)
        refused, fine = await answered([odd, plain])
        assert "The response of up cannot be read" in refused["error"]["message"]
        assert len(text(fine["result"])) == 10


@pytest.mark.parametrize("size", [200_000, 3 << 20])
async def test_long_results_in_parts_are_whole_however_long(tmp_path: Path, size: int) -> None:
    async with running_hub(tmp_path, {"up": bulky()}) as here:
        line = await here.connect()
        await line.call("up__echo")
        result = await line.through("up__answer", bytes=size)
        part = result["_meta"]["io.github.tabane/part"]
        assert part["of"] == size
        assert text(result).startswith("x" * 1000)
        further = await line.call("read_more", handle=part["next"])
        assert further["_meta"]["io.github.tabane/part"]["bytes"] > part["bytes"]


# -- lists ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "settings", "least", "most"),
    [
        (("--tools", "500", "--padding", "10"), {"list_items": 100}, 100, 100),
        (("--tools", "500", "--padding", "1000"), {"list_size": 64 << 10}, 40, 65),
        (("--tools", "500", "--padding", "1000", "--pages", "10"), {"catalogue_size": 64 << 10}, 40, 65),
    ],
)
async def test_of_a_list_that_is_too_long_the_first_tools_are_used_and_the_server_says_so(
    tmp_path: Path, arguments: tuple[str, ...], settings: dict[str, int], least: int, most: int
) -> None:
    async with running_hub(tmp_path, {"up": bulky(*arguments), "other": bulky()}, **settings) as here:
        line = await here.connect()
        assert json.loads(text(await line.call("up__echo", n=1))) == {"n": 1}
        gateway = here.hub.gateway
        await until(lambda: gateway.catalog.has("up"), "its tools are listed")
        row = server_row(gateway, gateway.servers["up"], "en")
        assert least <= row["tools"] <= most
        assert "it lists too many tools" in row["error"]
        assert json.loads(text(await line.call("other__echo", n=2))) == {"n": 2}
        assert server_row(gateway, gateway.servers["other"], "en")["error"] is None


async def test_thousands_of_tools_are_listed_and_called(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": bulky("--tools", "3000", "--padding", "50")}) as here:
        line = await here.connect()
        assert json.loads(text(await line.call("up__echo", n=1))) == {"n": 1}
        assert len(here.hub.gateway.catalog.of_server("up")) == 3002
        assert here.hub.gateway.catalog.find("up__tool_002999") is not None
