"""Debug lines of a bridge on standard error, if LOG_LEVEL is debug or trace."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Mapping

from tabane.hub.bridge import message_heads

STDERR = 2
_LONGEST = 500  # characters: such a line is written as a whole or not at all

Debug = Callable[[str], None]


def debug_of(environ: Mapping[str, str]) -> Debug | None:
    """Return a function that writes a line; None if debugging is off."""
    level = environ.get("TABANE_LOG_LEVEL") or environ.get("LOG_LEVEL") or ""
    return _write if level.lower() in ("debug", "trace") else None


def of_client(line: bytes) -> str:
    """Describe a client's line without its content: method and id."""
    return ", ".join(
        f"{head.method or 'answer'}{'' if head.id is None else ' ' + head.id.decode()}"
        for head in message_heads.of_client(line)
    )


def of_hub(line: bytes) -> str:
    """Describe a hub's line without its content: the request that it answers, and its size."""
    answers = [
        f"{'error for' if each.failed else 'answer to'} {each.id.decode()}"
        for each in message_heads.of_hub(line)
    ]
    return f"{', '.join(answers) or 'notification'} ({len(line)} bytes)"


def _write(text: str) -> None:
    """Write a line to standard error. It may be a pipe that nobody reads: then the line is dropped."""
    poll = select.poll()
    poll.register(STDERR, select.POLLOUT)
    stamp = time.strftime("%Y-%m-%d %H:%M:%S")
    line = f"{stamp} DEBUG tabane.mcp: {text[:_LONGEST]}\n".encode(errors="backslashreplace")
    if any(event & select.POLLOUT for _, event in poll.poll(0)):
        try:
            os.write(STDERR, line)
        except OSError:
            return
