"""The way into a cage: what the keeper's child does to itself before it becomes the server.

A cage is a dictionary of plain values, because it comes in a frame from the hub:

- ``limits``: triples of a resource, its soft and its hard limit. ``groups``: files of control groups that the
  process joins.
- ``proxy``: the command of the proxy for the hosts that may be reached, and ``port``, where it listens in the
  empty network of the process; absent if the network is not limited to hosts.
- ``privileges``: whether it gives up capabilities, and the possibility to get any (Linux).
- ``landlock``: the version to use, 0 for none; ``files``: whether it has rules for files; ``hidden``:
  protected paths; ``reads``, ``writes`` and ``devices``: paths that may be read, changed and written to;
  ``listing``: names of files may be listed everywhere. All of them are real paths, and a link that has come
  into one meanwhile is an error.
- ``pinned``: real paths that are opened, each for the arguments ``{path N}`` of the command, where N is its
  place in the list.
- ``seccomp``: the filter of system calls. ``handed``: whether the command loads the filter itself, from the
  descriptor whose number replaces :data:`FILTER` in its arguments.

Only the standard library, and as little of it as possible: the keeper imports this.
"""

from __future__ import annotations

import ctypes
import os

from tabane.guard.cages import landlock
from tabane.guard.cages.landlock import system_error

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

FILTER = b"{filter}"

_NO_NEW_PRIVILEGES, _DROP_BOUND, _SET_SECCOMP, _SET_PDEATHSIG = 38, 24, 22, 1
_FILTER_MODE = 2
_MOST_CAPABILITIES = 64
_KILL = 9


def enter(cage: dict[str, Any], argv: list[bytes], env: dict[bytes, bytes]) -> list[bytes]:
    """Put this process into the cage. Return the command to run in it.

    Raises OSError if a part of the cage cannot be had; its ``filename`` names the part.
    """
    library = ctypes.CDLL(None, use_errno=True)
    for path in cage["groups"]:
        _in_part("cgroup", _join, path)
    if cage.get("proxy"):
        from tabane.guard.cages import network_namespace  # few cages have one

        _in_part("network", network_namespace.enter, library, cage["proxy"], cage["port"], env)
        library.prctl(_SET_PDEATHSIG, _KILL)  # the new namespace has cleared it
    for resource, soft, hard in cage["limits"]:
        _in_part("limits", _limit, resource, soft, hard)
    if cage["privileges"]:
        _in_part("privileges", _give_up_privileges, library, cage["handed"])
    if cage["landlock"]:
        _in_part("landlock", _restrict_files, library, cage)
    argv = _in_part("files", _open_pinned, library, cage.get("pinned", ()), argv)
    if cage["handed"]:
        argv = _in_part("seccomp", _hand_over, cage["seccomp"], argv)
    elif cage["seccomp"]:
        _in_part("seccomp", _filter_calls, library, cage["seccomp"])
    return argv


def _in_part(part: str, run: Callable[..., Any], *args: Any) -> Any:
    try:
        return run(*args)
    except OSError as error:
        raise OSError(error.errno, error.strerror, part) from None


def _join(path: str) -> None:
    with open(path, "wb", buffering=0) as file:
        file.write(b"0")


def _limit(resource: int, soft: int, hard: int) -> None:
    import resource as limits

    _, highest = limits.getrlimit(resource)
    if highest != limits.RLIM_INFINITY:
        hard = min(hard, highest)
    limits.setrlimit(resource, (min(soft, hard), hard))


def _give_up_privileges(library: ctypes.CDLL, builds: bool) -> None:
    """Drop every capability at the next exec, and let no program add any: no set-user-ID.

    A command that ``builds`` the rest of the cage needs those of root for that, and drops them itself.
    """
    for capability in range(0 if builds else _MOST_CAPABILITIES):
        library.prctl(_DROP_BOUND, capability, 0, 0, 0)  # refused without capabilities: there are none then
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise system_error()


def _restrict_files(library: ctypes.CDLL, cage: dict[str, Any]) -> None:
    rules = landlock.Ruleset(library.syscall, cage["landlock"])
    rules.create(cage["files"])
    if cage["files"]:
        hidden = frozenset(cage["hidden"])
        for path in cage["reads"]:
            if cage["listing"]:
                rules.allow(path, landlock.READ_DIR)
            for part in landlock.around(path, hidden):
                rules.allow(part, landlock.READ)
        for path in cage["writes"]:
            for part in landlock.around(path, hidden):
                rules.allow(part, landlock.READ | landlock.WRITE)
        for path in cage["devices"]:
            rules.allow(path, landlock.READ_FILE | landlock.WRITE_FILE | landlock.IOCTL_DEV)
    rules.restrict()


def _open_pinned(library: ctypes.CDLL, paths: Sequence[bytes], argv: list[bytes]) -> list[bytes]:
    """Return the command with descriptors of what is at these paths now. One that is not used is closed."""
    for index, path in enumerate(paths):
        opened = landlock.open_real(library.syscall, path, 0)
        place = b"{path %d}" % index
        if place in argv:
            argv = [b"%d" % opened if part == place else part for part in argv]
        else:
            os.close(opened)
    return argv


class _Program(ctypes.Structure):
    """A program of a filter (struct sock_fprog)."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filter_calls(library: ctypes.CDLL, steps: bytes) -> None:
    program = _Program(len(steps) // 8, steps)
    if library.prctl(_SET_SECCOMP, _FILTER_MODE, ctypes.byref(program), 0, 0) != 0:
        raise system_error()


def _hand_over(steps: bytes, argv: list[bytes]) -> list[bytes]:
    """Return the command with a descriptor from which it reads the filter."""
    fd = os.memfd_create("filter", 0)
    os.write(fd, steps)
    os.lseek(fd, 0, os.SEEK_SET)
    return [b"%d" % fd if part == FILTER else part for part in argv]
