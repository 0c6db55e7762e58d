"""One connection to one upstream process: its era settled once, its requests multiplexed.

The thin shell around wire/: ids are our own, counted up; `_meta` is translated to the upstream's
era; results pass as the bytes they came in.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec import UNSET, Raw

from tabane import __version__
from tabane.errors import UpstreamDied, UpstreamError, UpstreamTimeout
from tabane.gateway.upstreams.call import Call, Reply
from tabane.messages import say
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.channel import Batch, LineChannel
from tabane.wire.era import Era
from tabane.wire.json import Frame, Garbage, Members

log = logging.getLogger(__name__)

CLIENT = json.encode({"name": "tabane", "title": "Tabane", "version": __version__})
"""How the hub introduces itself to upstreams."""

CAPABILITIES = b"{}"
"""What a hub-shared upstream is told that its client can do: nothing that needs one particular person
or folder (no roots, sampling or elicitation), since its callers are many."""

CAPABILITIES_WITH_ROOTS = b'{"roots":{}}'
"""What an upstream is told that serves the clients of one set of folders alone."""

_QUIET = frozenset(
    {"notifications/message", "notifications/cancelled", "notifications/subscriptions/acknowledged"}
)


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end: settled when the conversation opens."""

    era: Era
    version: str
    name: str
    capabilities: Members
    instructions: str = ""

    @property
    def has_tools(self) -> bool:
        return "tools" in self.capabilities

    @property
    def announces_tools(self) -> bool:
        """Whether it says when its list of tools has changed."""
        tools = self.capabilities.get("tools")
        value = json.decode(tools) if tools is not None else None
        return isinstance(value, dict) and value.get("listChanged") is True


class Conversation:
    """Requests to, and answers and notifications from, one upstream process.

    ``on_notice`` gets the method of each notification that concerns the catalogue, and of each question
    that is refused. ``roots`` are what the question for them is answered with, None where it is refused.
    ``on_closed`` is called once when the connection is over, after every call in flight was answered
    with :class:`UpstreamDied`.
    """

    def __init__(
        self,
        name: str,
        loop: asyncio.AbstractEventLoop,
        batch: Batch,
        read_fd: int,
        write_fd: int,
        *,
        on_notice: Callable[[str], None],
        on_closed: Callable[[str], None],
        max_line: int = 64 << 20,
        roots: Sequence[str] | None = None,
    ) -> None:
        self._roots = roots
        self._name, self._loop = name, loop
        self._on_notice, self._on_closed = on_notice, on_closed
        # Callers' requests, and the hub's own, which take no caller's place.
        self._calls: dict[int, Call] = {}
        self._asks: dict[int, Call] = {}
        self._number = 0
        self._max_line = max_line
        self.peer: Peer | None = None
        self.garbage = 0
        self._channel = LineChannel(
            loop,
            batch,
            read_fd,
            write_fd,
            on_line=self._line,
            on_close=self._close,
            on_oversized=self._oversized,
            max_line=max_line,
            # An upstream may not read before its answer is taken: never wait for each other.
            pause_at=None,
        )
        self._channel.start()

    # -- opening ---------------------------------------------------------------------------------

    async def open(self, known: Era | None, probe_timeout: float) -> Peer:
        """Settle the era and introduce ourselves. ``known`` is what it was last time.

        A server of unknown era is asked ``server/discover`` first. One that does not answer within
        ``probe_timeout`` seconds is sent ``initialize`` as well, and the first positive answer counts,
        since a slow start looks just like silence. Raises UpstreamError.
        """
        if known is Era.LEGACY:
            try:
                self.peer = await self._initialize()
                return self.peer
            except _Refused as refusal:
                if refusal.code != eras.UNSUPPORTED_VERSION:
                    raise
        self.peer = await self._discover_or_initialize(probe_timeout)
        return self.peer

    async def _discover_or_initialize(self, probe_timeout: float) -> Peer:
        probe = asyncio.ensure_future(self._discover())
        # Where the start is given up meanwhile, nobody waits for its failure any more.
        probe.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait([probe], timeout=probe_timeout)
        if done:
            error = probe.exception()
            if error is None:
                return probe.result()
            if not isinstance(error, _Refused):
                raise error
            return await self._initialize()
        handshake = asyncio.ensure_future(self._initialize())
        return await _first_success([handshake, probe])

    async def _discover(self) -> Peer:
        result = await self._ask(b"server/discover", {})
        versions = json.member(result, "supportedVersions")
        if not isinstance(versions, list) or eras.MODERN not in versions:
            raise _Refused(
                0, say("it supports no protocol version that Tabane knows: {versions}", versions=versions)
            )
        meta = json.fields(result["_meta"]) if "_meta" in result else {}
        return _peer(Era.MODERN, eras.MODERN, result, json.member(meta, eras.META_SERVER))

    async def _initialize(self) -> Peer:
        params = {
            "protocolVersion": Raw(json.quote(eras.LEGACY[0])),
            "capabilities": Raw(CAPABILITIES if self._roots is None else CAPABILITIES_WITH_ROOTS),
            "clientInfo": Raw(CLIENT),
        }
        result = await self._ask(b"initialize", params, era=Era.LEGACY)
        version = json.text(result.get("protocolVersion"))
        if version not in eras.LEGACY:
            raise _Refused(
                0, say("it speaks protocol version {version}, which Tabane does not know", version=version)
            )
        self._channel.send(json.notification_line("notifications/initialized"))
        return _peer(Era.LEGACY, version, result, json.member(result, "serverInfo"))

    # -- requests --------------------------------------------------------------------------------

    def send(self, call: Call) -> None:
        """Send a call; its answer, or the failure that stands for it, goes to ``call.on_reply``."""
        peer = self.peer
        self._transmit(call, peer.era if peer else Era.LEGACY, self._calls)

    def _transmit(self, call: Call, era: Era, calls: dict[int, Call]) -> None:
        if self._channel.closed:
            call.answer(Reply(failure=self._died("its connection is closed")))
            return
        self._number = number = self._number + 1
        meta = call.meta
        if era is Era.MODERN:
            meta = eras.enveloped(meta, CLIENT, CAPABILITIES)
        elif meta:
            meta = eras.without_envelope(meta)
        if "progressToken" in meta:
            meta = {**meta, "progressToken": Raw(b"%d" % number)}
        call.number = number
        call.deadline = self._loop.time() + call.timeout
        calls[number] = call
        self._channel.send(
            json.request_line(number, b'"%b"' % call.method, eras.with_meta(call.params, meta))
        )

    def cancel(self, call: Call, reason: str) -> None:
        """Forget a call and tell the upstream; it is not answered any more."""
        if self._calls.pop(call.number, None):
            call.done = True
            note = json.encode({"requestId": call.number, "reason": reason})
            self._channel.send(json.notification_line("notifications/cancelled", note))

    def expire(self, now: float) -> None:
        """Answer the calls whose deadline has passed, and cancel them upstream."""
        for call in [call for call in self._calls.values() if call.deadline <= now]:
            del self._calls[call.number]
            note = json.encode({"requestId": call.number, "reason": "timeout"})
            self._channel.send(json.notification_line("notifications/cancelled", note))
            call.answer(Reply(failure=self._timed_out(call.timeout)))

    async def ask(self, method: bytes, params: Members, timeout: float = 30.0) -> Members:
        """One request of the hub's own; the members of its result. Raises UpstreamError."""
        return await self._ask(method, params, timeout=timeout)

    async def list_tools(self, max_pages: int = 1000, max_tools: int = 20_000) -> list[Raw]:
        """All tool definitions, verbatim, following cursors; a list that does not end is cut."""
        tools: list[Raw] = []
        seen: set[bytes] = set()
        cursor: Raw | None = None
        for _ in range(max_pages):
            page = await self.ask(b"tools/list", {"cursor": cursor} if cursor is not None else {})
            tools += _items(page.get("tools"))
            cursor = page.get("nextCursor")
            if cursor is None or bytes(cursor) == b"null":
                return tools
            if bytes(cursor) in seen or len(tools) > max_tools:
                break
            seen.add(bytes(cursor))
        log.warning("%s: its list of tools does not end; the first %d are taken", self._name, len(tools))
        return tools[:max_tools]

    def listen(self, on_end: Callable[[], None]) -> None:
        """Ask a modern upstream to announce changes of its tools; they come as notices."""
        params = {"notifications": Raw(b'{"toolsListChanged":true}')}
        self._transmit(
            Call(b"subscriptions/listen", params, {}, lambda _: on_end()),
            Era.MODERN,
            self._asks,
        )

    async def _ask(
        self, method: bytes, params: Members, *, era: Era | None = None, timeout: float | None = None
    ) -> Members:
        answer: asyncio.Future[Reply] = self._loop.create_future()

        def settle(reply: Reply) -> None:
            if not answer.done():
                answer.set_result(reply)

        call = Call(method, params, {}, settle)
        self._transmit(call, era or (self.peer.era if self.peer else Era.MODERN), self._asks)
        try:
            async with asyncio.timeout(timeout):
                reply = await answer
        except TimeoutError:
            raise self._timed_out(timeout or 0.0) from None
        finally:
            self._asks.pop(call.number, None)
        return self._members(method, reply)

    def _members(self, method: bytes, reply: Reply) -> Members:
        if reply.failure is not None:
            raise reply.failure
        if reply.error is not None:
            code, message = _error(reply.error)
            raise _Refused(
                code,
                say("{server} answered {method} with an error: {error}", server=self._name,
                    method=method.decode(), error=message or code),
            )  # fmt: skip
        try:
            return json.fields(reply.result) if reply.result is not None else {}
        except Garbage:
            raise _Refused(
                0,
                say("{server} answered {method} with no object.", server=self._name, method=method.decode()),
            ) from None

    # -- what comes in ---------------------------------------------------------------------------

    def _line(self, line: bytes) -> None:
        try:
            frame = json.decode_frame(line)
        except Garbage as reason:
            mended = self._mended(line)
            if mended is None:
                self._skip(line, str(reason))
                return
            frame = mended
        if frame.method is UNSET:
            self._answered(frame, line)
        elif frame.id is UNSET:
            self._notified(frame)
        else:
            self._asked(frame)

    def _mended(self, line: bytes) -> Frame | None:
        """An answer whose text is no UTF-8, its stray bytes replaced: better than none at all."""
        try:
            frame = json.decode_frame(line.decode("utf-8", "replace").encode())
            number = int(bytes(frame.id)) if frame.id is not UNSET and frame.method is UNSET else -1
        except ValueError:
            return None
        if number not in self._calls:
            return None
        log.warning("%s: an answer was not UTF-8; its stray bytes were replaced", self._name)
        self.garbage += 1
        return frame

    def _answered(self, frame: Frame, line: bytes) -> None:
        try:
            answers = frame.id is not UNSET and (frame.result is not UNSET or frame.error is not UNSET)
            call = self._take(int(bytes(frame.id))) if answers else None  # type: ignore[arg-type]
        except ValueError:
            call = None
        if call is None:
            self._skip(line, "it answers nothing that was asked")
            return
        era = self.peer.era if self.peer else Era.LEGACY
        if frame.result is not UNSET:
            call.answer(Reply(result=frame.result, era=era))
        else:
            call.answer(Reply(error=frame.error, era=era))  # type: ignore[arg-type]

    def _notified(self, frame: Frame) -> None:
        if frame.method == "notifications/progress":
            self._progressed(frame)
        elif frame.method not in _QUIET:
            self._on_notice(str(frame.method))

    def _progressed(self, frame: Frame) -> None:
        try:
            params = json.fields(frame.params) if frame.params is not UNSET else {}
            call = self._calls.get(int(bytes(params["progressToken"])))
        except (Garbage, ValueError, KeyError):
            return
        if call is not None:
            call.deadline = self._loop.time() + call.timeout
            if call.on_progress:
                call.on_progress(params)

    def _asked(self, frame: Frame) -> None:
        if frame.method == "ping":
            self._channel.send(json.result_line(frame.id, b"{}"))  # type: ignore[arg-type]
            return
        if frame.method == "roots/list" and self._roots is not None:
            roots = json.encode({"roots": [{"uri": root} for root in self._roots]})
            self._channel.send(json.result_line(frame.id, roots))  # type: ignore[arg-type]
            return
        log.info(
            "%s asked its client for %s; refused: it declared no such capability", self._name, frame.method
        )
        message = f"{frame.method} is not available: the client behind this hub declared no such capability"
        error = json.error_object(eras.METHOD_NOT_FOUND, message)
        self._channel.send(json.error_line(frame.id, error))  # type: ignore[arg-type]
        self._on_notice(str(frame.method))

    def _skip(self, line: bytes, reason: str) -> None:
        self.garbage += 1
        # The line itself may hold anything, secrets too: it is counted, and its length is logged.
        if self.garbage <= 10:
            log.warning("%s: skipped a line of %d bytes on stdout: %s", self._name, len(line), reason)

    def _oversized(self, head: bytes) -> None:
        self.garbage += 1
        number = json.id_in(head)
        call = self._take(int(number)) if number and number.isdigit() else None
        log.warning("%s: a message of more than %d bytes was dropped", self._name, self._max_line)
        if call:
            megabytes = self._max_line >> 20
            call.answer(Reply(failure=UpstreamError(say(
                "The answer of {server} is larger than a message may be ({megabytes} MiB). Ask for less.",
                server=self._name, megabytes=megabytes))))  # fmt: skip

    # -- the end ---------------------------------------------------------------------------------

    @property
    def in_flight(self) -> int:
        """Callers' requests that wait for their answers."""
        return len(self._calls)

    def _pending(self) -> list[Call]:
        return [*self._calls.values(), *self._asks.values()]

    def _take(self, number: int) -> Call | None:
        return self._calls.pop(number, None) or self._asks.pop(number, None)

    def end_input(self) -> None:
        """Send end of file: a well-behaved upstream ends by itself."""
        self._channel.end_writing()

    def close(self, why: str) -> None:
        """Close the connection; calls in flight are answered with UpstreamDied."""
        self._channel.close(why)

    def _close(self, why: str) -> None:
        calls, self._calls, self._asks = self._pending(), {}, {}
        for call in calls:
            call.answer(Reply(failure=self._died(why)))
        self._on_closed(why)

    def _died(self, why: str) -> UpstreamDied:
        return UpstreamDied(say(
            "{server} ended while the call was in flight ({why}). Whether it took effect is not known; "
            "the server is being restarted.", server=self._name, why=why))  # fmt: skip

    def _timed_out(self, seconds: float) -> UpstreamTimeout:
        return UpstreamTimeout(say(
            "{server} did not answer within {seconds:g} s. The call was cancelled; for calls that take "
            "longer set \"timeout\" of this server.", server=self._name, seconds=seconds))  # fmt: skip


class _Refused(UpstreamError):
    """The upstream answered with a JSON-RPC error."""

    def __init__(self, code: int, message: Any) -> None:
        super().__init__(message)
        self.code_answered = code

    @property
    def code(self) -> int:  # type: ignore[override]
        return self.code_answered


async def _first_success(tasks: list[asyncio.Future[Peer]]) -> Peer:
    """The first result; the first task's exception where none has one."""
    waiting: set[asyncio.Future[Peer]] = set(tasks)
    try:
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                if task.exception() is None:
                    return task.result()
        raise tasks[0].exception() or AssertionError
    finally:
        for task in tasks:
            task.cancel()


def _peer(era: Era, version: str, result: Members, info: Any) -> Peer:
    name = info.get("name") if isinstance(info, dict) else None
    try:
        capabilities = json.fields(result.get("capabilities", Raw(b"{}")))
    except Garbage:
        capabilities = {}
    return Peer(
        era,
        version,
        name if isinstance(name, str) else "",
        capabilities,
        json.text(result.get("instructions")) or "",
    )


def _items(raw: Raw | None) -> list[Raw]:
    if raw is None:
        return []
    try:
        return json.elements(raw)
    except Garbage:
        return []


def _error(raw: Raw) -> tuple[int, str]:
    try:
        body = json.decode(raw)
    except Garbage:
        return 0, "unreadable error"
    if not isinstance(body, dict):
        return 0, str(body)
    code = body.get("code")
    return code if isinstance(code, int) else 0, str(body.get("message", ""))
