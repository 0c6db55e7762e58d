"""The operation execute_parallel: many tool calls at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Raw

from tabane.catalog.operations.parameters import CallTool, ExecuteParallel
from tabane.catalog.tools.tool import says_failed
from tabane.errors import RateLimited, TabaneError
from tabane.messages import Lang, say
from tabane.operations import Caller
from tabane.wire import rpc

MOST_BYTES = 32 << 20
"""Bytes of all results together, since they are one answer. A result beyond that becomes an error."""

Perform = Callable[[Caller, str, dict[str, Any]], Awaitable[Raw]]
"""Calls one tool, after permission and validation, and returns its result. Raises TabaneError."""


class ParallelCalls:
    """Calls several tools, a limited number at a time. The limit of each server still applies."""

    def __init__(self, perform: Perform) -> None:
        self._perform = perform

    async def execute(self, caller: Caller, params: ExecuteParallel) -> dict[str, Any]:
        """Return the results in the order of the requests: ``{name, ok, result | error, ms}``.

        ``ok`` is False also for a tool that reports a failure: its ``result`` then has ``isError``. The other
        calls are cancelled if the caller gives up, at the timeout, and after a failure if
        ``continue_on_error`` is False.
        """
        run = _ParallelRun(params)
        workers = [
            asyncio.ensure_future(self._work(caller, run))
            for _ in range(min(params.max_concurrency, len(params.requests)))
        ]
        try:
            await asyncio.wait(workers, timeout=params.timeout, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            for worker in workers:
                worker.cancel()
            ends = await asyncio.gather(*workers, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, _ParallelStopped):
                raise end
        return run.report(caller.lang, stopped=any(isinstance(end, _ParallelStopped) for end in ends))

    async def _work(self, caller: Caller, run: _ParallelRun) -> None:
        for number, request in run.waiting:
            run.started[number] = time.perf_counter()
            try:
                result = await self._perform(caller, request.name, request.arguments)
            except TabaneError as error:
                if isinstance(error, RateLimited):
                    await asyncio.sleep(error.pause)  # the caller ignores that it is over its limits
                run.end(number, False, "error", Raw(rpc.error_of(error, caller.lang)))
            else:
                run.answered(number, result, caller.lang)


class _ParallelStopped(Exception):
    """A call failed, and the remaining ones are not wanted."""


class _ParallelRun:
    """The requests of one execute_parallel and their outcomes."""

    def __init__(self, params: ExecuteParallel) -> None:
        self._params = params
        self.waiting: Iterator[tuple[int, CallTool]] = iter(enumerate(params.requests))
        self.started: dict[int, float] = {}
        self._rows: dict[int, dict[str, Any]] = {}
        self._bytes = 0

    def answered(self, number: int, result: Raw, lang: Lang) -> None:
        """Note the result of a call, or an error if all results together become too large.

        Raises _ParallelStopped as :meth:`end` does.
        """
        size = memoryview(result).nbytes
        if self._bytes + size > MOST_BYTES:
            error = TabaneError(say(
                "The result ({size} MiB) was left out, because the results of one execute_parallel "
                "may have at most {most} MiB together. The call was made. Call this tool separately.",
                size=-(-size // (1 << 20)), most=MOST_BYTES >> 20))  # fmt: skip
            self.end(number, False, "error", Raw(rpc.error_of(error, lang)))
            return
        self._bytes += size
        self.end(number, not says_failed(result), "result", result)

    def end(self, number: int, ok: bool, kind: str, value: Raw) -> None:
        """Note how a call ended. Raises _ParallelStopped if the others are to be stopped."""
        self._rows[number] = self._row(number, ok, kind, value)
        if not ok and not self._params.continue_on_error:
            raise _ParallelStopped

    def report(self, lang: Lang, *, stopped: bool) -> dict[str, Any]:
        for number in range(len(self._params.requests)):
            if number not in self._rows:
                error = rpc.error_of(self._unfinished(number, stopped), lang)
                self._rows[number] = self._row(number, False, "error", Raw(error))
        rows = [self._rows[number] for number in sorted(self._rows)]
        succeeded = sum(row["ok"] for row in rows)
        return {"results": rows, "succeeded": succeeded, "failed": len(rows) - succeeded}

    def _row(self, number: int, ok: bool, kind: str, value: Raw) -> dict[str, Any]:
        started = self.started.get(number)
        ms = 0.0 if started is None else (time.perf_counter() - started) * 1000
        return {"name": self._params.requests[number].name, "ok": ok, kind: value, "ms": round(ms, 1)}

    def _unfinished(self, number: int, stopped: bool) -> TabaneError:
        if stopped and number in self.started:
            why = say("Cancelled because another call failed. It is not known whether it took effect.")
        elif stopped:
            why = say("Not called because another call failed.")
        elif number in self.started:
            why = say(
                "Cancelled because the time for all calls ({seconds:g} s) ran out. It is not known "
                "whether it took effect.",
                seconds=self._params.timeout,
            )
        else:
            why = say(
                "Not called because the time for all calls ({seconds:g} s) ran out.",
                seconds=self._params.timeout,
            )
        return TabaneError(why)
