"""Events of a hub: their topics, and the newest, numbered and encoded once, for any number of followers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal, NamedTuple

from tabane.errors import HubError
from tabane.messages import say
from tabane.operations import Access, CallTarget
from tabane.wire import json

Topic = Literal[
    "calls", "activity", "servers", "catalog", "jobs", "questions", "approvals", "documents", "pages",
    "posts", "keys", "settings", "definitions", "flows", "reset",
]  # fmt: skip

NEEDED: dict[Topic, tuple[str, str]] = {
    "calls": ("list_live_calls", "admin"),
    "activity": ("get_activity", "admin"),
    "servers": ("list_servers", "admin"),
    "catalog": ("list_tools", "hub"),
    "jobs": ("list_jobs", "admin"),
    "questions": ("list_questions", "hub"),
    "approvals": ("list_approvals", "admin"),
    "documents": ("list_documents", "documents"),
    "pages": ("list_pages", "pages"),
    "posts": ("get_database_stats", "posts"),
    "keys": ("keys_list", "admin"),
    "settings": ("hub_status", "admin"),
    "definitions": ("list_definition_changes", "admin"),
    "flows": ("list_flow_trails", "admin"),
}
"""The operation, and its source, that somebody must be allowed to use to get events of a topic."""

TARGETS = {
    topic: CallTarget(name, source=source, kind="operation", changes=False, public=source == "posts")
    for topic, (name, source) in NEEDED.items()
}

_BY_NAME: dict[str, Topic] = {
    **dict.fromkeys(
        ("put_document", "put_documents", "put_file", "put_upload", "delete_document"), "documents"
    ),
    **dict.fromkeys(("watch_documents", "unwatch_documents"), "documents"),
    **dict.fromkeys(("add_documents", "import_chroma"), "documents"),
    **dict.fromkeys(
        ("remember_url", "read_url_content", "read_site", "remember_site", "forget_page"), "pages"
    ),
    "import_posts": "posts",
    **dict.fromkeys(("save_profile", "remove_profile"), "keys"),
    **dict.fromkeys(("accept_definitions", "reject_definitions"), "definitions"),
    **dict.fromkeys(("forget_flow_trails", "allow_flow", "disallow_flow"), "flows"),
    **dict.fromkeys(("change_setting", "use_model"), "settings"),
}

_BY_BEGINNING: tuple[tuple[str, Topic], ...] = (
    ("keys_", "keys"),
    ("profiles_", "keys"),
    ("set_setting", "settings"),
    ("settings_", "settings"),
)

_LOOKING = frozenset({"keys_list", "keys_show", "profiles_list"})


def topic_of(operation: str) -> Topic | None:
    """Return what an operation changes when a call of it, or a job, has ended; None for nothing."""
    if operation in _LOOKING:
        return None
    found = _BY_NAME.get(operation)
    if found is not None:
        return found
    return next((topic for beginning, topic in _BY_BEGINNING if operation.startswith(beginning)), None)


MOST_EVENTS, MOST_BYTES = 4096, 4 << 20
"""Events that are kept for followers that come back or are slow, and the bytes of their data."""

BETWEEN = 0.1
"""Seconds between two deliveries: a follower is woken once for all events meanwhile."""

MOST_FOLLOWERS = 512

BATCH = 256
"""Events that a follower gets at once."""


class LiveEvent(NamedTuple):
    """Something that has happened. ``data`` is JSON, ``id`` is unique, also over restarts of the hub.

    ``holder`` is who may see it besides those who may see its topic; empty for nobody.
    """

    id: str
    topic: Topic
    data: bytes
    holder: str = ""


class EventFeed:
    """The journal of events. Use it on the event loop only.

    ``gather`` is called before each delivery, and may add what it has collected. Followers hold nothing but
    their place in the journal: one that is so slow that its place is gone gets ``reset`` and is ended.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        gather: Callable[[], None] | None = None,
        most_followers: int = MOST_FOLLOWERS,
    ) -> None:
        self._loop, self._gather, self._most_followers = loop, gather, most_followers
        self._epoch = os.urandom(6).hex()
        self._events: list[LiveEvent] = []
        self._first = 1
        self._bytes = 0
        self._news: asyncio.Future[None] = loop.create_future()
        self._delivery: asyncio.TimerHandle | None = None
        self.followers = 0

    @property
    def last(self) -> str:
        """Return the id of the newest event."""
        return self._id(self._end - 1)

    def __len__(self) -> int:
        """Return the number of events that are kept."""
        return len(self._events)

    def add(self, topic: Topic, value: Any, holder: str = "") -> None:
        """Add an event. Followers get it with the next delivery."""
        data = json.encode(value)
        self._events.append(LiveEvent(self._id(self._end), topic, data, holder))
        self._bytes += len(data)
        if len(self._events) > MOST_EVENTS + BATCH or self._bytes > MOST_BYTES:
            self._forget()
        self.deliver_soon()

    def deliver_soon(self) -> None:
        """Wake the followers at the end of the current interval."""
        if self._delivery is None:
            self._delivery = self._loop.call_later(BETWEEN, self._deliver)

    async def follow(self, after: str | None, access: Access) -> AsyncIterator[list[LiveEvent]]:
        """Yield the events after the one with that id which the identity may see, in batches.

        Without an id, begins with the next event. Yields a ``reset`` first if events after that one are no
        longer kept, or belong to an earlier run of the hub. Raises HubError if there are too many followers.
        """
        if self.followers >= self._most_followers:
            raise HubError(
                say("Too many pages are open ({limit}). Close some of them.", limit=self._most_followers)
            )
        self.followers += 1
        try:
            number = self._number_after(after)
            if number is None:
                number = self._end
                yield [self._reset()]
            while True:
                while number >= self._end:
                    await asyncio.shield(self._news)
                if number < self._first:
                    yield [self._reset()]
                    return
                batch = self._events[number - self._first :][:BATCH]
                number += len(batch)
                if seen := _visible(batch, access):
                    yield seen
        finally:
            self.followers -= 1

    @property
    def _end(self) -> int:
        """Return the number of the next event."""
        return self._first + len(self._events)

    def _id(self, number: int) -> str:
        return f"{self._epoch}-{number}"

    def _reset(self) -> LiveEvent:
        return LiveEvent(self.last, "reset", b"{}")

    def _number_after(self, id: str | None) -> int | None:
        """Return the number of the event after that one; None if it is no longer kept."""
        if id is None:
            return self._end
        epoch, _, digits = id.partition("-")
        if epoch != self._epoch or not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            return None
        number = int(digits) + 1
        return number if self._first <= number <= self._end else None

    def _deliver(self) -> None:
        self._delivery = None
        if self._gather is not None:
            self._gather()
        news, self._news = self._news, self._loop.create_future()
        news.set_result(None)

    def _forget(self) -> None:
        """Forget the oldest events: so many that it need not be done again soon."""
        keep = len(self._events)
        while keep > MOST_EVENTS or (self._bytes > MOST_BYTES * 3 // 4 and keep > 1):
            self._bytes -= len(self._events[len(self._events) - keep].data)
            keep -= 1
        gone = len(self._events) - keep
        del self._events[:gone]
        self._first += gone


def _visible(batch: list[LiveEvent], access: Access) -> list[LiveEvent]:
    """Return the events of a batch that an identity may see."""
    if access.everything:
        return batch
    may = {topic: access.allows(TARGETS[topic]) for topic in {event.topic for event in batch}}
    return [event for event in batch if may[event.topic] or (event.holder and event.holder == access.holder)]
