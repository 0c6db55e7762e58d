"""Requests to pages, and what pages answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request

from tabane.errors import BadArguments
from tabane.messages import Lang, Message, say
from tabane.operations import Access, Caller, Face
from tabane.web.hub import PostUploads, WebHub
from tabane.web.markdown import RenderedMarkdown
from tabane.web.sessions import WebSession

T = TypeVar("T")

MOST_FORM = 4 << 20
"""Bytes of a form."""

MOST_FIELDS = 1_000


class BodyTooLong(BadArguments):
    """The body of a request is longer than the page takes."""


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body of a request. Raises BodyTooLong if it has more than ``limit`` bytes."""
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limit:
            raise BodyTooLong(
                say(
                    "This is too large: at most {limit:,} {limit:byte is|bytes are} accepted here.",
                    limit=limit,
                )
            )
        parts.append(part)
    return b"".join(parts)


class PageRequest:
    """A request of somebody who signed in."""

    def __init__(self, request: Request, hub: WebHub, caller: Caller, session: WebSession) -> None:
        self._request, self._hub = request, hub
        self.caller, self.session = caller, session
        self.query: Mapping[str, str] = request.query_params

    @property
    def lang(self) -> Lang:
        """Return the language of the page."""
        return self.caller.lang

    @property
    def access(self) -> Access:
        """Return what the caller may do."""
        return self.caller.access

    @property
    def url(self) -> str:
        """Return the path with the query, as the address bar has it."""
        return self._request.url.path + (f"?{self._request.url.query}" if self._request.url.query else "")

    @property
    def partial(self) -> bool:
        """Return whether a part of a page asks, not the navigation."""
        return self._request.headers.get("tabane-part") == "1"

    def path(self, name: str) -> str:
        """Return a parameter of the path."""
        return str(self._request.path_params[name])

    def header(self, name: str) -> str:
        """Return a header, empty if the request has none."""
        return self._request.headers.get(name, "")

    def may(self, operation: str) -> bool:
        """Return whether the caller may use an operation; False if there is none of that name."""
        found = self._hub.door.table.get(operation)
        return found is not None and self.access.allows(found.target)

    def holds(self, source: Literal["posts", "documents", "pages"]) -> bool:
        """Return whether anything of a source was ever stored. Nothing is opened to find that."""
        return self._hub.holds(source)

    def has_open(self, source: Literal["posts", "documents", "pages"]) -> bool:
        """Return whether the store of a source is open, so that asking it costs no memory."""
        return self._hub.has_open(source)

    async def call(self, operation: str, /, **params: Any) -> Any:
        """Call an operation through the door. Parameters that are None are left out.

        Raises TabaneError. The result is plain data, as JSON-RPC would return it.
        """
        return msgspec.json.decode(await self.answer(operation, **params))

    async def answer(self, operation: str, /, **params: Any) -> bytes:
        """Call an operation as :meth:`call` does, and return its result as JSON.

        JSON of a server's tool may have what Python cannot encode again.
        """
        given = msgspec.json.encode({name: value for name, value in params.items() if value is not None})
        return await self._hub.door.respond(self.caller, operation, given, msgspec.json.encode, face=Face.RPC)

    async def rows(self, operation: str, /, **params: Any) -> list[dict[str, Any]]:
        """Return the ``results`` of an operation; none if the caller may not use it. Raises TabaneError."""
        if not self.may(operation):
            return []
        rows: list[dict[str, Any]] = (await self.call(operation, **params))["results"]
        return rows

    async def while_connected(self, work: Coroutine[Any, Any, T]) -> T:
        """Return the result of ``work``, which is canceled if the browser gives up. Read the body before.

        Raises ClientDisconnect then.
        """
        task = asyncio.ensure_future(work)
        gone = asyncio.ensure_future(self._wait_until_gone())
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnect
            return task.result()
        finally:
            task.cancel()
            gone.cancel()

    async def _wait_until_gone(self) -> None:
        while (await self._request.receive())["type"] != "http.disconnect":
            pass

    async def markdown(self, text: str, top: int = 2, start: int = 0, title: str = "") -> RenderedMarkdown:
        """Return Markdown as safe HTML, for ``| safe``; ``top`` is the level of its first heading.

        ``start`` is where the text begins in the whole one, if it is a part of it. ``title`` is shown above
        already: a first heading that says the same is left out.
        """
        return await self._hub.markdown.html(text, top=top, start=start, title=title)

    @property
    def uploads(self) -> PostUploads:
        """Return the files of posts that browsers send."""
        return self._hub.uploads

    def stream(self) -> AsyncIterator[bytes]:
        """Yield the body in parts. Raises ClientDisconnect."""
        return self._request.stream()

    async def body(self, limit: int) -> bytes:
        """Return the body. Raises BodyTooLong."""
        return await read_body(self._request, limit)

    async def forms(self) -> dict[str, list[str]]:
        """Return the values of a form by name. Raises BadArguments."""
        body = await self.body(MOST_FORM)
        try:
            pairs = parse_qsl(
                body.decode(), keep_blank_values=True, strict_parsing=bool(body), max_num_fields=MOST_FIELDS
            )
        except ValueError as error:  # UnicodeDecodeError is one
            raise BadArguments(say("The form cannot be read: {reason}", reason=error)) from None
        values: dict[str, list[str]] = {}
        for name, value in pairs:
            values.setdefault(name, []).append(value.replace("\r\n", "\n"))
        return values

    async def form(self) -> dict[str, str]:
        """Return the last value of each name in a form. Raises BadArguments."""
        return {name: values[-1] for name, values in (await self.forms()).items()}


@dataclass(frozen=True)
class WholePage:
    """The whole content of a page. ``module`` is the script in ``static/js`` it needs, without suffix."""

    template: str
    title: Message
    context: Mapping[str, Any] = field(default_factory=dict)
    module: str = ""
    status: int = 200


@dataclass(frozen=True)
class Fragment:
    """A part of a page. ``events`` are triggered on the page. ``retarget`` selects another place for it."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)
    status: int = 200
    events: tuple[str, ...] = ()
    retarget: str = ""


@dataclass(frozen=True)
class Notice:
    """A short message that appears over the page and changes nothing else."""

    message: Message
    kind: Literal["ok", "error"] = "ok"
    events: tuple[str, ...] = ()
    status: int = 200


@dataclass(frozen=True)
class Redirect:
    """Another page is shown, with a short message if there is one."""

    url: str
    message: Message | None = None


@dataclass(frozen=True)
class FileDownload:
    """A file to save. ``message`` is shown when it is saved."""

    data: bytes
    type: str
    name: str
    message: Message | None = None


@dataclass(frozen=True)
class Json:
    """Data for a script of the page."""

    value: Any
    status: int = 200


@dataclass(frozen=True)
class RawJson:
    """JSON for a script of the page, as a server wrote it: it may have what Python cannot encode again."""

    body: bytes


PageAnswer = WholePage | Fragment | Notice | Redirect | FileDownload | Json | RawJson
PageHandler = Callable[[PageRequest], Awaitable[PageAnswer]]


class PageRoute(NamedTuple):
    """The path of a handler. Parts in braces are parameters; ``{name:path}`` may have slashes."""

    path: str
    handler: PageHandler
    method: Literal["GET", "POST", "PUT", "DELETE"] = "GET"
