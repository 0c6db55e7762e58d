"""Tools that were used come first among equal ones, also after a restart of the hub."""

from __future__ import annotations

import re
from pathlib import Path

from tests.harness.running_hub import SocketClient, child, running_hub, text


async def found(line: SocketClient) -> list[str]:
    answer = text(await line.call("search_tools", query="an extra one", limit=4))
    return re.findall(r"up__extra_\d", answer)


async def test_a_tool_that_was_called_comes_first_among_equal_ones(tmp_path: Path) -> None:
    names = [f"up__extra_{number}" for number in range(4)]
    servers = {"up": child("--tools", "4")}
    async with running_hub(tmp_path, servers) as here:
        line = await here.connect()
        assert await found(line) == names
        await line.call("call_tool", name="up__extra_2", arguments={})
        used_first = ["up__extra_2", "up__extra_0", "up__extra_1", "up__extra_3"]
        assert await found(line) == used_first
    async with running_hub(tmp_path, servers) as here:
        assert await found(await here.connect()) == used_first
