"""Measure the first start of sixteen real servers behind a company's proxy and authority, in an empty home.

The machine has uv, Node.js and Python, and no cache. `tabane install` runs in a terminal with the company's
variables. Then an assistant that has none of them starts the hub. Then everything is stopped and started
again, with what the first start left. Needs `make node`, and the registries of npm and PyPI. ``--write`` puts
the table into the performance page.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.report import machine, publish
from tests.harness.company_network import CompanyProxy, company_network

from tabane.cli.bench.temporary_hub import Assistant

ROOT = Path(__file__).parents[2]
PROGRAMS = (str(ROOT / "build" / "node" / "bin"), str(Path(sys.executable).parent))
LIMIT = 600.0
"""Seconds until a server that has not listed its tools counts as not ready."""

_LOOK = 0.5


@dataclass
class ColdRun:
    """Seconds until each server had listed its tools, and why the others have not."""

    ready: dict[str, float] = field(default_factory=dict)
    problems: dict[str, str] = field(default_factory=dict)

    @property
    def first(self) -> float | None:
        return min(self.ready.values(), default=None)

    @property
    def last(self) -> float | None:
        return max(self.ready.values(), default=None)


def definitions(folder: Path) -> dict[str, dict[str, Any]]:
    """Return sixteen servers that need no account: nine of npm, seven of PyPI."""
    files = folder / "files"
    files.mkdir()
    subprocess.run(["git", "init", "--quiet", str(files)], check=True)
    npm = {
        "everything": ("@modelcontextprotocol/server-everything",),
        "filesystem": ("@modelcontextprotocol/server-filesystem", str(files)),
        "memory": ("@modelcontextprotocol/server-memory",),
        "thinking": ("@modelcontextprotocol/server-sequential-thinking",),
        "context7": ("@upstash/context7-mcp",),
        "playwright": ("@playwright/mcp",),
        "commander": ("@wonderwhy-er/desktop-commander",),
        "chart": ("@antv/mcp-server-chart",),
        "devtools": ("chrome-devtools-mcp",),
    }
    python = {
        "time": ("mcp-server-time",),
        "git": ("mcp-server-git", "--repository", str(files)),
        "fetch": ("mcp-server-fetch",),
        "excel": ("excel-mcp-server", "stdio"),
        "duckduckgo": ("duckduckgo-mcp-server",),
        "arxiv": ("arxiv-mcp-server", "--storage-path", str(files)),
        "markitdown": ("markitdown-mcp",),
    }
    return {name: {"command": "npx", "args": ["-y", *words]} for name, words in npm.items()} | {
        name: {"command": "uvx", "args": ["--python", sys.executable, *words]}
        for name, words in python.items()
    }


class ColdHome:
    """A user's home with nothing in it, the terminal of that user, and an assistant with windows."""

    def __init__(self, folder: Path, company: CompanyProxy) -> None:
        self.folder = folder
        config = folder / ".config" / "tabane"
        config.mkdir(parents=True)
        (folder / ".cursor").mkdir()
        servers = config / "mcp-servers.json"
        self.servers = definitions(folder)
        servers.write_text(json.dumps({"mcpServers": self.servers}))
        servers.chmod(0o600)
        path = os.pathsep.join((*PROGRAMS, "/usr/local/bin", "/usr/bin", "/bin"))
        self.terminal = {"HOME": str(folder), "PATH": path, "LANG": "C.UTF-8", **company.environment}
        self.desktop = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self._own = {"TABANE_MODEL": "none", "TABANE_HTTP": "false"}

    def tabane(self, *arguments: str, environ: Mapping[str, str] | None = None) -> Any:
        """Run a command in the terminal, and return its JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "tabane", *arguments, "--json"],
            env={**(environ or self.terminal), **self._own},
            capture_output=True,
            text=True,
            check=False,
        )
        return json.loads(done.stdout) if done.stdout.strip() else {}

    @contextmanager
    def assistant(self) -> Iterator[Assistant]:
        """An assistant is connected; the hub ends with the block."""
        entry = json.loads((self.folder / ".cursor" / "mcp.json").read_text())["mcpServers"]["tabane"]
        command = (entry["command"], *entry["args"])
        found = Assistant(command, {**self.desktop, **self._own}, str(self.folder / "bridge.log"))
        try:
            yield found
        finally:
            found.close()
            self.tabane("stop")

    def measure(self, limit: float) -> ColdRun:
        """Start the hub as an assistant does, and wait until all servers have listed their tools."""
        run = ColdRun()
        began = time.monotonic()
        with self.assistant() as assistant:
            assistant.open(timeout=60)
            assistant.call("search_tools", {"query": "what time is it"})
            while len(run.ready) < len(self.servers) and time.monotonic() - began < limit:
                time.sleep(_LOOK)
                rows = self.tabane("servers", "list", environ=self.desktop).get("results", ())
                for row in rows:
                    if row["tools"] and row["name"] not in run.ready:
                        run.ready[row["name"]] = time.monotonic() - began
                run.problems = {row["name"]: row["error"] or row["state"] for row in rows if not row["tools"]}
        return run

    def broken(self) -> dict[str, str]:
        """Start each server alone with what the first start left. Return those that do not work, with why."""
        with self.assistant() as assistant:
            assistant.open(timeout=60)
            tried = {name: self.tabane("servers", "restart", name) for name in self.servers}
            rows = self.tabane("servers", "list", environ=self.desktop)["results"]
        running = {row["name"] for row in rows if row["state"] == "ready"}
        return {name: str(tried[name].get("error") or "") for name in self.servers if name not in running}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.starts.cold", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the table to the performance page")
    parser.add_argument("--forget", action="store_true", help="start the hub without what was recorded")
    parser.add_argument("--limit", type=float, default=LIMIT, metavar="SECONDS")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="cold-", ignore_cleanup_errors=True) as folder:
        with company_network(Path(folder)) as company:
            home = ColdHome(Path(folder), company)
            home.tabane("install", "cursor")
            if options.forget:
                for name in ("environment", "path"):
                    (Path(folder) / ".local" / "share" / "tabane" / name).unlink(missing_ok=True)
            cold = home.measure(options.limit)
            print(f"cold: {len(cold.ready)} of {len(home.servers)}, {cold.problems}", file=sys.stderr)
            broken = home.broken()
        publish("starts", _page(home, cold, broken), write=options.write)


def _page(home: ColdHome, cold: ColdRun, broken: Mapping[str, str]) -> Iterator[str]:
    yield "## First starts"
    yield machine("python -m benchmarks.starts.cold")
    yield (
        "Sixteen servers of npm and PyPI, in an empty home, behind a proxy with its own certificate "
        "authority. `tabane install` ran in a terminal with the variables of the proxy. An assistant without "
        "them started the hub."
    )
    shown = [
        ("ready", f"{len(cold.ready)} of {len(home.servers)}"),
        ("first tools", f"{cold.first:.1f} s" if cold.first is not None else "none"),
        ("last server", f"{cold.last:.1f} s" if cold.last is not None else "none"),
        ("started again, not ready", str(len(broken))),
    ]
    yield "\n".join(["| | |", "|---|---|", *(f"| {label} | {value} |" for label, value in shown)])
    rows = [
        f"| {name} | {seconds:.1f} s |" for name, seconds in sorted(cold.ready.items(), key=lambda i: i[1])
    ]
    rows += [f"| {name} | not ready |" for name in home.servers if name not in cold.ready]
    yield "\n".join(["| server | tools listed after |", "|---|---|", *rows])
    for name, problem in (cold.problems | dict(broken)).items():
        print(f"{name}: {problem}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
