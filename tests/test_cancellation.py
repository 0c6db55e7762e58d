"""Work that goes on to its end when its caller is canceled."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tabane.cancellation import run_to_end
from tests.harness.patience import LONG


@pytest.mark.parametrize("fails", [False, True])
async def test_a_thread_ends_before_the_cancellation_goes_on(fails: bool) -> None:
    begun, gate, ends = threading.Event(), threading.Event(), []

    def work() -> None:
        begun.set()
        assert gate.wait(LONG)
        ends.append(1)
        if fails:
            raise ValueError("lost")

    caller = asyncio.ensure_future(run_to_end(asyncio.to_thread(work)))
    assert await asyncio.to_thread(begun.wait, LONG)
    caller.cancel()
    for _ in range(10):
        await asyncio.sleep(0)
    still_waits = not caller.done()
    gate.set()
    assert still_waits
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert ends == [1]


async def test_the_result_and_the_failure_of_work_come_back() -> None:
    async def fail() -> None:
        raise ValueError("no")

    assert await run_to_end(asyncio.to_thread(lambda: 7)) == 7
    with pytest.raises(ValueError, match="no"):
        await run_to_end(fail())
