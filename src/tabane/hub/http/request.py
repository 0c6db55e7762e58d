"""HTTP requests as the application sees them, and answers that are sent as a whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import UNSET, structs

from tabane.hub.http.sources import RequestOrigin
from tabane.operations import Caller
from tabane.operations.caller import Access
from tabane.wire import json, rpc
from tabane.wire.era import INVALID_REQUEST
from tabane.wire.http import retry_header
from tabane.wire.json import JsonRpcFrame, Members
from tabane.wire.rpc import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from tabane.group.signatures import ForwardedRequest

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
AsgiApp = Callable[[Any, Any, Any], Awaitable[None]]
HeaderList = list[tuple[bytes, bytes]]

JSON_HEAD: HeaderList = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]


NOWHERE = RequestOrigin("", secure=False, tls=False, host=None)


class HttpLine(Protocol):
    """The connection that a request came on. ``on_lost`` is called when the client goes away."""

    on_lost: Callable[[], object] | None

    @property
    def unsent(self) -> int: ...

    @property
    def transport(self) -> Any: ...

    def become(self, admission: Any) -> None:
        """Turn the connection into a WebSocket. The request is answered by that."""
        ...


class HttpReply(NamedTuple):
    """An answer that is sent whole."""

    status: int
    body: bytes = b""
    headers: HeaderList = []


class PostedMessage(NamedTuple):
    """The message or batch that a POST carries: ``line`` is its body as one line.

    ``params`` are those of the first message without their ``_meta``, whose members are ``meta``.
    """

    line: bytes
    frames: list[JsonRpcFrame]
    batch: bool
    params: Members
    meta: Members

    @property
    def first(self) -> JsonRpcFrame:
        return self.frames[0]

    @property
    def requests(self) -> set[bytes]:
        """Return the ids of the requests that have to be answered."""
        return {bytes(f.id) for f in self.frames if f.method is not UNSET and f.id is not UNSET}


class RefusedRequest(Exception):
    """The request is answered with this reply, and nothing else is done with it."""

    def __init__(self, reply: HttpReply) -> None:
        super().__init__(reply.status)
        self.reply = reply


class BodyTooLarge(Exception):
    """The body is longer than is taken."""


class RequesterGone(Exception):
    """The client went away before its request was read."""


def refusal(
    status: int,
    text: str,
    *headers: tuple[bytes, bytes],
    code: int = INVALID_REQUEST,
    data: Any = None,
    request_id: bytes | None = None,
) -> RefusedRequest:
    """Return a JSON-RPC error as the whole answer to a request."""
    line = json.error_line(request_id, json.error_object(code, text, data))
    return RefusedRequest(HttpReply(status, line, [*JSON_HEAD, *headers]))


def answer_reply(line: bytes, status: int = 200) -> HttpReply:
    """Return the answer to a request as a whole: 429 with Retry-After if it is over a limit."""
    seconds = rpc.retry_seconds(line)
    if seconds is None:
        return HttpReply(status, line, JSON_HEAD)
    return HttpReply(429, line, [*JSON_HEAD, (b"retry-after", retry_header(seconds))])


class HttpRequest:
    """A request. ``headers`` are by lower-case name, the last of repeated ones; ``pairs`` has all.

    ``page``: a web page in a browser sends it, or may send it, as far as its headers tell. ``origin`` is its
    source, and ``access`` its identity, as soon as the gate has checked that; ``profile`` and ``server`` are
    those that its path or its headers name.
    """

    __slots__ = (
        "_pairs",
        "_receive",
        "_send",
        "access",
        "era",
        "extra",
        "forwarded",
        "headers",
        "line",
        "method",
        "method_name",
        "origin",
        "page",
        "path",
        "profile",
        "received",
        "repeated",
        "scope",
        "sent",
        "server",
        "status",
    )

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._receive, self._send = receive, send
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        # httptools keeps the blanks after a value, which do not belong to it (RFC 9110, 5.5).
        self._pairs = pairs = [
            (name.decode("latin-1"), value.decode("latin-1").strip(" \t")) for name, value in scope["headers"]
        ]
        self.headers = dict(pairs)
        self.repeated = _repeated_names(pairs) if len(pairs) > len(self.headers) else frozenset()
        """Names of headers that came more than once."""
        self.page = False
        self.origin = NOWHERE
        self.access: Access | None = None
        self.forwarded: ForwardedRequest | None = None
        """Signed description by another hub of the group, if that hub passes the request on."""
        self.profile = self.server = ""
        self.line: HttpLine = scope["tabane.connection"]
        self.extra: HeaderList = []
        """Headers that every answer to this request has."""
        self.status = 0
        self.received = self.sent = 0
        """Bytes of bodies."""
        self.era = "none"
        self.method_name = ""
        """Of the message in the body, for the metrics."""

    @property
    def owner(self) -> str:
        """Return the name of the identity, within its profile: what is its own belongs to no other.

        So do the sessions on a connection to one server.
        """
        holder = self.access.holder if self.access else "loopback"
        named = f"{holder}/{self.profile}" if self.profile else holder
        return f"{named}/s/{self.server}" if self.server else named

    @property
    def peer(self) -> str:
        """Return the address of the other end of the connection."""
        client = self.scope.get("client")
        return str(client[0]) if client else ""

    @property
    def tls(self) -> bool:
        """Whether the request came over TLS to this port."""
        return bool(self.scope.get("scheme") == "https")

    @property
    def raw_path(self) -> str:
        """Return the path as it was sent."""
        return bytes(self.scope["raw_path"]).decode("latin-1")

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All headers as they were sent, with lower-case names."""
        return self._pairs

    def forget(self) -> None:
        """Drop the headers: nothing needs them while a stream is open, perhaps for hours."""
        self.headers, self._pairs = {}, []
        self.scope["headers"].clear()

    async def body(self, limit: int) -> bytes:
        """Return the whole body.

        Raises BodyTooLarge if it is longer than ``limit`` bytes, and RequesterGone.
        """
        length = self.headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise BodyTooLarge
        parts: list[bytes] = []
        size = 0
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise RequesterGone
            part = message["body"]
            size += len(part)
            self.received += len(part)
            if size > limit:
                raise BodyTooLarge
            parts.append(part)
            if not message["more_body"]:
                body = parts[0] if len(parts) == 1 else b"".join(parts)
                if self.forwarded is not None and sha256(body).digest() != self.forwarded.digest:
                    raise refusal(403, "the body is not the one that was signed")
                return body

    async def pass_to(self, app: AsgiApp, more: Mapping[str, Any]) -> None:
        """Let another application answer. ``more`` is added to the scope."""

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                message = {**message, "headers": [*message.get("headers", ()), *self.extra]}
            else:
                self.sent += len(message.get("body", b""))
            await self._send(message)

        await app({**self.scope, **more}, self._receive, send)

    async def reply(self, reply: HttpReply) -> None:
        """Send a whole answer."""
        if not self.reply_at_once(reply):
            await self.start(reply.status, self._headers_of(reply))
            await self.send(reply.body, more=False)

    def reply_at_once(self, reply: HttpReply) -> bool:
        """Send a whole answer. Return False, with nothing sent, if that takes a wait."""
        whole = self.scope.get("tabane.whole")
        if whole is None or not whole(reply.status, self._headers_of(reply), reply.body):
            return False
        self.status = reply.status
        self.sent += len(reply.body)
        return True

    def _headers_of(self, reply: HttpReply) -> HeaderList:
        headers = [*reply.headers, *self.extra]
        if reply.status not in (204, 304):
            headers.append((b"content-length", b"%d" % len(reply.body)))
        return headers

    async def start(self, status: int, headers: HeaderList) -> None:
        """Send the status and headers of the answer."""
        self.status = status
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    async def send(self, body: bytes, *, more: bool) -> None:
        """Send the next part of the answer. Waits while the client does not read."""
        self.sent += len(body)
        await self._send({"type": "http.response.body", "body": body, "more_body": more})


def traced(caller: Caller, request: HttpRequest) -> Caller:
    """Return the caller with the trace that the headers name, for messages that name none themselves."""
    parent = request.headers.get(TRACEPARENT)
    if parent is None or TRACEPARENT in request.repeated:
        return caller
    return structs.replace(caller, traceparent=parent, tracestate=request.headers.get(TRACESTATE, ""))


def _repeated_names(pairs: list[tuple[str, str]]) -> frozenset[str]:
    names = Counter(name for name, _ in pairs)
    return frozenset(name for name, count in names.items() if count > 1)
