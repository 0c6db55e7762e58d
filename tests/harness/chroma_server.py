"""A real Chroma, in an environment of its own (``make chroma``), with a folder and a port of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tabane.engine.team.chroma.index import ChromaIndex, chroma_index
from tabane.engine.team.chroma.service import parsed
from tabane.errors import StoreError
from tests.harness.patience import wait_until
from tests.harness.ports import reserved_port

_PROGRAMS = Path(__file__).parents[2] / "build" / "chroma" / "bin"
PYTHON = str(_PROGRAMS / "python")
"""The interpreter that has Chroma's library."""


def is_installed() -> bool:
    return any(_PROGRAMS.parent.glob(".ready-*"))


class ChromaProcess:
    """A server whose data is in a folder. It has the same port after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, reserved_port(self)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, parameters: str = "timeout=10") -> str:
        return f"chroma+http://127.0.0.1:{self.port}?{parameters}"

    def start(self) -> None:
        place = ["--path", str(self.folder / "data"), "--host", "127.0.0.1", "--port", str(self.port)]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [str(_PROGRAMS / "chroma"), "run", *place], stdout=log, stderr=log, cwd=self.folder
            )
        index = chroma_index(parsed(self.url()))
        wait_until(lambda: _answers(index), "Chroma answers")
        index.close()

    def kill(self) -> None:
        """Kill it at once, as if the machine had stopped."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()


def _answers(index: ChromaIndex) -> bool:
    try:
        index.version()
    except StoreError:
        return False
    return True


@contextlib.contextmanager
def chroma_server() -> Iterator[ChromaProcess]:
    """Yield a server that runs, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="chroma-"))
    try:
        server = ChromaProcess(folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
