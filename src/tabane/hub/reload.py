"""The files that a running hub follows: a change takes effect within two seconds, a fault never does.

Each second, the hub compares inode, size and time of change (of permissions too). These are three calls of
stat on every platform, and editors that replace a file are no special case.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from tabane.errors import TabaneError
from tabane.gateway.servers.configuration import ServersConfiguration
from tabane.hub.servers import read_servers
from tabane.messages import Message
from tabane.settings import Settings, load_settings

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks at the files."""

FIXED = (
    *("home", "config", "servers", "keyring", "start_servers", "log_size", "log_files", "stuck_after"),
    *("http", "host", "port", "http_token", "embedding_cache"),
    *("posts_embeddings", "posts_reasoning", "posts_summary"),
)
"""Settings that a running hub keeps: a change of them waits for the next start."""

_Stamps = tuple[tuple[int, int, int] | None, ...]


class FileFollower:
    """Calls ``reload`` when one of ``files`` has changed; ``problem`` is why the last change is not in force.

    ``reload`` raises TabaneError where the files are wrong; what was in force before then stays so.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, files: Callable[[], Iterable[Path]], reload: Callable[[], None]
    ) -> None:
        self._loop, self._files, self._reload = loop, files, reload
        self._state = self._seen()
        self._timer: asyncio.TimerHandle | None = None
        self.problem: Message | None = None

    def start(self) -> None:
        self._timer = self._loop.call_later(LOOK, self._look)

    def close(self) -> None:
        if self._timer:
            self._timer.cancel()

    def now(self) -> None:
        """Read the files now, changed or not."""
        self._state = self._seen()
        try:
            self._reload()
        except TabaneError as error:
            self.problem = error.message
            log.error("the change is not in force; what was before it stays: %s", error)
        else:
            if self.problem:
                log.info("the files are in order again")
            self.problem = None

    def _look(self) -> None:
        if self._seen() != self._state:
            self.now()
        self.start()

    def _seen(self) -> _Stamps:
        return tuple(_stamp(file) for file in self._files())


def _stamp(file: Path) -> tuple[int, int, int] | None:
    try:
        stat = os.stat(file)
    except OSError:
        return None
    # ctime, since a change of permissions is a change too.
    return stat.st_ino, stat.st_size, stat.st_ctime_ns


def read_again(current: Settings, environment: Mapping[str, str]) -> tuple[Settings, ServersConfiguration]:
    """Return settings and servers as their files have them now. Raises TabaneError.

    Flags of the command line and settings in :data:`FIXED` stay as they are.
    """
    flags = {
        name: getattr(current, name) for name, source in current.sources.items() if source.kind == "flag"
    }
    settings = load_settings(flags, environment)
    for name in FIXED:
        if getattr(settings, name) != getattr(current, name):
            log.warning("%s takes effect with the next start: tabane restart", name)
    settings = replace(settings, **{name: getattr(current, name) for name in FIXED})
    return settings, read_servers(settings, environment)
