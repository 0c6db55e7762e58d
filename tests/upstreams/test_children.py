"""child.py without options is a well-behaved server."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.harness.child_processes import CHILD


@pytest.mark.parametrize(
    ("flags", "mode", "version"),
    [
        ([], "auto", "2025-11-25"),
        (["--versions", "2025-06-18"], "legacy", "2025-06-18"),
        (["--discover", "invalid", "--page-size", "4"], "auto", "2025-11-25"),
        (["--era", "modern"], "auto", "2026-07-28"),
        (["--era", "modern"], "2026-07-28", "2026-07-28"),
        (["--era", "dual"], "auto", "2026-07-28"),
        (["--era", "dual"], "legacy", "2025-11-25"),
    ],
)
async def test_the_official_client_lists_and_calls(flags: list[str], mode: Any, version: str) -> None:
    parameters = StdioServerParameters(command=sys.executable, args=[CHILD, *flags, "--tools", "2"])
    async with Client(stdio_client(parameters), mode=mode) as client:
        assert client.protocol_version == version
        names, cursor = list[str](), None
        while True:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            if (cursor := page.next_cursor) is None:
                break
        assert {"echo", "extra_1"} <= set(names)
        assert len(names) == len(set(names))
        result = await client.call_tool("echo", {"text": "束ね"})
        assert result.structured_content == {"text": "束ね"}
