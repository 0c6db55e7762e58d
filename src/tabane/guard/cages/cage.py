"""The cage of one server: which files, which network and which limits, and by what they are enforced.

:func:`plan` is pure apart from looking at which paths exist, and blocks for that.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tabane.errors import UpstreamUnavailable
from tabane.guard.cages import bubblewrap, landlock, sandbox_exec, seccomp
from tabane.guard.cages.bubblewrap import Mount
from tabane.guard.cages.limits import Limit
from tabane.guard.cages.mechanisms import CageMechanisms
from tabane.guard.cages.protected_paths import DEVICES, KERNEL, SYSTEM
from tabane.messages import Message, say
from tabane.servers.sandbox_keys import SandboxProfile

PROXY_PORT = 3128
"""Where a server finds the proxy to its hosts. Its network is empty, so the port is free."""


class CageUnavailable(UpstreamUnavailable):
    """A cage that was asked for and cannot be had. The server is not started without it."""


@dataclass(frozen=True, slots=True)
class CagePaths:
    """Paths that the cages of a hub share: real ones.

    ``own`` are Tabane's own files, which no cage shows. ``protected`` are those of the user that a cage shows
    only if the profile lists them, under one of ``protected_names``: not over a link. ``tools`` are folders
    of runtimes. ``private`` is the folder of this server's caches and temporary files, inside of ``own`` as
    an exception.
    """

    own: tuple[str, ...]
    protected: tuple[str, ...]
    tools: tuple[str, ...]
    private: str
    protected_names: tuple[str, ...] = ()

    def names(self, path: str) -> bool:
        """Return whether a path that the user wrote says by itself that it is a protected one."""
        written = os.path.normpath(path)
        return any(_within(written, each) for each in (*self.protected, *self.protected_names))


@dataclass(frozen=True, slots=True)
class CageFiles:
    """Real paths that the server may read (None: all) and change, and those that are hidden from it.

    ``listed`` are those among ``reads`` that the profile lists.
    """

    reads: tuple[str, ...] | None
    writes: tuple[str, ...]
    hidden: tuple[str, ...]
    listed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Cage:
    """A cage, ready for a start: the command in it, its environment, and what the keeper is told."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    orders: dict[str, Any] = field(repr=False)


def cage_files(profile: SandboxProfile, paths: CagePaths, programs: Iterable[str]) -> CageFiles:
    """Return the files of a cage. ``programs`` are folders that the command itself needs.

    Those of them that are hidden are left out: a server may have put a link into its own command line's path.

    Raises CageUnavailable if a path is missing, is one of Tabane's own, or leads to a protected one over a
    link.
    """
    writes = [_existing("write", path, paths) for path in profile.writes]
    listed = [_existing("read", path, paths) for path in profile.reads or ()]
    for path in (*writes, *listed):
        for own in paths.own:
            if _within(path, own):
                raise CageUnavailable(
                    say(
                        "The sandbox may not list {path}: it is in Tabane's own files, which hold the "
                        "secrets of all servers. Remove it from the servers file.",
                        path=path,
                    )
                )
    open_ = {*writes, *listed}
    hides = [os.path.realpath(path) for path in profile.hides]
    hidden = [*paths.own, *(path for path in paths.protected if path not in open_), *hides]
    reads: tuple[str, ...] | None = None
    if profile.reads is not None and "/" not in listed:
        needed = [path for path in programs if not _is_hidden(path, hidden)]
        usual = [path for path in (*SYSTEM, *paths.tools, *needed) if os.path.exists(path)]
        reads = tuple(dict.fromkeys((*usual, *listed)))
    return CageFiles(
        reads,
        (*_outermost(writes), paths.private),
        tuple(dict.fromkeys(p for p in hidden if os.path.lexists(p))),
        tuple(path for path in dict.fromkeys(listed) if path != "/"),
    )


def _is_hidden(path: str, hidden: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(_within(each, folder) for folder in hidden for each in (path, real))


def _outermost(paths: Sequence[str]) -> list[str]:
    """Return the paths that are not in another one of them: what is in a writable folder needs no rule.

    The server can put a link where such an inner path is.
    """
    found = dict.fromkeys(paths)
    return [path for path in found if not any(_within(path, each) for each in found if each != path)]


def _existing(kind: str, path: str, paths: CagePaths) -> str:
    real = os.path.realpath(path)
    if not os.path.lexists(real):
        raise CageUnavailable(
            say(
                'The path {path} in "{kind}" of the sandbox does not exist. Create it, or fix the servers '
                "file.",
                path=path,
                kind=kind,
            )
        )
    if any(_within(real, each) for each in paths.protected) and not paths.names(path):
        raise CageUnavailable(
            say(
                'The path {path} in "{kind}" of the sandbox is a link to {real}, which holds credentials. '
                "The server is not started. If it may use them, list {real} itself.",
                path=path,
                kind=kind,
                real=real,
            )
        )
    return real


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def require(profile: SandboxProfile, mechanisms: CageMechanisms) -> None:
    """Raise CageUnavailable, with the reason, if this system cannot enforce the profile."""
    if not mechanisms.suffice:
        raise CageUnavailable(
            say(
                "This server is to run in a sandbox, and this system offers none: {why}. It is not started "
                "without one. To start it so, remove the key sandbox from the servers file.",
                why=_lack(mechanisms),
            )
        )
    if profile.network == "hosts" and mechanisms.sandbox_exec:
        raise CageUnavailable(
            say("A sandbox whose network is limited to hosts needs Linux. Set network to true or false.")
        )
    if profile.sockets and not mechanisms.bubblewrap and not mechanisms.sandbox_exec:
        raise CageUnavailable(
            say(
                "The sandbox allows Unix sockets, and without bubblewrap the hub's own could be reached: "
                'bubblewrap is needed. Install it, or remove "unixSockets". ({why})',
                why=mechanisms.no_bubblewrap or "–",
            )
        )


def _lack(mechanisms: CageMechanisms) -> Message:
    if not mechanisms.machine:
        return say("its kind or its processor is not supported")
    return say(
        "Landlock is missing or too old (version {version}, {least} is needed), and {why}",
        version=mechanisms.landlock,
        least=landlock.LEAST_ABI,
        why=mechanisms.no_bubblewrap or "–",
    )


def caged(
    profile: SandboxProfile,
    mechanisms: CageMechanisms,
    files: CageFiles,
    argv: Sequence[str],
    limits: Sequence[Limit],
    groups: Sequence[str],
    proxy: Sequence[str],
    *,
    installs: bool = False,
) -> tuple[list[str], dict[str, Any]]:
    """Return the command in its cage, and what the keeper is told of it. ``proxy`` is the proxy's command.

    ``installs``: it writes programs, so that it has to change permissions.
    """
    orders: dict[str, Any] = {
        "limits": [tuple(limit) for limit in limits],
        "groups": list(groups),
        "privileges": not mechanisms.sandbox_exec,
        "landlock": 0,
        "seccomp": b"",
        "handed": False,
        "pinned": [],
    }
    if mechanisms.sandbox_exec:
        rules = sandbox_exec.profile(files.writes, files.reads, files.hidden, network=profile.network == "on")
        return sandbox_exec.command(mechanisms.sandbox_exec, rules, argv), orders
    if profile.network == "hosts":
        orders |= {"proxy": [os.fsencode(part) for part in proxy], "port": PROXY_PORT}
    wrapped = bool(mechanisms.bubblewrap)
    # In an empty network of its own, a server may use sockets among its own processes.
    network = wrapped or profile.network != "off"
    allowed = seccomp.families(network, profile.sockets)
    machine = seccomp.MACHINES[mechanisms.machine]
    orders["seccomp"] = seccomp.program(
        machine, allowed, alone=not wrapped, changes="allowed" if installs else "ignored"
    )
    orders["landlock"] = mechanisms.landlock
    orders |= _landlock_orders(files, restricts=not wrapped)
    if not wrapped:
        return list(argv), orders
    orders["handed"] = True
    shared = profile.network != "off"  # for hosts, the empty network is there already
    pinned = [path for path in (*files.writes, *files.listed) if os.path.lexists(path)]
    orders["pinned"] = [os.fsencode(path) for path in pinned]
    places = {path: f"{{path {index}}}" for index, path in enumerate(pinned)}
    found = mounts(files, places if mechanisms.descriptors else {}, root=mechanisms.root)
    command = bubblewrap.command(mechanisms.bubblewrap, found, argv, network=shared, filtered=True)
    return command, orders


def _landlock_orders(files: CageFiles, *, restricts: bool) -> dict[str, Any]:
    return {
        "files": restricts,
        "hidden": [os.fsencode(path) for path in files.hidden] + [b"/dev"],
        "reads": [os.fsencode(path) for path in _real_paths(files.reads or ("/",))] + [b"/proc"],
        "writes": [os.fsencode(path) for path in files.writes],
        "devices": [os.fsencode(path) for path in DEVICES],
        "listing": files.reads is None,
    }


def _real_paths(paths: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def mounts(files: CageFiles, places: Mapping[str, str], *, root: bool) -> list[Mount]:
    """Return what bubblewrap mounts for these files. ``places`` are arguments for descriptors, by path.

    ``root``: the server runs as root, who owns the settings of the kernel. A folder between a writable one
    and a hidden path in it is mounted too, because a mounted folder cannot be moved away with what it hides.
    """
    found = [Mount(path, "read") for path in (files.reads if files.reads is not None else ("/",))]
    visible = files.reads if files.reads is not None else ("/",)
    found += [
        Mount(path, "empty folder" if Path(path).is_dir() else "empty file")
        for path in files.hidden
        if any(_within(path, root) for root in (*visible, *files.writes))
    ]
    found += [
        Mount(parent, "write")
        for path in files.hidden
        for writable in files.writes
        if _within(path, writable)
        for parent in _between(writable, path)
    ]
    found += [Mount(path, "write") for path in files.writes]
    found = [
        Mount(each.path, each.kind, places.get(each.path, "") if each.kind in ("read", "write") else "")
        for each in found
    ]
    kernel = [Mount(path, "read") for path in KERNEL if root and os.path.exists(path)]
    return [*found, Mount("/dev", "devices"), Mount("/proc", "processes"), *kernel]


def _between(folder: str, path: str) -> list[str]:
    """Return the folders between a folder and a path in it, outermost first."""
    parents = [str(parent) for parent in Path(path).parents]
    return [parent for parent in reversed(parents) if parent != folder and _within(parent, folder)]


def uncovered(profile: SandboxProfile, mechanisms: CageMechanisms) -> list[Message]:
    """Return what a cage of this profile leaves open on this system."""
    if mechanisms.sandbox_exec:
        return [say("The sandbox of macOS was not tested.")]
    found: list[Message] = []
    if not mechanisms.bubblewrap:
        why = mechanisms.no_bubblewrap or "–"
        found.append(
            say(
                "Without bubblewrap ({why}), it sees the command lines of other processes and the names of "
                "protected files. It can use no terminal and no shared memory of System V, and when it "
                "changes permissions or times of files, that has no effect.",
                why=why,
            )
        )
        if mechanisms.landlock < 6:
            found.append(
                say(
                    "The kernel's Landlock (version {version}, 6 is needed) lets it send signals to the "
                    "user's other processes.",
                    version=mechanisms.landlock,
                )
            )
    if profile.network == "on":
        found.append(
            say(
                "It may connect to every address, also in your own network and on this computer. A list of "
                "hosts prevents that."
            )
        )
    if profile.memory == 0:
        found.append(say("Memory is not limited."))
    return found
