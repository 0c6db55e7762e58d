"""Jobs and use of tools in a group: this hub tells the others of its own, and asks about theirs."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import msgspec

from tabane.catalog.catalogs import ToolUse, forgotten
from tabane.errors import HubError, TabaneError
from tabane.group.shared_records import LARGEST_STATE, SharedJob
from tabane.hub.work.job import Job
from tabane.messages import Lang, Message, say
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.group.tables.group_tables import PostgresJobs
    from tabane.group.tables.shared_usage import PostgresToolUse

log = logging.getLogger(__name__)


LOOK = 0.5
"""Seconds between two looks at a job of another hub that somebody follows."""

MOST_UNTOLD = 200
"""Jobs that the others were not told of, because the database is away. Those that ended first go first."""

_LANGUAGES: tuple[Lang, ...] = get_args(Lang)


class GroupJobs:
    """Tells the group of this hub's jobs, and asks it about all others.

    ``hub`` is the id of this hub and ``address`` where it is reached. ``cancel`` has a job of this hub, by
    its key, stop soon.
    """

    def __init__(self, shared: PostgresJobs, hub: str, address: str, cancel: Callable[[str], None]) -> None:
        self._shared, self._hub, self.address, self._cancel = shared, hub, address, cancel
        self._news: dict[str, Job] = {}
        self._running: set[str] = set()

    def changed(self, job: Job) -> None:
        """Note that a job of this hub began, went on or ended."""
        self._news[job.key] = job
        if len(self._news) > MOST_UNTOLD:
            oldest = next((key for key, other in self._news.items() if other.status != "running"), job.key)
            del self._news[oldest]

    async def tell(self) -> None:
        """Tell the others what changed, and cancel the jobs that they want canceled. Raises StoreError."""
        if not self._news and not self._running:
            return
        news, self._news = self._news, {}
        try:
            unwanted = await self._shared.tell(self._hub, [self._shared_job(job) for job in news.values()])
        except BaseException:
            self._news = news | self._news
            raise
        self._running |= {key for key, job in news.items() if job.status == "running"}
        self._running -= {key for key, job in news.items() if job.status != "running"}
        for key in unwanted:
            self._cancel(key)

    async def states(self, lang: Lang) -> tuple[list[dict[str, Any]], Message | None]:
        """Return the states of the other hubs' jobs, or none and why they are not known."""
        try:
            return [_state_of(job, lang) for job in await self._shared.others(self._hub)], None
        except TabaneError as error:
            log.warning("the jobs of the other hubs are not known: %s", error)
            return [], say("The jobs of the other hubs are not known: {problem}", problem=error.message)

    async def state(self, key: str, lang: Lang) -> dict[str, Any] | None:
        """Return the state of another hub's job; None if there is none. Raises StoreError."""
        job = await self._shared.find(self._hub, key)
        return _state_of(job, lang) if job else None

    async def follow(self, key: str, version: int | None, wait: float, lang: Lang) -> dict[str, Any] | None:
        """Return the state when there is another version, when the job is over, or after ``wait`` seconds."""
        until = asyncio.get_running_loop().time() + wait
        while True:
            state = await self.state(key, lang)
            left = until - asyncio.get_running_loop().time()
            if state is None or state["status"] != "running" or state["version"] != version or left <= 0:
                return state
            await asyncio.sleep(min(LOOK, left))

    async def cancel(self, key: str, wait: float, lang: Lang) -> dict[str, Any] | None:
        """Ask another hub to cancel its job, and wait a moment until it has. Return the state then."""
        job = await self._shared.find(self._hub, key)
        if job is None:
            return None
        await self._shared.cancel(job)
        until = asyncio.get_running_loop().time() + wait
        while True:
            state = await self.state(key, lang)
            left = until - asyncio.get_running_loop().time()
            if state is None or state["status"] != "running" or left <= 0:
                return state
            await asyncio.sleep(min(LOOK, left))

    def _shared_job(self, job: Job) -> SharedJob:
        states = {lang: job.state(lang) for lang in _LANGUAGES}
        encoded = json.encode(states)
        if len(encoded) > LARGEST_STATE:
            elsewhere = say("the hub at {address} has the result", address=self.address)
            for lang, state in states.items():
                state.update(result=None, note=elsewhere.render(lang))
            encoded = json.encode(states)
        return SharedJob(self._hub, self.address, job.key, job.status == "running", encoded)


def _state_of(job: SharedJob, lang: Lang) -> dict[str, Any]:
    """Return the state of a job as its hub told of it; ``interrupted`` if that hub is gone."""
    state: dict[str, Any] = msgspec.json.decode(job.state)[lang]
    state["hub"] = job.address
    return state if job.alive or not job.running else state | _interrupted_state(job, state["version"], lang)


def _interrupted_state(job: SharedJob, version: int, lang: Lang) -> dict[str, Any]:
    error = HubError(
        say(
            "The hub at {address}, which ran the job, is gone. Completed work is kept; run the command again "
            "to continue.",
            address=job.address,
        )
    )
    return {
        "status": "interrupted", "version": version + 1, "left": None, "ended": round(job.told, 3),
        "waits_for": None,
        "error": {"code": error.code, "message": error.text(lang), "reason": error.reason},
    }  # fmt: skip


EVERY = 60.0
"""Seconds between two exchanges."""


class ToolUseSharing:
    """Tells the group what this hub counted, and takes what the others did. ``clock`` returns seconds.

    ``mark`` names the hub: it stays the same over restarts.
    """

    def __init__(self, use: ToolUse, shared: PostgresToolUse, mark: str, clock: Callable[[], float]) -> None:
        self._use, self._shared, self._mark, self._clock = use, shared, mark, clock
        self._restored = False
        self._next = 0.0

    async def exchange(self, *, now: bool = False) -> None:
        """Exchange what was counted, if it is time or ``now`` is set. Raises StoreError."""
        if not now and self._clock() < self._next:
            return
        if not self._restored:
            self._use.restore(await self._shared.mine(self._mark))
            self._restored = True
        unshared = self._use.unshared()
        try:
            others = await self._shared.exchange(self._mark, unshared, forgotten(time.time()))
        except BaseException:
            self._use.tell_again(unshared)
            raise
        self._use.put_others(others)
        self._next = self._clock() + EVERY
