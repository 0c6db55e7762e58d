"""A worker's own side: requests on descriptor 0, answers on descriptor 1, under limits of the system.

The system enforces each limit, since C code does not check any: SIGPROF ends a request that has used its CPU
time, and address space beyond the limit is refused. A worker ends when the pipe of its requests is closed,
so none outlives the hub. If it is then busy in code that holds the interpreter, the CPU limit ends it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable
from typing import BinaryIO

from tabane.workers.frames import REQUEST, answer, request_head

LARGE = 500_000_000
"""Bytes of memory above which a worker ends itself, so that a fresh one follows."""


class Last(bytes):
    """An answer after which the worker ends."""


Respond = Callable[[bytes], bytes]
"""Turns the body of a request into that of its answer, or into a Last if the worker should end."""


def serve(respond: Respond, *, large: int = LARGE, nice: int = 0) -> None:
    """Answer requests until the hub wants no more, and end the process.

    The first argument of the program is its limit of address space in bytes, 0 for none (only Linux enforces
    it). ``nice`` lowers its priority below the hub's. Output of libraries goes to stderr: descriptor 1 is
    only for answers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the hub ends first, and the pipe with it
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.nice(nice)
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _confine(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    threading.Thread(target=_end_with_the_hub, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the hub no longer listens
        _answer_all(os.fdopen(0, "rb"), answers, respond, large)
    os._exit(0)


def _answer_all(requests: BinaryIO, answers: BinaryIO, respond: Respond, large: int) -> None:
    _say(answers, b"")
    while len(head := requests.read(REQUEST.size)) == REQUEST.size:
        length, seconds = request_head(head)
        body = requests.read(length)
        if len(body) < length:
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)
        reply = respond(body)
        signal.setitimer(signal.ITIMER_PROF, 0)
        del body
        last = isinstance(reply, Last) or held() > large
        _say(answers, reply, last=last)
        if last:
            return


def _say(answers: BinaryIO, body: bytes, *, last: bool = False) -> None:
    answers.write(answer(len(body), last=last))
    answers.write(body)
    answers.flush()


def held() -> int:
    """Return the bytes of memory of this process, or its highest value if that is not known."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _end_with_the_hub() -> None:
    """End the process at once when the other end of its requests is closed, whatever it is doing."""
    poll = select.poll()
    poll.register(0, 0)  # only errors and the end of the pipe, which are always reported
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll()):
        pass
    os._exit(0)


def _confine(memory: int) -> None:
    """Limit address space, and write no core file after a crash."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if memory and (hard == resource.RLIM_INFINITY or memory < hard):
        with contextlib.suppress(ValueError, OSError):  # macOS knows the limit and does not take it
            resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
