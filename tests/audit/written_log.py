"""Audit logs for tests: a caller, a target, and a log that is opened, written and closed."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tabane.audit.entry import AuditEntry, AuditOptions, AuditPaths, audit_files, audit_paths, decode_entry
from tabane.audit.log import AuditLog
from tabane.audit.verification import ChainReport, verify_files
from tabane.operations import Caller, Face
from tabane.operations.caller import CallTarget

CALLER = Caller("local", Face.MCP, "s1", client="an assistant")
TARGET = CallTarget("github__get_issue", "github", "tools")
SMALL = AuditOptions(size=64 << 10)
"""A log whose files hold some hundred entries."""


def paths(home: Path) -> AuditPaths:
    return audit_paths(str(home))


def files(home: Path) -> list[Path]:
    return [Path(file.path) for file in audit_files(paths(home).folder)]


def lines(home: Path) -> list[bytes]:
    return b"".join(file.read_bytes() for file in files(home)).splitlines(keepends=True)


def entries(home: Path) -> list[AuditEntry]:
    return [decode_entry(line) for line in lines(home)]


def names(home: Path) -> list[str]:
    return [entry.name for entry in entries(home)]


def verified(home: Path) -> ChainReport:
    return verify_files(paths(home))


@contextmanager
def opened(
    home: Path, options: AuditOptions | None = None, clock: Callable[[], float] | None = None
) -> Iterator[AuditLog]:
    """A log on an event loop that does not run."""
    loop = asyncio.new_event_loop()
    times = itertools.count(1_800_000_000)
    steady = itertools.count()
    log = AuditLog(
        str(home),
        options or AuditOptions(),
        loop,
        clock=clock or (lambda: float(next(times))),
        steady=lambda: float(next(steady)),
    )
    try:
        yield log
    finally:
        log.close()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def write(home: Path, count: int, options: AuditOptions | None = None) -> None:
    """Write some calls, each with its number as request."""
    with opened(home, options) as log:
        for number in range(count):
            log.record(CALLER, TARGET, log.prepare(b'{"number":1}'), str(number), "ok", 0.001, 100)
