"""A real Milvus, in an environment of its own (``make milvus``), with a folder and a port of its own."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tabane.engine.team.milvus_index import MilvusIndex, parse_milvus_url
from tabane.errors import StoreError
from tests.harness.milvus_starter import PORTS
from tests.harness.patience import LONG, wait_until
from tests.harness.ports import reserved_port

_ENVIRONMENT = Path(__file__).parents[2] / "build" / "milvus"


def is_installed() -> bool:
    return any(_ENVIRONMENT.glob(".ready-*"))


class MilvusServer:
    """A server whose data is in a folder. It has the same ports after a restart."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ports = {name: reserved_port(self) for name in PORTS}
        self.port = self._ports["proxy_port"]
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, parameters: str = "timeout=3") -> str:
        return f"milvus://127.0.0.1:{self.port}?{parameters}"

    def start(self) -> None:
        starter = Path(__file__).with_name("milvus_starter.py")
        command = [str(_ENVIRONMENT / "bin" / "python"), str(starter), str(self.folder)]
        command += [f"{name}={port}" for name, port in self._ports.items()]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, process_group=0)
        wait_until(self._answers, "Milvus answers", 4 * LONG)

    def _ended(self) -> None:
        """Fail at once if the process has ended, with the end of its log."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise AssertionError(f"Milvus ended: {(self.folder / 'log').read_text(errors='replace')[-2000:]}")

    def kill(self) -> None:
        """Kill it at once, as if the machine had stopped."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def _answers(self) -> bool:
        self._ended()
        index = MilvusIndex(parse_milvus_url(self.url()))
        try:
            index.version()
        except StoreError:
            return False
        finally:
            index.close()
        return True


@contextlib.contextmanager
def milvus_server() -> Iterator[MilvusServer]:
    """Yield a server that runs, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="milvus-"))
    try:
        server = MilvusServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
