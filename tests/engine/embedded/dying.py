"""The test's side of :mod:`tests.engine.embedded.child`: orders to it, and what its children last said."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from tests.harness.patience import LONG


class Child:
    """One child, alive until it is killed or ends. ``said`` is every line of its own so far."""

    def __init__(self, lines: IO[str]) -> None:
        self._lines = lines
        self.said: list[str] = []
        self.ended: int | None = None
        self.pid = int(self._line().removeprefix("pid "))

    def _line(self) -> str:
        line = self._lines.readline().strip()
        assert line, "the parent of the children has ended"
        return line

    def listen(self, count: int) -> None:
        """Wait until the child has said ``count`` lines in all, or has ended."""
        while self.ended is None and len(self.said) < count:
            line = self._line()
            if line.startswith("ended "):
                self.ended = int(line.removeprefix("ended "))
            else:
                self.said.append(line)

    def kill(self, after: float) -> None:
        """kill -9, so many seconds from now, to a fraction of a millisecond; then hear what was said."""
        deadline = time.perf_counter() + after
        while time.perf_counter() < deadline:
            pass
        os.kill(self.pid, signal.SIGKILL)
        self.listen(sys.maxsize)

    def report(self) -> dict[str, Any]:
        """What a child that ends by itself had to say."""
        self.listen(sys.maxsize)
        assert self.ended == 0, self.said
        found: dict[str, Any] = json.loads(self.said[-1])
        return found


class Nursery:
    """Starts children, one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.embedded.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process with threads is not forked lightly
        )

    def __enter__(self) -> Nursery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        if error is not None:
            self._process.kill()
        self._process.wait(LONG)

    @contextmanager
    def child(self, kind: str, home: Path, **order: Any) -> Iterator[Child]:
        """A child that does what ``KINDS`` of :mod:`tests.engine.embedded.child` says, until it is killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"kind": kind, "home": str(home), **order}) + "\n")
        self._process.stdin.flush()
        child = Child(self._process.stdout)
        try:
            yield child
        finally:
            if child.ended is None:
                child.kill(0)
