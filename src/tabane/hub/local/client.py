"""Blocking client of the hub's socket, for programs: operations by name, one after the other."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw

from tabane.build import this_build
from tabane.errors import CallerError, HubError, TabaneError, UnknownName
from tabane.hub.local.connector import HubConnector, HubUnreachable
from tabane.hub.local.handshake import DRAINING
from tabane.messages import Message, language, say
from tabane.wire import json
from tabane.wire.channel import LineSplitter
from tabane.wire.json import JsonRpcFrame

if TYPE_CHECKING:
    from tabane.hub.local.connector import HubConnection
    from tabane.hub.local.handshake import Welcome
    from tabane.messages import Lang

T = TypeVar("T")

METHOD_NOT_FOUND = -32601

CONNECT_LIMIT = 5.0
"""Seconds to connect to a hub that runs; starting one may take longer."""

LOOK = 0.5
"""Seconds of one wait. A signal that comes just before a wait, such as that of Ctrl+C, does not end it."""

_CHUNK = 1 << 16
_WARNING = 4096  # bytes at the end of an answer that hold one


class HubCallFailed(HubError):
    """The hub answered with an error. ``answered`` is its JSON-RPC code, ``data`` what it added."""

    def __init__(self, message: Message, answered: int, data: Any = None) -> None:
        super().__init__(message)
        self.answered, self.data = answered, data


class HubCallDeclined(CallerError):
    """The hub rejected the request: an unknown method or name, or parameters that are not valid."""

    def __init__(self, message: Message, answered: int, data: Any = None) -> None:
        super().__init__(message)
        self.answered, self.data = answered, data


class HubClient:
    """A connection to a hub that serves. Use it as a context manager, or :meth:`close` it.

    Errors of the hub are raised as :class:`HubCallDeclined` if the caller is at fault, else as
    :class:`HubCallFailed`; their text is in the language of the hello. ``warning`` is the warning in the last
    answer to :meth:`call`, such as why its result is not complete; empty if there is none. ``passphrase``
    asks for the passphrase of the hub if an operation needs it; None if nobody can be asked. ``route`` leads
    to the next hub if this one ends before it began a call.
    """

    def __init__(self, connection: HubConnection, route: HubConnector | None = None) -> None:
        self._route = route
        self._count = 0
        self.warning = ""
        self.passphrase: Callable[[], str] | None = None
        self._take(connection)

    def _take(self, connection: HubConnection) -> None:
        self.welcome: Welcome = connection.welcome
        self._fd = connection.fd
        self._splitter = LineSplitter(connection.welcome.max_line)
        self._lines = self._splitter.feed(connection.rest)
        self._unanswered: set[bytes] = set()
        self._answers: dict[bytes, tuple[JsonRpcFrame, bytes]] = {}

    def __enter__(self) -> HubClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. The hub cancels its open requests."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def call(self, method: str, params: Mapping[str, Any] | None = None, limit: float | None = None) -> Any:
        """Call an operation and return its result. ``limit`` is in seconds; None is no limit.

        Raises HubCallDeclined, HubCallFailed, or HubError if the hub goes away or the limit is reached.
        """
        return json.decode(self.call_raw(method, json.encode(params or {}), limit))

    def ask(
        self, method: str, params: Mapping[str, Any] | None, result: type[T], limit: float | None = None
    ) -> T:
        """Call an operation, and return its result as ``result``. Raises HubError if it has another type."""
        return read_result(self.call(method, params, limit), result)

    def call_raw(self, method: str, params: bytes, limit: float | None = None) -> bytes:
        """Call an operation with JSON texts. ``params`` is an object or an array; the result is verbatim."""
        try:
            return self._called(method, params, limit)
        except HubCallFailed as error:
            if self._route is not None and _reason_of(error) == DRAINING:
                self._go_to_next(self._route)
                return self._called(method, params, limit)
            if self.passphrase is None or _reason_of(error) != "passphrase":
                raise
        self._called("unlock", json.encode({"passphrase": self.passphrase()}), None)
        return self._called(method, params, limit)

    def _go_to_next(self, route: HubConnector) -> None:
        """Connect to the hub that follows one which ends. Raises HubError."""
        self.wait_closed(self.welcome.grace + CONNECT_LIMIT)
        self.close()
        try:
            self._take(route.reach())
        except HubUnreachable as none:
            raise unreachable(none, language(route.hello.lang)) from None

    def begin(self, method: str, params: bytes) -> bytes:
        """Send a request, and return its id. :meth:`result_of` returns its result."""
        return self._ask(method, params, None)

    def first_of(self, asked: Sequence[bytes], also: int = -1) -> bytes | None:
        """Wait until one of these requests is answered, and return its id; None if ``also`` can be read."""
        while True:
            if (found := next((one for one in asked if one in self._answers), None)) is not None:
                return found
            if not self._lines and not self._readable(also):
                return None
            self._keep(self._line(None))

    def result_of(self, asked: bytes) -> bytes:
        """Return the result of a request that was begun. Raises as :meth:`call`."""
        return self._result(asked, None)

    def _called(self, method: str, params: bytes, limit: float | None) -> bytes:
        deadline = time.monotonic() + limit if limit is not None else None
        return self._result(self._ask(method, params, deadline), deadline)

    def _result(self, asked: bytes, deadline: float | None) -> bytes:
        try:
            frame, line = self._answer(asked, deadline)
        finally:
            self._forget(asked)
        self.warning = ""
        if b'"warning":' in line[-_WARNING:]:
            self.warning = str(json.member(json.fields(line), "warning") or "")
        return bytes(frame.result) if isinstance(frame.result, Raw) else b"null"

    def stream(self, method: str, params: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """Yield the parts of a streamed answer as they arrive. Raises as :meth:`call`.

        Read it to its end, or close the client: no other request is possible in between.
        """
        asked, more = self._ask(method, json.encode(params or {}), None), True
        again = self._route
        while more:
            try:
                frame, line = self._answer(asked, None)
            except HubCallFailed as error:
                if again is None or _reason_of(error) != DRAINING:
                    raise
                self._go_to_next(again)
                asked = self._ask(method, json.encode(params or {}), None)
                continue
            finally:
                again = None
            if isinstance(frame.result, Raw):
                yield json.decode(frame.result)
            more = json.member(json.fields(line), "more") is True
        self._forget(asked)

    def wait_closed(self, limit: float) -> bool:
        """Return whether the hub closed the connection within ``limit`` seconds."""
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
        asked = b"%d" % self._count
        self._unanswered.add(asked)
        return asked

    def _answer(self, asked: bytes, deadline: float | None) -> tuple[JsonRpcFrame, bytes]:
        """Return the next answer to a request, and its line. Raises the error that it contains."""
        while asked not in self._answers:
            self._keep(self._line(deadline))
        frame, line = self._answers.pop(asked)
        if isinstance(frame.error, Raw):
            raise self._raised(json.decode(frame.error))
        return frame, line

    def _raised(self, error: Any) -> TabaneError:
        """Return the error of an answer.

        A hub of another build may lack a method or a parameter, or fail since its code was replaced. Then the
        error says so.
        """
        found = raised(error)
        there, here = self.welcome.version, this_build().name
        if there in ("", here):  # a hub at a URL does not name its build
            return found
        unknown = any(part in str(found.message) for part in _UNKNOWN_PARAMETER)
        if isinstance(found, HubCallDeclined) and (found.answered == METHOD_NOT_FOUND or unknown):
            return HubCallDeclined(_not_understood(found.message), found.answered, found.data)
        if isinstance(found, HubCallFailed) and _reason_of(found) == "internal":
            why = say(
                "The running hub is Tabane {there}, but this is {here}. To replace the hub: tabane restart",
                there=there,
                here=here,
            )
            return HubCallFailed(why, found.answered, found.data)
        return found

    def _keep(self, line: bytes) -> None:
        """Keep the answer to a request that is still awaited."""
        frame = json.decode_frame(line)
        if isinstance(frame.id, Raw) and bytes(frame.id) in self._unanswered:
            self._answers[bytes(frame.id)] = frame, line

    def _forget(self, asked: bytes) -> None:
        self._unanswered.discard(asked)
        self._answers.pop(asked, None)

    def _readable(self, also: int) -> bool:
        """Wait for the hub or ``also``. Return whether it is the hub that can be read."""
        poll = select.poll()
        for fd in (self._fd, also):
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        return any(fd == self._fd for fd, _ in _polled(poll, None))

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
        """Return the lines that these bytes complete."""
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
        if not _polled(poll, deadline):
            raise HubError(say("The hub did not answer in time. See what it is doing: tabane logs"))


def _polled(poll: select.poll, deadline: float | None) -> list[tuple[int, int]]:
    """Wait, and return the descriptors that are ready; none at the deadline."""
    while deadline is None or (left := deadline - time.monotonic()) > 0:
        if found := poll.poll((LOOK if deadline is None else min(LOOK, left)) * 1000):
            return found
    return []


def _reason_of(error: HubCallFailed) -> object:
    """Return the hub's word for the kind of an error; None without one."""
    return error.data.get("reason") if isinstance(error.data, dict) else None


class HubDisconnected(HubError):
    """The connection ended."""


def connect(approach: HubConnector, lang: Lang, limit: float | None = None) -> HubClient:
    """Return a client of the hub that ``approach`` finds or starts. Raises HubError.

    ``limit`` is in seconds. The default is five if no hub is to be started.
    """
    try:
        if limit is None and not approach.starts:
            limit = CONNECT_LIMIT
        return HubClient(approach.reach(limit) if limit is not None else approach.reach(), approach)
    except HubUnreachable as none:
        raise unreachable(none, lang) from None


def unreachable(none: HubUnreachable, lang: Lang) -> HubError:
    """Return the error of an unreachable hub as a HubError, in one language."""
    return HubError(Message(none.text(lang)))


def _gone() -> Message:
    return say("The hub closed the connection before it answered. The log has the reason: tabane logs")


def read_result(found: Any, result: type[T]) -> T:
    """Return the decoded result of an operation as its type. Raises HubError if it is another one."""
    try:
        return msgspec.convert(found, result)
    except msgspec.ValidationError as error:
        raise HubError(_not_understood(error)) from None


_UNKNOWN_PARAMETER = ("unknown field `", "` は存在しません")
"""Parts of what a hub says in its two languages if it does not know a parameter."""


def _not_understood(reason: object) -> Message:
    return say(
        "The hub answered something that this version does not understand ({reason}). If it is "
        "another version, run: tabane restart",
        reason=reason,
    )


def raised(error: Any) -> TabaneError:
    """Return the error as HubCallDeclined if the caller is at fault, else as HubCallFailed."""
    body = error if isinstance(error, dict) else {}
    code, data = body.get("code"), body.get("data")
    code = code if isinstance(code, int) else -32603
    message = Message(str(body.get("message", "")))
    if code in (-32600, METHOD_NOT_FOUND, UnknownName.code):
        return HubCallDeclined(message, code, data)
    return HubCallFailed(message, code, data)
