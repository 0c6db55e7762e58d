"""Everything that an instance announces and lists: its lists, and changes of them and of its resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from msgspec import Raw

from tabane.errors import UpstreamTimeout
from tabane.messages import Message, say
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.lists import ListBudget, OnListed, UpstreamLists
from tabane.upstreams.subscriptions import Listener, UpstreamSubscriptions
from tabane.upstreams.upstream_limits import UpstreamLimits


class OfferFollower(Protocol):
    """Follows the offers of an instance for somebody else than this hub's clients."""

    def changed(self, kind: str) -> None:
        """Note that the server announced a change of that kind of lists."""
        ...

    def lost(self) -> None:
        """Note that the connection to the server has ended, or ends now."""
        ...


class UpstreamOffers:
    """Lists and subscriptions of one instance, over restarts.

    ``on_listed`` gets each list whenever it was read, ``on_fault`` why one could not be read, ``on_log`` the
    parameters of each log message, ``on_asked`` the method of each question whose client is not known.
    """

    def __init__(
        self,
        server: str,
        loop: asyncio.AbstractEventLoop,
        limits: Callable[[], UpstreamLimits],
        on_listed: OnListed,
        on_fault: Callable[[Message], None],
        on_asked: Callable[[str], None],
        on_log: Callable[[Raw], None],
    ) -> None:
        self._server, self._on_asked, self._on_log = server, on_asked, on_log
        self.followers: set[OfferFollower] = set()
        self._lists = UpstreamLists(
            server,
            loop,
            on_listed,
            on_fault,
            lambda: ListBudget(limits().list_size, limits().list_items),
            lambda: limits().catalogue_size,
        )
        self._subscriptions = UpstreamSubscriptions(server, loop, self._catch_up)

    def starting(self) -> None:
        """Forget which lists are known, because the server is being started."""
        self._lists.starting()

    def open(self, conversation: Conversation) -> None:
        """Read all lists of a server that has started, and subscribe to its changes."""
        self._lists.open(conversation)
        self._subscriptions.open(conversation)

    def lost(self) -> None:
        """Stop reading, because the connection has ended; what is watched is remembered."""
        self._lists.lost()
        self._subscriptions.lost()
        for follower in list(self.followers):
            follower.lost()

    async def known(self, name: str) -> None:
        """Wait until that list was read, or could not be read."""
        await self._lists.known(name)

    def holds(self, name: str) -> float | None:
        """Return the seconds for which that list may be kept; None if nothing bounds that."""
        return self._lists.holds(name)

    def is_stale(self, name: str) -> bool:
        """Return whether that list may have changed without an announcement."""
        return self._lists.is_stale(name)

    async def fresh(self, name: str) -> None:
        """Read that list again. If it cannot be read, the former one stays."""
        await self._lists.fresh(name)

    async def watch(self, uri: str, listener: Listener, seconds: float) -> None:
        """Call ``listener`` when that resource changes. Raises UpstreamError, UpstreamTimeout."""
        try:
            async with asyncio.timeout(seconds):
                await self._subscriptions.watch(uri, listener)
        except TimeoutError:
            raise UpstreamTimeout(say(
                "{server!n} did not confirm within {seconds:g} s that it announces changes of that resource.",
                server=self._server, seconds=seconds)) from None  # fmt: skip

    def unwatch(self, uri: str, listener: Listener) -> None:
        """Stop calling ``listener``."""
        self._subscriptions.unwatch(uri, listener)

    @property
    def watched(self) -> int:
        """Return the resources that somebody watches."""
        return len(self._subscriptions)

    def noticed(self, method: str, params: Raw) -> None:
        """Handle a notification or question of the server that belongs to no call."""
        match method.split("/"):
            case ["notifications", kind, "list_changed"]:
                self._lists.changed(kind)
                for follower in list(self.followers):
                    follower.changed(kind)
            case ["notifications", "resources", "updated"]:
                self._subscriptions.updated(params)
            case ["notifications", "subscriptions", "acknowledged"]:
                self._subscriptions.acknowledged(params)
            case ["notifications", "message"]:
                self._on_log(params)
            case ["notifications", *_]:
                pass
            case _:
                self._on_asked(method)

    def _catch_up(self, kinds: Iterable[str]) -> None:
        """Read those lists again, because changes were not announced for a while."""
        for kind in kinds:
            self._lists.changed(kind)
