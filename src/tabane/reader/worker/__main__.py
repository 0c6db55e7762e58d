"""The converting process: ``python -m tabane.reader.worker BYTES``, what it is asked on descriptor 0.

``BYTES`` is the address space it may have. It ends with the pipe that the questions come by, and by itself
where a page has left it large: memory that was once had is seldom given back.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
from typing import BinaryIO

from tabane.errors import ReadError
from tabane.messages import say
from tabane.reader.types import page_of
from tabane.reader.worker.frames import Ask, Failed, Made, Report, asked, length, pack

_LARGE = 500_000_000  # bytes of memory after which a process is followed by a fresh one


def answer(ask: Ask) -> Report:
    """The page that was asked for, or why there is none. Raises nothing."""
    try:
        return Made(page_of(ask.body, ask.url, ask.media_type, ask.charset, ask.name))
    except ReadError as error:
        return Failed(error.message, error.cause)
    except MemoryError:
        return Failed(say("The page needs more memory than there is for one."), "large", ending=True)
    except RecursionError:
        return Failed(say("The page is nested too deep to be read."), "broken")
    except Exception as error:  # whatever a library makes of a page that is not as it should be
        print(f"{ask.url}: {type(error).__name__}: {error}", file=sys.stderr)
        reason = f"{type(error).__name__}: {error}"[:300]
        return Failed(say("The page cannot be converted: {reason}", reason=reason), "broken")


def _framed(report: Report) -> bytes:
    try:
        return pack(report)
    except ValueError:
        return pack(Failed(say("The page is too long to be handed on."), "large"))
    except MemoryError:
        return pack(Failed(say("The page needs more memory than there is for one."), "large", ending=True))


def _serve(questions: BinaryIO, reports: BinaryIO) -> None:
    while len(head := questions.read(4)) == 4:
        size = length(head)
        body = questions.read(size)
        if len(body) < size:
            return
        ask = asked(body)
        del body
        _allow(ask.seconds)
        report = answer(ask)
        reports.write(_framed(report))
        reports.flush()
        if isinstance(report, Failed) and report.ending:
            return
        del ask, report
        if _held() > _LARGE:
            return


def _held() -> int:
    """Bytes of memory that the process holds now, or has held at most where that is not told."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _allow(seconds: int) -> None:
    """End the process by SIGXCPU after so much more work: where the hub that would kill it is gone."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    most = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(
        resource.RLIMIT_CPU, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard)
    )


def _confine(memory: int) -> None:
    """No more memory than that, and no file of what it was when it crashed."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if memory and (hard == resource.RLIM_INFINITY or memory < hard):
        try:
            resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
        except (ValueError, OSError):
            return  # macOS knows the limit and does not take it


def main() -> None:
    """Descriptor 1 is for reports alone: what a library prints goes where its errors go."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the hub ends first, and the pipe with it
    reports = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _confine(int(sys.argv[1]) if len(sys.argv) > 1 else 0)
    with contextlib.suppress(BrokenPipeError):  # nobody listens any more
        _serve(os.fdopen(0, "rb"), reports)
    os._exit(0)


if __name__ == "__main__":
    main()
