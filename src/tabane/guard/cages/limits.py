"""Limits of memory, processor time and processes: of a group of processes where the system allows that.

A control group counts all processes of a server together. Without one, the limits are the kernel's for each
process (setrlimit), and the limit of processes counts all of the user's.
"""

from __future__ import annotations

import contextlib
import os
import resource
from dataclasses import dataclass
from pathlib import Path

from tabane.servers.server_keys import SandboxProfile

Limit = tuple[int, int, int]
"""A resource, its soft and its hard limit."""

GROUP_PROCESSES = 1_024
"""Processes and threads of a server, if a group can be had and the user set no limit."""

_CPU_GRACE = 5
"""Seconds of CPU time between SIGXCPU and SIGKILL."""


@dataclass(frozen=True, slots=True)
class GroupFiles:
    """Files of one controller that limit a group: what to write into which file, and who belongs to it."""

    folder: Path
    limits: tuple[tuple[str, str], ...]

    @property
    def members(self) -> str:
        """The file that the id of a process is written to, to let it join the group."""
        return str(self.folder / "cgroup.procs")


def process_limits(profile: SandboxProfile, *, grouped: bool, running: int) -> list[Limit]:
    """Return the limits of each process. ``running`` is how many the user runs now, in all programs."""
    limits: list[Limit] = [(resource.RLIMIT_CORE, 0, 0)]
    if profile.cpu:
        limits.append((resource.RLIMIT_CPU, profile.cpu, profile.cpu + _CPU_GRACE))
    if profile.memory and not grouped:
        limits.append((resource.RLIMIT_DATA, profile.memory, profile.memory))
    if profile.processes and not grouped:
        most = running + profile.processes
        limits.append((resource.RLIMIT_NPROC, most, most))
    return limits


def group_limits(profile: SandboxProfile, version: int) -> dict[str, tuple[tuple[str, str], ...]]:
    """Return what to write for a control group of that version, by controller."""
    processes = str(profile.processes or GROUP_PROCESSES)
    found: dict[str, tuple[tuple[str, str], ...]] = {"pids": (("pids.max", processes),)}
    if profile.memory:
        name = "memory.max" if version == 2 else "memory.limit_in_bytes"
        swap = "memory.swap.max" if version == 2 else "memory.memsw.limit_in_bytes"
        found["memory"] = ((name, str(profile.memory)), (swap, "0" if version == 2 else str(profile.memory)))
    return found


def group_folders(
    memberships: str, root: Path, controllers: tuple[str, ...]
) -> tuple[int, dict[str, Path]] | None:
    """Return the version of control groups, and the folder in which one can be created, by controller.

    None if that is not known. ``memberships`` is the text of /proc/self/cgroup. In version 2, a group with
    processes has no groups with limits below it, so the place is beside the hub's own group.
    """
    rows = (line.partition(":")[2].partition(":") for line in memberships.splitlines())
    own = {name: path for names, _, path in rows for name in names.split(",")}
    if all(name in own for name in controllers):
        return 1, {name: root / name / own[name].lstrip("/") for name in controllers}
    if own.get("", "/") == "/":
        return None
    beside = root / Path(own[""].lstrip("/")).parent
    try:
        enabled = (beside / "cgroup.subtree_control").read_text().split()
    except OSError:
        return None
    return (2, dict.fromkeys(controllers, beside)) if set(controllers) <= set(enabled) else None


class ControlGroups:
    """Control groups of one hub. Everything here blocks, for a moment."""

    def __init__(self, root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> None:
        self._root, self._own = root, own

    def create(self, name: str, profile: SandboxProfile) -> list[GroupFiles] | None:
        """Create the groups of a server that is to be started; None if the system does not allow it."""
        try:
            memberships = self._own.read_text()
        except OSError:
            return None
        wanted = ("pids", "memory") if profile.memory else ("pids",)
        places = group_folders(memberships, self._root, wanted)
        if places is None:
            return None
        version, folders = places
        limits = group_limits(profile, version)
        made: list[GroupFiles] = []
        try:
            for controller, folder in folders.items():
                made.append(GroupFiles(folder / name, limits[controller]))
                made[-1].folder.mkdir(exist_ok=True)
                _write_limits(made[-1])
        except OSError:
            self.remove(made)
            return None
        return made

    def remove(self, groups: list[GroupFiles]) -> None:
        """Remove groups whose processes have ended. One that is in use stays."""
        for group in groups:
            with contextlib.suppress(OSError):
                group.folder.rmdir()


def _write_limits(group: GroupFiles) -> None:
    for name, value in group.limits:
        path = group.folder / name
        if "swap" in name or "memsw" in name:
            with contextlib.suppress(OSError):  # a kernel without accounts of swap
                path.write_text(value)
        else:
            path.write_text(value)


def running_processes() -> int:
    """Return how many processes and threads the user runs, in all programs."""
    user, count = os.getuid(), 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{name}").st_uid == user:
                    count += len(os.listdir(f"/proc/{name}/task"))
    return count
