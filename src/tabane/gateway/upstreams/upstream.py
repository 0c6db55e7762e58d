"""One running instance of an upstream server, kept alive: start, calls, death, back-off, circuit.

States: idle → starting → ready → (died) → waiting → starting …; after too many failures in a row the
circuit is open, and the next call after a while is the trial that closes it; stopped is by hand.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from msgspec import Raw

from tabane.errors import (
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.gateway.servers.server import Server
from tabane.gateway.upstreams.call import Call, Reply
from tabane.gateway.upstreams.conversation import Conversation, Peer
from tabane.messages import Message, say
from tabane.wire.era import Era

log = logging.getLogger(__name__)

TICK = 0.25
"""Seconds between looks at deadlines while calls are in flight."""

STABLE = 30.0
"""Seconds of running after which earlier failures no longer count."""

REFRESH = 0.2
"""Seconds to wait after a list_changed for more of them, before listing anew."""


class State(Enum):
    IDLE = "idle"
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    OPEN = "circuit open"
    STOPPED = "stopped"


class Connection(Protocol):
    """A started upstream: its conversation, and the process behind it."""

    conversation: Conversation

    @property
    def pid(self) -> int: ...

    async def stop(self) -> Message:
        """End of file, then signals, until nothing is left of it; how it ended."""
        ...

    def last_words(self) -> str:
        """The last lines it wrote to stderr, for an error message; empty where it wrote none."""
        ...


Connect = Callable[[Server, Callable[[str], None], Callable[[str], None]], Awaitable[Connection]]
"""Starts a server; the two callables take the notices it gives, and why its connection is over."""


@dataclass(frozen=True)
class Limits:
    """How patient an instance is, and how many there may be of one server; times in seconds.

    An instance that is not shared by all is ended after ``instance_idle`` without a call.
    """

    start_timeout: float = 60.0
    probe_timeout: float = 1.5
    restart_first: float = 1.0
    restart_max: float = 30.0
    circuit_failures: int = 5
    circuit_wait: float = 60.0
    queue_length: int = 1000
    instance_idle: float = 600.0
    instances: int = 64


@dataclass
class Vitals:
    """What is known of an instance's health, for list_servers and status."""

    starts: int = 0
    deaths: int = 0
    failures: int = 0
    error: Message | None = None
    healthy: bool = True
    since: float = 0.0
    used: float = 0.0
    listed: asyncio.Event = field(default_factory=asyncio.Event)


class Upstream:
    """A supervised instance of one server.

    ``connect`` starts the process and returns its connection; ``on_listed`` is given the tool
    definitions each time they were listed; ``starts`` bounds how many start at the same time; ``era``
    is the era it had last time, if that is known; ``on_asked`` is given the method of each question
    that it put to its client and that was refused.
    """

    def __init__(
        self,
        server: Server,
        loop: asyncio.AbstractEventLoop,
        connect: Connect,
        limits: Limits,
        on_listed: Callable[[Peer, list[Raw]], None],
        starts: asyncio.Semaphore,
        era: Era | None = None,
        on_asked: Callable[[str], None] = lambda method: None,
    ) -> None:
        self.server = server
        self.state = State.IDLE
        self.vitals = Vitals(used=loop.time())
        self._loop, self._connect, self.limits = loop, connect, limits
        self._on_listed, self._on_asked, self._starts = on_listed, on_asked, starts
        self._era = era
        self._connection: Connection | None = None
        self._queue: deque[Call] = deque()
        self._starting: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ticking = False
        self._refreshing: asyncio.Task[None] | None = None
        self._resume_at = 0.0
        self._closed = False
        self._missed = 0
        self._emptied = asyncio.Event()

    # -- calls -----------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call, or let it wait for a free place or for the start. It is always answered."""
        connection = self._connection
        call.owner = self
        self.vitals.used = now = self._loop.time()
        if self.state is State.READY and connection and not self._queue and self._has_room(connection):
            connection.conversation.send(call)
        elif not self._refuse(call, now):
            call.deadline = now + call.timeout + (0 if connection else self.limits.start_timeout)
            self._queue.append(call)
            self._start()
        self._tick()

    def cancel(self, call: Call, reason: str) -> None:
        """Drop a call: nothing comes back for it. The upstream is told where it has seen it."""
        call.done = True
        if call.number and self._connection:
            self._connection.conversation.cancel(call, reason)
            self._advance()
        elif call in self._queue:
            self._queue.remove(call)

    def freed(self, reply: Reply) -> None:
        """A call of this instance was answered: another may go, and an answer shows that it works."""
        if self.vitals.failures and reply.failure is None:
            self.vitals.failures = 0
        if self._queue:
            self._advance()
        elif not self.in_flight:
            self._emptied.set()

    def _has_room(self, connection: Connection) -> bool:
        return connection.conversation.in_flight < self.server.max_concurrency

    def _refuse(self, call: Call, now: float) -> bool:
        if self._closed or self.state is State.STOPPED:
            failure: TabaneError = UpstreamUnavailable(
                say(
                    "{server} is stopped. Start it with: tabane servers start {server}",
                    server=self.server.name,
                )
            )
        elif self.state in (State.OPEN, State.WAITING) and self._resume_at - now > 5:
            failure = self._unavailable(self._resume_at - now)
        elif len(self._queue) >= self.limits.queue_length:
            failure = UpstreamOverloaded(say(
                "{server} is overloaded: {count} calls wait for it. Try again later.",
                server=self.server.name, count=len(self._queue)))  # fmt: skip
        else:
            return False
        call.answer(Reply(failure=failure))
        return True

    def _advance(self) -> None:
        connection = self._connection
        while self._queue and connection and self.state is State.READY and self._has_room(connection):
            call = self._queue.popleft()
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
            self._queue.remove(call)
            call.answer(Reply(failure=UpstreamTimeout(say(
                "{server} had no free place for the call in time; {count} calls wait for it.",
                server=self.server.name, count=len(self._queue) + 1))))  # fmt: skip
        self._tick()

    # -- life ------------------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Start it where it is not running, and wait. Raises UpstreamError where it does not start."""
        if self.server.disabled:
            raise UpstreamUnavailable(self.server.disabled)
        if self._connection:
            return
        now = self._loop.time()
        if self.state in (State.OPEN, State.WAITING) and self._resume_at > now:
            raise self._unavailable(self._resume_at - now)
        self._start()
        if self._starting:
            # Waited for, not awaited: a start that is cut off must not cut off who waits for it.
            await asyncio.wait([self._starting])
        if self._connection is None:
            raise self._unavailable(self._resume_at - self._loop.time())

    async def listed(self) -> None:
        """Wait until its tools were listed, or it failed to start."""
        self._start()
        if self._starting:
            listing = asyncio.ensure_future(self.vitals.listed.wait())
            await asyncio.wait([self._starting, listing], return_when=asyncio.FIRST_COMPLETED)
            listing.cancel()
        if self.state is State.READY:
            await self.vitals.listed.wait()

    async def start(self) -> None:
        """Start it by hand: a stopped instance, a waiting one or an open circuit is tried at once."""
        self._resume_at = 0.0
        self.vitals.failures = 0
        if self.state in (State.STOPPED, State.OPEN, State.WAITING):
            self._set(State.IDLE)
        await self.ensure()

    async def stop(self) -> None:
        """Stop it by hand; it stays stopped until it is started by hand. Calls waiting are refused."""
        self._set(State.STOPPED)
        await self._end(UpstreamUnavailable(say("{server} was stopped.", server=self.server.name)))

    async def close(self) -> None:
        """End it for good: the hub ends, or the server is gone from the file."""
        self._closed = True
        await self.stop()

    async def retire(self) -> None:
        """Finish the calls in flight, take no new ones, and end: another instance takes its place."""
        self._closed = True
        deadline = self._loop.time() + self.server.timeout
        while self.in_flight and self._loop.time() < deadline:
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), TICK)
        await self.stop()

    @property
    def in_flight(self) -> int:
        """Calls sent and not answered yet, and calls that wait."""
        return len(self._queue) + (self._connection.conversation.in_flight if self._connection else 0)

    @property
    def connection(self) -> Connection | None:
        return self._connection

    def _start(self) -> None:
        if self._closed or self._starting or self.state in (State.READY, State.STOPPED):
            return
        delay = self._resume_at - self._loop.time()
        if delay > 0:
            self._start_later(delay)
        else:
            self._set(State.STARTING)
            self._starting = self._loop.create_task(self._begin())

    def _start_later(self, delay: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(delay, self._start_now)

    def _start_now(self) -> None:
        self._timer = None
        self._start()

    async def _begin(self) -> None:
        try:
            async with self._starts:
                await self._open()
        except TabaneError as error:
            self._failed(error.message)
        except TimeoutError:
            self._failed(say("it did not answer within {seconds:g} s", seconds=self.limits.start_timeout))
        except OSError as error:
            self._failed(say("{error}", error=error.strerror or error))
        finally:
            self._starting = None

    async def _open(self) -> None:
        self.vitals.starts += 1
        self.vitals.listed.clear()
        connection = await self._connect(self.server, self._noticed, self._over)
        try:
            async with asyncio.timeout(self.limits.start_timeout):
                peer = await connection.conversation.open(self._era, self.limits.probe_timeout)
        except BaseException as error:
            if isinstance(error, UpstreamError) and self._era is None:
                # A legacy server may have ended at a question it did not know.
                self._era = Era.LEGACY
            ended = await asyncio.shield(connection.stop())
            if isinstance(error, UpstreamDied):
                raise UpstreamError(_last_words(ended, connection)) from None
            if isinstance(error, TabaneError):
                raise UpstreamError(_last_words(error.message, connection)) from None
            raise
        self._era = peer.era
        self._connection = connection
        self.vitals.since = self._loop.time()
        self.vitals.error, self.vitals.healthy = None, True
        self._set(State.READY)
        self._advance()
        self._refresh(delay=0.0)
        if peer.era is Era.MODERN and peer.announces_tools:
            connection.conversation.listen(lambda: None)

    def _failed(self, why: Message) -> None:
        self.vitals.failures += 1
        self.vitals.healthy = False
        self.vitals.error = why
        if self.state is State.STOPPED or self._closed:
            return
        log.warning("%s did not start: %s", self.server.name, why)
        self._back_off()
        self._refuse_waiting(self._unavailable(self._resume_at - self._loop.time()))
        if self.state is State.WAITING:
            self._start_later(self._resume_at - self._loop.time())

    def _back_off(self) -> None:
        limits, failures = self.limits, self.vitals.failures
        if failures >= limits.circuit_failures:
            self._resume_at = self._loop.time() + limits.circuit_wait
            self._set(State.OPEN)
            return
        delay = min(limits.restart_max, limits.restart_first * 2 ** max(0, failures - 1))
        # Jitter keeps servers that died together from starting together.
        self._resume_at = self._loop.time() + delay * random.uniform(0.75, 1.25)
        self._set(State.WAITING)

    def _over(self, why: str) -> None:
        """The connection is gone without having been asked to."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        reaping = self._loop.create_task(self._reap(connection))
        reaping.add_done_callback(_log_failure)
        if self.state is State.STOPPED or self._closed:
            return
        self.vitals.deaths += 1
        self.vitals.healthy = False
        self.vitals.error = say("it ended ({why})", why=why)
        if self._loop.time() - self.vitals.since > STABLE:
            self.vitals.failures = 0
        self.vitals.failures += 1
        self._back_off()
        if self.state is State.WAITING:
            self._start_later(self._resume_at - self._loop.time())
        else:
            self._refuse_waiting(self._unavailable(self.limits.circuit_wait))

    async def _reap(self, connection: Connection) -> None:
        """Clear away what is left of a process that ended, and note how it did."""
        said = _last_words(await connection.stop(), connection)
        log.warning("%s: %s; it will be started again", self.server.name, said)
        if self._connection is None and self.state in (State.WAITING, State.OPEN):
            self.vitals.error = said

    async def _end(self, refusal: TabaneError) -> None:
        self._refuse_waiting(refusal)
        for handle in (self._timer, self._refreshing):
            if handle:
                handle.cancel()
        self._timer = self._refreshing = None
        self.vitals.listed.set()
        if self._starting:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        connection, self._connection = self._connection, None
        if connection:
            await connection.stop()

    def _refuse_waiting(self, failure: TabaneError) -> None:
        queue, self._queue = self._queue, deque()
        for call in queue:
            call.answer(Reply(failure=failure))

    def _unavailable(self, seconds: float) -> UpstreamUnavailable:
        why = self.vitals.error or say("it has not been started")
        if seconds < 0.5:
            return UpstreamUnavailable(
                say("{server} is not running: {why}", server=self.server.name, why=why)
            )
        return UpstreamUnavailable(say(
            "{server} is not running: {why} (next try in {seconds:.0f} s; at once with: "
            "tabane servers restart {server})",
            server=self.server.name, why=why, seconds=seconds))  # fmt: skip

    def _set(self, state: State) -> None:
        if state is not self.state:
            log.debug("%s: %s → %s", self.server.name, self.state.value, state.value)
            self.state = state

    # -- the list of tools -----------------------------------------------------------------------

    def _noticed(self, method: str) -> None:
        if method == "notifications/tools/list_changed":
            self._refresh(REFRESH)
        elif not method.startswith("notifications/"):
            self._on_asked(method)

    def _refresh(self, delay: float) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self._loop.create_task(self._list(delay))

    async def _list(self, delay: float) -> None:
        await asyncio.sleep(delay)
        self._refreshing = None
        connection = self._connection
        if connection is None or connection.conversation.peer is None:
            return
        peer = connection.conversation.peer
        try:
            tools = await connection.conversation.list_tools() if peer.has_tools else []
        except UpstreamError as error:
            self.vitals.error = error.message
            log.warning("%s did not list its tools: %s", self.server.name, error)
        else:
            self._on_listed(peer, tools)
        self.vitals.listed.set()

    # -- health ----------------------------------------------------------------------------------

    async def look_after(self, timeout: float = 10.0) -> None:
        """A health check with consequences: two in a row unanswered, with nothing in flight, and it is ended.

        Being started again is then a death like any other.
        """
        self._missed = 0 if await self.check(timeout) else self._missed + 1
        connection = self._connection
        if self._missed >= 2 and connection and not self.in_flight:
            self._missed = 0
            connection.conversation.close("it did not answer two health checks")

    async def check(self, timeout: float = 10.0) -> bool:
        """Whether a running instance answers. One with calls in flight is busy, not ill."""
        connection = self._connection
        if self.state is not State.READY or connection is None or connection.conversation.peer is None:
            return False
        method = b"ping" if connection.conversation.peer.era is Era.LEGACY else b"server/discover"
        try:
            await connection.conversation.ask(method, {}, timeout=timeout)
            self.vitals.healthy = True
        except UpstreamTimeout:
            self.vitals.healthy = self.in_flight > 0
        except UpstreamError:
            # It answered, if only to say that it does not know the question.
            self.vitals.healthy = self._connection is connection
        return self.vitals.healthy


def _last_words(what: Message, connection: Connection) -> Message:
    words = connection.last_words()
    return say("{what}; it said: {words}", what=what, words=words) if words else what


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("stopping an upstream failed: %s", task.exception())
