"""Calls leave nothing behind that only the garbage collector frees: its runs would delay other calls."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest

from tests.harness.running_hub import ENVELOPE, Json, child, connected_hub

CALLS = 100


@pytest.mark.parametrize("through", [False, True], ids=["by its name", "call_tool"])
@pytest.mark.parametrize("upstream", ["legacy", "modern"])
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
async def test_a_call_is_freed_when_it_is_answered(
    tmp_path: Path, version: Any, upstream: str, through: bool
) -> None:
    call: Json = {"name": "up__echo", "arguments": {"n": 1}}
    if through:
        call = {"name": "call_tool", "arguments": call}
    if version == "2026-07-28":
        call["_meta"] = ENVELOPE
    async with connected_hub(tmp_path, {"up": child("--era", upstream)}, version) as (_, line):
        for _ in range(CALLS):
            await line.result("tools/call", call)
        gc.collect()
        gc.disable()
        try:
            for _ in range(CALLS):
                await line.result("tools/call", call)
            left = gc.collect()
        finally:
            gc.enable()
        assert left < CALLS
