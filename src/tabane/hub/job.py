"""One job: how far it is, how fast it goes, and word of it to who follows it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any, Literal

from tabane.errors import TabaneError
from tabane.messages import Lang, Message

BETWEEN_VERSIONS = 0.05
"""Seconds between two versions of a job, however often it tells of itself."""

WINDOW, LEAST_SPAN = 10.0, 0.5
"""Seconds that a rate is measured over, and that it takes to be worth anything."""

Status = Literal["running", "done", "failed", "cancelled"]


class Pace:
    """How fast a count grows: over :data:`WINDOW`, or between two steps where those are further apart.

    Times are in seconds of any one clock. A count that falls begins anew.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        if self._steps and done < self._steps[-1][1]:
            self._steps.clear()
        self._steps.append((now, done))
        while len(self._steps) > 2 and self._steps[1][0] <= now - WINDOW:
            self._steps.popleft()

    def rate(self, now: float) -> float | None:
        """Per second; None while too little is known. Sinks where the count has stood still for long."""
        if len(self._steps) < 2:
            return None
        (first, before), (last, done) = self._steps[0], self._steps[-1]
        span = max(last, now - WINDOW) - first
        return (done - before) / span if span >= LEAST_SPAN else None


class Job:
    """One job, from its start on. It is what its own work tells its progress to."""

    def __init__(self, key: str, operation: str, title: Message, loop: asyncio.AbstractEventLoop) -> None:
        self.key, self.operation, self.title = key, operation, title
        self.status: Status = "running"
        self.version = 1
        self._loop = loop
        self._done = 0
        self._total: int | None = None
        self._note: Message | None = None
        self._started = time.time()
        self._ended: float | None = None
        self._result: Any = None
        self._error: TabaneError | None = None
        self._pace, self._news = Pace(), asyncio.Event()
        self._told = 0.0
        self._telling: asyncio.TimerHandle | None = None

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        if self.status != "running":
            return
        self._done, self._total, self._note = done, total, note
        if self._telling is None:
            wait = self._told + BETWEEN_VERSIONS - self._loop.time()
            if wait <= 0:
                self._tell()
            else:
                self._telling = self._loop.call_later(wait, self._tell)

    def state(self, lang: Lang) -> dict[str, Any]:
        """How the job is now.

        ``rate`` is per second and ``left`` in seconds, each None where it is not known; ``started`` and
        ``ended`` are seconds since 1970. ``result`` is there when the job is done, ``error`` (code, message,
        reason) when it failed or the hub ended it.
        """
        rate = self._pace.rate(self._told if self._ended else self._loop.time())
        state: dict[str, Any] = {
            "job": self.key,
            "operation": self.operation,
            "title": self.title.render(lang),
            "status": self.status,
            "done": self._done,
            "total": self._total,
            "note": self._note.render(lang) if self._note else None,
            "rate": None if rate is None else round(rate, 2),
            "left": self._left(rate),
            "started": round(self._started, 3),
            "version": self.version,
        }
        if self._ended is not None:
            state["ended"] = round(self._ended, 3)
        if self.status == "done":
            state["result"] = self._result
        if self._error is not None:
            error = self._error
            state["error"] = {"code": error.code, "message": error.text(lang), "reason": error.reason}
        return state

    async def changed(self, version: int | None, wait: float) -> None:
        """Return when there is another version than that, when the job is over, or after ``wait`` seconds."""
        if version == self.version and self.status == "running":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    def end(self, status: Status, result: Any = None, error: TabaneError | None = None) -> None:
        """The job is over: what it tells from now on is not heard."""
        if self._telling is not None:
            self._telling.cancel()
            self._telling = None
        self.status, self._result, self._error = status, result, error
        self._ended = time.time()
        self._tell()

    def _tell(self) -> None:
        self._telling = None
        self._told = self._loop.time()
        self._pace.add(self._told, self._done)
        self.version += 1
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _left(self, rate: float | None) -> float | None:
        if self._total is None or not rate or self.status != "running":
            return None
        return round(max(self._total - self._done, 0) / rate, 1)
