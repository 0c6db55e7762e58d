"""The events in a hub, for those who watch it. Nothing is recorded before somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from tabane.operations import Access, Operation

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway
    from tabane.hub.telemetry.event_feed import LiveEvent
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
        self._loop, self._meter, self._gateway, self._jobs = loop, meter, gateway, jobs
        self._secret_names = secret_names
        self._hidden: tuple[Iterable[str], Callable[[str], str]] = (), str
        self._recording: LiveRecording | None = None
        self._operations: LiveOperations | None = None

    @property
    def recording(self) -> LiveRecording | None:
        """Return the recording; None before it has begun."""
        return self._recording

    def attach(self) -> LiveRecording:
        """Begin to record if that has not begun, and return the recording."""
        if self._recording is None:
            from tabane.hub.telemetry.live_recording import LiveOperations, LiveRecording

            self._recording = LiveRecording(self._loop, self._meter, self._gateway, self._jobs)
            self._operations = LiveOperations(self._recording, self._secret_names)
            self._operations.hide(*self._hidden)
        return self._recording

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
        if self._operations is not None:
            self._operations.hide(secrets, replaced)

    def document_changed(self) -> None:
        """Note that a document has changed, also without a call: its file has."""
        if self._recording is not None:
            self._recording.document_changed()

    def questions_changed(self) -> None:
        """Note that a server asked something, or that a question is over."""
        if self._recording is not None:
            self._recording.questions_changed()

    def flows_changed(self) -> None:
        """Note that a client has read something new, or that pairs or trails changed."""
        if self._recording is not None:
            self._recording.flows_changed()

    def approvals_changed(self) -> None:
        """Note that a call waits for a person, or that an approval changed."""
        if self._recording is not None:
            self._recording.approvals_changed()

    @property
    def is_watched(self) -> bool:
        """Return whether the web page is open somewhere."""
        return self._recording is not None and self._recording.feed.followers > 0

    def without_secrets(self, arguments: bytes) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long."""
        from tabane.audit.redaction import ArgumentRedactor

        redactor = ArgumentRedactor(LONGEST_SHOWN, self._secret_names)
        redactor.hide(*self._hidden)
        return redactor.redact(arguments)

    def settings_changed(self) -> None:
        """Note that the settings or the servers file were read again."""
        if self._recording is not None:
            self._recording.settings_changed()

    def table(self) -> list[Operation]:
        """Return the operations on live calls."""
        from tabane.hub.telemetry.live_table import live_table

        return live_table(self._handlers)

    def _handlers(self) -> LiveOperations:
        self.attach()
        assert self._operations is not None
        return self._operations
