"""Downloads for servers that run in a cage or in a container.

A download happens outside the cage, but into the caches that the server has in it.
"""

from __future__ import annotations

from collections.abc import Callable

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message
from tabane.servers.server import Server
from tabane.upstreams.launching.package_downloads import OnProgress, PreparedStart, StartPreparation


class CagedDownloads:
    """Prepares starts as ``inner`` does, of servers as ``dressed`` returns them for their cage."""

    def __init__(self, inner: StartPreparation, dressed: Callable[[Server], Server]) -> None:
        self._inner, self._dressed = inner, dressed

    async def prepare(self, server: Server, on_progress: OnProgress) -> PreparedStart:
        return await self._inner.prepare(self._dressed(server), on_progress)

    def ended(self, server: Server, failure: Message | None) -> None:
        try:
            dressed = self._dressed(server)
        except UpstreamUnavailable:
            return  # nothing was prepared
        self._inner.ended(dressed, failure)

    def limits_changed(self) -> None:
        self._inner.limits_changed()
