"""A real server of Milvus Lite, in an environment of its own (``make milvus``).

It speaks the protocol of Milvus, and has sparse vectors, which the older server of
:mod:`tests.harness.milvus_server` lacks.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tabane.engine.team.milvus.index import MilvusIndex
from tabane.engine.team.milvus.index_url import parsed
from tabane.errors import StoreError
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port

_PYTHON = Path(__file__).parents[2] / "build" / "milvus" / "lite" / "bin" / "python"


def is_installed() -> bool:
    return _PYTHON.exists()


class MilvusLiteServer:
    """A server whose data is in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = reserved_port(self)
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, parameters: str = "timeout=20&keywords=milvus") -> str:
        return f"milvus://127.0.0.1:{self._port}?{parameters}"

    def start(self) -> None:
        command = [str(_PYTHON), "-m", "milvus_lite", "server", "--data-dir", str(self._folder / "data")]
        command += ["--host", "127.0.0.1", "--port", str(self._port)]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        wait_until(self._answers, "Milvus Lite answers", LONG)

    def kill(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        assert self._process is not None
        if self._process.poll() is not None:
            log = (self._folder / "log").read_text(errors="replace")
            raise AssertionError(f"Milvus Lite ended: {log[-2000:]}")
        index = MilvusIndex(parsed(self.url()))
        try:
            return index.version().sparse
        except StoreError:
            return False
        finally:
            index.close()


@contextlib.contextmanager
def milvus_lite_server() -> Iterator[MilvusLiteServer]:
    """Yield a server that runs, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="milvus-lite-", ignore_cleanup_errors=True) as folder:
        server = MilvusLiteServer(Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.kill()
