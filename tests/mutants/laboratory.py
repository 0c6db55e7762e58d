"""A copy of the source and of the tests, that lies over the working copy for whatever runs in it.

Tests start processes with environments of their own, so no variable tells all of them where the source is. In
a container of bubblewrap, the copy is mounted where the working copy is; everything else can only be read. A
mutant can therefore neither remove files nor end processes outside, and what it leaves running ends with it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.landing import EXAMPLES
from tests.plugins.tiers import ROOT as ROOT

_COPIED = ("src", "tests")
_PYTEST = (
    sys.executable,
    "-m",
    "pytest",
    "-p",
    "tests.mutants.plugin",
    "-p",
    "no:cacheprovider",
    "--tb=short",
)


@dataclass(frozen=True)
class Run:
    status: int | None
    """The exit status of pytest, None if it took too long."""

    output: str
    results: dict[str, dict[str, Any]]
    """For each test that ran: whether it passed, its seconds of CPU, and its seconds."""

    cpu: float = 0.0
    """Seconds, of pytest and what it started, if pytest came to its end."""


class Laboratory:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._temporary = folder / "tmp"
        self._source = folder / "src"
        self._stamps = 0
        for name in _COPIED:
            shutil.copytree(ROOT / name, folder / name)
        shutil.copy(folder / "tests" / "mutants" / "probe.py", self._source / "mutants_probe.py")

    @property
    def reached(self) -> str:
        """What the probes of the last run have noted."""
        return (self._source / "reached").read_text(encoding="ascii")

    def write(self, file: str, source: bytes) -> None:
        """Replace a file of the copy, with a time of its own, so that no compiled file of another fits it."""
        self._stamps += 1
        (self._folder / file).write_bytes(source)
        os.utime(self._folder / file, (self._stamps, self._stamps))

    def run(
        self, words: Sequence[str], chosen: Sequence[str] | None, seconds: float, test_seconds: float
    ) -> Run:
        """Run pytest with these arguments: all tests, or the chosen ones in their order until one fails."""
        self._temporary.mkdir()
        results = self._source / "results.json"
        results.unlink(missing_ok=True)
        (self._source / "chosen.json").write_text(json.dumps(chosen))
        (self._source / "now").write_bytes(bytes(4))
        (self._source / "reached").write_bytes(b"")
        more = [f"--timeout={test_seconds:g}", *(["-x"] if chosen is not None else [])]
        output = self._folder / "output"
        status = self._waited([*self._container(), *_PYTEST, *more, *words], output, seconds)
        shutil.rmtree(self._temporary, ignore_errors=True)
        text = output.read_text(encoding="utf-8", errors="replace")
        return Run(status, text, **json.loads(results.read_text() if results.exists() else '{"results": {}}'))

    def _container(self) -> list[str]:
        mounts = [("--ro-bind", Path("/"), Path("/")), ("--dev-bind", Path("/dev"), Path("/dev"))]
        mounts += [("--bind", self._temporary, Path("/tmp")), ("--ro-bind", ROOT, ROOT)]
        mounts += [("--bind", self._folder / name, ROOT / name) for name in _COPIED]
        words = [word for kind, outside, inside in mounts for word in (kind, str(outside), str(inside))]
        return ["bwrap", *words, "--proc", "/proc", "--unshare-pid", "--die-with-parent"]

    def _waited(self, command: Sequence[str], output: Path, seconds: float) -> int | None:
        environment = {name: text for name, text in os.environ.items() if not name.startswith("TABANE")}
        environment |= {
            "TABANE_MUTANTS": str(ROOT / "src"),
            "TABANE_EXAMPLES": str(EXAMPLES["landing"]),
        }
        with output.open("wb") as file, suppress(subprocess.TimeoutExpired):
            return subprocess.run(
                command,
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                timeout=seconds,
            ).returncode
        return None
