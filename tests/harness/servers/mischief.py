"""Misbehavior of child.py besides its answers: orphaned processes, floods, noise."""

from __future__ import annotations

import os
import signal
import sys
import threading

NOISE = (
    b"\xff\xfe broken \xc3(\n",  # not UTF-8
    b'{\n  "jsonrpc": "2.0",\n  "method": "pretty"\n}\n',  # an object over several lines
    b'[1, 2, 3]\n"text"\nnull\n42\n',  # JSON, but no message
    b"\n",
    b'{"jsonrpc": "2.0", "id": 1, "resu\n',
)


def note(path: str | None, kind: str, pid: int) -> None:
    """Add a line to the file of --pids."""
    if path is not None:
        with open(path, "a") as file:
            file.write(f"{kind} {pid}\n")


def grandchild(kind: str, pids: str | None, stubborn: bool) -> None:
    """Start a process that lives for ever, and return when it has noted its pid."""
    heard, tell = os.pipe()
    if os.fork() == 0:
        os.close(heard)
        if kind != "group":
            os.setsid()
            if os.fork():
                os._exit(0)
        if kind == "nameless":
            # A new program, since the environment shown in /proc is that of the last exec.
            program = [sys.executable, "-I", "-S", __file__, str(tell), kind, pids or "", str(int(stubborn))]
            os.set_inheritable(tell, True)
            os.execve(sys.executable, program, {})
        _live(tell, kind, pids, stubborn)
    os.close(tell)
    os.read(heard, 1)
    os.close(heard)
    if kind != "group":
        os.wait()


def _live(tell: int, kind: str, pids: str | None, stubborn: bool) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if stubborn else signal.SIG_DFL)
    note(pids, kind, os.getpid())
    os.write(tell, b".")
    os.close(tell)
    while True:
        signal.pause()


def flood(size: int) -> None:
    """Write ``size`` bytes to stderr in a thread, as fast as they go; 0 means without end."""
    line = b"flood " * 20 + b"\n"

    def run() -> None:
        left = size
        while size == 0 or left > 0:
            left -= os.write(2, line * 500 if size == 0 else line * max(1, min(500, left // len(line))))

    threading.Thread(target=run, daemon=True).start()


def write_noise(banner: str | None, babble: int) -> None:
    """Lines on stdout that are no messages."""
    if banner is not None:
        os.write(1, banner.encode() + b"\n")
    if babble:
        sys.stdout.buffer.write(b"x" * babble + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    _live(int(sys.argv[1]), sys.argv[2], sys.argv[3] or None, sys.argv[4] == "1")
