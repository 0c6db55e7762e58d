"""A worker that loads something once, keeps it, and answers many requests at the same time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from tabane.errors import WorkerEnded, WorkerError, WorkerUnavailable
from tabane.messages import say
from tabane.workers.frames import AnswerKind, WorkerRefusal
from tabane.workers.worker import STARTS, Program, RestartPolicy, Worker, WorkerAnswer, WorkerSilent

DEATHS = 3
"""Processes that may end while they work on one request before it is given up."""

_SILENCE = 600.0
_OPENING = 0  # the number of the first request


class RequestRefused(Exception):
    """The process cannot do what was requested, and continues; or it could not load (``opening``)."""

    def __init__(self, refusal: WorkerRefusal, *, opening: bool) -> None:
        super().__init__(refusal.reason)
        self.reason, self.package, self.opening = refusal.reason, refusal.package, opening


class EndedByRequest(WorkerEnded):
    """Several processes ended while they worked on this request, so it is likely to be the cause."""


@dataclass(slots=True, eq=False)
class _Pending:
    """A request without an answer. Without a ``body``, it waits for the greeting.

    ``again``: it is sent to the next process if this one ends.
    """

    body: bytes | None
    urgent: bool
    report: Callable[[bytes], None] | None
    answer: asyncio.Future[bytes]
    again: bool = True
    in_work: bool = False
    deaths: int = 0


class ResidentWorker:
    """One process at most: started on demand, ended by itself after some time without work, started again.

    ``opening`` is the first request to each process, which says what to load. ``silence`` is the seconds
    after which a process that owes an answer and says nothing is assumed to hang, and killed. Requests that
    had no answer when a process ended are sent to the next one. Use it on one event loop only.
    """

    def __init__(self, program: Program, opening: bytes, *, silence: float = _SILENCE) -> None:
        self._program, self._opening, self._silence = program, opening, silence
        self._pending: dict[int, _Pending] = {}
        self._last = _OPENING
        self._greeting: bytes | None = None
        self._restarts = RestartPolicy()
        self._running: asyncio.Task[None] | None = None
        self._worker: Worker | None = None
        self._ready = False
        self._alarm: asyncio.TimerHandle | None = None
        self._closed = False

    @property
    def pid(self) -> int | None:
        """The id of the running process."""
        return self._worker.pid if self._worker is not None else None

    @property
    def busy(self) -> bool:
        """Whether it works on a request that somebody waits for."""
        return any(pending.in_work for pending in self._pending.values())

    @property
    def is_ready(self) -> bool:
        """Whether a process runs that has loaded."""
        return self._ready

    async def greeting(self) -> bytes:
        """Return the answer to the opening of the first process, which is started if there was none.

        Raises as :meth:`ask`.
        """
        if self._greeting is None:
            return await self._answer_request(None, urgent=True)
        return self._greeting

    async def ask(
        self,
        body: bytes,
        *,
        urgent: bool = False,
        report: Callable[[bytes], None] | None = None,
        again: bool = True,
    ) -> bytes:
        """Return the result of a request. ``urgent`` ones do not wait for others. ``report`` gets progress.

        Without ``again``, the request is for the process that is ready now, and fails when that ends.

        Raises RequestRefused; EndedByRequest after DEATHS processes that ended while they worked on it;
        WorkerEnded if processes keep ending; WorkerUnavailable if none can be started or after :meth:`close`.
        """
        if not again and not self._ready:
            raise _ended_error()
        return await self._answer_request(body, urgent=urgent, report=report, again=again)

    async def close(self) -> None:
        """End the process; its requests fail."""
        self._closed = True
        self._give_up(_closing_error())
        if self._worker is not None:
            await self._worker.end()
        if self._running is not None:
            await asyncio.wait({self._running})

    async def _answer_request(
        self,
        body: bytes | None,
        *,
        urgent: bool,
        report: Callable[[bytes], None] | None = None,
        again: bool = True,
    ) -> bytes:
        if self._closed:
            raise _closing_error()
        self._last += 1
        number = self._last
        loop = asyncio.get_running_loop()
        pending = self._pending[number] = _Pending(body, urgent, report, loop.create_future(), again)
        if self._ready:
            self._send_request(number, pending)
        elif self._running is None or self._running.done():
            self._running = loop.create_task(self._run_processes())
        try:
            return await pending.answer
        finally:
            self._pending.pop(number, None)

    async def _run_processes(self) -> None:
        """Run one process after the other until no request is left."""
        error: Exception = _closing_error()
        try:
            while self._pending and not self._closed:
                await self._restarts.pause()
                try:
                    useful = await self._run_process()
                    error = _ended_error()
                except WorkerUnavailable as failed:
                    useful, error = False, failed
                if useful:
                    self._restarts.succeeded()
                    continue
                self._restarts.failed()
                if self._restarts.failures >= STARTS:
                    break
        except (RequestRefused, WorkerError) as failed:
            error = failed
        finally:  # whatever happened, no request waits forever
            self._give_up(error)

    async def _run_process(self) -> bool:
        """Run one process. Return True if it answered a request, or ended because it was idle."""
        worker = self._worker = Worker(self._program)
        useful = ready = False
        try:
            await worker.start()
            if self._closed:
                return True
            worker.send(self._opening, number=_OPENING)
            self._start_alarm()
            with contextlib.suppress(WorkerSilent):
                while True:
                    useful |= self._take_answer(await worker.receive())
                    ready |= self._ready
            await worker.end()
        finally:
            self._ready = False
            self._stop_alarm()
            await worker.end(kill=True)
            self._worker = None
        self._count_deaths()
        return useful or (ready and worker.status == 0)

    def _take_answer(self, answer: WorkerAnswer) -> bool:
        """Act on an answer. Return True if it is one to a request."""
        if answer.number == _OPENING:
            if answer.kind is AnswerKind.REFUSED:
                raise _refused_request(answer.body, opening=True)
            self._greeting = answer.body
            self._ready = True
            for number, waiting in list(self._pending.items()):
                self._send_request(number, waiting)
            return False
        self._stop_alarm()
        pending = self._pending.get(answer.number)
        if answer.kind is AnswerKind.PROGRESS:
            if pending is not None:
                pending.in_work = True
                if pending.report is not None and answer.body:
                    pending.report(answer.body)
        elif pending is not None:
            del self._pending[answer.number]
            if answer.kind is AnswerKind.REFUSED and not pending.answer.done():
                pending.answer.set_exception(_refused_request(answer.body, opening=False))
            elif not pending.answer.done():
                pending.answer.set_result(answer.body)
        self._start_alarm()
        return answer.kind is not AnswerKind.PROGRESS

    def _send_request(self, number: int, pending: _Pending) -> None:
        assert self._worker is not None
        if pending.body is not None:
            self._worker.send(pending.body, number=number, urgent=pending.urgent)
            self._start_alarm()
        elif self._greeting is not None and not pending.answer.done():
            del self._pending[number]
            pending.answer.set_result(self._greeting)

    def _count_deaths(self) -> None:
        for number, pending in list(self._pending.items()):
            pending.deaths += pending.in_work
            pending.in_work = False
            if pending.answer.done() or (pending.again and pending.deaths < DEATHS):
                continue
            del self._pending[number]
            error = EndedByRequest(say("The worker process ended.")) if pending.again else _ended_error()
            pending.answer.set_exception(error)

    def _give_up(self, error: Exception) -> None:
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(error)
        self._pending.clear()

    def _start_alarm(self) -> None:
        if self._pending and self._alarm is None and self._worker is not None:
            self._alarm = asyncio.get_running_loop().call_later(self._silence, self._worker.kill)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None


def _refused_request(body: bytes, *, opening: bool) -> RequestRefused:
    return RequestRefused(msgspec.msgpack.decode(body, type=WorkerRefusal), opening=opening)


def _ended_error() -> WorkerEnded:
    return WorkerEnded(say("The worker process ended."))


def _closing_error() -> WorkerUnavailable:
    return WorkerUnavailable(say("The worker processes are stopping."))
