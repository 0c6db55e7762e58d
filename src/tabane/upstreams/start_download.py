"""Download of a package before its server starts: how far it is, and who waits for it."""

from __future__ import annotations

from collections.abc import Callable

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server import Server
from tabane.upstreams.launching.package_downloads import PackageProgress, PreparedStart, StartPreparation
from tabane.upstreams.waiting_calls import WaitingCalls

DOWNLOAD_WAIT = 5.0
"""Seconds that a call waits for a download. After that its answer says how far the download is."""


class StartDownload:
    """The download for one start of a server; ``progress`` is None if none runs.

    ``on_change`` is called when a download has begun, went on, or has been declared finished. Without a
    ``preparation``, nothing is ever downloaded.
    """

    def __init__(
        self, server: Server, preparation: StartPreparation | None, on_change: Callable[[], None]
    ) -> None:
        self._server, self._preparation, self._on_change = server, preparation, on_change
        self.progress: PackageProgress | None = None

    async def prepare(self) -> PreparedStart:
        """Download what the server runs, unless it is there. Raises UpstreamUnavailable."""
        if self._preparation is None:
            return PreparedStart(self._server)
        return await self._preparation.prepare(self._server, self._show)

    def finished(self) -> None:
        """Show that nothing is downloaded any longer: the server itself is started now."""
        self._show(None)

    def forget(self) -> None:
        """Forget the download, because the start is over."""
        self.progress = None

    def ended(self, failure: Message | None) -> None:
        """Note how the start went; None if the server works."""
        self.forget()
        if self._preparation is not None:
            self._preparation.ended(self._server, failure)

    @property
    def trouble(self) -> Message | None:
        """Return how far it is; None if none runs."""
        if self.progress is None:
            return None
        return say("{server!n}: {progress}", server=self._server.name, progress=self.progress.describe())

    @property
    def refusal(self) -> UpstreamUnavailable | None:
        """Return the error for who cannot wait for it; None if none runs."""
        if self.progress is None:
            return None
        return UpstreamUnavailable(say(
            "{server!n} is being installed for its first start: {progress} Try again in a minute.",
            server=self._server.name, progress=self.progress.describe()))  # fmt: skip

    def refuse(self, calls: WaitingCalls, limit: float) -> None:
        """Answer the calls that have waited long enough: a download may take minutes.

        ``limit`` is the deadline, without its own timeout, of a call that has waited that long.
        """
        failure = self.refusal
        if failure is not None:
            calls.refuse_those(lambda call: call.deadline <= limit + call.timeout, failure)

    def _show(self, progress: PackageProgress | None) -> None:
        self.progress = progress
        self._on_change()
