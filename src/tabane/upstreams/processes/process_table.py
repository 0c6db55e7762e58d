"""The process table, as Linux shows it in /proc, and rules for which processes belong to a server.

A process that left its group (setsid, double fork) is still found by what it cannot change: its ancestors
while they live, and the marker in the environment that it inherited. Both the keeper and the hub use these
rules, so this module imports almost nothing. Without /proc the table is empty.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

MARKER = b"TABANE_INSTANCE"
_CHUNK = 1 << 16


class ProcessEntry:
    """One line of the table: ids of the process, its parent, its group and its session.

    A ``zombie`` has ended and waits for its parent to notice.
    """

    __slots__ = ("group", "parent", "pid", "session", "zombie")

    def __init__(self, pid: int, parent: int, group: int, session: int, zombie: bool) -> None:
        self.pid = pid
        self.parent = parent
        self.group = group
        self.session = session
        self.zombie = zombie


def parse(stat: bytes) -> ProcessEntry:
    """Return a ProcessEntry from the text of /proc/PID/stat. Raises ValueError if the text is not one.

    The second field is the command's name in parentheses and may hold spaces and parentheses.
    """
    head, closing, tail = stat.rpartition(b")")
    fields = tail.split()
    if not closing or len(fields) < 4:
        raise ValueError("not a line of /proc/PID/stat")
    pid = int(head.partition(b" ")[0])
    return ProcessEntry(pid, int(fields[1]), int(fields[2]), int(fields[3]), fields[0] in (b"Z", b"X"))


def processes() -> dict[int, ProcessEntry]:
    """Return every running process, by pid."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    table = {}
    for name in names:
        if name.isdigit():
            try:
                table[int(name)] = parse(_read_proc_file(f"/proc/{name}/stat"))
            except (OSError, ValueError):
                continue  # ended since the folder was listed, or not Linux
    return table


def descendants(table: dict[int, ProcessEntry], roots: Iterable[int]) -> set[int]:
    """Return all below ``roots``, at any depth; a root only if it is below another."""
    children: dict[int, list[int]] = {}
    for process in table.values():
        children.setdefault(process.parent, []).append(process.pid)
    found: set[int] = set()
    waiting = list(roots)
    while waiting:
        fresh = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found


def belonging(
    table: dict[int, ProcessEntry], root: int, leaders: Collection[int], carries: Callable[[int], bool]
) -> set[int]:
    """Return what below ``root`` belongs to ``leaders``: their groups and sessions, whatever carries the
    marker, and all that descends from those."""
    seeds = set()
    for pid in descendants(table, [root]):
        process = table[pid]
        if pid in leaders or process.group in leaders or process.session in leaders or carries(pid):
            seeds.add(pid)
    return seeds | descendants(table, seeds)


def marker(token: str, number: int | None = None) -> bytes:
    """Return what to look for in an environment: instance ``number`` of ``token``, or any instance of it."""
    prefix = MARKER + b"=" + token.encode() + b"."
    return prefix if number is None else prefix + str(number).encode() + b"\0"


def carries(pid: int, marker: bytes) -> bool:
    """Return whether the environment that ``pid`` was started with holds the marker."""
    try:
        return b"\0" + marker in b"\0" + _read_proc_file(f"/proc/{pid}/environ") + b"\0"
    except OSError:
        return False


def _read_proc_file(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, _CHUNK):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(fd)
