"""The parts of a hub that the web page uses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from tabane.messages import Lang, Message
from tabane.operations import Access, Door
from tabane.web.sessions import SignInLinks, WebSessions

if TYPE_CHECKING:
    from tabane.web.markdown import MarkdownRenderer


class HubEvent(Protocol):
    """Something that has happened in the hub. ``data`` is JSON. ``id`` is unique, also over restarts."""

    @property
    def id(self) -> str: ...

    @property
    def topic(self) -> str: ...

    @property
    def data(self) -> bytes: ...


class LiveFeed(Protocol):
    """The newest events of the hub."""

    @property
    def last(self) -> str:
        """Return the id of the newest event."""
        ...

    def follow(self, after: str | None, access: Access) -> AsyncIterator[Sequence[HubEvent]]:
        """Yield the events after the one with that id which the identity may see, in batches.

        Yields an event of the topic ``reset`` first if some of them are no longer known.
        """
        ...


class PostUploads(Protocol):
    """Files of posts that browsers send, until they are imported."""

    def problem(self, size: int) -> Message | None:
        """Return why files of so many bytes are not accepted now; None if they are."""
        ...

    async def receive(self, body: AsyncIterator[bytes]) -> tuple[str, list[str]]:
        """Store the files of a body. Return the id of the upload, and the names of the files.

        The body is one line of JSON, ``[[name, bytes], …]``, and then the files one after the other. Raises
        TabaneError, and then nothing is left of them.
        """
        ...

    async def remove(self, upload: str) -> None:
        """Remove an upload that is not imported."""
        ...


class WebHub(Protocol):
    """The hub behind the page."""

    @property
    def door(self) -> Door: ...

    @property
    def feed(self) -> LiveFeed: ...

    @property
    def sessions(self) -> WebSessions: ...

    @property
    def uploads(self) -> PostUploads: ...

    @property
    def links(self) -> SignInLinks: ...

    @property
    def markdown(self) -> MarkdownRenderer: ...

    @property
    def cookie(self) -> str:
        """Return the name of the cookie. It has the port: cookies are shared by all ports of a host."""
        ...

    @property
    def version(self) -> str: ...

    def holds(self, source: Literal["posts", "documents", "pages"]) -> bool:
        """Return whether anything of a source was ever stored. Nothing is opened to find that."""
        ...

    def has_open(self, source: Literal["posts", "documents", "pages"]) -> bool:
        """Return whether the store of a source is open, so that asking it costs no memory."""
        ...

    async def identify(self, credential: str, source: str) -> Access:
        """Return the access of a key or the hub's token. Raises Unauthorized and RateLimited."""
        ...

    def signed_in(self, access: Access, source: str) -> None:
        """Record that somebody signed in."""
        ...


@dataclass(frozen=True, slots=True)
class Visit:
    """Facts about a request to the page besides HTTP.

    ``source`` is the address it comes from. ``secure``: it came over TLS. ``open``: it comes from this
    machine, of whose programs the hub requires no token. ``ended`` tells whether the hub ends its streams.
    """

    source: str
    lang: Lang
    secure: bool
    open: bool
    ended: Callable[[], bool]


VISIT = "tabane.visit"
"""Key of the :class:`Visit` in the scope of a request."""
