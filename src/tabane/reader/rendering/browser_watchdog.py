"""The watchdog process of a browser: starts it, and kills all its processes when the hub or the page ends.

It is run as a file, with the standard library only. The first line on descriptor 0 is its order, as JSON: run
(the command line), talk (the socket that becomes descriptors 3 and 4 of the browser), profile (a folder that
is deleted at the end), user (the user that runs it if the hub runs as root, or null), memory (limit of bytes
of all its processes together, Linux). When descriptor 0 is closed, by the hub or because the hub ended, every
process of the browser is killed. On descriptor 1 it reports the reason, as JSON: why (asked, memory, ended,
unstarted), status, said (the end of the browser's stderr).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time
from typing import Any

_LOOK = 0.2  # seconds between two looks at the browser
_PATIENCE = 10.0  # seconds for processes to be gone that were killed
_SAID = 4000  # bytes of errors
_ADOPTS = 36  # PR_SET_CHILD_SUBREAPER


def main() -> None:
    """Read an order, keep the browser until its end, and write the report."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.close(0))
    # Exit if the hub ends before it has sent an order.
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 65536)):
            sys.exit(0)
        line += piece
    order = json.loads(line)
    # Orphaned descendants become children of this process instead of init (Linux).
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_ADOPTS, 1, 0, 0, 0)
    keeper = BrowserWatchdog(order)
    try:
        report = keeper.keep()
    except (OSError, subprocess.SubprocessError) as error:
        report = {"why": "unstarted", "status": None, "said": str(error)}
    finally:
        keeper.end()
        shutil.rmtree(order["profile"], ignore_errors=True)
    with contextlib.suppress(OSError):
        os.write(1, json.dumps(report).encode())


class BrowserWatchdog:
    """One browser, from its start to its end."""

    def __init__(self, order: dict[str, Any]) -> None:
        self._order = order
        self._browser: subprocess.Popen[bytes] | None = None
        self._said = b""

    def keep(self) -> dict[str, Any]:
        """Start it, wait for its end and return the report. Raises OSError if it cannot be started."""
        order = self._order
        profile, user = order["profile"], order["user"]
        # The socket moves to descriptors 3 and 4. It may be one of the two, so it is duplicated first.
        socket = order["talk"]
        aside = fcntl.fcntl(socket, fcntl.F_DUPFD_CLOEXEC, 5)
        os.close(socket)
        os.dup2(aside, 3)
        os.dup2(aside, 4)
        os.close(aside)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if user is not None:
            os.chown(profile, user, user)
        other: dict[str, Any] = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        try:
            started = subprocess.Popen(
                order["run"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                env=_browser_environ(profile), cwd=profile, pass_fds=(3, 4), start_new_session=True, **other,
            )  # fmt: skip
        finally:
            os.close(3)
            os.close(4)
        browser = self._browser = started
        assert browser.stderr is not None
        why = self._watch(browser, browser.stderr.fileno())
        return {"why": why, "status": browser.poll(), "said": self._said.decode(errors="replace")}

    def _watch(self, browser: subprocess.Popen[bytes], errors: int) -> str:
        watched = [0, errors]
        while True:
            ended = browser.poll() is not None
            try:
                ready, _, _ = select.select(watched, [], [], 0 if ended else _LOOK)
            except (OSError, ValueError):  # descriptor 0 was closed by a signal
                return "asked"
            if errors in ready:
                piece = os.read(errors, 65536)
                self._said = (self._said + piece)[-_SAID:]
                watched = watched if piece else [0]
            if ended:
                return "ended"
            if 0 in ready and not os.read(0, 4096):
                return "asked"
            # Private memory, because pages mapped from files are shared.
            if sum(map(_private_memory, _descendants())) > self._order["memory"]:
                return "memory"

    def end(self) -> None:
        """Kill the processes of the browser, until none is left.

        A process of another user, as in the older kind of sandbox, ends with its browser.
        """
        if self._browser is not None:
            with contextlib.suppress(OSError):
                os.killpg(self._browser.pid, signal.SIGKILL)
        until = time.monotonic() + _PATIENCE
        while (family := _descendants()) and time.monotonic() < until:
            for process in family:
                with contextlib.suppress(OSError):
                    os.kill(process, signal.SIGKILL)
            _reap_children()
            time.sleep(0.005)
        _reap_children()


def _browser_environ(profile: str) -> dict[str, str]:
    """Nothing of the hub's own, which has keys in it, and no folder but the profile to write to."""
    return {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "HOME": profile,
        "TMPDIR": profile,
        "XDG_CONFIG_HOME": profile,
        "XDG_CACHE_HOME": profile,
        "XDG_RUNTIME_DIR": profile,
        "LANG": "C.UTF-8",
    }


def _descendants() -> list[int]:
    """Return all descendants of this process (Linux; elsewhere the browser's process group is used)."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc") if os.path.isdir("/proc/self") else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, ValueError, IndexError):  # it has ended meanwhile
                parent = 0
            children.setdefault(parent, []).append(int(name))
    found, at = list(children.get(os.getpid(), [])), 0
    while at < len(found):
        found += children.get(found[at], [])
        at += 1
    return found


def _private_memory(process: int) -> int:
    held = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                held += int(line.split()[1]) * 1024
    return held


def _reap_children() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
