"""What processes cost: seconds of CPU and megabytes of memory, each by the part it plays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import psutil

UPSTREAM = str(Path(__file__).parent / "upstream.py")


def family(root: int, part: str) -> dict[int, str]:
    """The process and all below it, each by the part it plays: ``part``, keeper or upstream."""
    found: dict[int, str] = {}
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(root)
        for one in (process, *process.children(recursive=True)):
            found[one.pid] = part if one.pid == root else _part(one)
    return found


def own_cpu(processes: dict[int, str]) -> float:
    """Seconds of CPU of those that are no upstream; what their ended children used is theirs."""
    return sum(_cpu(pid) for pid, part in processes.items() if part != "upstream")


def memory(processes: dict[int, str]) -> dict[str, float]:
    """Resident memory in MB (10⁶ bytes) by part, summed over the processes that play it."""
    total: dict[str, float] = {}
    for pid, part in processes.items():
        with contextlib.suppress(psutil.Error):
            total[part] = total.get(part, 0.0) + psutil.Process(pid).memory_info().rss / 1e6
    return total


@contextlib.contextmanager
def on_one_core(processes: Iterable[int]) -> Iterator[None]:
    """Keeps processes on one and the same core. Raises NotImplementedError where the system cannot."""
    if not hasattr(psutil.Process, "cpu_affinity"):
        raise NotImplementedError
    before = {one: one.cpu_affinity() for one in map(psutil.Process, processes)}
    core = max(core for cores in before.values() for core in cores)
    try:
        for one in before:
            one.cpu_affinity([core])
        yield
    finally:
        for one, cores in before.items():
            with contextlib.suppress(psutil.Error):
                one.cpu_affinity(cores)


def _part(process: psutil.Process) -> str:
    try:
        command = " ".join(process.cmdline())
    except psutil.Error:
        return "other"
    if UPSTREAM in command:
        return "upstream"
    return "keeper" if "tabane.upstreams.processes.keeper" in command else "other"


def _cpu(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    ended = getattr(times, "children_user", 0.0) + getattr(times, "children_system", 0.0)
    return (_exact(pid) or times.user + times.system) + ended


def _exact(pid: int) -> float:
    """Seconds to the nanosecond, as Linux counts them for each thread; 0 elsewhere.

    Whole ticks of ten milliseconds would be as long as all that a bridge uses.
    """
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
