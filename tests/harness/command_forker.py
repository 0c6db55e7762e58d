"""A process that has imported the command line once, and forks itself for each command.

``python -m tests.harness.command_forker DESCRIPTOR PADDING`` reads requests from that socket. Each comes with
four descriptors: the standard streams of the command, and a pipe for its exit status. What a test sees is a
process as ``python -m tabane`` would be, without the time that Python needs to start and to import. A hub
that such a command starts is a fork of it, too, if the request allows that. The list of processes shows the
arguments and variables of each in the place of PADDING and of the variable ``PADDING``.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import signal
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

import tabane.__main__

COMMAND = "_hub"
"""The command that is a hub, in all versions: this program runs with the Python of earlier ones, too."""

MOST = 1 << 20
"""Bytes of a request."""

_ROOMS = (
    *("tabane.cli", "tabane.hub.doctor", "tabane.catalog", "tabane.documents", "tabane.posts"),
    *("tabane.engine.embedded", "tabane.engine.embedded.lexical", "tabane.engine.embedded.vectors"),
)
_ALSO = ("numpy", "tabane.hub.local.client", "tabane.hub.process.serve", "tantivy")
"""Packages whose modules commands and hubs import on first use, and further modules."""

_SET_CHILD_SUBREAPER = 36
_SET_MEMORY_MAP, _ARGUMENTS_END, _VARIABLES_END = 35, 9, 11
"""Of prctl(2): PR_SET_MM, PR_SET_MM_ARG_END and PR_SET_MM_ENV_END."""

_PROGRAM = tabane.__main__.__file__
_EXECUTE = os.execve
_ENCODING, _ERRORS = sys.stdout.encoding, sys.stdout.errors


def prepare() -> None:
    """Import what commands and hubs need."""
    for room in _ROOMS:
        with contextlib.suppress(ModuleNotFoundError):  # an earlier version lacks some
            for found in pkgutil.iter_modules(importlib.import_module(room).__path__, f"{room}."):
                if not found.ispkg and not found.name.endswith("__main__"):
                    importlib.import_module(found.name)
    for name in _ALSO:
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def serve(control: socket.socket) -> None:
    """Fork for each request until nobody is left to make one. Be the parent of what detaches, too.

    So the CPU time of a hub is known when it has ended: tests/plugins/prices.py.
    """
    ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1)
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    running: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([control.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 1 << 12)
            _reap(running)
        if control.fileno() in ready:
            request = _received(control)
            if request is None:
                return
            told, fds = request
            pid = os.fork()
            if not pid:
                signal.set_wakeup_fd(-1)
                for descriptor in (control.fileno(), woken, wake, *running.values()):
                    os.close(descriptor)
                _become(told, fds)
            running[pid] = fds.pop()
            for descriptor in fds:
                os.close(descriptor)
            os.write(running[pid], b"%d\n" % pid)


def _received(control: socket.socket) -> tuple[Mapping[str, Any], list[int]] | None:
    """Return the next request and its descriptors; None at the end."""
    data, ancillary, _, _ = control.recvmsg(MOST, socket.CMSG_SPACE(4 * array.array("i").itemsize))
    if not data:
        return None
    fds = array.array("i")
    for _, _, packed in ancillary:
        fds.frombytes(packed)
    return json.loads(data), list(fds)


def _reap(running: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        report = running.pop(pid, None)
        if report is None:  # a hub that had detached
            continue
        with contextlib.suppress(OSError):  # nobody waits for it any more
            os.write(report, b"%d\n" % os.waitstatus_to_exitcode(status))
        os.close(report)


def _become(told: Mapping[str, Any], fds: list[int]) -> NoReturn:
    """Be the process of a command: its streams, variables, folder and arguments."""
    status = 1
    try:
        *streams, report = fds
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for descriptor in (*streams, report):
            os.close(descriptor)
        for number in (signal.SIGCHLD, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.environ.clear()
        os.environ.update(told["environment"])
        os.chdir(told["folder"])
        sys.argv[:] = [_PROGRAM, *told["arguments"]]
        show([sys.executable, "-m", "tabane", *told["arguments"]], told["environment"])
        open_streams()
        if told["forks_hub"]:
            os.execve = _execute
        status = ended(tabane.__main__.main)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _execute(path: Any, argv: Any, env: Any) -> NoReturn:
    """Become the hub that would be executed: everything else about its process is done already."""
    head = [sys.executable, "-P", "-m", "tabane", COMMAND]
    if path != sys.executable or list(argv[: len(head)]) != head:
        _EXECUTE(path, argv, env)
    os.environ.clear()
    os.environ.update(env)
    sys.argv[:] = [_PROGRAM, *argv[len(head) - 1 :]]
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    show(argv, env)
    open_streams()
    os._exit(ended(tabane.__main__.main))


def show(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    """Let the list of processes show these arguments and variables of this process, as after an exec.

    They are written over those that it was started with, which nothing uses any more. What does not fit is
    not shown.
    """
    begin, end, variables_begin, variables_end = _SHOWN
    given = (f"{name}={value}" for name, value in environment.items())
    _write_over(begin, end, arguments, _ARGUMENTS_END)
    _write_over(variables_begin, variables_end, given, _VARIABLES_END)


def _write_over(begin: int, end: int, texts: Iterable[str], boundary: int) -> None:
    data = b"".join(os.fsencode(text) + b"\0" for text in texts)[: end - begin - 1]
    ctypes.memmove(begin, data.ljust(end - begin, b"\0"), end - begin)
    # The rest would be shown as empty arguments. Root alone may move the end.
    ctypes.CDLL(None).prctl(_SET_MEMORY_MAP, boundary, ctypes.c_ulong(begin + len(data)), 0, 0)


def _shown() -> tuple[int, int, int, int]:
    """Return where arguments and variables of this process begin and end in its memory: see proc(5)."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    begin, end, variables_begin, variables_end = (int(field) for field in fields[45:49])
    return begin, end, variables_begin, variables_end


_SHOWN = _shown()


def open_streams() -> None:
    """Open the standard streams again, as Python does when it starts."""
    sys.stdin = sys.__stdin__ = _stream(0, "rb", _ERRORS)  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "wb", _ERRORS)  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "wb", "backslashreplace", always=True)  # type: ignore[misc]


def _stream(number: int, mode: str, errors: str | None, *, always: bool = False) -> io.TextIOWrapper:
    buffer: Any = open(number, mode, closefd=False)  # noqa: SIM115 (it lives as long as the process)
    return io.TextIOWrapper(buffer, _ENCODING, errors, line_buffering=always or os.isatty(number))


def ended(program: Callable[[], object]) -> int:
    """Run a program, and what Python does at its end. Return the exit status."""
    try:
        program()
        status = 0
    except SystemExit as end:
        status = _status(end.code)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError):
            stream.flush()
    return status


def _status(code: object) -> int:
    if code is None or isinstance(code, int):
        return (code or 0) & 0xFF
    print(code, file=sys.stderr)
    return 1


if __name__ == "__main__":
    prepare()
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        serve(inherited)
