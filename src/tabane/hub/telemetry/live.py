"""The events in a hub, for those who watch it. Nothing is recorded before somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from tabane.operations import Access, Lazy, Operation

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway
    from tabane.hub.telemetry.event_feed import LiveEvent, Topic
    from tabane.hub.telemetry.live_recording import LiveOperations, LiveRecording
    from tabane.hub.telemetry.metering import HubMeter
    from tabane.hub.work.jobs import Jobs

LONGEST_SHOWN = 8 << 10
"""Bytes of the arguments of a call that a person is shown before approving it."""


class HubLive:
    """The events of a hub, its last calls and their figures.

    ``secret_names`` are further names of members whose values are not shown.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        meter: HubMeter,
        gateway: Gateway,
        jobs: Jobs,
        secret_names: tuple[str, ...] = (),
    ) -> None:
        self._secret_names = secret_names
        self._hidden: tuple[Iterable[str], Callable[[str], str]] = (), str

        @Lazy
        def recording() -> LiveRecording:
            from tabane.hub.telemetry.live_recording import LiveRecording

            return LiveRecording(loop, meter, gateway, jobs)

        @Lazy
        def operations() -> LiveOperations:
            from tabane.hub.telemetry.live_recording import LiveOperations

            found = LiveOperations(recording(), secret_names)
            found.hide(*self._hidden)
            return found

        self.attach, self._operations = recording, operations

    @property
    def recording(self) -> LiveRecording | None:
        """Return the recording; None before it has begun."""
        return self.attach.opened

    @property
    def last(self) -> str:
        """Return the id of the newest event. Recording begins with this call."""
        return self.attach().feed.last

    def follow(self, after: str | None, access: Access) -> AsyncIterator[list[LiveEvent]]:
        """Yield events as :meth:`EventFeed.follow` does. Recording begins with this call."""
        return self.attach().feed.follow(after, access)

    def hide(self, secrets: Iterable[str], replaced: Callable[[str], str]) -> None:
        """Hide these secrets in arguments and results, wherever they appear."""
        self._hidden = secrets, replaced
        if self._operations.opened is not None:
            self._operations.opened.hide(secrets, replaced)

    def topic_changed(self, topic: Topic) -> None:
        """Note that something of a topic has changed, also without a call."""
        if self.recording is not None:
            self.recording.topic_changed(topic)

    @property
    def is_watched(self) -> bool:
        """Return whether the web page is open somewhere."""
        return self.recording is not None and self.recording.feed.followers > 0

    def without_secrets(self, arguments: bytes, longest: int = LONGEST_SHOWN) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long."""
        from tabane.audit.redaction import ArgumentRedactor

        redactor = ArgumentRedactor(longest, self._secret_names)
        redactor.hide(*self._hidden)
        return redactor.redact(arguments)

    def settings_changed(self) -> None:
        """Note that the settings or the servers file were read again."""
        if self.recording is not None:
            self.recording.settings_changed()

    def table(self) -> list[Operation]:
        """Return the operations on live calls."""
        from tabane.hub.telemetry.live_table import live_table

        return live_table(self._operations)
