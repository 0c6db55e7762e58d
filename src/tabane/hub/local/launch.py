"""Launch of a hub as a process of its own, and its outcome.

The new process has its own session and process group and is not a child of its launcher, so that it
outlives it. It reports one line through a pipe: ``ready``, ``lost`` (another hub was quicker) or
``failed`` with the reason.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, NoReturn

from tabane.hub.local.endpoint import Endpoint, absolute

COMMAND = "_hub"
"""The internal command that is a hub's process; see :mod:`tabane.__main__`."""

LIMIT = 60.0
"""Seconds that a hub may take to start, including the end of an earlier one."""

MOST_DESCRIPTORS = 1 << 16

READY, LOST, FAILED = "ready", "lost", "failed"
_PATHS = (
    *("TABANE_HOME", "TABANE_CONFIG", "TABANE_SERVERS"),
    *("TABANE_POSTS_EMBEDDINGS", "TABANE_POSTS_REASONING", "TABANE_POSTS_SUMMARY"),
)


class LaunchOutcome(NamedTuple):
    """Outcome of a start. ``texts`` are why it failed, by language; empty if the hub reported nothing."""

    state: str
    texts: dict[str, str]
    pid: int = 0

    def encode(self) -> bytes:
        return json.dumps(self._asdict()).encode() + b"\n"


def read_outcome(said: bytes) -> LaunchOutcome:
    """Parse the report from a hub's pipe. If it cannot be read, the start failed without a reason."""
    try:
        note = json.loads(said)
        return LaunchOutcome(str(note["state"]), dict(note["texts"]), int(note["pid"]))
    except (ValueError, KeyError, TypeError):
        return LaunchOutcome(FAILED, {})


def launch(endpoint: Endpoint, flags: Sequence[str], started_by: str, environ: Mapping[str, str]) -> int:
    """Start a detached hub. Return the reading end of the pipe for its report.

    ``flags`` are settings as ``--name=value``. Raises OSError if no process can be created.
    """
    endpoint.prepare()
    words = os.open(endpoint.last_words, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
    read_end, write_end = os.pipe()
    try:
        child = os.fork()
        if not child:
            _detach(endpoint, _arguments(flags, started_by, write_end), environ, words, write_end)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(words)
        os.close(write_end)
    os.waitpid(child, 0)
    return read_end


def _arguments(flags: Sequence[str], started_by: str, pipe: int) -> list[str]:
    # -P: the working directory is no place to import from.
    head = [sys.executable, "-P", "-m", "tabane", COMMAND]
    return [*head, f"--started-by={started_by}", f"--pipe={pipe}", *flags]


def _detach(
    endpoint: Endpoint, arguments: list[str], environ: Mapping[str, str], words: int, pipe: int
) -> NoReturn:
    """Start a new session, detach from the parent, and run the hub. Never returns."""
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for source, target in ((null, 0), (words, 1), (words, 2)):
            os.dup2(source, target)
        # What the client left open in the bridge must not stay open for as long as the hub lives.
        os.closerange(3, pipe)
        os.closerange(pipe + 1, MOST_DESCRIPTORS)
        os.set_inheritable(pipe, True)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        variables = _absolute(environ)
        os.chdir(endpoint.home)
        os.execve(sys.executable, arguments, variables)
    finally:
        os._exit(127)


def _absolute(environ: Mapping[str, str]) -> dict[str, str]:
    # The hub has another working directory than its launcher.
    variables = dict(environ)
    variables.pop("TABANE_MODE", None)  # how one client wants its tools is not how all do
    for name in _PATHS:
        if variables.get(name):
            variables[name] = absolute(variables[name], environ)
    return variables
