"""A supervised instance of an upstream server: start, queue, restart with back-off, circuit breaker.

States: idle → (downloading →) starting → ready → (died) → waiting → starting …. After too many failures in a
row the circuit opens, and the first call after a while is the trial that closes it. A user stops a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from msgspec import Raw

from tabane.access.fair_queue import FairQueue
from tabane.errors import (
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.gateway.launchers.package_downloads import PackageProgress, PreparedStart, StartPreparation
from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.call import Call, UpstreamReply
from tabane.gateway.upstreams.conversation import Conversation
from tabane.gateway.upstreams.handshake import KINDS
from tabane.gateway.upstreams.lists import ListBudget, OnListed, UpstreamLists
from tabane.gateway.upstreams.subscriptions import Listener, UpstreamSubscriptions
from tabane.messages import Message, say
from tabane.wire.era import Era

log = logging.getLogger(__name__)

TICK = 0.25
"""Seconds between checks of deadlines while calls are in flight."""

DOWNLOAD_WAIT = 5.0
"""Seconds that a call waits for a download. After that its answer says how far the download is."""

STABLE = 30.0
"""Seconds of running after which earlier failures no longer count."""


class UpstreamState(Enum):
    IDLE = "idle"
    DOWNLOADING = "downloading"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    OPEN = "circuit open"
    STOPPED = "stopped"


class UpstreamConnection(Protocol):
    """A started upstream: its conversation, and the process behind it if there is one."""

    conversation: Conversation

    @property
    def pid(self) -> int: ...

    async def stop(self) -> Message:
        """Close its input, then send signals, until nothing is left of it. Return how it ended."""
        ...

    async def failure(self, how: Message) -> Message:
        """Return how it ended together with the cause and the fix, as far as its output shows them."""
        ...


Connect = Callable[[Server, Callable[[str, Raw], None], Callable[[str], None]], Awaitable[UpstreamConnection]]
"""Starts a server. The two callables get its notices, and the reason when its connection is over."""


@dataclass(frozen=True)
class UpstreamLimits:
    """Limits of the instances of one server, and how many there may be; times in seconds.

    An instance that not all clients share is ended after ``instance_idle`` without a call. The limits of
    lists are the number and bytes of items of one list, and the bytes of all lists of a server.
    """

    start_timeout: float = 60.0
    download_timeout: float = 600.0
    probe_timeout: float = 1.5
    restart_first: float = 1.0
    restart_max: float = 30.0
    circuit_failures: int = 5
    circuit_wait: float = 60.0
    queue_length: int = 1000
    instance_idle: float = 600.0
    instances: int = 64
    list_items: int = 5_000
    list_size: int = 8 << 20
    catalogue_size: int = 16 << 20


@dataclass
class UpstreamHealth:
    """Health of an instance, for list_servers and status.

    ``since`` is when it became ready, by the clock of the event loop, ``ready_at`` by that of the computer.
    """

    starts: int = 0
    deaths: int = 0
    failures: int = 0
    error: Message | None = None
    calls: int = 0
    failed_calls: int = 0
    last_failure: Message | None = None
    healthy: bool = True
    since: float = 0.0
    ready_at: float | None = None
    used: float = 0.0


class Upstream:
    """A supervised instance of one server.

    ``connect`` starts the process and returns its connection; ``on_listed`` is given each of its lists
    whenever it was taken; ``starts`` bounds how many start at the same time; ``era`` is the era it had
    last time, if that is known; ``on_asked`` is given the method of each question whose client it could
    not name, ``on_log`` the parameters of each log message that belongs to no call. ``on_state`` is called
    when its state or its error has changed. ``preparation`` downloads what the server runs, if it has to be.
    """

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        limits: UpstreamLimits,
        on_listed: OnListed,
        starts: asyncio.Semaphore,
        era: Era | None = None,
        on_asked: Callable[[str], None] = lambda method: None,
        on_log: Callable[[Raw], None] = lambda params: None,
        on_state: Callable[[], None] = lambda: None,
        preparation: StartPreparation | None = None,
    ) -> None:
        self.server = server
        self.state = UpstreamState.IDLE
        self.vitals = UpstreamHealth(used=loop.time())
        self._loop, self._connect, self.limits = loop, connect, limits
        self._on_asked, self._on_log, self._starts = on_asked, on_log, starts
        self._on_state, self._preparation = on_state, preparation
        self.download: PackageProgress | None = None
        self._lists = UpstreamLists(
            server.name,
            loop,
            on_listed,
            self._note,
            lambda: ListBudget(self.limits.list_size, self.limits.list_items),
            lambda: self.limits.catalogue_size,
        )
        self._subscriptions = UpstreamSubscriptions(server.name, loop, self._catch_up)
        self._era = era
        self._connection: UpstreamConnection | None = None
        self._queue: FairQueue[Call] = FairQueue()
        self._starting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticking = False
        self._resume_at = 0.0
        self._closed = False
        self._missed = 0
        self._emptied = asyncio.Event()

    # -- calls -----------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call, or queue it until there is room or the server has started. It is always answered."""
        connection = self._connection
        call.owner = self
        if call.marks is not None:
            call.marks.submitted()
        self.vitals.calls += 1
        self.vitals.used = now = self._loop.time()
        if (
            self.state is UpstreamState.READY
            and connection
            and not self._queue
            and self._has_room(connection)
        ):
            connection.conversation.send(call)
        elif not self._refuse(call, now):
            call.deadline = now + call.timeout + (0 if connection else self.limits.start_timeout)
            self._queue.add(call.holder, call)
            self._start()
            if self.state is UpstreamState.DOWNLOADING:
                self._loop.call_later(DOWNLOAD_WAIT, self._refuse_while_downloading)
        self._tick()

    def cancel(self, call: Call, reason: str) -> None:
        """Drop a call: it gets no reply. The upstream is notified if the call was sent."""
        call.done = True
        if call.number and self._connection:
            self._connection.conversation.cancel(call, reason)
            self._advance()
        else:
            self._queue.discard(call.holder, call)

    def freed(self, reply: UpstreamReply) -> None:
        """Note that a call was answered: the next may be sent, and an answer shows that the server works."""
        if reply.failure is not None:
            self.vitals.failed_calls += 1
            self.vitals.last_failure = reply.failure.message
        elif self.vitals.failures:
            self.vitals.failures = 0
        if self._queue:
            self._advance()
        elif not self.in_flight:
            self._emptied.set()

    def awaited(self, session: str) -> bool:
        """Return whether a call of another client waits for a free place."""
        return any(call.session != session for call in self._queue)

    def unsent(self, call: Call) -> bool:
        """Queue a call that did not reach the upstream before all others; False if that cannot be."""
        if (
            self._closed
            or self.state is UpstreamState.STOPPED
            or len(self._queue) >= self.limits.queue_length
        ):
            return False
        call.number = 0
        self._queue.add_first(call.holder, call)
        self._tick()
        return True

    def _has_room(self, connection: UpstreamConnection) -> bool:
        return connection.conversation.in_flight < self.server.max_concurrency

    def _refuse(self, call: Call, now: float) -> bool:
        if self._closed or self.state is UpstreamState.STOPPED:
            failure: TabaneError = UpstreamUnavailable(
                say(
                    "{server!n} is stopped. Start it with: tabane servers start {server!c}",
                    server=self.server.name,
                )
            )
        elif self.state in (UpstreamState.OPEN, UpstreamState.WAITING) and self._resume_at - now > 5:
            failure = self._unavailable(self._resume_at - now)
        elif self._queue.is_full(call.holder, self.limits.queue_length):
            failure = UpstreamOverloaded(say(
                "{server!n} is overloaded: {count} {count:call is|calls are} waiting. Try again later.",
                server=self.server.name, count=len(self._queue)))  # fmt: skip
        else:
            return False
        call.answer(UpstreamReply(failure=failure))
        return True

    def _refuse_while_downloading(self) -> None:
        """Answer the calls that have waited long enough for a download: it may take minutes."""
        failure = self.still_downloading
        if failure is None:
            return
        limit = self._loop.time() + self.limits.start_timeout - DOWNLOAD_WAIT + TICK
        for call in [call for call in self._queue if call.deadline <= limit + call.timeout]:
            self._queue.discard(call.holder, call)
            call.answer(UpstreamReply(failure=failure))

    def _advance(self) -> None:
        connection = self._connection
        while self._queue and connection and self.state is UpstreamState.READY and self._has_room(connection):
            call = self._queue.pop()
            if not call.done:
                connection.conversation.send(call)

    def _tick(self) -> None:
        if not self._ticking and (
            self._queue or (self._connection and self._connection.conversation.in_flight)
        ):
            self._ticking = True
            self._loop.call_later(TICK, self._look_at_deadlines)

    def _look_at_deadlines(self) -> None:
        self._ticking = False
        now = self._loop.time()
        if self._connection:
            self._connection.conversation.expire(now)
        for call in [call for call in self._queue if call.deadline <= now]:
            self._queue.discard(call.holder, call)
            call.answer(UpstreamReply(failure=UpstreamTimeout(say(
                "{server!n} could not accept the call in time; {count} {count:call is|calls are} waiting.",
                server=self.server.name, count=len(self._queue) + 1))))  # fmt: skip
        self._tick()

    # -- life ------------------------------------------------------------------------------------

    async def ensure(self, *, patient: bool = False) -> None:
        """Start the server if it is not running, and wait. Raises UpstreamError if it does not start.

        Unless the caller is ``patient``, a download that takes longer than a few seconds is an error too.
        """
        if self.server.disabled:
            raise UpstreamUnavailable(self.server.disabled)
        if self._connection:
            return
        now = self._loop.time()
        if self.state in (UpstreamState.OPEN, UpstreamState.WAITING) and self._resume_at > now:
            raise self._unavailable(self._resume_at - now)
        self._start()
        await self._started(patient=patient)
        if self._connection is None:
            raise self.still_downloading or self._unavailable(self._resume_at - self._loop.time())

    async def _started(self, *, patient: bool) -> None:
        """Wait until a start has ended. Who is not patient waits for a download a few seconds only."""
        end = self._loop.time() + DOWNLOAD_WAIT
        while starting := self._starting:
            # asyncio.wait, not await: a canceled start must not cancel those who wait for it.
            await asyncio.wait([starting], timeout=None if patient else 1.0)
            if not patient and self.state is UpstreamState.DOWNLOADING and self._loop.time() > end:
                return

    async def listed(self, name: str = "tools") -> None:
        """Wait until that list was read, or the start failed; also for a download, however long it takes."""
        self._start()
        if self._starting:
            await asyncio.wait([self._starting])
        if self.state is UpstreamState.READY:
            await self._lists.known(name)

    async def start(self) -> None:
        """Start at the request of the user, also if it is stopped, waits, or its circuit is open."""
        self._resume_at = 0.0
        self.vitals.failures = 0
        if self.state in (UpstreamState.STOPPED, UpstreamState.OPEN, UpstreamState.WAITING):
            self._set(UpstreamState.IDLE)
        await self.ensure(patient=True)

    async def stop(self) -> None:
        """Stop at the request of the user, until :meth:`start`. Waiting calls are refused."""
        self._set(UpstreamState.STOPPED)
        await self._end(UpstreamUnavailable(say("{server!n} was stopped.", server=self.server.name)))

    async def close(self) -> None:
        """Stop for good: the hub ends, or the server was removed from the file."""
        self._closed = True
        await self.stop()

    async def retire(self) -> None:
        """Finish the calls in flight, accept no new ones, and stop: another instance replaces this one."""
        self._closed = True
        deadline = self._loop.time() + self.server.timeout
        while self.in_flight and (self._loop.time() < deadline or self._awaits_answer):
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), TICK)
        await self.stop()

    @property
    def in_flight(self) -> int:
        """Return the number of calls that were sent and not answered yet, and of calls that wait."""
        return len(self._queue) + (self._connection.conversation.in_flight if self._connection else 0)

    @property
    def uptime(self) -> float | None:
        """Return the seconds since it became ready; None if it is not."""
        return None if self._connection is None else self._loop.time() - self.vitals.since

    @property
    def retry_in(self) -> float | None:
        """Return the seconds until the next start, or the trial of an open circuit; None if none waits."""
        if self.state not in (UpstreamState.WAITING, UpstreamState.OPEN):
            return None
        return max(0.0, self._resume_at - self._loop.time())

    @property
    def connection(self) -> UpstreamConnection | None:
        return self._connection

    @property
    def trouble(self) -> Message | None:
        """Return why it is not running or did not list, and the fix; None while it starts or works."""
        name, why = self.server.name, self.vitals.error
        if self.state is UpstreamState.STOPPED:
            return say("{server!n} is stopped. Start it with: tabane servers start {server!c}", server=name)
        if self.download is not None:
            return say("{server!n}: {progress}", server=name, progress=self.download.describe())
        if why is None or self.state in (UpstreamState.IDLE, UpstreamState.STARTING):
            return None
        if self.state is UpstreamState.READY:
            return say("{server!n} runs, but does not list its tools: {why}", server=name, why=why)
        return say(
            "{server!n} failed to start: {why}\nThen test it: tabane servers test {server!c}",
            server=name,
            why=why,
        )

    @property
    def still_downloading(self) -> UpstreamUnavailable | None:
        """Return the error for who cannot wait for a download; None if none runs."""
        if self.download is None:
            return None
        return UpstreamUnavailable(say(
            "{server!n} is being installed for its first start: {progress} Try again in a minute.",
            server=self.server.name, progress=self.download.describe()))  # fmt: skip

    @property
    def _awaits_answer(self) -> bool:
        """Return whether a client has not yet answered a request of the server."""
        return bool(self._connection and self._connection.conversation.asking)

    def _start(self) -> None:
        if self._closed or self._starting or self.state in (UpstreamState.READY, UpstreamState.STOPPED):
            return
        delay = self._resume_at - self._loop.time()
        if delay > 0:
            self._start_later(delay)
        else:
            self._set(UpstreamState.STARTING)
            self._starting = self._loop.create_task(self._begin())

    def _start_later(self, delay: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(delay, self._start_now)

    def _start_now(self) -> None:
        self._timer = None
        self._start()

    async def _begin(self) -> None:
        patience = self.limits.start_timeout
        try:
            start = await self._prepared()
            patience = self.limits.download_timeout if start.downloads else self.limits.start_timeout
            if start.downloads and self.download is not None:
                # The start itself downloads: it takes no place of those that only start.
                await self._open(start.server, patience)
            else:
                self._set_download(None)
                async with self._starts:
                    await self._open(start.server, patience)
        except TabaneError as error:
            self._failed(error.message)
        except TimeoutError:
            self._failed(_no_answer(patience))
        except OSError as error:
            self._failed(say("{error}", error=error.strerror or error))
        finally:
            self.download = None
            self._starting = None

    async def _prepared(self) -> PreparedStart:
        if self._preparation is None:
            return PreparedStart(self.server)
        return await self._preparation.prepare(self.server, self._set_download)

    def _set_download(self, progress: PackageProgress | None) -> None:
        """Show how far a download is; None: there is none, or it has finished."""
        self.download = progress
        if progress is None:
            self._set(UpstreamState.STARTING)
            return
        if self.state is UpstreamState.STARTING:
            self._set(UpstreamState.DOWNLOADING)
            if self._queue:
                self._loop.call_later(DOWNLOAD_WAIT, self._refuse_while_downloading)
        else:
            self._on_state()

    async def _open(self, server: Server, patience: float) -> None:
        self.vitals.starts += 1
        self._lists.starting()
        connection = await self._connect(server, self._noticed, self._over)
        try:
            async with asyncio.timeout(patience):
                peer = await connection.conversation.open(self._era, self.limits.probe_timeout)
        except BaseException as error:
            if _may_be_era(error) and self._era is None:
                # A legacy server may have ended at a question it did not know.
                self._era = Era.LEGACY
            ended = await asyncio.shield(connection.stop())
            if isinstance(error, UpstreamDied):
                raise UpstreamError(await connection.failure(ended)) from None
            if isinstance(error, TabaneError):
                raise UpstreamError(await connection.failure(error.message)) from None
            if isinstance(error, TimeoutError):
                raise UpstreamError(await connection.failure(_no_answer(patience))) from None
            raise
        self._era = peer.era
        self._connection = connection
        self.vitals.since, self.vitals.ready_at = self._loop.time(), time.time()
        self.vitals.error, self.vitals.healthy = None, True
        self.download = None
        self._note_end(None)
        self._set(UpstreamState.READY)
        self._advance()
        self._lists.open(connection.conversation)
        self._subscriptions.open(connection.conversation)

    def _failed(self, why: Message) -> None:
        self.vitals.failures += 1
        self.vitals.healthy = False
        self.vitals.error = why
        if self.state is UpstreamState.STOPPED or self._closed:
            return
        log.warning("%s did not start: %s", self.server.name, why)
        self.download = None
        self._note_end(why)
        self._back_off()
        self._refuse_waiting(self._unavailable(self._resume_at - self._loop.time()))
        if self.state is UpstreamState.WAITING:
            self._start_later(self._resume_at - self._loop.time())

    def _note_end(self, failure: Message | None) -> None:
        if self._preparation is not None:
            self._preparation.ended(self.server, failure)

    def _back_off(self) -> None:
        limits, failures = self.limits, self.vitals.failures
        if failures >= limits.circuit_failures:
            self._resume_at = self._loop.time() + limits.circuit_wait
            self._set(UpstreamState.OPEN)
            return
        delay = min(limits.restart_max, limits.restart_first * 2 ** max(0, failures - 1))
        # Jitter keeps servers that died together from starting together.
        self._resume_at = self._loop.time() + delay * random.uniform(0.75, 1.25)
        self._set(UpstreamState.WAITING)

    def _over(self, why: str) -> None:
        """Handle a connection that ended unexpectedly."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self._lists.lost()
        self._subscriptions.lost()
        reaping = self._loop.create_task(self._reap(connection))
        reaping.add_done_callback(_log_failure)
        if self.state is UpstreamState.STOPPED or self._closed:
            return
        self.vitals.deaths += 1
        self.vitals.healthy = False
        self.vitals.error = say("it ended ({why})", why=why)
        if self._loop.time() - self.vitals.since > STABLE:
            self.vitals.failures = 0
        self.vitals.failures += 1
        self._back_off()
        if self.state is UpstreamState.WAITING:
            self._start_later(self._resume_at - self._loop.time())
        else:
            self._refuse_waiting(self._unavailable(self.limits.circuit_wait))

    async def _reap(self, connection: UpstreamConnection) -> None:
        """Stop the rest of a process that ended, and note how it ended."""
        said = await connection.failure(await connection.stop())
        log.warning("%s: %s; it will be restarted", self.server.name, said)
        if self._connection is None and self.state in (UpstreamState.WAITING, UpstreamState.OPEN):
            self.vitals.error = said
            self._on_state()

    async def _end(self, refusal: TabaneError) -> None:
        self._refuse_waiting(refusal)
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._starting:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        self._lists.lost()
        self._subscriptions.lost()
        connection, self._connection = self._connection, None
        if connection:
            await connection.stop()

    def _refuse_waiting(self, failure: TabaneError) -> None:
        queue, self._queue = self._queue, FairQueue()
        for call in queue:
            call.answer(UpstreamReply(failure=failure))

    def _unavailable(self, seconds: float) -> UpstreamUnavailable:
        why = self.vitals.error or say("it has not been started")
        if seconds < 0.5:
            return UpstreamUnavailable(
                say("{server!n} is not running: {why}", server=self.server.name, why=why)
            )
        return UpstreamUnavailable(say(

                "{server!n} is not running: {why} (next try in {seconds:.0f} s; to try now: tabane servers "
                "restart {server!c})",
            server=self.server.name, why=why, seconds=seconds))  # fmt: skip

    def _set(self, state: UpstreamState) -> None:
        if state is not self.state:
            log.debug("%s: %s → %s", self.server.name, self.state.value, state.value)
            self.state = state
            self._on_state()

    # -- what it offers --------------------------------------------------------------------------

    async def watch(self, uri: str, listener: Listener) -> None:
        """Call ``listener`` when that resource changes, until :meth:`unwatch`, over restarts.

        Starts the server if it is not running. Raises UpstreamError if the server refuses.
        """
        await self.ensure()
        self.vitals.used = self._loop.time()
        try:
            async with asyncio.timeout(self.server.timeout):
                await self._subscriptions.watch(uri, listener)
        except TimeoutError:
            raise UpstreamTimeout(say(
                "{server!n} did not confirm within {seconds:g} s that it announces changes of that resource.",
                server=self.server.name, seconds=self.server.timeout)) from None  # fmt: skip

    def unwatch(self, uri: str, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._subscriptions.unwatch(uri, listener)

    @property
    def watched(self) -> int:
        """Return the resources that somebody watches."""
        return len(self._subscriptions)

    def holds(self, name: str) -> float | None:
        """Return the seconds for which that list may be kept; None if nothing bounds that."""
        return self._lists.holds(name)

    def is_stale(self, name: str) -> bool:
        """Return whether that list may have changed without an announcement."""
        return self._lists.is_stale(name)

    async def fresh(self, name: str) -> None:
        """Read that list again. If it cannot be read, the former one stays."""
        await self._lists.fresh(name)

    def _noticed(self, method: str, params: Raw) -> None:
        match method.split("/"):
            case ["notifications", kind, "list_changed"]:
                self._lists.changed(kind)
            case ["notifications", "resources", "updated"]:
                self._subscriptions.updated(params)
            case ["notifications", "subscriptions", "acknowledged"]:
                self._subscriptions.acknowledged(params)
            case ["notifications", "message"]:
                self._on_log(params)
            case ["notifications", *_]:
                pass
            case _:
                self._on_asked(method)

    def _note(self, fault: Message) -> None:
        self.vitals.error = fault
        self._on_state()

    def _catch_up(self) -> None:
        """Read all lists again, because changes were not announced for a while."""
        for kind in KINDS:
            self._lists.changed(kind)

    # -- health ----------------------------------------------------------------------------------

    async def look_after(self, timeout: float = 10.0) -> None:
        """Check health, and stop the process after two checks without an answer while no call is in flight.

        It is then restarted as after any other end.
        """
        self._missed = 0 if await self.check(timeout) else self._missed + 1
        connection = self._connection
        if self._missed >= 2 and connection and not self.in_flight:
            self._missed = 0
            connection.conversation.close("it did not answer two health checks")

    async def check(self, timeout: float = 10.0) -> bool:
        """Return whether a running instance answers. One with calls in flight counts as healthy."""
        connection = self._connection
        if (
            self.state is not UpstreamState.READY
            or connection is None
            or connection.conversation.peer is None
        ):
            return False
        method = b"ping" if connection.conversation.peer.era is Era.LEGACY else b"server/discover"
        try:
            await connection.conversation.ask(method, {}, timeout=timeout)
            self.vitals.healthy = True
        except UpstreamTimeout:
            self.vitals.healthy = self.in_flight > 0
        except UpstreamError:
            # An error is an answer too: the server works, even if it does not know ping.
            self.vitals.healthy = self._connection is connection
        return self.vitals.healthy


def _may_be_era(error: BaseException) -> bool:
    """Return whether a start may have failed because of the era; an unreachable server shows nothing."""
    return isinstance(error, UpstreamError) and not isinstance(error, UpstreamUnavailable)


def _no_answer(seconds: float) -> Message:
    return say("it did not answer within {seconds:g} s", seconds=seconds)


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("stopping an upstream failed: %s", task.exception())
