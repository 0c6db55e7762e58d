"""Verification of the log of a home or of a copy: in this process, or in one of its own for a running hub."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from tabane.audit.chain import read_key
from tabane.audit.entry import audit_files
from tabane.audit.head import ChainHead, parse_head, read_head
from tabane.audit.options import AuditPaths
from tabane.audit.verification import ChainReport, Progress, verify
from tabane.errors import AuditError, BadArguments
from tabane.messages import Lang, say

_EVERY = 0.2
"""Seconds between two lines of progress of a process."""


def verify_files(
    paths: AuditPaths, kept: ChainHead | None = None, progress: Progress = lambda done, total: None
) -> ChainReport:
    """Verify a log. ``kept`` is a head that was kept elsewhere. Raises AuditError if there is no log."""
    head = stored_head(paths)
    if head is None and not audit_files(paths.folder):
        raise AuditError(say("There is no audit log in {folder}.", folder=paths.folder))
    heads = [found for found in (head, kept) if found is not None and found.seq]
    return verify(paths.folder, read_key(paths.key), heads, has_head=head is not None, progress=progress)


def stored_head(paths: AuditPaths) -> ChainHead | None:
    """Return the stored head; None if it is missing or damaged. Raises AuditError if it cannot be read."""
    try:
        return read_head(paths.head)
    except OSError as error:
        raise AuditError(
            say("{path} cannot be read: {reason}", path=paths.head, reason=error.strerror or str(error))
        ) from None


def kept_head(text: str | None) -> ChainHead | None:
    """Return a head as ``tabane audit head`` prints it. Raises BadArguments."""
    if not text:
        return None
    try:
        return parse_head(text)
    except ValueError:
        raise BadArguments(
            say("{text} is not a head of an audit log. tabane audit head prints one.", text=text[:100]),
            "head",
        ) from None


async def verify_in_process(
    paths: AuditPaths, kept: str | None, lang: Lang, progress: Progress
) -> dict[str, Any]:
    """Verify a log in a process of its own, which is ended with this task. Raises AuditError."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        __name__,
        *(*paths, lang, kept or ""),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    found: dict[str, Any] = {}
    try:
        while line := await process.stdout.readline():
            found = json.loads(line)
            if "done" in found:
                progress(found["done"], found["total"])
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    if "report" in found:
        report: dict[str, Any] = found["report"]
        return report
    if "error" in found:
        raise AuditError(say("{text}", text=found["error"]))
    raise AuditError(say("The process that verifies the audit log ended early."))


def _main(paths: AuditPaths, lang: Lang, kept: str) -> None:
    os.nice(10)
    tell = _every(_EVERY, lambda done, total: _print({"done": done, "total": total}))
    try:
        report = verify_files(paths, kept_head(kept), tell)
    except (AuditError, BadArguments) as error:
        _print({"error": error.text(lang)})
        return
    _print({"report": report.as_object(lambda message: message.render(lang))})


def _every(seconds: float, tell: Callable[[int, int], None]) -> Progress:
    last = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            tell(done, total)

    return progress


def _print(value: dict[str, Any]) -> None:
    print(json.dumps(value), flush=True)


if __name__ == "__main__":
    _main(AuditPaths(*sys.argv[1:4]), "ja" if sys.argv[4] == "ja" else "en", sys.argv[5])
