"""Signals that can be polled together with descriptors."""

from __future__ import annotations

import os
import select
import signal


class BridgeStopped(Exception):
    """The bridge has to end now: the client is gone, or a second signal came."""


class Signals:
    """SIGTERM, SIGINT and SIGHUP as something to poll for: ``fd`` can be read once one has come."""

    def __init__(self) -> None:
        self.fd, self._waker = os.pipe()
        os.set_blocking(self._waker, False)
        signal.set_wakeup_fd(self._waker, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)

    def pause(self, seconds: float, fd: int = -1) -> None:
        """Wait for ``seconds``, or until ``fd`` can be read. Raises :class:`BridgeStopped` at a signal."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        if fd >= 0:
            poll.register(fd, select.POLLIN)
        if any(found == self.fd for found, _ in poll.poll(seconds * 1000)):
            raise BridgeStopped
