"""A call of an upstream: its request and reply, the upstream's requests meanwhile, and its transport.

What a client sends to a server, and what it gets back, is screened for credentials here too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from tabane.errors import TabaneError
from tabane.servers.server import Server
from tabane.text.credentials import CredentialFinder, kinds_of, without_credentials
from tabane.wire.channel import Later, LineChannel, at_once
from tabane.wire.era import Era
from tabane.wire.json import Members, text
from tabane.wire.questions import NOTHING, Features
from tabane.workers.time_slices import Pause, no_pause, thread_slices

if TYPE_CHECKING:
    from tabane.operations import CallMarks
    from tabane.upstreams.handshake import Peer
    from tabane.wire.headers import HeaderMirror


log = logging.getLogger(__name__)


class UpstreamReply(msgspec.Struct, frozen=True, gc=False):
    """The reply of an upstream: exactly one of ``result``, ``error`` and ``failure``.

    ``result`` and ``error`` are the other side's own JSON, ``error`` a JSON-RPC error object;
    ``failure`` is why there is no answer. ``era`` tells whether ``result`` carries ``resultType``.
    """

    result: Raw | None = None
    error: Raw | None = None
    failure: TabaneError | None = None
    era: Era = Era.LEGACY


class CallOwner(Protocol):
    """The instance that sends a call, and is notified when the call is over."""

    def freed(self, reply: UpstreamReply) -> None:
        """Note that a call was answered, so that the next may be sent."""
        ...

    def unsent(self, call: Call) -> bool:
        """Take back a call that did not reach the upstream, to send it again; return False if impossible."""
        ...

    def awaited(self, session: str) -> bool:
        """Return whether a call of another client waits to be sent."""
        ...


class ServerRequest:
    """A request of a legacy upstream to its client during a call; answered exactly once.

    ``params`` are verbatim. Whoever accepts the request sets ``on_withdrawn``, which is called with the
    reason if the upstream no longer wants an answer. Whoever does not may say why in ``refusal``.

    ``id`` is the id that the upstream gave it, as JSON; empty if it has none. ``about`` is the number of the
    call on whose stream it came, if the transport shows that. ``call`` is the call that it belongs to. If it
    is ``guessed``, because all calls share one stream, another one of the same client may be the right one.
    """

    __slots__ = (
        "about",
        "call",
        "deadline",
        "done",
        "guessed",
        "id",
        "method",
        "on_answer",
        "on_withdrawn",
        "params",
        "refusal",
    )  # fmt: skip

    def __init__(
        self,
        method: str,
        params: Raw,
        on_answer: Callable[[ServerRequest, UpstreamReply], None],
        id: bytes = b"",
        about: int | None = None,
    ) -> None:
        self.id, self.about = id, about
        self.method, self.params, self.on_answer = method, params, on_answer
        self.on_withdrawn: Callable[[str], None] | None = None
        self.call: Call | None = None
        self.guessed = False
        self.deadline = 0.0
        self.done = False
        self.refusal = ""

    def answer(self, reply: UpstreamReply) -> None:
        """Give the answer, once; later answers are dropped."""
        if not self.done:
            self.done = True
            self.on_answer(self, reply)

    def withdraw(self, reason: str) -> None:
        """Notify whoever was asked that the answer is no longer wanted."""
        if not self.done:
            self.done = True
            if self.on_withdrawn is not None:
                self.on_withdrawn(reason)

    def may_belong_to(self, call: Call) -> bool:
        """Return whether it may be that call which caused the request."""
        mine = self.call
        return call is mine or (self.guessed and mine is not None and call.client == mine.client)

    def offer_again(self) -> bool:
        """Put the request to the client of its call. Return whether that can be asked."""
        call = self.call
        return call is not None and call.on_question is not None and call.on_question(self)

    def time_out(self, reply: UpstreamReply) -> None:
        """Answer with ``reply`` because nobody answered in time, and notify whoever was asked."""
        if not self.done:
            self.withdraw("nobody answered in time")
            self.on_answer(self, reply)


class InstanceOwner:
    """Owner of one instance of a server: gets its lists, its messages and its changes of state.

    This one takes lists and messages without doing anything. An owner overrides what it needs.
    """

    def listed(self, peer: Peer, name: str, items: list[Raw]) -> Awaitable[None] | None:
        """Take the list ``name`` whenever it was read, its items verbatim. The result is awaited."""
        return None

    def state_changed(self) -> None:
        """Note that the state or the error of the instance has changed."""

    def logged(self, params: Raw) -> None:
        """Take the parameters of a log message that belongs to no call."""

    def asked_nobody(self, method: str) -> None:
        """Note that the server sent a request whose client is not known."""

    def notified(self, method: str, params: Raw) -> None:
        """Take a notification that the hub does not know, and that belongs to no call."""

    def accepts(self, question: ServerRequest) -> bool:
        """Take a request that belongs to no call. Return whether somebody will answer it."""
        return False

    def holds_calls(self) -> bool:
        """Return whether calls wait until the server has listed: its definitions may have changed."""
        return False

    def refusal(self, call: Call) -> TabaneError | None:
        """Return why a call that has waited may not be sent; None if it may."""
        return None


class AnswerReader(Protocol):
    """A client that reads the answers to its calls."""

    @property
    def unsent(self) -> int:
        """Return the bytes of earlier answers that the client has not read yet."""
        ...


class Call:
    """One request for an upstream, made by a session and carried by an instance.

    ``params`` are the request's members without ``_meta``, names already the upstream's own;
    ``meta`` is the canonical (modern) ``_meta``. ``on_reply`` is called exactly once, unless the call
    is canceled, then never. ``on_notice`` gets method and params of each notification that belongs to
    the call (progress, log messages). ``on_question`` is offered each question that the upstream asks
    meanwhile, and says whether it takes it. ``lacking`` are the features of a client for want of which
    questions were refused.

    ``reader`` is the client that reads the answer; None if it never lags behind. ``session`` names the
    session it is made for, ``client`` the client, which may have several at the same time, ``holder`` the
    identity of the client: calls that wait take turns between holders. ``mirrored`` are the arguments that
    HTTP repeats in headers. A ``safe`` call may be sent again if its answer was lost. ``marks`` takes the
    times of a call that is watched. ``capabilities`` are told to a modern upstream unless ``meta`` has some.
    """

    __slots__ = (
        "capabilities",
        "client",
        "deadline",
        "done",
        "holder",
        "lacking",
        "marks",
        "meta",
        "method",
        "mirrored",
        "number",
        "on_notice",
        "on_question",
        "on_reply",
        "owner",
        "params",
        "reader",
        "safe",
        "screen",
        "session",
        "taken",
        "timeout",
    )

    def __init__(
        self,
        method: bytes,
        params: Members,
        meta: Members,
        on_reply: Callable[[UpstreamReply], None],
        on_notice: Callable[[str, Raw], None] | None = None,
        timeout: float = 30.0,
        *,
        on_question: Callable[[ServerRequest], bool] | None = None,
        session: str = "",
        holder: str = "",
        client: str = "",
        mirrored: tuple[HeaderMirror, ...] = (),
        safe: bool = False,
        reader: AnswerReader | None = None,
        marks: CallMarks | None = None,
        capabilities: bytes = b"{}",
    ) -> None:
        self.method, self.params, self.meta, self.capabilities = method, params, meta, capabilities
        self.on_reply, self.on_notice, self.on_question = on_reply, on_notice, on_question
        self.timeout, self.session, self.holder = timeout, session, holder
        self.client = client or session
        self.mirrored, self.safe, self.reader, self.marks = mirrored, safe, reader, marks
        self.deadline = 0.0
        self.number = 0
        self.done = self.taken = False
        self.lacking: Features = NOTHING
        self.owner: CallOwner | None = None
        self.screen: Callable[[Call, UpstreamReply], None] | None = None
        """Looks at the reply and hands it to ``on_reply``, at once or later; None if nobody does."""

    @property
    def unsent(self) -> int:
        """Return the bytes of earlier answers that the client has not read yet."""
        return 0 if self.reader is None else self.reader.unsent

    @property
    def over(self) -> bool:
        """Return whether the upstream is no longer needed: the answer has arrived or is on its way."""
        return self.done or self.taken

    def answer(self, reply: UpstreamReply) -> None:
        """Give the reply, once; later replies are dropped."""
        if not self.done:
            self.done = True
            if self.marks is not None:
                self.marks.answered(_body(reply))
            if self.screen is None:
                self.on_reply(reply)
            else:
                self.screen(self, reply)
            if self.owner is not None:
                self.owner.freed(reply)


def _body(reply: UpstreamReply) -> memoryview | None:
    """Return the JSON of a reply; None for a failure."""
    body = reply.result if reply.result is not None else reply.error
    return memoryview(body) if body is not None else None


class InputBacklogFull(Exception):
    """The upstream does not read its input, and the limit for waiting data is reached."""


class SessionPosition(msgspec.Struct, frozen=True):
    """Where a call in a session over HTTP is: enough to go on with it after the hub was restarted.

    ``number`` is the id of the request, ``last_event`` that of the last event of its stream.
    """

    session: str
    version: str
    last_event: str
    number: int


class UpstreamTransport(Protocol):
    """Sends the messages of a conversation to an upstream. Incoming ones go to its ``receive``."""

    exact: bool
    """Whether the transport shows which call a question belongs to."""

    mirrors_arguments: bool
    """Whether arguments are repeated in HTTP headers if the definition of a tool wants that."""

    @property
    def closed(self) -> bool: ...

    def request(self, call: Call, line: bytes, era: Era) -> None:
        """Send a request; ``call.number`` is its id. ``fail`` gets the errors of this request only.

        Raises :class:`InputBacklogFull`.
        """
        ...

    def tell(self, line: bytes, about: int | None = None) -> None:
        """Send a notification, or the answer to a question that arrived while call ``about`` ran."""
        ...

    def cancel(self, call: Call, line: bytes) -> None:
        """Cancel a request. ``line`` is the notification that says so, if that is the way."""
        ...

    def position_of(self, call: Call) -> SessionPosition | None:
        """Return where a call is, so that it can outlive this hub; None if it cannot.

        The session of such a call is not ended with the connection.
        """
        ...

    def end_input(self) -> None:
        """Close the input: a well-behaved upstream then ends."""
        ...

    def close(self, why: str) -> None:
        """End the connection; call the conversation's ``lost`` once."""
        ...


class StdioTransport:
    """A line channel to a process: one stream for everything.

    ``most`` bytes may wait for an upstream that does not read. Above that, requests are refused, and
    messages that nobody waits for are dropped.
    """

    __slots__ = ("_channel", "_most")
    exact = mirrors_arguments = False

    def __init__(self, channel: LineChannel, most: int = 128 << 20) -> None:
        self._channel, self._most = channel, most

    @property
    def closed(self) -> bool:
        """Return whether the channel is closed."""
        return self._channel.closed

    def request(self, call: Call, line: bytes, era: Era) -> None:
        """Write a request. Raises InputBacklogFull if too much waits already."""
        channel = self._channel
        waiting = channel.unsent
        if waiting and waiting + len(line) > self._most:
            raise InputBacklogFull
        channel.send(line)

    def tell(self, line: bytes, about: int | None = None) -> None:
        """Write a notification or an answer, unless too much waits already."""
        waiting = self._channel.unsent
        if not waiting or waiting + len(line) <= self._most:
            self._channel.send(line)

    def cancel(self, call: Call, line: bytes) -> None:
        """Write the notification that a request is canceled."""
        self.tell(line)

    def position_of(self, call: Call) -> SessionPosition | None:
        """Return None: a call ends with its process."""
        return None

    def end_input(self) -> None:
        """Close stdin of the process."""
        self._channel.end_writing()

    def close(self, why: str) -> None:
        """Close the channel."""
        self._channel.close(why)


CredentialMode = Literal["off", "warn", "redact"]

AT_ONCE = 64 << 10
"""Bytes that are screened on the event loop; more in a thread."""

MOST_SCREENED = 16 << 20
"""Bytes of a message that are screened. What is longer passes as it is, which is logged."""

MOST_WAITING = 64 << 20
"""Bytes of long messages that wait to be screened. If more come, those that are only warned of pass."""

_WITH_ARGUMENTS = (b"tools/call", b"prompts/get")
_RESULTS = frozenset((b"tools/call", b"prompts/get", b"resources/read"))


def _ignore(server: str, name: str, where: str, kinds: tuple[str, ...], holder: str) -> None:
    """Record nothing."""


class CallScreening:
    """Screens the calls of all servers.

    ``mode`` applies to servers without an own ``credentials``. ``note`` is given server, name, where they
    were found (``arguments`` or ``result``), the kinds, and the holder of the call, never a value. What is
    only warned of waits for nothing: it is screened by ``later``, after it was passed on.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, mode: CredentialMode = "warn") -> None:
        self._loop = loop
        self.later: Later = at_once
        self.mode = mode
        self.note: Callable[[str, str, str, tuple[str, ...], str], None] = _ignore
        self._finder = CredentialFinder()
        self._own: frozenset[str] = frozenset()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._passed: list[tuple[Server, Call, str, Raw]] = []

    def know(self, own: Iterable[str]) -> None:
        """Recognize these secrets of the user by their value from now on."""
        known = frozenset(own)
        if known != self._own:
            self._own, self._finder = known, CredentialFinder(known)

    def submit(self, server: Server, call: Call, go: Callable[[Call], None]) -> None:
        """Screen a call, now or in a thread, and then send it with ``go``. Its answer is screened as well."""
        mode = server.credentials or self.mode
        if mode == "off" or call.method not in _RESULTS:
            go(call)
            return
        call.screen = partial(self._screen_answer, server, mode)
        arguments = call.params.get("arguments") if call.method in _WITH_ARGUMENTS else None
        if arguments is None or len(arguments) <= 2:
            go(call)
        elif mode == "warn" and len(arguments) <= AT_ONCE:
            go(call)
            self._warn_later(server, call, "arguments", arguments)
        elif len(arguments) <= AT_ONCE:
            self._send_screened(server, call, mode, _find_credentials(self._finder, arguments), go)
        else:
            self._in_thread(mode, arguments, lambda seen: self._send_screened(server, call, mode, seen, go))

    def screen(self, server: Server, call: Call) -> None:
        """Screen the answer to a call, whoever takes it: a call that is parked gets another taker."""
        mode = server.credentials or self.mode
        if mode != "off" and call.method in _RESULTS:
            call.screen = partial(self._screen_answer, server, mode)

    def _send_screened(
        self,
        server: Server,
        call: Call,
        mode: CredentialMode,
        seen: ScreenedText,
        go: Callable[[Call], None],
    ) -> None:
        if call.done:
            return
        self._note_credentials(server, call, "arguments", seen.kinds, mode)
        if seen.redacted is not None and mode == "redact":
            call.params = {**call.params, "arguments": Raw(seen.redacted)}
        go(call)

    def _screen_answer(self, server: Server, mode: CredentialMode, call: Call, reply: UpstreamReply) -> None:
        result = reply.result
        if result is None:
            call.on_reply(reply)
        elif mode == "warn":
            call.on_reply(reply)  # which need not wait
            if len(result) <= AT_ONCE:
                self._warn_later(server, call, "result", result)
            else:
                self._in_thread(
                    mode,
                    result,
                    lambda seen: self._note_credentials(server, call, "result", seen.kinds, mode),
                )
        elif len(result) <= AT_ONCE:
            call.on_reply(
                self._redacted_reply(server, call, mode, reply, _find_credentials(self._finder, result))
            )
        else:
            self._in_thread(
                mode,
                result,
                lambda seen: call.on_reply(self._redacted_reply(server, call, mode, reply, seen)),
            )

    def _warn_later(self, server: Server, call: Call, where: str, text: Raw) -> None:
        self._passed.append((server, call, where, text))
        if len(self._passed) == 1:
            self.later(self._warn)

    def _warn(self) -> None:
        """Screen what was passed on."""
        passed, self._passed = self._passed, []
        for server, call, where, given in passed:
            if found := self._finder.find(bytes(given)):
                self._note_credentials(server, call, where, kinds_of(found), "warn")

    def _redacted_reply(
        self,
        server: Server,
        call: Call,
        mode: CredentialMode,
        reply: UpstreamReply,
        seen: ScreenedText,
    ) -> UpstreamReply:
        if seen.redacted is None or reply.result is None:
            return reply
        self._note_credentials(server, call, "result", seen.kinds, mode)
        return replace(reply, result=Raw(seen.redacted))

    def _note_credentials(
        self, server: Server, call: Call, where: str, kinds: tuple[str, ...], mode: CredentialMode
    ) -> None:
        if not kinds:
            return
        given = text(call.params.get("name")) or text(call.params.get("uri")) or call.method.decode()
        name = given[:120]
        log.warning(
            "%s: the %s of %s contain credentials (%s)" if where == "arguments"
            else "%s: the %s of %s contains credentials (%s)",
            server.name, where, name, ", ".join(kinds), extra={"server": server.name},
        )  # fmt: skip
        self.note(server.name, name, where, kinds, call.holder)
        if call.marks is not None:
            call.marks.credentials(where, kinds, mode == "redact")

    def _in_thread(self, mode: CredentialMode, text: Raw, then: Callable[[ScreenedText], None]) -> None:
        """Screen a long text, one after another: two threads that compute would hold up the event loop."""
        if len(text) > MOST_SCREENED:
            log.warning("a message of %d MiB is too long to be screened for credentials", len(text) >> 20)
            then(ScreenedText())
            return
        if mode == "warn" and self._waiting > MOST_WAITING:
            log.warning("a message is not screened for credentials: too many long ones came at once")
            then(ScreenedText())
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "credentials")
        self._waiting += len(text)
        looking = self._loop.run_in_executor(
            self._thread, _find_credentials, self._finder, text, thread_slices()
        )

        def looked(done: asyncio.Future[ScreenedText]) -> None:
            self._waiting -= len(text)
            then(done.result() if done.exception() is None else ScreenedText())

        looking.add_done_callback(looked)


class ScreenedText(NamedTuple):
    """The kinds of credentials in a text, and the text without them; None if there are none."""

    kinds: tuple[str, ...] = ()
    redacted: bytes | None = None


def _find_credentials(finder: CredentialFinder, message: Raw, pause: Pause = no_pause) -> ScreenedText:
    text = bytes(message)
    found = finder.find(text, pause)
    return ScreenedText(kinds_of(found), without_credentials(text, found, pause)) if found else ScreenedText()
