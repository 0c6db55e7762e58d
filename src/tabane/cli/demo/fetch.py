"""Downloads what the sample servers need, all at once, each within a time limit."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tabane.cli.demo.samples import Sample
from tabane.messages import Message, say

LIMIT = 120.0
"""Seconds that one server may take to be downloaded."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """A server whose download is over: after so many seconds, and why it failed, if it did."""

    sample: Sample
    seconds: float
    failure: Message | None = None


class Download:
    """One running download. What it prints goes to ``log``, warnings of npm and all."""

    def __init__(self, sample: Sample, log: Path, environ: Mapping[str, str]) -> None:
        self.sample = sample
        self._log = log
        self._began = time.monotonic()
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                sample.fetch,
                env=dict(environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def poll(self) -> Fetched | None:
        """What came of it, or None while it runs."""
        seconds = time.monotonic() - self._began
        status = self._process.poll()
        if status is None and seconds < LIMIT:
            return None
        if status == 0:
            return Fetched(self.sample, seconds)
        self.stop()
        if status is None:
            return Fetched(self.sample, seconds, say("not downloaded within {limit:.0f} s", limit=LIMIT))
        return Fetched(self.sample, seconds, say("the download failed: {reason}", reason=self._reason()))

    def stop(self) -> None:
        """End it and all its children; nothing happens where it has ended."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
        finally:
            self._process.wait()

    def _reason(self) -> str:
        lines = self._log.read_text("utf-8", "replace").strip().splitlines() or ["no word why"]
        errors = [line for line in lines if "error" in line.lower()]
        return (errors or lines)[-1].strip()[:200]


def fetch(
    samples: list[Sample], folder: Path, environ: Mapping[str, str], waiting: Callable[[list[str]], None]
) -> Iterator[Fetched]:
    """Download all at the same time; each is handed over when it is done. None outlives the iteration.

    ``waiting`` is told, some times a second, of what is still being downloaded.
    """
    running = [Download(sample, folder / f"{sample.name}.log", environ) for sample in samples]
    try:
        while running:
            waiting([download.sample.program for download in running])
            for download in list(running):
                if fetched := download.poll():
                    running.remove(download)
                    yield fetched
            time.sleep(0.1)
    finally:
        for download in running:
            download.stop()
