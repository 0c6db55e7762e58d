"""How a collection grows: ``python -m benchmarks.growth [--sizes 10000 100000 1000000] [--write]``.

Time, memory, disk and ingest of the embedded engine and of PostgreSQL. ``--engines`` leaves one out, and
``--most`` is the largest size of PostgreSQL: it needs half an hour for a million records. A server of its own
is started for each size, with fsync.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from benchmarks.growth.page import ENGINES, Growth, growth_page
from benchmarks.report import publish
from benchmarks.search.engine_runs import ROOT
from benchmarks.search.sizes import sizes
from tests.harness.postgres_server import PostgresServer, postgres_server


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth")
    parser.add_argument("--sizes", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--most", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true", help="write the performance page")
    options = parser.parse_args(arguments)
    ways = {"files": on_files, "postgresql": on_server}
    found = [
        ways[engine](size)
        for engine in options.engines
        for size in options.sizes
        if engine == "files" or size <= options.most
    ]
    publish("growth", growth_page(found), write=options.write)


def on_files(size: int) -> Growth:
    """Measure the embedded engine."""
    with tempfile.TemporaryDirectory(prefix="tabane-growth-") as folder:
        filled = _step("fill", "files", folder, size)
        disk = sum(sizes(Path(folder)).values())
        return Growth("files", size, filled, disk, _step("ask", "files", folder, size))


def on_server(size: int) -> Growth:
    """Measure PostgreSQL."""
    with postgres_server() as server:
        server.stop()
        server.start(
            fsync="on",
            full_page_writes="on",
            shared_buffers="2GB",
            maintenance_work_mem="2GB",
            max_wal_size="8GB",
        )
        filled = _step("fill", "postgresql", server.url(), size)
        server.execute("VACUUM ANALYZE")
        disk = _disk(server)
        return Growth(
            "postgresql", size, filled, disk, _step("ask", "postgresql", server.url(), size), _memory()
        )


def _step(step: str, engine: str, target: str, size: int) -> dict[str, Any]:
    print(f"growth: {time.strftime('%H:%M:%S')} {engine} {size:,} {step}", file=sys.stderr)
    command = [sys.executable, "-m", "benchmarks.growth.measuring", step, engine, target, str(size)]
    ended = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    print(f"growth: {found}", file=sys.stderr)
    return found


def _disk(server: PostgresServer) -> float:
    return float(str(server.execute("SELECT pg_database_size(current_database())")[0][0]))


def _memory() -> float:
    """Return the memory of the server's processes in MB; what they share is counted once."""
    several = psutil.Process().children(recursive=True)
    return float(sum(each.memory_full_info().pss for each in several if each.name() == "postgres")) / 1e6


if __name__ == "__main__":
    main(sys.argv[1:])
