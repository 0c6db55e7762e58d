"""The system calls of a server, read from a trace, and the profile that would allow just these.

The trace is strace's. Everything here is pure, apart from :func:`find_tracer`.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from shutil import which

from tabane.errors import UpstreamUnavailable
from tabane.messages import Message, say
from tabane.servers.server_keys import SandboxProfile

PATIENCE = 10.0
"""Seconds for a trial of the tracer, which takes some milliseconds."""

MOST_BYTES = 128 << 20
"""Bytes of a trace. Learning ends when it has them."""

_MOST_NAMED = 200
_FEW = 3
"""Folders beside each other that are proposed one by one; more of them become their parent."""

_CALLS = (
    *("open", "openat", "openat2", "creat", "mkdir", "mkdirat", "rmdir", "unlink", "unlinkat"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat", "truncate"),
    *("mknod", "mknodat", "chdir", "fchdir", "connect", "sendto", "sendmsg", "sendmmsg"),
)

_LINE = re.compile(r"^(?P<process>\d+)? *(?P<call>\w+)\((?P<rest>.*)$")
_TEXT = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_RESULT = re.compile(r"\) += (?P<value>-?\d+|\?)(?:<(?P<path>[^>]*)>)?")
_FOLDER = re.compile(r"^(?:AT_FDCWD|\d+)<([^>]*)>")
_IPV4 = re.compile(r'sin_port=htons\((\d+)\), sin_addr=inet_addr\("([^"]*)"\)')
_IPV6 = re.compile(r'sin6_port=htons\((\d+)\).*?inet_pton\(AF_INET6, "([^"]*)"')
_UNIX = re.compile(r'sun_path=(@?)"((?:\\x[0-9a-f]{2})*)"')
_CHANGES = ("O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND")
_MAKING = ("mkdir", "rmdir", "unlink", "rename", "link", "symlink", "truncate", "mknod", "creat")
_WEB = (80, 443)
_RESOLVER = 53

_NOTHING = ("/dev", "/proc", "/sys", "/memfd:", "/run/nscd", "/var/run/nscd")
_USUAL_SOCKETS = (
    "nscd",
    "/run/systemd/resolve",
    "/run/systemd/userdb",
    "/run/dbus/system_bus_socket",
    "/dev/log",
)


@dataclass
class SeenUse:
    """The observed use of files and network by a server. ``connected`` are pairs of an address and a port."""

    written: set[str] = field(default_factory=set)
    connected: set[tuple[str, int]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    sockets: set[str] = field(default_factory=set)


def find_tracer(environment: Mapping[str, str]) -> str:
    """Return the path of a strace that works. Raises UpstreamUnavailable with the reason. Blocks."""
    program = which("strace", path=environment.get("PATH"))
    if program is None:
        raise UpstreamUnavailable(
            say("To learn what a server uses, install strace. It was not found on PATH, and needs Linux.")
        )
    trial = [program, "-f", "-qq", "-o", os.devnull, which("true") or "/bin/true"]
    try:
        done = subprocess.run(trial, capture_output=True, timeout=PATIENCE, env={}, check=False)
        said = done.stderr.decode(errors="replace").strip().splitlines()
        failed = done.returncode != 0
    except (OSError, subprocess.TimeoutExpired) as error:
        said, failed = [str(error)], True
    if failed:
        raise UpstreamUnavailable(
            say(
                "This system does not allow a process to be traced ({detail}), so what a server uses cannot "
                "be learned. Containers and the setting kernel.yama.ptrace_scope forbid that.",
                detail=said[-1][:200] if said else "–",
            )
        )
    return program


def traced(program: str, file: str, argv: Sequence[str]) -> list[str]:
    """Return the command that runs ``argv`` and appends its system calls to ``file``.

    A server that ends and is started again, or that runs once for each client, has one file.
    """
    calls = ",".join(f"?{name}" for name in _CALLS)
    options = ["-f", "-qq", "-y", "-xx", "-s", "512", "-e", f"trace={calls}", "-e", "signal=none"]
    return [program, *options, "-A", "-o", file, "--", *argv]


def read_trace(lines: Iterable[str], cwd: str) -> SeenUse:
    """Return what the lines of a trace show. ``cwd`` is the folder that the server was started in."""
    seen = SeenUse()
    folders: dict[str | None, str] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        folder = folders.get(match["process"], cwd)
        if match["call"].endswith("chdir"):
            folders[match["process"]] = next(_paths(match["rest"], folder), folder)
        else:
            call, rest = match["call"], match["rest"]
            result = _RESULT.search(rest)
            failed = result is not None and result["value"].startswith("-")
            if call == "connect":
                _read_connection(seen, rest, failed and "EINPROGRESS" not in rest)
            elif call.startswith("send"):
                seen.names.update(_names_asked(rest))
            elif not failed and (call.startswith(_MAKING) or any(flag in rest for flag in _CHANGES)):
                opened = result["path"] if result is not None and call.startswith("open") else None
                seen.written.update([_decoded(opened)] if opened else _paths(rest, folder))
    return seen


def _read_connection(seen: SeenUse, rest: str, failed: bool) -> None:
    for pattern in (_IPV4, _IPV6):
        if (match := pattern.search(rest)) is not None:
            seen.connected.add((_decoded(match[2]), int(match[1])))
    if (match := _UNIX.search(rest)) is not None and not failed:
        seen.sockets.add(match[1] + _decoded(match[2]))


def _paths(rest: str, cwd: str) -> Iterator[str]:
    """Yield the absolute paths among the arguments of a call."""
    folder = cwd
    for part in re.split(r", ", rest.partition(") = ")[0]):
        if (match := _FOLDER.match(part)) is not None:
            folder = _decoded(match[1])
        elif (text := _TEXT.match(part)) is not None:
            yield os.path.normpath(os.path.join(folder, _decoded(text[1])))
            folder = cwd


def _decoded(text: str) -> str:
    """Return a text of strace's, which is in hexadecimal; paths of descriptors are in older ones not."""
    if not text.startswith("\\x"):
        return text
    return bytes.fromhex(text.replace("\\x", "")).decode("utf-8", "surrogateescape").rstrip("\0")


def _names_asked(rest: str) -> Iterator[str]:
    """Yield the names that datagrams ask a resolver for (RFC 1035, 4.1)."""
    for text in _TEXT.findall(rest):
        name = question(bytes.fromhex(text.replace("\\x", "")))
        if name is not None:
            yield name


def question(datagram: bytes) -> str | None:
    """Return the name that a question to a resolver contains; None if it is not one."""
    if len(datagram) < 17 or datagram[2] & 0xF8 or datagram[4:6] != b"\0\1" or datagram[6:10] != bytes(4):
        return None
    labels, at = [], 12
    while at < len(datagram) and 0 < datagram[at] < 64:
        labels.append(datagram[at + 1 : at + 1 + datagram[at]])
        at += 1 + datagram[at]
    whole = at + 5 <= len(datagram) and datagram[at] == 0 and datagram[at + 3 : at + 5] == b"\0\1"
    try:
        name = b".".join(labels).decode("ascii").lower()
    except UnicodeDecodeError:
        return None
    return name if whole and re.fullmatch(r"[a-z0-9_.-]{1,253}", name) else None


@dataclass(frozen=True, slots=True)
class LearnedProfile:
    """A profile that allows what was seen, and what a person should know of it."""

    profile: SandboxProfile
    notes: tuple[Message, ...]


def propose(seen: SeenUse, private: str, home: str) -> LearnedProfile:
    """Return the profile for what was seen. ``private`` is the server's own folder, ``home`` the user's."""
    notes: list[Message] = []
    writes = proposed_folders(
        (path for path in seen.written if not path.startswith((*_NOTHING, private))), home
    )
    remote = {(address, port) for address, port in seen.connected if port and port != _RESOLVER}
    local = sorted(port for address, port in remote if address.startswith("127.") or address == "::1")
    hosts: tuple[str, ...] = ()
    on = bool(remote)
    if remote and not local and seen.names and all(port in _WEB for _, port in remote):
        hosts = tuple(sorted(seen.names)[:_MOST_NAMED])
        notes.append(
            say(
                "Its network is limited to the names that it asked for. That works if it uses the proxy in "
                "HTTPS_PROXY; if it does not, set network to true."
            )
        )
    elif local:
        notes.append(
            say(
                "It connected to this computer (ports {ports}), so its network is not limited.",
                ports=", ".join(map(str, local)),
            )
        )
    sockets = sorted(path for path in seen.sockets if not any(usual in path for usual in _USUAL_SOCKETS))
    if sockets:
        notes.append(say("It connected to Unix sockets: {paths}.", paths=", ".join(sockets[:_FEW])))
    profile = SandboxProfile(
        preset="network" if on and not hosts else "files",
        writes=tuple(writes),
        network="hosts" if hosts else "on" if on else "off",
        hosts=hosts,
        sockets=bool(sockets),
    )
    return LearnedProfile(profile, tuple(notes))


def proposed_folders(paths: Iterable[str], home: str) -> list[str]:
    """Return the folders to write to for these files, few and small.

    Several folders beside each other become their parent, but never the root, the user's home, or a folder
    right below the root. A file there is proposed itself.
    """
    folders = {path if _is_wide(os.path.dirname(path), home) else os.path.dirname(path) for path in paths}
    while (merged := _merge_folders(folders, home)) != folders:
        folders = merged
    kept: list[str] = []
    for folder in sorted(folders):
        if not any(folder.startswith(parent + "/") for parent in kept):
            kept.append(folder)
    return kept[:_MOST_NAMED]


def _is_wide(folder: str, home: str) -> bool:
    return folder.count("/") < 2 or folder == home or home.startswith(folder + "/")


def _merge_folders(folders: set[str], home: str) -> set[str]:
    by_parent: dict[str, list[str]] = {}
    for folder in folders:
        by_parent.setdefault(os.path.dirname(folder), []).append(folder)
    found: set[str] = set()
    for parent, children in by_parent.items():
        found.update([parent] if len(children) > _FEW and not _is_wide(parent, home) else children)
    return found
