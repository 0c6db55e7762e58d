"""The conversation over one connection to one upstream: its era, and its concurrent requests.

A thin layer over wire/, for any transport. Request ids are our own numbers, counted up. ``_meta`` is
translated to the era of the upstream. Results pass as the bytes in which they arrived. A large one is held
back while its client still reads earlier ones.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import NamedTuple

from msgspec import UNSET, Raw

from tabane.errors import TabaneError, UpstreamDied, UpstreamError, UpstreamOverloaded, UpstreamTimeout
from tabane.messages import say
from tabane.upstreams.call import (
    Call,
    InputBacklogFull,
    InstanceOwner,
    ServerRequest,
    SessionPosition,
    UpstreamReply,
    UpstreamTransport,
)
from tabane.upstreams.handshake import CLIENT, KINDS, Handshake, HubChain, Peer, UpstreamRefused
from tabane.upstreams.server_requests import COMPLETE, ServerRequests
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import META_SUBSCRIPTION, Era
from tabane.wire.json import InvalidJson, JsonRpcFrame, Members

log = logging.getLogger(__name__)

SMALL = 64 << 10
"""Bytes up to which an answer never waits."""

ROOM = 1 << 20
"""Unread bytes of a client up to which it gets another answer that is not small."""

HOLD = 1.0
"""Seconds after which the hub reads on from an upstream that others wait for."""

STALLED = 60.0
"""Seconds without progress after which an answer no longer waits for its client."""

LOOK = 0.01
"""Seconds between two looks whether there is room."""

MOST_AT_ONCE = 16
"""Answers that are looked at in that time: if more wait, each is looked at less often."""


class ReplyDelivery:
    """Gives the answers of one upstream to their clients.

    ``awaited`` returns whether anyone but the client of that call waits for the upstream. ``most`` is the
    limit for the bytes of all waiting answers.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        awaited: Callable[[Call], bool],
        most: int,
        stalled: float = STALLED,
    ) -> None:
        self._loop, self._awaited, self._most, self._stalled = loop, awaited, most, stalled
        self._waiting = self._count = 0
        self._slow: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    def give(self, call: Call, reply: UpstreamReply) -> asyncio.Future[None] | None:
        """Answer a call, now or when there is room. The upstream is not read until a returned future ends."""
        size = len(reply.result or reply.error or b"")
        if size <= SMALL or call.unsent <= ROOM or self._waiting + size > self._most:
            call.answer(reply)
            return None
        if call.owner is not None:
            # The upstream has finished this call: the next call may go to it.
            call.owner.freed(reply)
        self._waiting += size
        self._count += 1
        giving = self._begin(self._when_room(call, reply, size))
        return None if call.session in self._slow else self._begin(self._hold(giving, call))

    async def _when_room(self, call: Call, reply: UpstreamReply, size: int) -> None:
        try:
            await self._room(call)
        finally:
            self._waiting -= size
            self._count -= 1
            self._slow.discard(call.session)
            call.answer(reply)

    async def _room(self, call: Call) -> None:
        left, since = -1, self._loop.time()
        while not call.done and (unsent := call.unsent) > ROOM:
            now = self._loop.time()
            if unsent != left:
                left, since = unsent, now
            elif now - since > self._stalled:
                return
            await asyncio.sleep(LOOK * max(1.0, self._count / MOST_AT_ONCE))

    async def _hold(self, giving: asyncio.Task[None], call: Call) -> None:
        while not giving.done():
            await asyncio.wait([giving], timeout=HOLD)
            if not giving.done() and self._awaited(call):
                # Others have waited long enough. Until this client reads, its answers delay nobody.
                self._slow.add(call.session)
                return

    def _begin(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


_MOST_VERSIONS = 100


class ParsedLine(NamedTuple):
    """A line as a message; ``frame`` is None if it is not one, ``fault`` says why.

    ``repaired``: bytes that are not UTF-8 were replaced. ``pruned``: what was NaN or infinite was removed.
    """

    frame: JsonRpcFrame | None
    fault: str = ""
    repaired: bool = False
    pruned: bool = False


def read_line(line: bytes) -> ParsedLine:
    """Read a line as a message, repaired if that shows what it answers."""
    try:
        return ParsedLine(json.decode_frame(line))
    except InvalidJson as error:
        fault = str(error)
    try:
        if fault == json.CONSTANT:
            return ParsedLine(json.decode_frame(json.without_constants(line)), fault, pruned=True)
        if not fault.startswith("not UTF-8"):
            return ParsedLine(None, fault)
        return ParsedLine(json.decode_frame(json.repaired(line)), fault, True)
    except InvalidJson:
        return ParsedLine(None, fault)


_a_number = re.compile(rb"\"?([0-9]{1,18})(?:\.0{1,18})?\"?").fullmatch


def number_in(raw: Raw) -> int | None:
    """Return the number of a request that a server repeats, also as text or as 3.0; None if it is none."""
    found = _a_number(raw)
    return int(found[1]) if found else None


def number_of(frame: JsonRpcFrame) -> int | None:
    """Return the number of the request that a message answers; None if it has none of ours."""
    return None if frame.id is UNSET else number_in(frame.id)


def is_readable(frame: JsonRpcFrame) -> bool:
    """Return whether a client can read an answer: an object, or an error with code and message.

    A client drops any other answer, and waits forever.
    """
    if frame.result is not UNSET:
        return _begins(frame.result, b"{")
    assert frame.error is not UNSET
    try:
        members = json.fields(frame.error)
    except InvalidJson:
        return False
    code = bytes(members.get("code", b""))
    return code.lstrip(b"-").isdigit() and _begins(members.get("message", Raw(b"")), b'"')


def subscription_of(params: Raw) -> int | None:
    """Return the number of the request that a notification belongs to, as its ``_meta`` names it."""
    try:
        meta = json.fields(json.fields(params).get("_meta", b"{}"))
        return int(bytes(meta.get(META_SUBSCRIPTION, b"")))
    except (InvalidJson, ValueError):
        return None


def supported_versions(raw: Raw) -> list[str]:
    """Return the protocol versions that an error names as supported, at most 100; none if it names none."""
    try:
        data = json.member(json.fields(raw), "data")
    except InvalidJson:
        return []
    versions = data.get("supported") if isinstance(data, dict) else None
    if not isinstance(versions, list):
        return []
    return [version for version in versions[:_MOST_VERSIONS] if isinstance(version, str)]


def _begins(raw: Raw, with_: bytes) -> bool:
    return bytes(memoryview(raw)[:64]).lstrip().startswith(with_)


def error_of(raw: Raw) -> tuple[int, str]:
    """Return code and message of an error, as far as they can be read."""
    try:
        body = json.decode(raw)
    except InvalidJson:
        return 0, "unreadable error"
    if not isinstance(body, dict):
        return 0, str(body)
    code = body.get("code")
    return code if isinstance(code, int) else 0, str(body.get("message", ""))


MOST_SAID = 1000
"""Characters of a malformed error that are shown."""

STRANGE_LINES, STRANGE_LENGTH = 5, 4096
"""Lines that are no messages, and bytes of each, that are kept: they may say why a start failed."""

KNOWN_NOTICES = frozenset(
    {
        *(f"notifications/{kind}/list_changed" for kind in KINDS),
        "notifications/resources/updated",
        "notifications/subscriptions/acknowledged",
    }
)
"""Notifications that belong to no call, and that the hub itself handles."""
NOT_ITS_STATE = json.error_object(
    eras.INVALID_PARAMS, "requestState: neither this hub nor the server has made it"
)
"""Error for a state that is sent to a legacy upstream, which makes none."""

LARGE = 1 << 20
"""Bytes of a message above which it is read in a thread, and only answers and requests are accepted."""

CallPosition = tuple[SessionPosition, dict[str, ServerRequest]]
"""Where a call is, and its open questions by their ids."""


class Conversation:
    """Requests to one upstream; its answers, notifications and questions.

    ``transport`` is set before anything else is done. ``on_notice`` gets method and params of each
    notification that belongs to no call, and of each question that no client could answer. ``roots`` are the
    answer to the question for them if no client is asked, None if it is refused. ``capabilities`` are those
    of the one client that the upstream runs for, None if it is shared. ``extensions`` are then those that it
    is told of. ``on_closed`` is called once when the connection is over, after every call in flight was
    answered with :class:`UpstreamDied`.
    """

    transport: UpstreamTransport
    owner: InstanceOwner | None = None
    """Takes messages that the hub does not know; None if they are dropped or refused."""

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        *,
        on_notice: Callable[[str, Raw], None],
        on_closed: Callable[[str], None],
        max_line: int = 64 << 20,
        roots: Sequence[str] | None = None,
        capabilities: bytes | None = None,
        extensions: Members | None = None,
        chain: HubChain | None = None,
    ) -> None:
        self._extensions, self._chain = extensions or {}, chain
        # Requests of the hub itself: a server may list only what a client can use that it is told of.
        self._announced = json.join({"extensions": Raw(json.join(extensions))}) if extensions else b"{}"
        self._name, self._loop = name, loop
        self._on_notice, self._on_closed = on_notice, on_closed
        self._roots, self._capabilities = roots, capabilities
        # Requests of callers, and those of the hub, which do not count toward the callers' limit.
        self.calls: dict[int, Call] = {}
        self._asks: dict[int, Call] = {}
        self._number = 0
        self._max_line = max_line
        self._level: int | None = None
        self._questions = ServerRequests(
            name, loop, self._say, on_notice, roots, self._asked_of_others, self.calls
        )
        self._delivery = ReplyDelivery(loop, self._is_awaited, 2 * max_line)
        self._reading: set[asyncio.Task[None]] = set()
        self.peer: Peer | None = None
        self.garbage = 0
        self.strange_lines: deque[str] = deque(maxlen=STRANGE_LINES)

    async def open(self, known: Era | None, probe_timeout: float) -> Peer:
        """Settle the era and introduce the hub, see :class:`Handshake`. Raises UpstreamError."""
        handshake = Handshake(
            lambda method, params, era: self._ask(
                method, params, era=era, meta=self._chain.mark() if self._chain else None
            ),
            self._say,
            self._capabilities,
            # If a question's call is known, its client can be asked for its folders, whoever shares it.
            roots=self._roots is not None or self.transport.exact,
            extensions=self._extensions,
        )
        peer = await handshake.perform(known, probe_timeout)
        fault = self._chain.fault(self._name, peer.hubs) if self._chain else None
        if self._chain and fault is not None:
            self._chain.on_circle(self._name)
            raise UpstreamRefused(0, fault)
        self.peer = peer
        return peer

    # -- requests --------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        """Send a call. Its answer, or the failure that replaces it, goes to ``call.on_reply``."""
        peer = self.peer
        self._transmit(call, peer.era if peer else Era.LEGACY, self.calls)

    def cancel(self, call: Call, reason: str) -> None:
        """Forget a call, or a request of the hub's own, and tell the upstream; it is not answered."""
        # Compare more than the number: a call of an earlier connection may have had the same one.
        if call in (self.calls.get(call.number), self._asks.get(call.number)):
            self._take(call.number)
            call.done = True
            self._give_up(call, reason)

    def expire(self, now: float) -> None:
        """Answer the calls whose deadline has passed, and cancel them upstream."""
        self._questions.expire(now)
        for call in [call for call in self.calls.values() if call.deadline <= now]:
            if self._questions.pending(call):
                # A call does not expire while a person is asked: the question has its own time limit.
                call.deadline = now + call.timeout
                continue
            del self.calls[call.number]
            self._give_up(call, "timeout")
            call.answer(UpstreamReply(failure=self._timed_out(call.timeout)))

    async def ask(self, method: bytes, params: Members, timeout: float = 30.0) -> Members:
        """Send a request of the hub's own; return the members of its result. Raises UpstreamError."""
        return await self._ask(method, params, timeout=timeout)

    def listen(self, wanted: bytes, on_end: Callable[[UpstreamReply], None]) -> Call:
        """Ask a modern upstream to announce the changes in ``wanted`` (the object ``notifications``).

        Its announcements arrive as notices. :meth:`cancel` the call to end it.
        """
        call = Call(b"subscriptions/listen", {"notifications": Raw(wanted)}, {}, on_end)
        self._transmit(call, Era.MODERN, self._asks)
        return call

    @property
    def questions(self) -> ServerRequests:
        """Return the open questions of the upstream."""
        return self._questions

    def position_of(self, call: Call) -> CallPosition | None:
        """Return where a call is, and its open questions; None if it ends with the hub."""
        if self.calls.get(call.number) is not call or self.transport.closed:
            return None
        position = self.transport.position_of(call)
        return None if position is None else (position, self._questions.of(call))

    def adopt(self, call: Call, number: int, version: str) -> None:
        """Take a call that an earlier hub has sent to a legacy upstream, in a session that is still there."""
        self.peer = Peer(Era.LEGACY, version, "", {}, "")
        self._number = call.number = number
        self.calls[number] = call
        call.deadline = self._loop.time() + call.timeout

    def _transmit(self, call: Call, era: Era, calls: dict[int, Call]) -> None:
        if self.transport.closed:
            call.answer(UpstreamReply(failure=self._died("its connection is closed")))
            return
        meta = call.meta
        if era is Era.MODERN:
            meta = eras.enveloped(meta, CLIENT, self._announced if calls is self._asks else call.capabilities)
        else:
            if "requestState" in call.params:
                call.answer(UpstreamReply(error=Raw(NOT_ITS_STATE), era=era))
                return
            call.params.pop("inputResponses", None)  # of no question: as if there were none
            if eras.META_LOG_LEVEL in meta:
                self._want_logs(meta)
            meta = eras.without_envelope(meta) if meta else meta
        self._number = number = self._number + 1
        if "progressToken" in meta:
            meta = {**meta, "progressToken": Raw(b"%d" % number)}
        call.number = number
        call.deadline = self._loop.time() + call.timeout
        if call.marks is not None:
            call.marks.sent()
        calls[number] = call
        params = eras.with_meta(call.params, meta) if meta else json.join(call.params)
        line = json.request_line(number, b'"%b"' % call.method, params)
        try:
            self.transport.request(call, line, era)
        except InputBacklogFull:
            self.fail(number, UpstreamOverloaded(say(
                "{server!n} does not read its input, and too much data is waiting for it. This request was "
                "not sent. Restart the server with: tabane servers restart {server!c}",
                server=self._name)))  # fmt: skip

    def _give_up(self, call: Call, reason: str) -> None:
        self._questions.drop(call, reason)
        note = json.encode({"requestId": call.number, "reason": reason})
        self.transport.cancel(call, json.notification_line("notifications/cancelled", note))

    def _want_logs(self, meta: Members) -> None:
        """Set the log level of a legacy upstream: one for all, the most verbose that any client asked for."""
        level = eras.log_level(meta)
        if level is None or (self._level is not None and self._level <= level):
            return
        if self.peer and self.peer.has("logging"):
            self._level = level
            params = {"level": Raw(json.quote(eras.LOG_LEVELS[level]))}
            self._transmit(Call(b"logging/setLevel", params, {}, lambda _: None), Era.LEGACY, self._asks)

    def _say(self, line: bytes, about: int | None = None) -> None:
        if not self.transport.closed:
            self.transport.tell(line, about)

    async def _ask(
        self,
        method: bytes,
        params: Members,
        *,
        era: Era | None = None,
        timeout: float | None = None,
        meta: Members | None = None,
    ) -> Members:
        answer: asyncio.Future[UpstreamReply] = self._loop.create_future()

        def settle(reply: UpstreamReply) -> None:
            if not answer.done():
                answer.set_result(reply)

        call = Call(method, params, meta or {}, settle, timeout=timeout or 30.0, safe=True)
        self._transmit(call, era or (self.peer.era if self.peer else Era.MODERN), self._asks)
        try:
            async with asyncio.timeout(timeout):
                reply = await answer
        except TimeoutError:
            raise self._timed_out(timeout or 0.0) from None
        finally:
            unanswered = not answer.done() or answer.cancelled()
            if unanswered and self._asks.pop(call.number, None) is not None and not self.transport.closed:
                call.done = True
                self._give_up(call, "timeout")
        if len(reply.result or b"") > LARGE:
            return await asyncio.to_thread(self._members, method, reply)
        return self._members(method, reply)

    def _members(self, method: bytes, reply: UpstreamReply) -> Members:
        if reply.failure is not None:
            raise reply.failure
        if reply.error is not None:
            code, message = error_of(reply.error)
            raise UpstreamRefused(
                code,
                say("{server!n} answered {method} with an error: {error}", server=self._name,
                    method=method.decode(), error=message or code),
                supported_versions(reply.error),
            )  # fmt: skip
        try:
            return json.fields(reply.result) if reply.result is not None else {}
        except InvalidJson:
            raise UpstreamRefused(
                0,
                say(
                    "{server!n} answered {method} with something that is not an object.",
                    server=self._name,
                    method=method.decode(),
                ),
            ) from None

    # -- what comes in ---------------------------------------------------------------------------

    def receive(self, line: bytes, about: int | None = None) -> asyncio.Future[None] | None:
        """Handle one message of the upstream. If a future is returned, read no other before it is done.

        ``about`` is the number of the call on whose stream the message arrived, None if the transport has one
        stream for everything.
        """
        if len(line) > LARGE:
            task = self._loop.create_task(self._receive_large(line, about))
            self._reading.add(task)
            task.add_done_callback(self._reading.discard)
            return task
        try:
            frame = json.decode_frame(line)
        except InvalidJson:
            return self._take_message(line, read_line(line), about)
        if frame.method is UNSET:
            return self._take_answer(frame, line)
        return self._take_message(line, ParsedLine(frame), about)

    async def _receive_large(self, line: bytes, about: int | None) -> None:
        waits = self._take_message(line, await asyncio.to_thread(read_line, line), about)
        if waits is not None:
            await waits

    def _take_message(self, line: bytes, found: ParsedLine, about: int | None) -> asyncio.Future[None] | None:
        frame = found.frame
        if frame is None or (
            found.repaired and not (frame.method is UNSET and number_of(frame) in self.calls)
        ):
            self._unreadable(line, found.fault)
            return None
        if found.repaired:
            log.warning("%s: an answer was not UTF-8; the invalid bytes were replaced", self._name)
            self.garbage += 1
        if found.pruned:
            log.warning("%s: a message was not JSON: %s", self._name, found.fault)
            self.garbage += 1
        if frame.method is UNSET:
            # A list of definitions is used without what is not JSON. A result could mean something else then.
            call = self.calls.get(number_of(frame) or 0) if found.pruned else None
            if call is not None:
                self._fail_unreadable(call.number, found.fault)
                return None
            return self._take_answer(frame, line)
        if found.pruned and frame.id is UNSET:
            if frame.method == "notifications/progress" and frame.params is not UNSET:
                self._note_progress(frame.params, passed_on=False)
            return None
        if frame.id is not UNSET:
            self._questions.asked(frame, about, self.calls)
        elif len(line) > LARGE:
            self._skip(line, "it is too large for a notification")
        else:
            self._take_notification(
                str(frame.method), Raw(b"{}") if frame.params is UNSET else frame.params, about
            )
        return None

    def fail(self, number: int, failure: TabaneError) -> None:
        """Fail one request, which will not be answered."""
        call = self._take(number)
        if call is not None:
            self._questions.drop(call, "the call failed")
            call.answer(UpstreamReply(failure=failure))

    def unsent(self, number: int, failure: TabaneError) -> None:
        """Hand a request that was not acted on back to its instance, for another connection; else fail it."""
        call = self._take(number)
        if call is not None:
            self._questions.drop(call, "the connection is gone")
            if call.owner is None or not call.owner.unsent(call):
                call.answer(UpstreamReply(failure=failure))

    def _unreadable(self, line: bytes, fault: str) -> None:
        """Handle a line that is not a message. If it began as an answer, its request fails at once."""
        self._skip(line, fault)
        head = line[: json.HEAD]
        number = json.id_in(head)
        answers = b'"jsonrpc"' in head and (b'"result"' in head or b'"error"' in head)
        if answers and number and number.isdigit():
            self._fail_unreadable(int(number), fault)

    def _fail_unreadable(self, number: int, fault: str) -> None:
        why = say("The response of {server!n} cannot be read: {fault}.", server=self._name, fault=fault)
        self.fail(number, UpstreamError(why))

    def _take_answer(self, frame: JsonRpcFrame, line: bytes) -> asyncio.Future[None] | None:
        result = frame.result
        answers = result is not UNSET or frame.error is not UNSET
        number = number_of(frame) if answers else None
        call = None if number is None else self._take(number)
        if call is None:
            self._skip(line, "it answers nothing that was asked")
            return None
        call.taken = True
        if self._questions.open:
            self._questions.drop(call, "the call was answered")
        era = self.peer.era if self.peer else Era.LEGACY
        if (
            result is not UNSET
            and frame.error is UNSET
            and len(result) <= SMALL
            and bytes(memoryview(result)[:1]) == b"{"
        ):
            call.answer(UpstreamReply(result, era=era))  # the plain case, without a further call
            return None
        if frame.error is not UNSET and len(frame.error) > LARGE:
            call.answer(UpstreamReply(failure=UpstreamError(say(
                "{server!n} answered with an error of {megabytes} MiB, which was not forwarded.",
                server=self._name, megabytes=len(frame.error) >> 20))))  # fmt: skip
            return None
        if not is_readable(frame):
            self.garbage += 1
            call.answer(UpstreamReply(failure=self._malformed(call, frame)))
            return None
        if frame.result is not UNSET:
            return self._delivery.give(call, UpstreamReply(result=frame.result, era=era))
        assert frame.error is not UNSET  # is_readable
        if era is Era.LEGACY:
            self._questions.refused_for(call, frame.error)
        return self._delivery.give(call, UpstreamReply(error=frame.error, era=era))

    def _malformed(self, call: Call, frame: JsonRpcFrame) -> UpstreamError:
        """Return the failure that replaces an answer that no client could read."""
        method, said = call.method.decode(), ""
        if frame.error is not UNSET:
            said = error_of(frame.error)[1][:MOST_SAID]
        if said:
            return UpstreamError(say("{server!n} answered {method} with an error: {error}",
                                     server=self._name, method=method, error=said))  # fmt: skip
        return UpstreamError(say("{server!n} answered {method} with something that is not a response to it.",
                                 server=self._name, method=method))  # fmt: skip

    def _is_awaited(self, call: Call) -> bool:
        """Return whether anyone but the client of that call waits for this upstream, including the hub."""
        if self._asks or any(other.session != call.session for other in self.calls.values()):
            return True
        return call.owner is not None and call.owner.awaited(call.session)

    def _take_notification(self, method: str, params: Raw, about: int | None) -> None:
        if method == "notifications/progress":
            self._note_progress(params)
        elif method == "notifications/message":
            self._pass_log_message(method, params, about)
        elif method == "notifications/cancelled":
            self._questions.withdrawn(params)
        elif method == COMPLETE:
            self._questions.completed(params)
        elif self.owner is None or method in KNOWN_NOTICES:
            self._on_notice(method, params)
        else:
            self._pass_notification(self.owner, method, params, about)

    def _pass_notification(self, owner: InstanceOwner, method: str, params: Raw, about: int | None) -> None:
        """Pass on a notification that the hub does not know, to its call if it names one."""
        number = subscription_of(params) if about is None else about
        call = None if number is None else self.calls.get(number)
        if call is None or call.on_notice is None:
            owner.notified(method, params)
            return
        call.deadline = self._loop.time() + call.timeout
        call.on_notice(method, params)

    def _asked_of_others(self, question: ServerRequest) -> bool:
        return self.owner is not None and self.owner.accepts(question)

    def notify(self, method: str, params: bytes) -> None:
        """Send a notification of a client that the hub does not know."""
        self._say(json.notification_line(method, params))

    def _note_progress(self, params: Raw, *, passed_on: bool = True) -> None:
        try:
            call = self.calls.get(number_in(json.fields(params)["progressToken"]) or 0)
        except (InvalidJson, KeyError):
            return
        if call is not None:
            call.deadline = self._loop.time() + call.timeout
            if call.on_notice and passed_on:
                call.on_notice("notifications/progress", params)

    def _pass_log_message(self, method: str, params: Raw, about: int | None) -> None:
        """Pass a log message to the call on whose stream it arrived, else to each client in flight.

        If clients of different identities are in flight, nobody gets it: it may quote another's call.
        """
        calls = [self.calls[about]] if about in self.calls else list(self.calls.values())
        if len(calls) > 1 and len({call.holder for call in calls}) > 1:
            return
        hearers = {call.session: call for call in calls if call.on_notice}
        for call in hearers.values():
            if call.on_notice:
                call.on_notice(method, params)
        if not hearers:
            self._on_notice(method, params)

    def _skip(self, line: bytes, reason: str) -> None:
        self.garbage += 1
        if b'"jsonrpc"' not in line[: json.HEAD]:
            self.strange_lines.append(line[:STRANGE_LENGTH].decode("utf-8", "replace"))
        # The line may contain anything, also secrets: only its length is logged.
        if self.garbage <= 10:
            log.warning("%s: skipped a line of %d bytes: %s", self._name, len(line), reason)

    def oversized(self, head: bytes) -> None:
        """Handle a message that was longer than allowed; ``head`` is its beginning."""
        self.garbage += 1
        number = json.id_in(head)
        log.warning("%s: a message of more than %d bytes was dropped", self._name, self._max_line)
        if number and number.isdigit():
            megabytes = self._max_line >> 20
            self.fail(int(number), UpstreamError(say(

                    "The response of {server!n} is larger than the message limit ({megabytes} MiB). "
                    "Request less data.",
                server=self._name, megabytes=megabytes)))  # fmt: skip

    # -- the end ---------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Return how many requests of callers wait for their answers."""
        return len(self.calls)

    @property
    def working(self) -> int:
        """Return how many requests of callers the upstream works on: the others wait for a client."""
        return len(self.calls) - self._questions.calls

    @property
    def asking(self) -> bool:
        """Return whether a client has not yet answered a question."""
        return bool(self._questions.open)

    def _take(self, number: int) -> Call | None:
        return self.calls.pop(number, None) or self._asks.pop(number, None)

    def end_input(self) -> None:
        """Close the input: a well-behaved upstream then ends."""
        self.transport.end_input()

    def close(self, why: str) -> None:
        """Close the connection; calls in flight are answered with UpstreamDied."""
        self.transport.close(why)

    def lost(self, why: str) -> None:
        """Fail everything that waits for an answer, because the connection has ended."""
        calls = [*self.calls.values(), *self._asks.values()]
        self.calls.clear()
        self._asks.clear()
        self._questions.close(why)
        for call in calls:
            call.answer(UpstreamReply(failure=self._died(why)))
        self._on_closed(why)

    def _died(self, why: str) -> UpstreamDied:
        return UpstreamDied(say(

                "{server!n} ended during the call ({why}). It is not known whether the call took effect: "
                "check before you call again. The server is being restarted.",
                server=self._name, why=why))  # fmt: skip

    def _timed_out(self, seconds: float) -> UpstreamTimeout:
        return UpstreamTimeout(say(

                "{server!n} did not answer within {seconds:g} s, so the call was cancelled. To allow "
                'more time, set "timeout" of this server.', server=self._name, seconds=seconds))  # fmt: skip
