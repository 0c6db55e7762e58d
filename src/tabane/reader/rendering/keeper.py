"""The process beside a browser: it starts it, and leaves nothing of it behind, whatever becomes of the hub.

It is run as a file, with what a bare Python has and nothing of Tabane. The first line on descriptor 0 is its
order, as JSON: run (the command line), talk (the socket that becomes descriptors 3 and 4 of the browser),
profile (a folder that is deleted in the end), user (whom a root runs it as, or null), memory (bytes that all
processes of it may hold together, Linux). When descriptor 0 ends, by the hub's will or with the hub, every
process of the browser is killed. On descriptor 1 it reports how that came, as JSON: why (asked, memory, ended,
unstarted), status, said (the end of what the browser wrote as errors).
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
import signal
import subprocess
import sys
import time

_LOOK = 0.2  # seconds between two looks at the browser
_PATIENCE = 10.0  # seconds for processes to be gone that were killed
_SAID = 4000  # bytes of errors
_ADOPTS = 36  # PR_SET_CHILD_SUBREAPER


def main() -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os.close(0))
    order = json.loads(_line())
    _adopt()
    report = {"why": "unstarted", "status": None, "said": ""}
    try:
        report = _kept(order)
    except OSError as error:
        report["said"] = str(error)
    finally:
        _end()
        shutil.rmtree(order["profile"], ignore_errors=True)
        with contextlib.suppress(OSError):
            os.write(1, json.dumps(report).encode())


def _line() -> bytes:
    """The order. Where the hub ends before it has given one, there is nothing to do."""
    line = b""
    while not line.endswith(b"\n"):
        if not (piece := os.read(0, 65536)):
            sys.exit(0)
        line += piece
    return line


def _adopt() -> None:
    """Processes whose parents end become children of this one, and not of the system's first (Linux)."""
    with contextlib.suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(_ADOPTS, 1, 0, 0, 0)


def _kept(order: dict[str, object]) -> dict[str, object]:
    browser = _started(order)
    assert browser.stderr is not None
    errors, said, why = browser.stderr.fileno(), b"", "ended"
    watched = [0, errors]
    while browser.poll() is None:
        try:
            ready, _, _ = select.select(watched, [], [], _LOOK)
        except (OSError, ValueError):  # descriptor 0 was closed by a signal
            why = "asked"
            break
        if 0 in ready and not os.read(0, 4096):
            why = "asked"
            break
        if errors in ready:
            piece = os.read(errors, 65536)
            said = (said + piece)[-_SAID:]
            watched = watched if piece else [0]
        if _held() > int(str(order["memory"])):
            why = "memory"
            break
    status = browser.poll()
    if status is not None and errors in watched and select.select([errors], [], [], 0)[0]:
        said = (said + os.read(errors, 65536))[-_SAID:]
    return {"why": why, "status": status, "said": said.decode(errors="replace")}


def _started(order: dict[str, object]) -> subprocess.Popen[bytes]:
    talk, profile, user = int(str(order["talk"])), str(order["profile"]), order["user"]
    high = 64  # out of the way of 3 and 4, which may be the socket itself
    os.dup2(talk, high, inheritable=False)
    os.close(talk)
    os.dup2(high, 3)
    os.dup2(high, 4)
    os.close(high)
    if user is not None:
        os.chown(profile, int(str(user)), int(str(user)))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    run = order["run"]
    assert isinstance(run, list)
    kin = {} if user is None else {"user": int(str(user)), "group": int(str(user)), "extra_groups": []}
    try:
        return subprocess.Popen(
            run,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=_environ(profile),
            cwd=profile,
            pass_fds=(3, 4),
            start_new_session=True,
            **kin,  # type: ignore[call-overload]
        )
    finally:
        os.close(3)
        os.close(4)


def _environ(profile: str) -> dict[str, str]:
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


def _family() -> list[int]:
    """Every process that descends from this one (Linux; elsewhere the child's group stands for them)."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found, at = list(parents.get(os.getpid(), [])), 0
    while at < len(found):
        found += parents.get(found[at], [])
        at += 1
    return found


def _held() -> int:
    """Bytes that the family holds of its own: what is mapped from files is shared, and can be dropped."""
    if not os.path.isdir("/proc/self"):
        return 0
    return sum(map(_own, _family()))


def _own(process: int) -> int:
    held = 0
    with contextlib.suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/status", "rb") as file:
        for line in file:
            if line.startswith((b"RssAnon:", b"RssShmem:")):
                held += int(line.split()[1]) * 1024
    return held


def _end() -> None:
    """Kills the family until there is none of it. One that runs as another user, as a sandbox of the older
    kind does, ends with its browser."""
    until = time.monotonic() + _PATIENCE
    if not os.path.isdir("/proc/self"):
        return _end_group()
    while (family := _family()) and time.monotonic() < until:
        for process in family:
            with contextlib.suppress(OSError):
                os.kill(process, signal.SIGKILL)
        _reap()
        time.sleep(0.005)
    return None


def _end_group() -> None:
    with contextlib.suppress(OSError):
        for _ in range(50):
            reaped, _status = os.waitpid(-1, os.WNOHANG)
            if not reaped:
                break
    for process in _children:
        with contextlib.suppress(OSError):
            os.killpg(process, signal.SIGKILL)


def _reap() -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


if __name__ == "__main__":
    main()
