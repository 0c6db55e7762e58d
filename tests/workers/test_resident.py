"""A process that stays: requests that are for it alone, and those that the next one answers."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tabane.errors import WorkerEnded
from tabane.workers.resident import ResidentWorker
from tabane.workers.worker import Program

# Answers with its id. It never answers b"wait", so that such a request is open when it is killed.
CODE = """
import os, threading
from tabane.workers.serving import LoadedService, serve_loaded

def respond(body, progress):
    if body == b"wait":
        progress(b"begun")
        threading.Event().wait()
    return str(os.getpid()).encode()

serve_loaded(lambda opening: LoadedService(b"", respond))
"""


@asynccontextmanager
async def open_worker() -> AsyncIterator[ResidentWorker]:
    worker = ResidentWorker(Program((sys.executable, "-c", CODE), dict(os.environ), errors=2), b"")
    try:
        async with asyncio.timeout(120):
            yield worker
    finally:
        await worker.close()


async def test_a_request_for_the_ready_process_fails_when_that_dies() -> None:
    async with open_worker() as worker:
        with pytest.raises(WorkerEnded):
            await worker.ask(b"", again=False)
        first = int(await worker.ask(b""))
        assert worker.is_ready
        assert int(await worker.ask(b"", urgent=True, again=False)) == first
        begun = asyncio.Event()
        only = asyncio.create_task(worker.ask(b"wait", report=lambda _: begun.set(), again=False))
        behind = asyncio.create_task(worker.ask(b""))  # it is sent to the next process
        await begun.wait()
        os.kill(first, signal.SIGKILL)
        with pytest.raises(WorkerEnded):
            await only
        assert int(await behind) not in (first, 0)
