"""A worker's own side: requests on descriptor 0, answers on descriptor 1.

:func:`serve` answers one request at a time, under limits of the system, since C code does not check any:
SIGPROF ends a request that has used its CPU time, and address space beyond the limit is refused.
:func:`serve_loaded` loads something once and answers several requests at the same time. Both end when the
pipe of the requests is closed, so no worker outlives the hub. If one is then busy in code that holds the
interpreter, the CPU limit ends it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

import msgspec

from tabane.workers.frames import REQUEST, AnswerKind, RequestHead, WorkerRefusal, answer, request_head

LARGE = 500_000_000
"""Bytes of memory above which a worker ends itself, so that a fresh one follows."""


class LastAnswer(bytes):
    """An answer after which the worker ends."""


Respond = Callable[[bytes], bytes]
"""Turns the body of a request into that of its answer, or into a LastAnswer if the worker should end."""

ReportProgress = Callable[[bytes], None]
"""Reports to the hub that a request is in work, and its progress."""


@dataclass(frozen=True, slots=True)
class LoadedService:
    """The loaded program. ``greeting`` is the answer to the opening.

    ``respond`` turns a request into its result, in two threads at once. The process ends after ``idle``
    seconds without work, 0 for never.
    """

    greeting: bytes
    respond: Callable[[bytes, ReportProgress], bytes | bytearray]
    idle: float = 0.0


def serve(respond: Respond, *, large: int = LARGE, nice: int = 0) -> None:
    """Answer requests until the hub wants no more, and end the process.

    The first argument of the program is its limit of address space in bytes, 0 for none (only Linux enforces
    it). ``nice`` lowers its priority below the hub's. Output of libraries goes to stderr: descriptor 1 is
    only for answers.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    os.nice(nice)
    requests, answers = _open_pipes()
    threading.Thread(target=_end_with_the_hub, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # the hub no longer listens
        _answer_all(requests, answers, respond, large)
    os._exit(0)


def serve_loaded(load: Callable[[bytes], LoadedService]) -> None:
    """Load what the first request says, then answer others until the hub wants no more or nothing is to do.

    Urgent requests are answered beside the others, not after them: the others have a lower priority, and
    pause when they report progress. What ``load`` or a response raises is sent as a refusal; the process ends
    only after the former. Arguments and output as for :func:`serve`.
    """
    sys.setswitchinterval(_SWITCH)
    requests, answers = _open_pipes()
    _LoadedServer(requests, answers).run(load)
    sys.stdout.flush()
    os._exit(0)


_SWITCH = 0.001  # seconds that a thread holds the interpreter while another one waits for it
_NICE = 5  # of the thread for requests that are not urgent
_LONGEST_PAUSE = 1.0  # seconds that such a request pauses for urgent ones: it must get on too


class _LoadedServer:
    """Answers in two threads: one for urgent requests, one for the rest. A third one reads."""

    def __init__(self, requests: BinaryIO, answers: BinaryIO) -> None:
        self._requests, self._answers = requests, answers
        self._saying = threading.Lock()
        self._urgent: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._others: queue.SimpleQueue[tuple[int, bytes]] = queue.SimpleQueue()
        self._unanswered = self._hurried = 0
        self._changed = threading.Condition()

    def run(self, load: Callable[[bytes], LoadedService]) -> None:
        self._send_answer(b"")
        opening = _read_request(self._requests)
        if opening is None:
            return
        number = opening[0].number
        try:
            service = load(opening[1])
        except Exception as error:  # whatever a library makes of a file that is not as it should be
            self._send_answer(_encode_refusal(error), number, AnswerKind.REFUSED)
            return
        self._send_answer(service.greeting, number)
        threading.Thread(
            target=self._answer_requests, args=(service, self._urgent, self._send_progress), daemon=True
        ).start()
        threading.Thread(target=self._answer_patiently, args=(service,), daemon=True).start()
        threading.Thread(target=self._read_all, daemon=True).start()
        with self._changed:  # until there was no work for ``idle`` seconds; forever if that is 0
            while True:
                if self._unanswered or not service.idle:
                    self._changed.wait()
                elif not self._changed.wait(service.idle) and not self._unanswered:
                    return

    def _read_all(self) -> None:
        try:
            while (taken := _read_request(self._requests)) is not None:
                with self._changed:
                    self._unanswered += 1
                    self._hurried += taken[0].urgent
                head, body = taken
                (self._urgent if head.urgent else self._others).put((head.number, body))
        finally:
            os._exit(0)  # the hub has gone, or wants nothing more

    def _answer_requests(
        self,
        service: LoadedService,
        waiting: queue.SimpleQueue[tuple[int, bytes]],
        progress: Callable[[int, bytes], None],
    ) -> None:
        while True:
            number, body = waiting.get()
            try:
                result = service.respond(body, partial(progress, number))
                self._send_answer(result, number)
            except Exception as error:  # the library's own kinds; the process can go on
                self._send_answer(_encode_refusal(error), number, AnswerKind.REFUSED)
            with self._changed:
                self._unanswered -= 1
                self._hurried -= waiting is self._urgent
                self._changed.notify_all()

    def _answer_patiently(self, service: LoadedService) -> None:
        """Answer what is not urgent. On Linux, a priority is that of one thread; elsewhere, it stays."""
        if sys.platform == "linux":
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        self._answer_requests(service, self._others, self._send_progress_patiently)

    def _send_progress_patiently(self, number: int, report: bytes) -> None:
        """Report progress, and let urgent requests pass."""
        self._send_progress(number, report)
        with self._changed:
            self._changed.wait_for(lambda: not self._hurried, _LONGEST_PAUSE)

    def _send_progress(self, number: int, report: bytes) -> None:
        self._send_answer(report, number, AnswerKind.PROGRESS)

    def _send_answer(
        self, body: bytes | bytearray, number: int = 0, kind: AnswerKind = AnswerKind.RESULT
    ) -> None:
        with self._saying:
            try:
                _send_answer(self._answers, body, number=number, kind=kind)
            except BrokenPipeError:
                os._exit(0)  # the hub no longer listens


def _encode_refusal(error: Exception) -> bytes:
    if isinstance(error, ImportError):
        return msgspec.msgpack.encode(WorkerRefusal(str(error), error.name or ""))
    return msgspec.msgpack.encode(WorkerRefusal(f"{type(error).__name__}: {error}"))


def _open_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Prepare the process; return the pipe of requests and that of answers.

    Limits address space, and writes no core file after a crash.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of the terminal: the hub ends first, and the pipe with it
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    memory = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    if memory and (hard == resource.RLIM_INFINITY or memory < hard):
        with contextlib.suppress(ValueError, OSError):  # macOS knows the limit and does not take it
            resource.setrlimit(resource.RLIMIT_AS, (memory, hard))
    return os.fdopen(0, "rb"), answers


def _answer_all(requests: BinaryIO, answers: BinaryIO, respond: Respond, large: int) -> None:
    _send_answer(answers, b"")
    while (taken := _read_request(requests)) is not None:
        head, body = taken
        del taken
        signal.setitimer(signal.ITIMER_PROF, head.seconds)
        reply = respond(body)
        signal.setitimer(signal.ITIMER_PROF, 0)
        del body
        last = isinstance(reply, LastAnswer) or memory_in_use() > large
        _send_answer(answers, reply, kind=AnswerKind.LAST if last else AnswerKind.RESULT)
        if last:
            return


def _read_request(requests: BinaryIO) -> tuple[RequestHead, bytes] | None:
    """Return the next request; None at the end of the pipe, also within a request."""
    head = requests.read(REQUEST.size)
    if len(head) < REQUEST.size:
        return None
    parsed = request_head(head)
    body = requests.read(parsed.length)
    return (parsed, body) if len(body) == parsed.length else None


def _send_answer(
    answers: BinaryIO, body: bytes | bytearray, *, number: int = 0, kind: AnswerKind = AnswerKind.RESULT
) -> None:
    answers.write(answer(len(body), kind=kind, number=number))
    answers.write(body)
    answers.flush()


def memory_in_use() -> int:
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
