"""The watchdog: ends a hub whose event loop stopped responding, and keeps the stacks of its threads.

Two guards watch the loop, since each sees what the other cannot:

- A thread counts the steps in which the loop did nothing. It sees a loop that waits or computes, and
  writes the stacks.
- A timer of CPU time (``ITIMER_PROF``) is armed again by the loop. It ends a hub whose interpreter is
  held by native code or by a regular expression, where no other thread of Python runs. Its signal is
  handled by :mod:`faulthandler`, in C.

``faulthandler.dump_traceback_later`` is not used: its clock goes on while the process is stopped
(SIGSTOP, a frozen container, and on macOS sleep), so it would end a healthy hub the moment that hub
continues. A stop costs the thread one step, and the timer nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import os
import signal
import threading
import time

from tabane.hub.local import endpoint

STATUS = 70
"""Exit status of a hub that the thread ended; the timer ends it by SIGPROF."""

STEPS = 10
"""Steps without an iteration of the loop after which it counts as stuck."""

HELD = 5.0
"""Seconds after which a process that is to end is ended by a signal."""

CPU = 2.0
"""CPU time that the timer allows, as a multiple of the limit: threads of native code use CPU time too."""


def end_within(seconds: float) -> None:
    """End this process after ``seconds``, whatever its threads do: an ending hub must not wait for them.

    A thread ends it with status 0. If none can run, because one holds the interpreter, SIGALRM ends it later.
    """
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds + HELD)
    timer = threading.Timer(seconds, os._exit, (0,))
    timer.daemon = True
    timer.start()


class Watchdog:
    """Ends the process if ``loop`` is blocked for ``limit`` seconds; 0 turns it off.

    The dump goes to the file of this process in the folder ``logs``.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: float, logs: str) -> None:
        self._loop, self._limit = loop, limit
        self._path = endpoint.file_of(logs, os.getpid())
        self._beats = 0
        self._over = threading.Event()
        self._next: asyncio.TimerHandle | None = None
        self._fd = -1

    def start(self) -> None:
        """Begin to watch. Raises OSError if the file of the dump cannot be created."""
        if not self._limit:
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._fd = os.open(self._path, flags, 0o600)
        # Chained to the default action of SIGPROF, which ends the process.
        faulthandler.register(signal.SIGPROF, file=self._fd, all_threads=True, chain=True)
        self._beat()
        threading.Thread(target=self._watch, name="watchdog", daemon=True).start()

    def stop(self) -> None:
        """Stop watching. May be called twice."""
        self._over.set()
        if self._next is not None:
            self._next.cancel()
            self._next = None
            signal.setitimer(signal.ITIMER_PROF, 0)
            with contextlib.suppress(OSError):
                os.unlink(self._path)

    def _beat(self) -> None:
        self._beats += 1
        signal.setitimer(signal.ITIMER_PROF, self._limit * CPU)
        self._next = self._loop.call_later(self._limit / STEPS, self._beat)

    def _watch(self) -> None:
        seen, silent = 0, 0
        while not self._over.wait(self._limit / STEPS):
            # Counted as one step, however long it took: the process may have been stopped meanwhile.
            silent = silent + 1 if seen == self._beats else 0
            seen = self._beats
            if silent >= STEPS:
                head = f"{time.strftime('%Y-%m-%d %H:%M:%S')} no response for {self._limit:g} s\n"
                try:
                    os.write(self._fd, head.encode())
                    faulthandler.dump_traceback(self._fd, all_threads=True)
                finally:
                    os._exit(STATUS)
