"""A supervised instance of an upstream server: start, queue, restart with back-off, circuit breaker.

States: idle → (downloading →) starting → ready → (died) → waiting → starting …. After too many failures in a
row the circuit opens, and the first call after a while is the trial that closes it. A user stops a server.
One that requires a login rests until the user has logged in. Health checks end a connection that does not
answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import time
from collections.abc import Callable

from msgspec import Struct

from tabane.access.gates import FairQueue
from tabane.errors import (
    LoginRequired,
    TabaneError,
    UpstreamDied,
    UpstreamError,
    UpstreamOverloaded,
    UpstreamTimeout,
    UpstreamUnavailable,
)
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.upstreams.call import Call, InstanceOwner, UpstreamReply
from tabane.upstreams.connection import (
    DOWNLOAD_WAIT,
    UpstreamConnection,
    UpstreamContext,
    UpstreamLimits,
    UpstreamState,
)
from tabane.upstreams.conversation import CallPosition
from tabane.upstreams.handshake import Peer
from tabane.upstreams.launching.start_preparation import PackageProgress, PreparedStart
from tabane.upstreams.lists import LISTS, UpstreamOffers
from tabane.upstreams.subscriptions import Listener
from tabane.wire.era import Era

log = logging.getLogger(__name__)

TICK = 0.25
"""Seconds between checks of deadlines while calls are in flight."""

HELD = 600.0
"""Seconds that an instance goes on for its tasks after another one has replaced it."""

STABLE = 30.0
"""Seconds of running after which earlier failures no longer count."""


class UpstreamHealth(Struct):
    """Health of an instance, for list_servers and status.

    ``since`` is when it became ready, by the clock of the event loop, ``ready_at`` by that of the computer.
    ``called_at`` is when it got its last call, by the clock of the computer.
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
    called_at: float | None = None


class Upstream:
    """A supervised instance of one server.

    ``owner`` gets its lists, messages and changes of state. ``era`` is the era it had last time, if that is
    known.
    """

    def __init__(
        self, server: Server, context: UpstreamContext, owner: InstanceOwner, era: Era | None = None
    ) -> None:
        self.server, self._context, self._owner = server, context, owner
        self._loop = loop = context.loop
        self.state = UpstreamState.IDLE
        self.vitals = UpstreamHealth(used=loop.time())
        self.download: PackageProgress | None = None
        """How far the download for its start is; None if none runs."""
        self.offers = UpstreamOffers(server.name, context, owner, self._note)
        self._listing: asyncio.Task[None] | None = None
        self._era, self._missed_checks = era, 0
        self._connection: UpstreamConnection | None = None
        self._queue = WaitingCalls(server.name)
        self._starting: asyncio.Task[None] | None = None
        self._restarts = RestartSchedule(loop, self._start)
        self._ticking = False
        self._closed = False
        self._emptied = asyncio.Event()
        self.held = 0
        """Tasks that this instance works on: it does not end with its client, nor because it is idle."""

    # -- calls -----------------------------------------------------------------------------------

    def submit(self, call: Call) -> None:
        """Send a call, or queue it until there is room or the server has started. It is always answered."""
        screening = self._context.screening
        if screening is None:
            self.submit_screened(call)
        else:
            screening.submit(self.server, call, self.submit_screened)

    def submit_screened(self, call: Call) -> None:
        """Send or queue a call that was searched for credentials, here or in another hub."""
        connection = self._connection
        call.owner = self
        if call.marks is not None:
            call.marks.submitted()
        self.vitals.calls += 1
        self.vitals.used = now = self._loop.time()
        self.vitals.called_at = time.time()
        if (
            self.state is UpstreamState.READY
            and connection
            and not self._queue.count
            and self._listing is None
            and self._has_room(connection)
        ):
            connection.conversation.send(call)
        elif not self._refuse(call):
            call.deadline = now + call.timeout + (0 if connection else self._limits.start_timeout)
            self._queue.add(call.holder, call)
            self._start()
            if self.state is UpstreamState.DOWNLOADING:
                self._loop.call_later(DOWNLOAD_WAIT, self._refuse_while_downloading)
        if not self._ticking:
            self._tick()

    async def notify(self, method: str, params: bytes) -> None:
        """Send a notification that the hub does not know. Raises UpstreamError if it does not start."""
        await self.ensure()
        self.vitals.used = self._loop.time()
        if self._connection:
            self._connection.conversation.notify(method, params)

    async def introduced(self) -> Peer:
        """Return how the server described itself; start it if it does not run. Raises UpstreamError."""
        await self.ensure()
        peer = self._connection.conversation.peer if self._connection else None
        if peer is None:
            raise self._unavailable()
        return peer

    async def watch(self, uri: str, listener: Listener) -> None:
        """Call ``listener`` when that resource changes, until it is unwatched, over restarts.

        Starts the server if it is not running. Raises UpstreamError if the server refuses.
        """
        await self.ensure()
        self.vitals.used = self._loop.time()
        await self.offers.watch(uri, listener, self.server.timeout)

    def cancel(self, call: Call, reason: str) -> None:
        """Drop a call: it gets no reply. The upstream is notified if the call was sent."""
        call.done = True
        if call.number and self._connection:
            self._connection.conversation.cancel(call, reason)
            self._advance()
        else:
            self._queue.discard(call.holder, call)

    def position_of(self, call: Call) -> CallPosition | None:
        """Return where a call is, and its open questions; None if it ends with the hub."""
        return self._connection.conversation.position_of(call) if self._connection else None

    def freed(self, reply: UpstreamReply) -> None:
        """Note that a call was answered: the next may be sent, and an answer shows that the server works."""
        if reply.failure is not None:
            self.vitals.failed_calls += 1
            self.vitals.last_failure = reply.failure.message
        elif self.vitals.failures:
            self.vitals.failures = 0
        if self._queue.count:
            self._advance()
        elif self._closed and not self.in_flight:
            self._emptied.set()

    def awaited(self, session: str) -> bool:
        """Return whether a call of another client waits for a free place."""
        return any(call.session != session for call in self._queue)

    def unsent(self, call: Call) -> bool:
        """Queue a call that did not reach the upstream before all others; False if that cannot be."""
        if (
            self._closed
            or self.state is UpstreamState.STOPPED
            or len(self._queue) >= self._limits.queue_length
        ):
            return False
        call.number = 0
        self._queue.add_first(call.holder, call)
        self._tick()
        return True

    def _has_room(self, connection: UpstreamConnection) -> bool:
        most, conversation = self.server.max_concurrency, connection.conversation
        # A call that waits for a person takes nobody's place: that may last for minutes.
        return len(conversation.calls) < most or conversation.working < most

    def _refuse(self, call: Call) -> bool:
        failure: TabaneError | None
        if self._closed or self.state is UpstreamState.STOPPED:
            failure = UpstreamUnavailable(is_stopped(self.server.name))
        elif (login := self.awaited_login) is not None:
            failure = login
        elif self._rests and self._restarts.left > 5:
            failure = self._unavailable()
        else:
            failure = self._queue.overload(call, self._limits.queue_length)
        if failure is None:
            return False
        call.answer(UpstreamReply(failure=failure))
        return True

    def _refuse_while_downloading(self) -> None:
        """Answer the calls that have waited long enough: a download may take minutes."""
        limit = self._loop.time() + self._limits.start_timeout - DOWNLOAD_WAIT + TICK
        if (failure := self.still_downloading) is not None:
            self._queue.refuse_those(lambda call: call.deadline <= limit + call.timeout, failure)

    def _advance(self) -> None:
        connection = self._connection
        if self._listing is not None:
            return
        while self._queue and connection and self.state is UpstreamState.READY and self._has_room(connection):
            call = self._queue.pop()
            if not call.done and not self._held_back(call):
                connection.conversation.send(call)

    def _held_back(self, call: Call) -> bool:
        """Return whether a call that has waited is refused, because of what the server has listed."""
        refusal = self._owner.refusal(call)
        if refusal is not None:
            call.answer(UpstreamReply(failure=refusal))
        return refusal is not None

    async def _send_listed_calls(self) -> None:
        """Send the calls that wait once the server has listed what can be called."""
        for name in ("tools", "prompts"):
            await self.offers.known(name)
        if self._listing is asyncio.current_task():
            self._listing = None
            self._advance()

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
        self._queue.expire(now)
        self._advance()
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
        if self._rests and self._restarts.left > 0:
            raise self._unavailable()
        self._start()
        await self._started(patient=patient)
        if self._connection is None:
            raise self.still_downloading or self._unavailable()

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
            await self.offers.known(name)

    async def all_listed(self) -> None:
        """Wait until all lists were read, or the start failed."""
        for name in LISTS:
            await self.listed(name)

    async def start(self) -> None:
        """Start at the request of the user, also if it is stopped, waits, or its circuit is open."""
        self._restarts.clear()
        self.vitals.failures = 0
        if self._rests or self.state in (UpstreamState.STOPPED, UpstreamState.LOGIN):
            self._set(UpstreamState.IDLE)
        await self.ensure(patient=True)

    def reconnect(self) -> None:
        """End the connection and start again. Calls that come meanwhile wait for that."""
        if self._connection is None or self._starting or self._closed:
            return
        connection, self._connection = self._connection, None
        self.offers.lost()
        self._set(UpstreamState.STARTING)
        self._starting = self._loop.create_task(self._begin_after(connection))

    async def _begin_after(self, connection: UpstreamConnection) -> None:
        try:
            await connection.stop()
        except BaseException:
            self._starting = None
            raise
        await self._begin()

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
        held_until = self._loop.time() + HELD
        while (self.in_flight and self._loop.time() < deadline) or (
            self.held and self._connection and self._loop.time() < held_until
        ):
            if self._awaits_answer:
                # A person has all the time that a question has, and the call its own afterwards.
                deadline = self._loop.time() + self.server.timeout
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._emptied.wait(), TICK)
        await self.stop()

    @property
    def closed(self) -> bool:
        """Return whether it has ended for good."""
        return self._closed

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
        return max(0.0, self._restarts.left) if self._rests else None

    @property
    def _rests(self) -> bool:
        """Return whether it waits after a failure."""
        return self.state in (UpstreamState.OPEN, UpstreamState.WAITING)

    @property
    def awaited_login(self) -> LoginRequired | None:
        """Return the error of a server that rests until the user has logged in."""
        return self._context.awaited_login(self.server.name) if self.state is UpstreamState.LOGIN else None

    @property
    def connection(self) -> UpstreamConnection | None:
        """Return the connection of a running instance; None if it does not run."""
        return self._connection

    @property
    def _limits(self) -> UpstreamLimits:
        return self._context.limits

    @property
    def trouble(self) -> Message | None:
        """Return why it is not running or did not list, and the fix; None while it starts or works."""
        name, why = self.server.name, self.vitals.error
        if self.state is UpstreamState.STOPPED:
            return is_stopped(name)
        if self.download is not None:
            return say("{server!n}: {progress}", server=name, progress=self.download.describe())
        if why is None or self.state in (UpstreamState.IDLE, UpstreamState.STARTING):
            return None
        if self.state is UpstreamState.LOGIN:
            return why
        return no_lists(name, why) if self.state is UpstreamState.READY else failed_start(name, why)

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
        if self.awaited_login is not None:
            return
        if self._restarts.left > 0:
            self._restarts.arm()
        else:
            self._set(UpstreamState.STARTING)
            self._starting = self._loop.create_task(self._begin())

    async def _begin(self) -> None:
        patience = self._limits.start_timeout
        try:
            preparation = self._context.preparation
            start = PreparedStart(self.server)
            if preparation is not None:
                start = await preparation.prepare(self.server, self._show_download)
            patience = self._limits.download_timeout if start.downloads else self._limits.start_timeout
            if start.downloads and self.download:
                # The start itself downloads: it takes no place of those that only start.
                await self._open(start.server, patience)
            else:
                self._show_download(None)  # the server itself is started now
                async with self._context.starts:
                    await self._open(start.server, patience)
        except TabaneError as error:
            self._handle_failed_start(error.message)
        except TimeoutError:
            self._handle_failed_start(no_answer(patience))
        except OSError as error:
            self._handle_failed_start(say("{error}", error=error.strerror or error))
        finally:
            self.download = None
            self._starting = None

    def _note_end_of_start(self, failure: Message | None) -> None:
        """Note how a start went; ``failure`` is None if the server works."""
        self.download = None
        if self._context.preparation is not None:
            self._context.preparation.ended(self.server, failure)

    def _show_download(self, progress: PackageProgress | None) -> None:
        self.download = progress
        if progress is None:
            self._set(UpstreamState.STARTING)
        elif self.state is UpstreamState.STARTING:
            self._set(UpstreamState.DOWNLOADING)
            if self._queue:
                self._loop.call_later(DOWNLOAD_WAIT, self._refuse_while_downloading)
        else:
            self._owner.state_changed()

    async def _open(self, server: Server, patience: float) -> None:
        self.vitals.starts += 1
        self.offers.starting()
        connection = await self._context.connect(server, self.offers.noticed, self._handle_loss)
        connection.conversation.owner = self._owner
        await self._shake_hands(connection, patience)
        self._connection = connection
        self.vitals.since, self.vitals.ready_at = self._loop.time(), time.time()
        self.vitals.error, self.vitals.healthy = None, True
        self._note_end_of_start(None)
        self._set(UpstreamState.READY)
        waits = self._owner.holds_calls()
        if not waits:
            self._advance()
        self.offers.open(connection.conversation)
        if waits:
            self._listing = self._loop.create_task(self._send_listed_calls())

    async def _shake_hands(self, connection: UpstreamConnection, patience: float) -> None:
        """Do the handshake within ``patience`` seconds. Otherwise stop it. Raises UpstreamError."""
        try:
            async with asyncio.timeout(patience):
                peer = await connection.conversation.open(self._era, self._limits.probe_timeout)
        except BaseException as error:
            # A legacy server may have ended at a question it did not know; an unreachable one shows nothing.
            shows_era = isinstance(error, UpstreamError) and not isinstance(error, UpstreamUnavailable)
            if shows_era and self._era is None:
                self._era = Era.LEGACY
            ended = await asyncio.shield(connection.stop())
            if isinstance(error, UpstreamDied):
                raise UpstreamError(await connection.failure(ended)) from None
            if isinstance(error, TabaneError):
                raise UpstreamError(await connection.failure(error.message)) from None
            if isinstance(error, TimeoutError):
                raise UpstreamError(await connection.failure(no_answer(patience))) from None
            raise
        self._era = peer.era

    def _handle_failed_start(self, why: Message) -> None:
        self.vitals.failures += 1
        self.vitals.healthy = False
        self.vitals.error = why
        if self.state is UpstreamState.STOPPED or self._closed:
            return
        self._note_end_of_start(why)
        if (login := self._context.awaited_login(self.server.name)) is not None:
            self._await_login(login)
            return
        log.warning("%s did not start: %s", self.server.name, why)
        self._back_off()
        self._queue.refuse(self._unavailable())
        if self.state is UpstreamState.WAITING:
            self._restarts.arm()

    def _await_login(self, login: LoginRequired) -> None:
        """Rest until the user has logged in: to start again would change nothing."""
        log.info("%s: %s", self.server.name, login)
        self.vitals.failures = 0
        self.vitals.error = login.message
        self._set(UpstreamState.LOGIN)
        self._queue.refuse(login)

    def _back_off(self) -> None:
        self._set(self._restarts.failed(self.vitals.failures, self._limits))

    def _handle_loss(self, why: str) -> None:
        """Handle a connection that ended unexpectedly."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        self.offers.lost()
        reaping = self._loop.create_task(self._reap(connection))
        reaping.add_done_callback(_log_failure)
        if self.state is UpstreamState.STOPPED or self._closed:
            return
        self.vitals.deaths += 1
        self.vitals.healthy = False
        self.vitals.error = say("it ended ({why})", why=why)
        if (login := self._context.awaited_login(self.server.name)) is not None:
            self._await_login(login)
            return
        if self._loop.time() - self.vitals.since > STABLE:
            self.vitals.failures = 0
        self.vitals.failures += 1
        self._back_off()
        if self.state is UpstreamState.WAITING:
            self._restarts.arm()
        else:
            self._queue.refuse(self._unavailable())

    async def _reap(self, connection: UpstreamConnection) -> None:
        """Stop the rest of a process that ended, and note how it ended."""
        said = await connection.failure(await connection.stop())
        log.warning("%s: %s; it will be restarted", self.server.name, said)
        if self._connection is None and self._rests:
            self.vitals.error = said
            self._owner.state_changed()

    async def _end(self, refusal: TabaneError) -> None:
        self._queue.refuse(refusal)
        self._restarts.cancel()
        if self._starting:
            self._starting.cancel()
            await asyncio.wait([self._starting])
        self.offers.lost()
        connection, self._connection = self._connection, None
        if connection:
            await connection.stop()

    def _unavailable(self) -> UpstreamUnavailable:
        return self.awaited_login or not_running(self.server.name, self.vitals.error, self._restarts.left)

    def _note(self, fault: Message) -> None:
        self.vitals.error = fault
        self._owner.state_changed()

    def _set(self, state: UpstreamState) -> None:
        if state is not self.state:
            log.debug("%s: %s → %s", self.server.name, self.state.value, state.value)
            self.state = state
            self._owner.state_changed()

    # -- health ----------------------------------------------------------------------------------

    async def look_after(self, timeout: float) -> None:
        """Check, and close the connection after two checks without an answer while no call is in flight.

        The server is then restarted as after any other end.
        """
        self._missed_checks = 0 if await self.check(timeout) else self._missed_checks + 1
        if self._missed_checks >= 2 and self._connection and not self.in_flight:
            self._missed_checks = 0
            self._connection.conversation.close("it did not answer two health checks")

    async def check(self, timeout: float) -> bool:
        """Return whether a running instance answers. One with calls in flight counts as healthy."""
        vitals, connection = self.vitals, self._connection
        if (
            self.state is not UpstreamState.READY
            or connection is None
            or connection.conversation.peer is None
        ):
            return False
        method = b"ping" if connection.conversation.peer.era is Era.LEGACY else b"server/discover"
        try:
            await connection.conversation.ask(method, {}, timeout=timeout)
            vitals.healthy = True
        except UpstreamTimeout:
            vitals.healthy = self.in_flight > 0
        except UpstreamError:
            # An error is an answer too: the server works, even if it does not know ping.
            vitals.healthy = self._connection is connection
        return vitals.healthy


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and task.exception():
        log.error("stopping an upstream failed: %s", task.exception())


class WaitingCalls(FairQueue[Call]):
    """The waiting calls of one instance, in turns between their holders. Each of them is answered."""

    __slots__ = ("_server",)

    def __init__(self, server: str) -> None:
        super().__init__()
        self._server = server

    def overload(self, call: Call, most: int) -> UpstreamOverloaded | None:
        """Return the error for a call that has no room among ``most``; None if it has."""
        if not self.is_full(call.holder, most):
            return None
        return UpstreamOverloaded(say(
            "{server!n} is overloaded: {count} {count:call is|calls are} waiting. Try again later.",
            server=self._server, count=len(self)))  # fmt: skip

    def expire(self, now: float) -> None:
        """Answer the calls whose time is over."""
        for call in [call for call in self if call.deadline <= now]:
            self.discard(call.holder, call)
            call.answer(UpstreamReply(failure=UpstreamTimeout(say(
                "{server!n} could not accept the call in time; {count} {count:call is|calls are} waiting.",
                server=self._server, count=len(self) + 1))))  # fmt: skip

    def refuse(self, failure: TabaneError) -> None:
        """Answer all calls with an error."""
        calls = list(self)
        for call in calls:
            self.discard(call.holder, call)
        for call in calls:
            call.answer(UpstreamReply(failure=failure))

    def refuse_those(self, chosen: Callable[[Call], bool], failure: TabaneError) -> None:
        """Answer the chosen calls with an error."""
        for call in [call for call in self if chosen(call)]:
            self.discard(call.holder, call)
            call.answer(UpstreamReply(failure=failure))


class RestartSchedule:
    """The time of the next start of one instance. ``start`` is called then."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: Callable[[], None]) -> None:
        self._loop, self._start = loop, start
        self._resume_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def left(self) -> float:
        """Return the seconds until the next start; zero or less if it may start now."""
        return self._resume_at - self._loop.time()

    def failed(self, failures: int, limits: UpstreamLimits) -> UpstreamState:
        """Choose the time after so many failures in a row. Return the state until then."""
        if failures >= limits.circuit_failures:
            self._resume_at = self._loop.time() + limits.circuit_wait
            return UpstreamState.OPEN
        delay = min(limits.restart_max, limits.restart_first * 2 ** max(0, failures - 1))
        # Jitter keeps servers that died together from starting together.
        self._resume_at = self._loop.time() + delay * random.uniform(0.75, 1.25)
        return UpstreamState.WAITING

    def arm(self) -> None:
        """Start at that time, unless that is planned already."""
        if self._timer is None:
            self._timer = self._loop.call_later(self.left, self._due)

    def clear(self) -> None:
        """Allow a start now."""
        self._resume_at = 0.0

    def cancel(self) -> None:
        """Do not start at that time."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _due(self) -> None:
        self._timer = None
        self._start()


def is_stopped(server: str) -> Message:
    """Return the text for a server that the user has stopped."""
    return say("{server!n} is stopped. Start it with: tabane servers start {server!c}", server=server)


def not_running(server: str, why: Message | None, seconds: float) -> UpstreamUnavailable:
    """Return the error for a server that is tried again in so many seconds."""
    why = why or say("it has not been started")
    if seconds < 0.5:
        return UpstreamUnavailable(say("{server!n} is not running: {why}", server=server, why=why))
    return UpstreamUnavailable(say(
        "{server!n} is not running: {why} (next try in {seconds:.0f} s; to try now: tabane "
        "servers restart {server!c})",
        server=server, why=why, seconds=seconds))  # fmt: skip


def no_lists(server: str, why: Message) -> Message:
    """Return the text for a server that runs without its lists."""
    return say("{server!n} runs, but does not list its tools: {why}", server=server, why=why)


def failed_start(server: str, why: Message) -> Message:
    """Return the text for a server that did not start."""
    return say(
        "{server!n} failed to start: {why}\nThen test it: tabane servers test {server!c}",
        server=server,
        why=why,
    )


def no_answer(seconds: float) -> Message:
    """Return why a start failed that took too long."""
    return say("it did not answer within {seconds:g} s", seconds=seconds)
