"""Commands of bubblewrap, which gives a process its own view of the files, and hides other processes.

Everything here is pure. Later mounts cover earlier ones, so parents come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from tabane.guard.cages.entering import FILTER

Kind = Literal["read", "write", "empty folder", "empty file", "devices", "processes"]


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount at a path: the same files to read or to write, nothing, or new files of its own.

    ``source`` is the argument for a descriptor of the files; empty if the path names them.
    """

    path: str
    kind: Kind
    source: str = ""


_OPTIONS = {
    "read": ("--ro-bind", 2),
    "write": ("--bind", 2),
    "empty folder": ("--tmpfs", 1),
    "devices": ("--dev", 1),
    "processes": ("--proc", 1),
}
"""Options by kind, and how often the path follows."""


def command(
    program: str, mounts: Iterable[Mount], argv: Sequence[str], *, network: bool, filtered: bool
) -> list[str]:
    """Return the command that runs ``argv`` among these mounts.

    Without ``network`` it has an empty one. ``filtered``: it loads a filter of system calls.
    """
    options = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"]
    if not network:
        options.append("--unshare-net")
    for mount in in_order(mounts):
        options += _option(mount)
    if filtered:
        options += ["--seccomp", FILTER.decode()]
    return [program, *options, "--", *argv]


def in_order(mounts: Iterable[Mount]) -> list[Mount]:
    """Return mounts so that what is inside another one comes after it.

    At the same path, the last one given counts.
    """
    by_path = {mount.path: mount for mount in mounts}
    return sorted(by_path.values(), key=lambda mount: mount.path.rstrip("/").split("/"))


def _option(mount: Mount) -> list[str]:
    if mount.kind == "empty file":
        return ["--ro-bind", "/dev/null", mount.path]
    name, paths = _OPTIONS[mount.kind]
    if mount.source:
        return [f"{name}-fd", mount.source, mount.path]
    return [name, *[mount.path] * paths]
