"""Coroutines that run at once, and become tasks only if they have to wait."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar

import pytest

from tabane.workers.eager_start import own_task, start

_mark: ContextVar[str] = ContextVar("mark", default="outside")


async def test_what_does_not_wait_ends_without_a_task() -> None:
    seen: list[str] = []

    async def inner() -> str:
        return "inner"

    async def work() -> None:
        seen.append(await inner())

    assert start(work(), asyncio.get_running_loop()) is None
    assert seen == ["inner"]


@pytest.mark.parametrize("done", [False, True], ids=["later", "before the task runs"])
async def test_what_waits_goes_on_in_a_task(done: bool) -> None:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()
    seen: list[str] = []

    async def work() -> None:
        seen.append(await answer)
        await asyncio.sleep(0)
        seen.append("end")

    task = start(work(), loop)
    assert task is not None
    if done:
        answer.set_result("given")
    else:
        loop.call_later(0.001, answer.set_result, "given")
    await task
    assert seen == ["given", "end"]


async def test_a_failure_of_the_future_reaches_the_coroutine() -> None:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[str] = loop.create_future()

    async def work() -> None:
        with pytest.raises(ValueError, match="no"):
            await answer
        raise KeyError("end")

    task = start(work(), loop)
    assert task is not None
    answer.set_exception(ValueError("no"))
    with pytest.raises(KeyError):
        await task


async def test_an_error_before_the_first_wait_is_raised_at_once() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        start(work(), asyncio.get_running_loop())


async def test_a_canceled_future_before_the_first_wait_ends_the_coroutine_alone() -> None:
    loop = asyncio.get_running_loop()
    gone: asyncio.Future[None] = loop.create_future()
    gone.cancel()

    async def work() -> None:
        await gone

    assert start(work(), loop) is None


@pytest.mark.parametrize("turns", [0, 1, 3])
@pytest.mark.parametrize("bare", [False, True], ids=["future", "turn of the loop"])
async def test_a_cancellation_reaches_the_coroutine_and_what_it_waits_for(turns: int, bare: bool) -> None:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()
    ends: list[str] = []

    async def work() -> None:
        try:
            if bare:
                await asyncio.sleep(0)
            await answer
        except asyncio.CancelledError:
            ends.append("canceled")
            raise

    task = start(work(), loop)
    assert task is not None
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ends == ["canceled"]
    assert answer.cancelled() or (bare and turns == 0)


async def test_a_cancellation_waits_for_the_end_of_a_task_that_is_awaited() -> None:
    loop = asyncio.get_running_loop()
    order: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            order.append("inner")

    async def work() -> None:
        try:
            await awaited
        finally:
            order.append("work")

    awaited = loop.create_task(inner())
    await asyncio.sleep(0)
    task = start(work(), loop)
    assert task is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert order == ["inner", "work"]


async def test_a_coroutine_that_swallows_the_cancellation_goes_on() -> None:
    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)

    task = start(work(), asyncio.get_running_loop())
    assert task is not None
    task.cancel()
    await task
    assert not task.cancelled()


async def test_a_context_variable_that_is_set_in_its_own_task_stays_there() -> None:
    seen: list[str] = []

    async def work() -> None:
        await own_task()
        _mark.set("inside")
        await asyncio.sleep(0)
        seen.append(_mark.get())

    task = start(work(), asyncio.get_running_loop())
    assert task is not None
    await task
    assert (seen, _mark.get()) == (["inside"], "outside")


async def test_own_task_gives_a_task_of_its_own() -> None:
    seen: list[asyncio.Task[None] | None] = []

    async def work() -> None:
        seen.append(asyncio.current_task())
        await own_task()
        seen.append(asyncio.current_task())

    task = start(work(), asyncio.get_running_loop())
    assert task is not None
    await task
    assert seen == [asyncio.current_task(), task]


async def test_a_timeout_after_own_task_ends_the_coroutine_and_not_its_starter() -> None:
    ends: list[str] = []

    async def work() -> None:
        await own_task()
        try:
            async with asyncio.timeout(0.001):
                await asyncio.Event().wait()
        except TimeoutError:
            ends.append("timeout")

    task = start(work(), asyncio.get_running_loop())
    assert task is not None
    await task
    assert ends == ["timeout"]


async def test_a_timeout_in_a_callback_of_the_loop_needs_own_task() -> None:
    loop = asyncio.get_running_loop()
    ends: list[str] = []
    over = asyncio.Event()

    async def work(*, own: bool) -> None:
        if own:
            await own_task()
        async with asyncio.timeout(60):
            await asyncio.sleep(0)
        ends.append("in time")
        over.set()

    def called_back() -> None:
        with pytest.raises(RuntimeError, match="inside a task"):
            start(work(own=False), loop)
        start(work(own=True), loop)

    loop.call_soon(called_back)
    await over.wait()
    assert ends == ["in time"]


async def test_a_started_coroutine_can_be_shown() -> None:
    async def work() -> None:
        await asyncio.sleep(0)

    task = start(work(), asyncio.get_running_loop())
    assert task is not None
    assert "pending" in repr(task)
    assert task.get_stack() == []
    await task
