"""Values of the preparation of a start: limits and progress of a download, and the connected cages.

This is loaded with the hub. The downloads themselves are loaded with the first server that is a program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Struct, field

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server import Server

if TYPE_CHECKING:
    from tabane.guard.cages.cages import Cages

DOWNLOADS = 4
"""Downloads at the same time."""


class DownloadLimits(NamedTuple):
    """Seconds for one download, and how many may run at the same time."""

    seconds: float = 600.0
    places: int = DOWNLOADS


class PackageProgress(Struct):
    """A download that runs. ``began`` is by the monotonic clock, ``written`` in bytes, None if unknown.

    ``waits``: it waits for a free place, or until another start of the same package has downloaded it.
    """

    package: str
    began: float = field(default_factory=time.monotonic)
    waits: bool = True
    written: int | None = None
    line: str = ""

    @property
    def seconds(self) -> float:
        """Return the seconds since it began."""
        return time.monotonic() - self.began

    def describe(self) -> Message:
        """Return a sentence about how far it is."""
        words: dict[str, Any] = {"package": self.package, "seconds": self.seconds}
        if self.waits:
            return say("{package} waits for other downloads ({seconds:.0f} s so far).", **words)
        if self.written:
            return say("{package} is being downloaded ({seconds:.0f} s, {size:.0f} MB so far).",
                       **words, size=self.written / 1e6)  # fmt: skip
        return say("{package} is being downloaded ({seconds:.0f} s so far).", **words)


class PreparedStart(Struct, frozen=True):
    """A server as it is to be started now. ``downloads``: the start itself downloads, and may take long."""

    server: Server
    downloads: bool = False


OnProgress = Callable[[PackageProgress], None]


class ConnectedCages:
    """Cages and containers of servers.

    ``cages`` returns the builder; it is called only for a server that has a sandbox or an image. None if
    there are no cages.
    """

    def __init__(self, cages: Callable[[], Cages] | None) -> None:
        self._cages = cages

    @property
    def builder(self) -> Cages:
        """Return what builds cages. Raises UpstreamUnavailable if there is none."""
        if self._cages is None:
            raise UpstreamUnavailable(say("A server with a sandbox can only be started by a hub."))
        return self._cages()

    def dress(self, server: Server) -> Server:
        """Return a server as it is downloaded and started: with the caches of its cage, or as a container."""
        if server.sandbox is None and not server.image:
            return server
        return self.builder.dressed(server)

    def describe(self, server: Server) -> dict[str, Any] | None:
        """Return the cage of a server for programs; None if it has none. Blocks."""
        if server.sandbox is None and not server.image:
            return None
        return self.builder.describe(server)

    def pin(self, servers: Sequence[Server]) -> None:
        """Record where the paths of sandboxes lead that a person has written. Blocks."""
        for server in servers:
            if server.sandbox is not None:
                self.builder.pin(server)
