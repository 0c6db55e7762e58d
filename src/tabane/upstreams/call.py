"""A request to an upstream, its reply, the upstream's requests meanwhile, and the transport interface."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec import Raw

from tabane.errors import TabaneError
from tabane.wire.channel import LineChannel
from tabane.wire.era import Era
from tabane.wire.json import Members
from tabane.wire.questions import NOTHING, Features

if TYPE_CHECKING:
    from tabane.operations import CallMarks
    from tabane.wire.headers import HeaderMirror


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

    def freed(self, reply: UpstreamReply) -> None: ...

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


class UnknownMessages(Protocol):
    """Takes messages of an upstream that the hub does not know, and that belong to no call."""

    def notified(self, method: str, params: Raw) -> None: ...

    def asked(self, question: ServerRequest) -> bool:
        """Take a request. Return whether somebody will answer it."""
        ...


class HeldCallCheck(Protocol):
    """Judges calls of a server that may have changed while it did not run."""

    def waits(self) -> bool:
        """Return whether calls wait until the server has listed its tools."""
        ...

    def refusal(self, call: Call) -> TabaneError | None:
        """Return why a call may not be sent; None if it may."""
        ...


class Call:
    """One request for an upstream, made by a session and carried by an instance.

    ``params`` are the request's members without ``_meta``, names already the upstream's own;
    ``meta`` is the canonical (modern) ``_meta``. ``on_reply`` is called exactly once, unless the call
    is cancelled, then never. ``on_notice`` gets method and params of each notification that belongs to
    the call (progress, log messages). ``on_question`` is offered each question that the upstream asks
    meanwhile, and says whether it takes it. ``lacking`` are the features of a client for want of which
    questions were refused.

    ``unsent`` tells how many bytes of earlier answers its client has not read yet. ``session`` names the
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
        "safe",
        "screen",
        "session",
        "taken",
        "timeout",
        "unsent",
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
        unsent: Callable[[], int] = lambda: 0,
        marks: CallMarks | None = None,
        capabilities: bytes = b"{}",
    ) -> None:
        self.method, self.params, self.meta, self.capabilities = method, params, meta, capabilities
        self.on_reply, self.on_notice, self.on_question = on_reply, on_notice, on_question
        self.timeout, self.session, self.holder = timeout, session, holder
        self.client = client or session
        self.mirrored, self.safe, self.unsent, self.marks = mirrored, safe, unsent, marks
        self.deadline = 0.0
        self.number = 0
        self.done = self.taken = False
        self.lacking: Features = NOTHING
        self.owner: CallOwner | None = None
        self.screen: Callable[[Call, UpstreamReply], None] | None = None
        """Looks at the reply and hands it to ``on_reply``, at once or later; None if nobody does."""

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
        return self._channel.closed

    def request(self, call: Call, line: bytes, era: Era) -> None:
        channel = self._channel
        waiting = channel.unsent
        if waiting and waiting + len(line) > self._most:
            raise InputBacklogFull
        channel.send(line)

    def tell(self, line: bytes, about: int | None = None) -> None:
        if self._takes(line):
            self._channel.send(line)

    def cancel(self, call: Call, line: bytes) -> None:
        self.tell(line)

    def _takes(self, line: bytes) -> bool:
        waiting = self._channel.unsent
        return not waiting or waiting + len(line) <= self._most

    def position_of(self, call: Call) -> SessionPosition | None:
        return None

    def end_input(self) -> None:
        self._channel.end_writing()

    def close(self, why: str) -> None:
        self._channel.close(why)
