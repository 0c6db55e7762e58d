"""Watched resources of one instance, and the subscriptions to their changes in both eras."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable
from typing import Protocol

from msgspec import Raw

from tabane.errors import TabaneError, UpstreamDied, UpstreamError
from tabane.messages import say
from tabane.upstreams.conversation import Conversation
from tabane.upstreams.modern_subscriptions import ModernSubscriber
from tabane.wire import json
from tabane.wire.era import Era
from tabane.wire.json import InvalidJson

log = logging.getLogger(__name__)

Listener = Callable[[str, Raw], None]
"""Given the URI that has changed, which may lie below the watched one, and the notification's params."""

AT_ONCE = 16
"""Requests to subscribe that a legacy instance is sent at the same time."""


class Subscriber(Protocol):
    """Subscribes one conversation to changes of the watched resources."""

    def wake(self, uri: str) -> None: ...

    async def settled(self, uri: str) -> None: ...

    def acknowledged(self, params: Raw) -> None: ...

    def close(self, failure: TabaneError | None = None) -> None: ...


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
        self._asking: Subscriber | None = None

    def __len__(self) -> int:
        return len(self._listeners)

    def open(self, conversation: Conversation) -> None:
        """Subscribe to everything that is watched, on a new conversation."""
        if conversation.peer is not None and conversation.peer.era is Era.MODERN:
            self._asking = ModernSubscriber(
                self._server, self._loop, conversation, lambda: self._listeners, self._on_gap
            )
        else:
            self._asking = LegacySubscriber(self._server, self._loop, conversation, lambda: self._listeners)
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
        watched = [uri] if uri in self._listeners else [w for w in self._listeners if _holds(w, uri)]
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
        wanted: Callable[[], Collection[str]],
    ) -> None:
        self._server, self._loop, self._conversation = server, loop, conversation
        self._wanted = wanted
        self._subscribed: set[str] = set()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    def wake(self, uri: str) -> None:
        if (uri in self._wanted()) != (uri in self._subscribed):
            self._settling(uri)

    async def settled(self, uri: str) -> None:
        if uri not in self._subscribed or uri in self._tasks:
            await asyncio.shield(self._settling(uri))

    def acknowledged(self, params: Raw) -> None:
        """Do nothing: only modern servers acknowledge."""

    def close(self, failure: TabaneError | None = None) -> None:
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
            while (wanted := uri in self._wanted()) != (uri in self._subscribed):
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


def _holds(watched: str, uri: str) -> bool:
    return uri.startswith(watched if watched.endswith("/") else watched + "/")
