"""What this system offers to build cages with."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from shutil import which

from tabane.guard.cages import landlock
from tabane.guard.cages.bubblewrap import Mount, command
from tabane.guard.cages.seccomp import MACHINES
from tabane.messages import Message, say

PATIENCE = 10.0
"""Seconds for a trial of bubblewrap, which takes some milliseconds."""

SANDBOX_EXEC = "/usr/bin/sandbox-exec"


@dataclass(frozen=True, slots=True)
class CageMechanisms:
    """Mechanisms of a system. ``landlock`` is its version, 0 for none.

    ``bubblewrap`` is the path of a bubblewrap that works, and ``no_bubblewrap`` why there is none.
    ``descriptors``: it mounts what a descriptor is open for (0.8 with fixes, 0.10 and later).
    ``machine`` is the processor's name for which system calls can be filtered; empty if there is no filter.
    ``sandbox_exec`` is the path of that program of macOS. ``root``: the hub runs as root.
    """

    landlock: int = 0
    bubblewrap: str = ""
    descriptors: bool = False
    no_bubblewrap: Message | None = None
    machine: str = ""
    sandbox_exec: str = ""
    root: bool = False

    @property
    def suffice(self) -> bool:
        """Return whether a cage can be built with them at all."""
        if self.sandbox_exec:
            return True
        return bool(self.machine) and (bool(self.bubblewrap) or self.landlock >= landlock.LEAST_ABI)


def find_mechanisms(environment: Mapping[str, str]) -> CageMechanisms:
    """Try what the system offers. ``environment`` is the hub's, whose PATH is searched. Blocks."""
    if sys.platform == "darwin":
        return CageMechanisms(sandbox_exec=SANDBOX_EXEC if os.access(SANDBOX_EXEC, os.X_OK) else "")
    if sys.platform != "linux":
        return CageMechanisms()
    program, why = find_bubblewrap(environment)
    machine = platform.machine()
    return CageMechanisms(
        landlock=_landlock(),
        bubblewrap=program,
        descriptors=bool(program) and _takes_descriptors(program),
        no_bubblewrap=why,
        machine=machine if machine in MACHINES else "",
        root=os.geteuid() == 0,
    )


def _landlock() -> int:
    import ctypes  # a hub without cages does not need it

    return landlock.abi(ctypes.CDLL(None, use_errno=True).syscall)


def _takes_descriptors(program: str) -> bool:
    try:
        done = subprocess.run([program, "--help"], capture_output=True, timeout=PATIENCE, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return b"--ro-bind-fd" in done.stdout + done.stderr


def find_bubblewrap(environment: Mapping[str, str]) -> tuple[str, Message | None]:
    """Return the path of a bubblewrap that works, or why there is none. Blocks."""
    program = which("bwrap", path=environment.get("PATH"))
    if program is None:
        return "", say("bubblewrap (bwrap) is not installed")
    mounts = [Mount("/", "read"), Mount("/dev", "devices"), Mount("/proc", "processes")]
    trial = command(program, mounts, [which("true") or "/bin/true"], network=False, filtered=False)
    try:
        done = subprocess.run(trial, capture_output=True, timeout=PATIENCE, env={}, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", say("bubblewrap cannot be started ({detail})", detail=error)
    if done.returncode == 0:
        return program, None
    said = done.stderr.decode(errors="replace").strip().splitlines()
    return "", say("bubblewrap does not work here ({detail})", detail=said[-1][:200] if said else "–")
