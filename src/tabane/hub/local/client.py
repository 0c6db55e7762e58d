"""A program's side of the hub's socket: operations by name, one after the other, blocking."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from tabane.errors import CallerError, HubError, TabaneError, UnknownName
from tabane.hub.local.connector import HubConnector, HubUnreachable
from tabane.messages import Message, say
from tabane.wire import json
from tabane.wire.channel import LineSplitter
from tabane.wire.json import JsonRpcFrame

if TYPE_CHECKING:
    from tabane.hub.local.connector import HubConnection
    from tabane.hub.local.handshake import Welcome
    from tabane.messages import Lang

CONNECT_LIMIT = 5.0
"""Seconds to connect to a hub that runs; starting one may take longer."""

_CHUNK = 1 << 16
_WARNING = 4096  # bytes at the end of an answer that hold one


class HubCallFailed(HubError):
    """The hub answered with an error. ``answered`` is its JSON-RPC code, ``data`` what it added."""

    def __init__(self, message: Message, answered: int, data: Any = None) -> None:
        super().__init__(message)
        self.answered, self.data = answered, data


class HubCallDeclined(CallerError):
    """The hub found the request wrong: an unknown method or name, or parameters that do not fit."""

    def __init__(self, message: Message, answered: int, data: Any = None) -> None:
        super().__init__(message)
        self.answered, self.data = answered, data


class HubClient:
    """A connection to a hub that serves. Use it as a context manager, or :meth:`close` it.

    Errors of the hub are raised as :class:`HubCallDeclined` where the caller is at fault, else as
    :class:`HubCallFailed`; their text is in the language of the hello. ``warning`` is what the last answer to
    :meth:`call` said beside its result: why that is not all that could be had; empty for nothing.
    """

    def __init__(self, connection: HubConnection) -> None:
        self.welcome: Welcome = connection.welcome
        self._fd = connection.fd
        self._splitter = LineSplitter(connection.welcome.max_line)
        self._lines = self._splitter.feed(connection.rest)
        self._count = 0
        self.warning = ""

    def __enter__(self) -> HubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up: what the hub still does for this connection is cancelled."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def call(self, method: str, params: Mapping[str, Any] | None = None, limit: float | None = None) -> Any:
        """The result of an operation. ``limit`` is in seconds; None waits for as long as it takes.

        Raises Declined, Failed, or HubError where the hub goes away or the limit is reached.
        """
        return json.decode(self.call_raw(method, json.encode(params or {}), limit))

    def call_raw(self, method: str, params: bytes, limit: float | None = None) -> bytes:
        """The same over JSON texts: what comes back is verbatim. ``params`` is an object or an array."""
        deadline = time.monotonic() + limit if limit is not None else None
        frame, line = self._answer(self._ask(method, params, deadline), deadline)
        self.warning = _warning(line) if b'"warning":' in line[-_WARNING:] else ""
        return bytes(frame.result) if isinstance(frame.result, Raw) else b"null"

    def stream(self, method: str, params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """The parts of what a streaming operation answers, as they come. Raises as :meth:`call`.

        Read it to its end, or close the client: nothing else can be asked in between.
        """
        asked, more = self._ask(method, json.encode(params or {}), None), True
        while more:
            frame, line = self._answer(asked, None)
            if isinstance(frame.result, Raw):
                yield json.decode(frame.result)
            more = _goes_on(line)

    def wait_closed(self, limit: float) -> bool:
        """Whether the hub hung up within ``limit`` seconds."""
        deadline = time.monotonic() + limit
        while True:
            try:
                self._line(deadline)
            except HubDisconnected:
                return True
            except HubError:
                return False

    def _ask(self, method: str, params: bytes, deadline: float | None) -> bytes:
        """Send a request. Returns its id, as the answer has it."""
        self._count += 1
        self._send(json.request_line(self._count, json.quote(method), params), deadline)
        return b"%d" % self._count

    def _answer(self, asked: bytes, deadline: float | None) -> tuple[JsonRpcFrame, bytes]:
        """The next answer to a request, and its line. Raises what it says went wrong."""
        while True:
            line = self._line(deadline)
            frame = json.decode_frame(line)
            if isinstance(frame.id, Raw) and bytes(frame.id) == asked:
                break
        if isinstance(frame.error, Raw):
            raise raised(json.decode(frame.error))
        return frame, line

    def _send(self, line: bytes, deadline: float | None) -> None:
        rest = memoryview(line)
        while rest:
            self._wait(select.POLLOUT, deadline)
            try:
                rest = rest[os.write(self._fd, rest) :]
            except BlockingIOError:
                continue
            except OSError:
                raise HubDisconnected(_gone()) from None

    def _line(self, deadline: float | None) -> bytes:
        while not self._lines:
            self._lines = self._split(self._read(deadline))
        return self._lines.pop(0)

    def _split(self, chunk: bytes) -> list[bytes]:
        """The lines that what was read completes."""
        return [line for line in self._splitter.feed(chunk) if not line.startswith(b'{"tabane":')]

    def _read(self, deadline: float | None) -> bytes:
        while True:
            self._wait(select.POLLIN, deadline)
            try:
                chunk = os.read(self._fd, _CHUNK)
            except BlockingIOError:
                continue
            except OSError:
                chunk = b""
            if not chunk:
                raise HubDisconnected(_gone())
            return chunk

    def _wait(self, event: int, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(self._fd, event)
        left = None if deadline is None else deadline - time.monotonic()
        if (left is not None and left <= 0) or not poll.poll(None if left is None else left * 1000):
            raise HubError(say("The hub did not answer in time. See what it is doing: tabane logs"))


def _goes_on(line: bytes) -> bool:
    """Whether more parts of the same answer come after this one."""
    return json.member(json.fields(line), "more") is True


def _warning(line: bytes) -> str:
    """What stands beside the result of an answer, as a warning."""
    return str(json.member(json.fields(line), "warning") or "")


class HubDisconnected(HubError):
    """The connection ended."""


def connect(approach: HubConnector, lang: Lang, limit: float | None = None) -> HubClient:
    """A client of the hub that ``approach`` leads to, which may start one. Raises HubError.

    ``limit`` is in seconds; by default five where no hub is to be started.
    """
    try:
        if limit is None and not approach.starts:
            limit = CONNECT_LIMIT
        return HubClient(approach.reach(limit) if limit is not None else approach.reach())
    except HubUnreachable as none:
        raise unreachable(none, lang) from None


def unreachable(none: HubUnreachable, lang: Lang) -> HubError:
    """The same as an error of the product, in one language."""
    return HubError(Message(none.text(lang)))


def _gone() -> Message:
    return say("The hub closed the connection before it answered. The log has the reason: tabane logs")


def raised(error: Any) -> TabaneError:
    """The error that a JSON-RPC error object tells of: Declined where the caller is at fault, else Failed."""
    body = error if isinstance(error, dict) else {}
    code, data = body.get("code"), body.get("data")
    code = code if isinstance(code, int) else -32603
    message = Message(str(body.get("message", "")))
    if code in (-32600, -32601, UnknownName.code):
        return HubCallDeclined(message, code, data)
    return HubCallFailed(message, code, data)
