"""Jobs: operations that take minutes, apart from the request; they can be followed, listed and canceled.

A job belongs to the connection that started it, and is canceled when that connection is gone. So a killed
program leaves no job that others wait for. A job belongs to the hub after ``detach_job``, and from the start
if it came without a connection (an HTTP POST) or the hub itself started it. No job outlives the hub: an
operation that can be resumed keeps its own record of its progress.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from msgspec import Meta, Struct

from tabane.errors import HubDraining, HubError, TabaneError, UnknownName, upgraded
from tabane.messages import Lang, Message, say
from tabane.operations import Caller, Operation, Privilege, Work
from tabane.wire import json

if TYPE_CHECKING:
    from tabane.hub.work.job import Job


log = logging.getLogger(__name__)

MOST_RUNNING = 16
"""Jobs that run at the same time; one more is refused."""

MOST_KEPT, MOST_KEPT_BYTES = 100, 16 << 20
"""Jobs that are over and can still be asked for, and the bytes of their results; the oldest go first."""

MOST_OWN_KEPT = 10
"""Jobs of the hub itself among them. One follows each page that is read: they would push out all others."""

LONGEST_POLL = 30
"""Seconds that a follower may wait for news."""

PATIENCE = 5.0
"""Seconds that a canceling client, and the end of the hub, wait for a canceled job."""

JobId = Annotated[str, Meta(min_length=1, max_length=40)]


class ListJobs(Struct, frozen=True, forbid_unknown_fields=True):
    """``hub``: the jobs of all hubs of a group, or of the one that is asked."""

    hub: Literal["all", "this"] = "all"


class FollowJob(Struct, frozen=True, forbid_unknown_fields=True):
    """``version`` is the known one. The answer comes when there is another, or after ``wait`` seconds."""

    job: JobId
    version: int | None = None
    wait: Annotated[float, Meta(ge=0, le=LONGEST_POLL)] = LONGEST_POLL


class NamedJob(Struct, frozen=True, forbid_unknown_fields=True):
    job: JobId


class OtherJobs(Protocol):
    """The jobs of the other hubs of a group. Those that wait or name a job raise StoreError."""

    @property
    def address(self) -> str:
        """Return where this hub is reached."""
        ...

    def changed(self, job: Job) -> None:
        """Note that a job of this hub began, went on or ended."""
        ...

    async def states(self, lang: Lang) -> tuple[list[dict[str, Any]], Message | None]:
        """Return the states of the jobs, or none and why they are not known."""
        ...

    async def follow(self, key: str, version: int | None, wait: float, lang: Lang) -> dict[str, Any] | None:
        """Return the state when there is another version, when the job is over, or after ``wait`` seconds.

        None if there is no such job.
        """
        ...

    async def cancel(self, key: str, wait: float, lang: Lang) -> dict[str, Any] | None:
        """Have a job canceled, and wait a moment until it is. Return its state; None if there is none."""
        ...


class Jobs:
    """All jobs of a hub: those that run, and the last ones that are over.

    In a group of hubs, the operations also list, follow and cancel those of the ``others``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, patience: float = PATIENCE) -> None:
        self._loop, self._patience = loop, patience
        self._jobs: dict[str, Job] = {}
        self._tasks: dict[str, asyncio.Task[Any]] = {}
        self._over: deque[tuple[str, int]] = deque()
        self._over_bytes = 0
        self._canceled: dict[str, TabaneError | None] = {}
        self._draining = False
        self.used = loop.time()
        """When a job began or ended last, by the loop's clock."""
        self.watcher: Callable[[Job], None] | None = None
        """Called when a job has begun, when it reports progress and when it has ended."""
        self._others: OtherJobs | None = None

    @property
    def running(self) -> int:
        """The number of jobs that run."""
        return len(self._tasks)

    def share(self, others: OtherJobs) -> None:
        """Share the jobs with the other hubs of a group from now on."""
        self._others = others
        for job in self._jobs.values():
            others.changed(job)

    def start(self, name: str, title: Message, work: Work, caller: Caller | None = None) -> Job:
        """Begin a job, which runs until it is done, fails, is canceled or the hub ends. Raises HubError.

        If the caller has a connection, the job also ends with that connection: see :meth:`session_ended`.
        """
        from tabane.hub.work.job import Job, JobOwner

        if self._draining:
            raise HubDraining(say("The hub is shutting down and starts no more jobs."))
        if len(self._tasks) >= MOST_RUNNING:
            raise HubError(
                say(
                    "{limit} {limit:job is|jobs are} already running. Wait for one, or cancel one: tabane "
                    "jobs list",
                    limit=MOST_RUNNING,
                )
            )
        # Not counted: a number would name another job after the hub's next start.
        while (key := os.urandom(3).hex()) in self._jobs:
            pass
        job = Job(key, name, title, self._loop, JobOwner.of(caller), self._told)
        self._jobs[job.key] = job
        self._told(job)
        self.used = self._loop.time()
        log.info("job %s started: %s", job.key, title)

        async def worked() -> tuple[Any, int]:
            result = await work(job)
            # A result that cannot be written is a failure of the job, not of everyone who asks for it.
            return result, len(json.encode(result))

        task = self._tasks[job.key] = self._loop.create_task(worked(), name=f"job {name}")
        task.add_done_callback(lambda task: self._ended(job, task))
        return job

    def get(self, key: str) -> Job:
        """Return the job with that id. Raises UnknownName."""
        job = self._jobs.get(key)
        if job is None:
            raise UnknownName(say("There is no job {job}. List all jobs with: tabane jobs list", job=key))
        return job

    async def cancel(self, job: Job) -> None:
        """Ask a job to stop, and wait a moment until it has. One that is over stays as it is."""
        task = self._tasks.get(job.key)
        if task is not None:
            self._stop(job.key, task, None)
            await asyncio.wait({task}, timeout=self._patience)

    def cancel_soon(self, key: str) -> None:
        """Ask a job to stop, if there is one with that id and it runs."""
        task = self._tasks.get(key)
        if task is not None:
            log.info("job %s is cancelled at another hub", key)
            self._stop(key, task, None)

    async def cancel_all(self, operation: str) -> None:
        """Ask all jobs of an operation to stop, and wait a moment until they have."""
        for key in list(self._tasks):
            if self._jobs[key].operation == operation:
                await self.cancel(self._jobs[key])

    def session_ended(self, session: str) -> None:
        """Cancel the jobs of a connection that is gone."""
        for key, task in list(self._tasks.items()):
            owner = self._jobs[key].owner
            if owner is not None and owner.session == session and not owner.detached:
                log.info("job %s is cancelled: the program that started it disconnected", key)
                why = say("The program that started the job ended. Completed work is kept.")
                self._stop(key, task, HubError(why))

    def _stop(self, key: str, task: asyncio.Task[Any], why: TabaneError | None) -> None:
        """Cancel a job only once: a second time would interrupt its cleanup."""
        if key not in self._canceled:
            self._canceled[key] = why
            task.cancel()

    def drain(self) -> None:
        """Begin no more jobs, and cancel those that run: the hub is about to end."""
        self._draining = True
        why = HubDraining(say("The hub stopped. Completed work is kept; run the command again to continue."))
        for key, task in list(self._tasks.items()):
            self._stop(key, task, why)

    async def close(self) -> None:
        """Cancel what runs, and wait until it has stopped, for a limited time."""
        self.drain()
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()), timeout=self._patience)
        for key in self._tasks:
            log.warning("job %s did not stop: %s", key, self._jobs[key].title)

    def table(self) -> list[Operation]:
        """Return the operations on jobs, for programs and the command line."""
        return [
            Operation(
                "list_jobs", "Jobs, the latest first.", ListJobs, self.list_jobs, privilege=Privilege.READ
            ),
            Operation(
                "follow_job", "Wait for news of a job.", FollowJob, self.follow_job, privilege=Privilege.READ
            ),
            Operation("cancel_job", "Stop a job.", NamedJob, self.cancel_job, privilege=Privilege.WRITE),
            Operation(
                "detach_job", "Let a job go on when the connection that started it is gone.",
                NamedJob, self.detach_job, privilege=Privilege.WRITE,
            ),
        ]  # fmt: skip

    async def list_jobs(self, caller: Caller, params: ListJobs) -> dict[str, Any]:
        """List the jobs. ``problem`` says why those of other hubs are missing."""
        mine = [self._state(job, caller.lang) for job in reversed(self._jobs.values())]
        if self._others is None or params.hub == "this":
            return {"results": mine}
        theirs, problem = await self._others.states(caller.lang)
        rows = sorted(mine + theirs, key=lambda state: state["started"], reverse=True)
        return {"results": rows} | ({"problem": problem.render(caller.lang)} if problem else {})

    async def follow_job(self, caller: Caller, params: FollowJob) -> dict[str, Any]:
        """Wait for news of a job, and return its state. Raises UnknownName."""
        if self._others is not None and params.job not in self._jobs:
            state = await self._others.follow(params.job, params.version, params.wait, caller.lang)
            return state or self._state(self.get(params.job), caller.lang)
        job = self.get(params.job)
        await job.changed(params.version, params.wait)
        return self._state(job, caller.lang)

    async def cancel_job(self, caller: Caller, params: NamedJob) -> dict[str, Any]:
        """Stop a job, and return its state. Raises UnknownName."""
        if self._others is not None and params.job not in self._jobs:
            state = await self._others.cancel(params.job, self._patience, caller.lang)
            return state or self._state(self.get(params.job), caller.lang)
        job = self.get(params.job)
        await self.cancel(job)
        return self._state(job, caller.lang)

    async def detach_job(self, caller: Caller, params: NamedJob) -> dict[str, Any]:
        """Let a job go on without its connection, and return its state. Raises UnknownName."""
        job = self.get(params.job)
        job.detach()
        return self._state(job, caller.lang)

    def _state(self, job: Job, lang: Lang) -> dict[str, Any]:
        """Return the state of a job; in a group of hubs, with the address of this hub."""
        state = job.state(lang)
        return state if self._others is None else state | {"hub": self._others.address}

    def _told(self, job: Job) -> None:
        if self.watcher is not None:
            self.watcher(job)
        if self._others is not None:
            self._others.changed(job)

    def _ended(self, job: Job, task: asyncio.Task[tuple[Any, int]]) -> None:
        del self._tasks[job.key]
        self.used = self._loop.time()
        asked = job.key in self._canceled
        why = self._canceled.pop(job.key, None)
        size = 0
        if task.cancelled() and asked:
            job.end("cancelled", error=why)
        elif task.cancelled() or (failed := task.exception()) is not None:
            job.end("failed", error=_reported_error(job, None if task.cancelled() else failed))
        else:
            result, size = task.result()
            job.end("done", result)
        log.info("job %s ended: %s", job.key, job.status)
        self._keep(job, size)

    def _keep(self, job: Job, size: int) -> None:
        self._over.append((job.key, size))
        self._over_bytes += size
        own = [each for each in self._over if self._jobs[each[0]].owner is None]
        for each in own[:-MOST_OWN_KEPT]:
            self._over.remove(each)
            self._forget(*each)
        while len(self._over) > MOST_KEPT or (self._over_bytes > MOST_KEPT_BYTES and len(self._over) > 1):
            self._forget(*self._over.popleft())

    def _forget(self, key: str, size: int) -> None:
        self._over_bytes -= size
        del self._jobs[key]


def _reported_error(job: Job, failed: BaseException | None) -> TabaneError:
    """Return the error that followers get. Internal details appear only in the log."""
    if isinstance(failed, TabaneError):
        log.warning("job %s failed: %s", job.key, failed)
        return failed
    log.error("job %s (%s) failed", job.key, job.operation, exc_info=failed)
    if isinstance(failed, Exception) and (old := upgraded(failed)) is not None:
        return old
    return InternalJobError(say("Internal error. The hub's log has details: tabane logs"))


class InternalJobError(TabaneError):
    """A job failed for a fault of ours."""

    reason = "internal"
