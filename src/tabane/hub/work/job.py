"""One job: its progress, its rate, and news for its followers."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

from tabane.errors import TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import Caller
from tabane.operations.jobs import TurnHolder

BETWEEN_VERSIONS = 0.05
"""Seconds between two versions of a job, however often it tells of itself."""

WINDOW, LEAST_SPAN = 10.0, 0.5
"""Seconds that a rate is measured over, and that it takes to be worth anything."""

Status = Literal["running", "done", "failed", "cancelled"]


class JobPace:
    """The rate at which a count grows: over :data:`WINDOW`, or between two steps if they are further apart.

    Times are in seconds of any one clock. If the count falls, measuring starts again.
    """

    def __init__(self) -> None:
        self._steps: deque[tuple[float, int]] = deque()

    def add(self, now: float, done: int) -> None:
        """Note that a count was reached at a time."""
        if self._steps and done < self._steps[-1][1]:
            self._steps.clear()
        self._steps.append((now, done))
        while len(self._steps) > 2 and self._steps[1][0] <= now - WINDOW:
            self._steps.popleft()

    def rate(self, now: float) -> float | None:
        """Return the rate per second; None while too little is known.

        It falls while the count does not change.
        """
        if len(self._steps) < 2:
            return None
        (first, before), (last, done) = self._steps[0], self._steps[-1]
        span = max(last, now - WINDOW) - first
        return (done - before) / span if span >= LEAST_SPAN else None


class JobOwner(NamedTuple):
    """The client that started a job: its connection in the hub, its program and process (0: not known).

    ``detached`` is whether the job continues without its owner. ``holder`` is the identity of the client.
    """

    session: str
    client: str
    pid: int
    detached: bool
    holder: str = ""

    @classmethod
    def of(cls, caller: Caller | None) -> JobOwner | None:
        """Return the client behind a caller; None for a job of the hub itself."""
        if caller is None:
            return None
        connected, holder = caller.connected, caller.access.holder
        return cls(caller.session, caller.client, caller.pid, detached=not connected, holder=holder)

    def plain(self) -> dict[str, Any]:
        return {"client": self.client, "pid": self.pid or None, "detached": self.detached}


class Job:
    """One job, from its start on. Its work reports its progress to it.

    ``owner`` is None if the hub itself started the job. ``on_news`` is called with the job and each version.
    """

    def __init__(
        self,
        key: str,
        operation: str,
        title: Message,
        loop: asyncio.AbstractEventLoop,
        owner: JobOwner | None = None,
        on_news: Callable[[Job], None] = lambda job: None,
    ) -> None:
        self.key, self.operation, self.title = key, operation, title
        self.owner = owner
        self.status: Status = "running"
        self.version = 1
        self._loop, self._on_news = loop, on_news
        self._done = 0
        self._total: int | None = None
        self._note: Message | None = None
        self._started = time.time()
        self._ended: float | None = None
        self._result: Any = None
        self._error: TabaneError | None = None
        self._pace, self._news = JobPace(), asyncio.Event()
        self._told = 0.0
        self._telling: asyncio.TimerHandle | None = None
        self._ahead: TurnHolder | None = None

    def behind(self, ahead: TurnHolder | None) -> None:
        """Note what the job waits for; None when it has its turn."""
        self._ahead = ahead
        if self.status == "running":
            self._tell()

    def detach(self) -> None:
        """Let the job continue when its owner is gone."""
        if self.owner is not None and not self.owner.detached:
            self.owner = self.owner._replace(detached=True)
            self._tell()

    def tell(self, done: int, total: int | None = None, note: Message | None = None) -> None:
        """Note the progress of the job, and tell those who follow it."""
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
        """Return the current state of the job.

        ``rate`` is per second and ``left`` in seconds, each None if it is not known; ``started`` and
        ``ended`` are seconds since 1970. ``owner`` is the client that started it, None for the hub.
        ``waits_for`` is the job (id and title, each None if there is none) that has to end before this one
        begins, else None. ``result`` is present when the job is done, ``error`` (code, message, reason) when
        it failed or the hub ended it.
        """
        waits_for = None
        if self._ahead is not None and self.status == "running":
            job = self._ahead.holder
            known = job if isinstance(job, Job) and job.status == "running" else None
            waits_for = {
                "job": known.key if known else None,
                "title": known.title.render(lang) if known else None,
            }
        rate = self._pace.rate(self._told if self._ended else self._loop.time())
        state: dict[str, Any] = {
            "job": self.key,
            "operation": self.operation,
            "title": self.title.render(lang),
            "status": self.status,
            "done": self._done,
            "total": self._total,
            "note": self._said(waits_for, lang),
            "rate": None if rate is None else round(rate, 2),
            "left": self._left(rate),
            "started": round(self._started, 3),
            "version": self.version,
            "owner": self.owner.plain() if self.owner else None,
            "waits_for": waits_for,
        }
        if self._ended is not None:
            state["ended"] = round(self._ended, 3)
        if self.status == "done":
            state["result"] = self._result
        if self._error is not None:
            error = self._error
            state["error"] = {"code": error.code, "message": error.text(lang), "reason": error.reason}
        return state

    def _said(self, waits_for: dict[str, Any] | None, lang: Lang) -> str | None:
        if waits_for is None:
            return self._note.render(lang) if self._note else None
        if waits_for["job"] is None:
            return say("waiting for its turn").render(lang)
        return say("waiting for job {job}: {title}", **waits_for).render(lang)

    async def changed(self, version: int | None, wait: float) -> None:
        """Return when there is another version than that, when the job is over, or after ``wait`` seconds."""
        if version == self.version and self.status == "running":
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._news.wait()

    def end(self, status: Status, result: Any = None, error: TabaneError | None = None) -> None:
        """End the job: later progress is ignored."""
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
        self._on_news(self)

    def _left(self, rate: float | None) -> float | None:
        if self._total is None or not rate or self.status != "running":
            return None
        return round(max(self._total - self._done, 0) / rate, 1)
