"""The cage of the worker processes of scripts, and the program that starts them in it."""

from __future__ import annotations

import marshal
import os
import platform
import resource
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tabane.guard.cages import landlock, seccomp
from tabane.guard.cages.limits import Limit

LEAST_DATA = 1 << 30
"""Bytes that a worker may have at least. The limit of a script is lower, and counts only its values."""

_FILES = 16
_MARSHAL = 2  # without references: the same cage is the same text

_LIBRARIES = (
    *("/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/etc/ld.so.cache"),
    *("/usr/share/zoneinfo", "/nix/store", "/gnu/store"),
)
"""Paths that the interpreter reads: libraries of the system and time zones."""

_PACKAGE = str(Path(__file__).resolve().parents[3])
_RUN = "import sys; sys.path.append(sys.argv[1]); from tabane.hub.work.script_worker import main; main()"


class CagedWorkers:
    """Writes the program that starts a worker. ``home`` is TABANE_HOME, ``environment`` that of the hub."""

    def __init__(self, home: Path, environment: Mapping[str, str]) -> None:
        self._file, self._environment = home / "script-worker", environment

    def program(self, interpreter: str, memory: int) -> str:
        """Return the program that runs the interpreter in a cage, for scripts of ``memory`` bytes. Blocks.

        Where no program can be run from TABANE_HOME, it is the interpreter itself. Raises OSError.
        """
        text = self._text(os.path.realpath(interpreter), memory).encode()
        if not self._file.exists() or self._file.read_bytes() != text:
            new = self._file.with_suffix(".part")
            new.write_bytes(text)
            new.chmod(0o700)
            new.rename(self._file)
        return str(self._file) if os.access(self._file, os.X_OK) else interpreter

    def _text(self, interpreter: str, memory: int) -> str:
        orders = marshal.dumps(cage_orders(interpreter, memory), _MARSHAL).hex()
        start = [sys.executable, "-I", "-S", "-c", _RUN, _PACKAGE, orders, interpreter]
        libraries = self._environment.get("LD_LIBRARY_PATH")  # some interpreters of Python need it
        given = f"LD_LIBRARY_PATH={shlex.quote(libraries)} " if libraries else ""
        return f'#!/bin/sh\n{given}exec {shlex.join(start)} "$@"\n'


def cage_orders(interpreter: str, memory: int) -> dict[str, Any]:
    """Return what :func:`tabane.guard.cages.entering.enter` is told: the best that this system has.

    No network, no file but the interpreter and its libraries, no other process, no privileges.
    """
    linux = sys.platform == "linux"
    machine = seccomp.MACHINES.get(platform.machine()) if linux else None
    return {
        "limits": _limits(memory),
        "groups": [],
        "privileges": linux,
        "handed": False,
        "landlock": _landlock() if linux else 0,
        "files": True,
        "hidden": [],
        "reads": [os.fsencode(os.path.realpath(path)) for path in (*_LIBRARIES, interpreter)],
        "writes": [],
        "devices": [b"/dev/null"],
        "listing": False,
        "seccomp": seccomp.program(machine, ()) if machine is not None else b"",
    }


def _landlock() -> int:
    import ctypes  # a hub without scripts does not need it

    return landlock.abi(ctypes.CDLL(None, use_errno=True).syscall)


def _limits(memory: int) -> list[Limit]:
    data = max(LEAST_DATA, 4 * memory)
    return [
        (resource.RLIMIT_CORE, 0, 0),
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_NOFILE, _FILES, _FILES),
        (resource.RLIMIT_DATA, data, data),
    ]
