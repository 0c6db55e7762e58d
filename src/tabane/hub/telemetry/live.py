"""The events in a hub, for those who watch it. Nothing is recorded before somebody does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING

from tabane.operations import Access, Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.catalog.gateway import Gateway
    from tabane.hub.telemetry.event_feed import LiveEvent, Topic
    from tabane.hub.telemetry.live_recording import LiveOperations, LiveRecording
    from tabane.hub.telemetry.metering import HubMeter
    from tabane.hub.work.jobs import Jobs

LONGEST_SHOWN = 8 << 10
"""Bytes of the arguments of a call that a person is shown before approving it."""

_FACES = frozenset({Face.RPC, Face.CLI})


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

    def changed(self, topic: Topic) -> None:
        """Note that something of a topic changed, also without a call of an operation."""
        if self._recording is not None:
            self._recording.changed(topic)

    def approvals_changed(self) -> None:
        """Note that a call waits for a person, or that an approval changed."""
        self.changed("approvals")

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
        from tabane.hub.telemetry import live_parameters as given

        return [
            _look(
                "list_live_calls", "Calls that run and the last ones that ended, the latest first. Calls are "
                "recorded from the first use of this operation or of the web page on.",
                given.ListLiveCalls, lambda c, p: self._handlers().calls(c, p),
            ),
            _look(
                "show_live_call", "One of these calls: arguments and result without secrets, and its times.",
                given.ShowLiveCall, lambda c, p: self._handlers().show(c, p),
            ),
            _look(
                "get_activity", "Calls by the second: their number, failures and times.",
                given.GetActivity, lambda c, p: self._handlers().activity(c, p),
            ),
        ]  # fmt: skip

    def _handlers(self) -> LiveOperations:
        self.attach()
        assert self._operations is not None
        return self._operations


def _look(name: str, description: str, params: type, handler: object) -> Operation:
    return Operation(
        name, description, params, handler, _FACES, Privilege.READ, read_only=True, source="admin"  # type: ignore[arg-type]
    )  # fmt: skip
