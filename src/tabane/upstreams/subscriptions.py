"""Watched resources of one instance, and the subscriptions to their changes in both eras.

A legacy server has a subscription for each resource. A modern one has one request for all changes, which is
replaced when other changes are wanted.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec import Raw, Struct

from tabane.errors import TabaneError, UpstreamDied, UpstreamError
from tabane.messages import say
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.handshake import KINDS, Peer
from tabane.wire import era as eras
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson

log = logging.getLogger(__name__)

ACKNOWLEDGED = 10.0
"""Seconds to wait for the acknowledgement; a server that gives none is taken to have agreed."""

FIRST, LONGEST = 1.0, 60.0
"""Seconds before a subscription that ended is opened again, twice as many each time."""


class SubscriptionFilter(Struct, frozen=True):
    """The changes to announce: of lists, by capability, and of resources, by URI."""

    lists: tuple[str, ...]
    uris: frozenset[str]

    @property
    def filter(self) -> bytes:
        """As the member ``notifications`` of the request."""
        wanted: dict[str, object] = {f"{kind}ListChanged": True for kind in self.lists}
        if self.uris:
            wanted["resourceSubscriptions"] = sorted(self.uris)
        return json.encode(wanted)


class ListenStream:
    """One subscriptions/listen. ``granted`` are the URIs that were accepted, ``ended`` is how it ended."""

    def __init__(
        self, conversation: Conversation, wanted: SubscriptionFilter, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.wanted = wanted
        self.granted: frozenset[str] = wanted.uris
        self.acknowledged = asyncio.Event()
        self.ended: asyncio.Future[UpstreamReply] = loop.create_future()
        self._conversation = conversation
        self.call = conversation.listen(wanted.filter, self._settle_end)

    def acknowledge(self, granted: Iterable[str]) -> None:
        self.granted = self.wanted.uris & frozenset(granted)
        self.acknowledged.set()

    def cancel(self) -> None:
        """End the subscription, if it has not ended."""
        if not self.ended.done():
            self.ended.cancel()
            self._conversation.cancel(self.call, "another subscription takes its place")

    def _settle_end(self, reply: UpstreamReply) -> None:
        if not self.ended.done():
            self.ended.set_result(reply)
        self.acknowledged.set()


class ModernSubscriber:
    """Keeps one conversation subscribed to the server's lists and the watched resources.

    ``uris`` holds what is watched now; :meth:`wake` notifies of a change. ``on_gap`` is called with the
    announced lists when a subscription is open after a time without one, in which anything may have changed.
    That is so for the first one too: the lists are read while it is being opened.
    """

    def __init__(
        self,
        server: str,
        loop: asyncio.AbstractEventLoop,
        conversation: Conversation,
        uris: Collection[str],
        on_gap: Callable[[Iterable[str]], None],
    ) -> None:
        self._server, self._loop, self._conversation = server, loop, conversation
        self._uris, self._on_gap = uris, on_gap
        self._current: ListenStream | None = None
        self._opening: ListenStream | None = None
        self._changed = asyncio.Event()
        self._waiters: dict[str, asyncio.Future[None]] = {}
        self._delay = FIRST
        self._gap = True
        self._task = loop.create_task(self._keep())

    def wake(self, uri: str) -> None:
        """Update the subscription, because that resource is now watched or no longer watched."""
        self._changed.set()

    async def settled(self, uri: str) -> None:
        """Wait until changes of a resource are announced. Raises UpstreamError if they will not be."""
        current = self._current
        if current is not None and uri in current.wanted.uris and not current.ended.done():
            if uri not in current.granted:
                raise self._refusal()
            return
        waiter = self._waiters.get(uri)
        if waiter is None:
            waiter = self._waiters[uri] = self._loop.create_future()
            # Perhaps nobody waits for this failure any more.
            waiter.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._changed.set()
        await asyncio.shield(waiter)

    def acknowledged(self, params: Raw) -> None:
        """Note that the server accepted a subscription, or part of it."""
        opening = self._opening
        try:
            members = json.fields(params)
            number = json.fields(members["_meta"])[eras.META_SUBSCRIPTION]
            granted = json.member(json.fields(members["notifications"]), "resourceSubscriptions")
        except (InvalidJson, KeyError):
            return
        if opening is not None and bytes(number).strip(b'"') == b"%d" % opening.call.number:
            opening.acknowledge(uri for uri in granted or () if isinstance(uri, str))

    def close(self, failure: TabaneError | None = None) -> None:
        """Fail everybody who waits, because the connection is over."""
        self._task.cancel()
        self._refuse(failure or self._refusal(), list(self._waiters))

    async def _keep(self) -> None:
        while True:
            self._changed.clear()
            wanted = self._wanted()
            if self._current is not None and self._current.wanted == wanted:
                await self._until_news(self._current)
            elif wanted.lists or wanted.uris:
                await self._open(wanted)
            else:
                self._replace(None)
                await self._changed.wait()

    def _wanted(self) -> SubscriptionFilter:
        peer: Peer | None = self._conversation.peer
        lists = tuple(kind for kind in KINDS if peer is not None and peer.can(kind, "listChanged"))
        return SubscriptionFilter(lists, frozenset(self._uris))

    async def _until_news(self, current: ListenStream) -> None:
        """Wait until the subscription has ended, or the watched resources have changed."""
        waiting = self._loop.create_task(self._changed.wait())
        news: list[asyncio.Future[Any]] = [waiting, current.ended]
        try:
            await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if current.ended.done():
            self._current, self._gap = None, True
            log.info("%s ended the subscription to its changes; opening it again", self._server)
            await self._pause()

    async def _open(self, wanted: SubscriptionFilter) -> None:
        opening = self._opening = ListenStream(self._conversation, wanted, self._loop)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(opening.acknowledged.wait(), ACKNOWLEDGED)
        self._opening = None
        if opening.ended.done():
            reply = opening.ended.result()
            # It is tried again later, or when other changes are watched.
            self._refuse(reply.failure or self._refusal(), wanted.uris)
            if self._delay == FIRST:
                log.warning("%s did not accept a subscription to its changes", self._server)
            if self._current is None:
                self._gap = True
            await self._pause()
            return
        self._replace(opening)
        self._delay = FIRST
        for uri in wanted.uris & opening.granted & self._waiters.keys():
            _settle(self._waiters.pop(uri))
        self._refuse(self._refusal(), wanted.uris - opening.granted)
        if self._gap:
            self._gap = False
            self._on_gap(wanted.lists)

    def _replace(self, subscription: ListenStream | None) -> None:
        # The old one ends after the new one is acknowledged, so no change is missed.
        before, self._current = self._current, subscription
        if before is not None:
            before.cancel()

    async def _pause(self) -> None:
        delay, self._delay = self._delay, min(LONGEST, self._delay * 2)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), delay)

    def _refuse(self, failure: TabaneError, uris: Iterable[str]) -> None:
        for uri in uris:
            waiter = self._waiters.pop(uri, None)
            if waiter is not None and not waiter.done():
                waiter.set_exception(failure)

    def _refusal(self) -> UpstreamError:
        return UpstreamError(
            say("{server!n} does not announce changes of that resource.", server=self._server)
        )


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


Listener = Callable[[str, Raw], None]
"""Given the URI that has changed, which may lie below the watched one, and the notification's params."""

AT_ONCE = 16
"""Requests to subscribe that a legacy instance is sent at the same time."""


class UpstreamSubscriptions:
    """The watched resources of an instance. Each is subscribed to once for all its listeners.

    They outlive the process: a restarted one gets all subscriptions again. ``on_gap`` is called with the
    kinds of lists whose changes may have been missed.
    """

    def __init__(
        self, server: str, loop: asyncio.AbstractEventLoop, on_gap: Callable[[Iterable[str]], None]
    ) -> None:
        self._server, self._loop, self._on_gap = server, loop, on_gap
        self._listeners: dict[str, list[Listener]] = {}
        self._asking: ModernSubscriber | LegacySubscriber | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def open(self, conversation: Conversation) -> None:
        """Subscribe to everything that is watched, on a new conversation."""
        if conversation.peer is not None and conversation.peer.era is Era.MODERN:
            self._asking = ModernSubscriber(
                self._server, self._loop, conversation, self._listeners, self._on_gap
            )
        else:
            self._asking = LegacySubscriber(self._server, self._loop, conversation, self._listeners)
        for uri in self._listeners:
            self._asking.wake(uri)

    def lost(self) -> None:
        """Remember what is watched for the next conversation: this one is over."""
        asking, self._asking = self._asking, None
        if asking is not None:
            asking.close(UpstreamDied(say("{server!n} ended before it answered.", server=self._server)))

    async def watch(self, uri: str, listener: Listener) -> None:
        """Call ``listener`` on changes. Raises UpstreamError if the server refuses."""
        self._listeners.setdefault(uri, []).append(listener)
        if self._asking is None:
            return
        try:
            await self._asking.settled(uri)
        except BaseException:
            self.unwatch(uri, listener)
            raise

    def unwatch(self, uri: str, listener: Listener) -> None:
        """Stop calling ``listener``. A resource without listeners is unsubscribed."""
        listeners = self._listeners.get(uri, [])
        if listener in listeners:
            listeners.remove(listener)
            if not listeners:
                del self._listeners[uri]
                if self._asking is not None:
                    self._asking.wake(uri)

    def updated(self, params: Raw) -> None:
        """Notify the listeners of a changed resource, or of one that it is below."""
        try:
            uri = json.text(json.fields(params).get("uri"))
        except InvalidJson:
            return
        if uri is None:
            return
        watched = (
            [uri]
            if uri in self._listeners
            else [w for w in self._listeners if uri.startswith(w if w.endswith("/") else w + "/")]
        )
        for listener in [listener for name in watched for listener in self._listeners[name]]:
            listener(uri, params)

    def acknowledged(self, params: Raw) -> None:
        """Note which resources of a subscription the server accepted."""
        if self._asking is not None:
            self._asking.acknowledged(params)


class LegacySubscriber:
    """A legacy conversation: resources/subscribe and resources/unsubscribe, for one URI at a time."""

    def __init__(
        self,
        server: str,
        loop: asyncio.AbstractEventLoop,
        conversation: Conversation,
        wanted: Collection[str],
    ) -> None:
        self._server, self._loop, self._conversation = server, loop, conversation
        self._wanted = wanted
        self._subscribed: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    def wake(self, uri: str) -> None:
        """Subscribe or unsubscribe a URI if that is due."""
        if (uri in self._wanted) != (uri in self._subscribed):
            self._settling(uri)

    async def settled(self, uri: str) -> None:
        """Wait until a URI is subscribed. Raises UpstreamError."""
        if uri not in self._subscribed or uri in self._tasks:
            await asyncio.shield(self._settling(uri))

    def acknowledged(self, params: Raw) -> None:
        """Do nothing: only modern servers acknowledge."""

    def close(self, failure: TabaneError | None = None) -> None:
        """Forget what is subscribed, because the connection has ended."""
        # The end of the conversation answers requests in flight.
        self._subscribed.clear()

    def _settling(self, uri: str) -> asyncio.Task[None]:
        """Return the task that subscribes or unsubscribes a URI; one at a time for each."""
        task = self._tasks.get(uri)
        if task is None:
            task = self._tasks[uri] = self._loop.create_task(self._settle(uri))
            task.add_done_callback(lambda done: self._note(uri, done))
        return task

    async def _settle(self, uri: str) -> None:
        params = {"uri": Raw(json.quote(uri))}
        try:
            while (wanted := uri in self._wanted) != (uri in self._subscribed):
                async with self._places:
                    if wanted:
                        await self._conversation.ask(b"resources/subscribe", params)
                        self._subscribed.add(uri)
                    else:
                        self._subscribed.discard(uri)
                        with contextlib.suppress(UpstreamError):
                            await self._conversation.ask(b"resources/unsubscribe", params)
        finally:
            del self._tasks[uri]

    def _note(self, uri: str, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("%s: subscription to changes of %s failed: %s", self._server, uri, error)
