"""Long results of call_tool: returned in parts, with a handle that belongs to one client and expires."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
from msgspec import Raw

from tabane.catalog.long_results import KeptLimits, LongResults
from tabane.catalog.operations.table import ReadMore
from tabane.errors import CallerError
from tabane.operations import Caller, Face
from tests.harness.patience import until
from tests.harness.running_hub import Client, Json, SocketClient, child, running_hub, text

PART = "io.github.tabane/part"


class Clock(asyncio.SelectorEventLoop):
    """A loop that never runs: its time passes on request."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.timers: list[asyncio.TimerHandle] = []
        self.close()

    def time(self) -> float:
        return self.now

    def call_later(  # type: ignore[override]  # variadic types of the superclass
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(self.now + delay, callback, args, self, context)
        self.timers.append(timer)
        return timer

    def pass_by(self, seconds: float) -> None:
        """Let that many seconds pass, and run everything that is due in them."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when() <= end]:
            first = min(due, key=lambda timer: timer.when())
            self.timers.remove(first)
            self.now = first.when()
            if not first.cancelled():
                first._run()
        self.now = end


LINES = "".join(f"{number} 一行の文章\n" for number in range(2_000))
ROWS = json.dumps([{"id": number, "name": "x" * 40} for number in range(400)])


def saying(said: str, **members: Any) -> str:
    """The arguments of the tool ``raw`` for a result with that text."""
    return json.dumps({"content": [{"type": "text", "text": said}], **members})


async def read_on(line: SocketClient, first: Json) -> list[Json]:
    """All parts of a result that begins with ``first``."""
    parts = [first]
    while handle := parts[-1]["_meta"][PART].get("next"):
        assert f'read_more {{"handle": "{handle}"}}' in parts[-1]["content"][-1]["text"]
        parts.append(await line.call("read_more", handle=handle))
    return parts


def said(part: Json) -> str:
    """The text of a part without the note at its end."""
    return "".join(block.get("text", "") for block in part["content"][:-1])


@pytest.mark.parametrize("client", get_args(Client))
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("by", ["call_tool", "call_readonly_tool"])
async def test_a_long_result_comes_in_parts_in_every_pairing(
    tmp_path: Path, client: Client, era: str, by: str
) -> None:
    async with running_hub(tmp_path, {"up": child("--era", era)}, result_tokens=1_000) as here:
        line = await here.connect(client)
        first = await line.call(by, name="up__echo", arguments={"text": LINES})
        parts = await read_on(line, first)
        whole = await line.call("up__echo", text=LINES)
        assert "".join(map(said, parts)) == text(whole)
        assert len(parts) > 5
        assert all(len(said(part).encode()) <= 4_000 for part in parts)
        kinds = [part.get("resultType") for part in parts]
        assert kinds == [
            ("complete" if line.modern or (era == "modern" and n == 0) else None) for n in range(len(parts))
        ]
        # structuredContent of this size would be the same text once more.
        assert "structuredContent" not in first
        assert first["_meta"][PART]["omitted"] == ["structuredContent"]


async def test_json_comes_in_parts_that_end_between_its_elements(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        parts = await read_on(line, await line.through("up__raw", json=saying(ROWS)))
        assert "".join(map(said, parts)) == ROWS
        assert all(said(part).rstrip().endswith("},") for part in parts[:-1])
        assert "The rest starts at [" in parts[0]["content"][-1]["text"]


async def test_images_failure_and_unknown_members_are_kept(tmp_path: Path) -> None:
    image = {"type": "image", "data": "aGk=", "mimeType": "image/png", "x-y": None}
    result = {
        "content": [image, {"type": "text", "text": LINES}, image],
        "isError": True,
        "x-unknown": [10**20],
        "_meta": {"a.b/c": "d"},
        "structuredContent": {"small": 1},
    }
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        first = await line.through("up__raw", json=json.dumps(result))
        assert [block["type"] for block in first["content"]] == ["image", "text", "image", "text"]
        assert first["content"][0] == first["content"][2] == image
        assert first["x-unknown"] == [10**20]
        assert first["_meta"]["a.b/c"] == "d"
        assert first["structuredContent"] == {"small": 1}
        parts = await read_on(line, first)
        assert all(part["isError"] is True for part in parts)
        assert (
            "".join(block["text"] for part in parts for block in part["content"][:-1] if "text" in block)
            == LINES
        )


async def test_half_a_surrogate_pair_is_replaced_in_all_parts(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        parts = await read_on(line, await line.through("up__raw", json=saying("\ud83d line\n" * 2_000)))
        assert "".join(map(said, parts)) == "\ufffd line\n" * 2_000


async def test_the_budget_is_the_servers_own_or_that_of_the_settings(tmp_path: Path) -> None:
    servers = {
        "small": child(maxResultTokens=1_000),
        "large": child(maxResultTokens=40_000),
        "plain": child(),
    }
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect()
        for server, size, cut in (
            ("small", 4_000, False),
            ("small", 4_001, True),
            ("large", 160_000, False),
            ("large", 160_001, True),
            ("plain", 100_000, False),
            ("plain", 100_001, True),
        ):
            result = await line.through(f"{server}__huge", bytes=size)
            assert (PART in result.get("_meta", {})) is cut, (server, size)
            assert (text(result) == "x" * size) is not cut
        assert PART not in (await line.call("small__huge", bytes=1 << 20)).get("_meta", {})


async def test_handles_are_their_clients_own_and_end_with_it(tmp_path: Path) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        one, other = await here.connect(), await here.connect()
        first = await one.through("up__raw", json=saying(LINES))
        handle = first["_meta"][PART]["next"]
        refused = await other.call("read_more", handle=handle)
        assert refused["isError"] is True
        assert "Call the tool again" in text(refused)
        assert "一行" not in text(refused)
        # The same handle gives the same part again.
        again = [await one.call("read_more", handle=handle) for _ in range(2)]
        assert again[0] == again[1]
        await one.close()
        await until(lambda: not len(here.hub.long_results), "nothing is kept")


@pytest.mark.parametrize("end", ["", ".", ".0", ".1", ".-2", ".9", ".x", ".²"])
async def test_a_handle_that_names_no_part_is_refused_with_a_word(tmp_path: Path, end: str) -> None:
    async with running_hub(tmp_path, {"up": child()}, result_tokens=1_000) as here:
        line = await here.connect()
        first = await line.through("up__raw", json=saying(LINES))
        key = first["_meta"][PART]["next"].partition(".")[0]
        for handle in (key + end, "none" + end):
            refused = await line.call("read_more", handle=handle)
            assert refused["isError"] is True
            assert "handle" in text(refused)


def long_result(size: int) -> Raw:
    return Raw(saying("x" * size).encode())


async def handle_of(results: LongResults, caller: Caller, size: int = 10_000) -> str:
    first = json.loads(bytes(results.first_part(caller, long_result(size), 1_000)))
    handle: str = first["_meta"][PART]["next"]
    return handle


ME = Caller("local", Face.MCP, "1")


async def test_what_is_kept_is_bounded_in_time_and_each_reading_extends_it() -> None:
    loop = Clock()
    results = LongResults(loop, lambda: KeptLimits(life=600))
    handle = await handle_of(results, ME)
    for _ in range(10):
        loop.pass_by(400)
        await results.read(ME, ReadMore(handle))
    assert len(results) == 1
    loop.pass_by(601)
    assert len(results) == 0
    with pytest.raises(CallerError, match="not valid"):
        await results.read(ME, ReadMore(handle))


async def test_what_is_kept_is_bounded_in_number_and_bytes_and_the_oldest_makes_way() -> None:
    loop = asyncio.get_running_loop()
    for limits in (KeptLimits(most=3), KeptLimits(most_bytes=35_000)):
        results = LongResults(loop, partial(copy, limits))
        handles = [await handle_of(results, ME) for _ in range(5)]
        assert len(results) == 3
        for handle in handles[:2]:
            with pytest.raises(CallerError):
                await results.read(ME, ReadMore(handle))
        for handle in handles[2:]:
            await results.read(ME, ReadMore(handle))
    # One that is larger than all may be is kept all the same: its client was told to go on.
    large = await handle_of(results, ME, 50_000)
    await results.read(ME, ReadMore(large))
    assert len(results) == 1
