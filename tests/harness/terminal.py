"""A command on a real terminal: its output while it runs, keys, and Ctrl+C."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.harness.home import Home
from tests.harness.patience import LONG, wait_until


class OnTerminal:
    """A command on a terminal, read as it goes."""

    def __init__(self, home: Home, *arguments: str, script: str | None = None) -> None:
        self.out = ""
        # A character may come in two parts.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.fd, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, *([script] if script else ["-m", "tabane"]), *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**home.environment, "TERM": "xterm"},
            cwd=home.folder,
            start_new_session=True,
            preexec_fn=lambda: claim(theirs),
        )
        os.close(theirs)

    def read_until(self, words: str, limit: float = LONG) -> None:
        deadline = time.monotonic() + limit
        while words not in self.out:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{words!r} did not come: {self.out!r}"
            try:
                part = os.read(self.fd, 1 << 16)
            except OSError:
                # Linux says EIO for a terminal that nobody has open any more.
                raise AssertionError(f"It ended before {words!r} came: {self.out!r}") from None
            self.out += self._decoder.decode(part)

    def answer(self, question: str, words: str, *, hidden: bool = False, limit: float = LONG) -> None:
        """Type a line when the question has come.

        A question for hidden words is written before the terminal stops to echo, and what was typed until
        then is discarded. So the line is typed after that.
        """
        self.read_until(question, limit)
        if hidden:
            wait_until(
                lambda: not termios.tcgetattr(self.fd)[3] & termios.ECHO, "the terminal echoes nothing"
            )
        os.write(self.fd, f"{words}\n".encode())

    def shows(self, words: str) -> bool:
        """Whether that has been written by now."""
        while select.select([self.fd], [], [], 0)[0]:
            self.out += self._decoder.decode(os.read(self.fd, 1 << 16))
        return words in self.out

    def end(self, limit: float = LONG) -> None:
        """Read to the end, and wait for the process."""
        deadline = time.monotonic() + limit
        while True:
            ready, _, _ = select.select([self.fd], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"it does not end: {self.out!r}"
            try:
                part = os.read(self.fd, 1 << 16)
            except OSError:
                break
            if not part:
                break
            self.out += self._decoder.decode(part)
        self.process.wait(LONG)


def claim(fd: int) -> None:
    """Make the terminal the one whose Ctrl+C this session gets."""
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


@contextmanager
def on_terminal(home: Home, *arguments: str, script: str | None = None) -> Iterator[OnTerminal]:
    """`tabane ARGUMENTS`, or a Python script with them, on a terminal while the block runs."""
    terminal = OnTerminal(home, *arguments, script=script)
    try:
        yield terminal
    finally:
        if terminal.process.poll() is None:
            os.killpg(terminal.process.pid, signal.SIGKILL)
            terminal.process.wait()
        os.close(terminal.fd)
