"""A worker for tests that does what its request says: ``python -m tests.workers.child``."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

from tabane.workers.frames import REQUEST, answer, request_head
from tabane.workers.serving import LastAnswer, serve


def spin() -> bytes:
    while True:
        pass


def spin_in_c() -> bytes:
    """Never return to the interpreter, which is what a regular expression that backtracks does."""
    re.fullmatch("(a|aa)+$", "a" * 100_000 + "b" * 2)
    re.fullmatch("(a+)+$", "a" * 60 + "b")
    return b"done"


def grow() -> bytes:
    held = [bytearray(50_000_000) for _ in range(100)]
    return str(len(held)).encode()


def wait(path: str) -> bytes:
    """Wait until a file exists: the request is pending as long as a test needs."""
    while not Path(path).exists():
        time.sleep(0.005)
    return b"waited"


def burn(path: str) -> bytes:
    """Compute until a file exists."""
    while not Path(path).exists():
        sum(range(10_000))
    return b"burned"


def break_off() -> None:
    """Answer with the beginning of a long answer, and with a little more when a file is there.

    An empty request is answered.
    """
    os.write(1, answer(0))
    while len(head := os.read(0, REQUEST.size)) == REQUEST.size:
        length = request_head(head).length
        path = os.read(0, length).decode() if length else ""
        os.write(1, answer(100_000_000 if path else 0))
        if path:
            for _ in range(160):
                os.write(1, bytes(50_000))
            Path(path + ".begun").touch()
            wait(path)
            os.write(1, bytes(1_000))
            Path(path + ".more").touch()
            spin()


def respond(body: bytes) -> bytes:
    verb, _, rest = body.decode().partition(" ")
    if verb == "wait":
        return wait(rest)
    if verb == "burn":
        return burn(rest)
    if verb == "last":
        return LastAnswer(b"last")
    if verb == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if verb == "once" and not Path(rest).exists():
        Path(rest).touch()
        os.abort()
    if verb == "print":
        print(rest, flush=True)
    if verb == "environ":
        return "\n".join(sorted(os.environ)).encode()
    if verb == "pid":
        return str(os.getpid()).encode()
    return {"spin": spin, "c": spin_in_c, "grow": _grown}.get(verb, lambda: body)()


def _grown() -> bytes:
    try:
        return grow()
    except MemoryError:
        return LastAnswer(b"no memory")


if __name__ == "__main__":
    if "broken" in sys.argv:
        sys.exit(3)
    if "long" in sys.argv:
        break_off()
    serve(respond)
