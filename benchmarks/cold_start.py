"""From nothing to the first answer of an assistant: ``python -m benchmarks.cold_start [--write]``.

Each run has an empty home with the files of two assistants. It installs this checkout as a user does, sets
Tabane up, starts what the file of the assistant then says, and calls a tool of a real server.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.neighbors.caller import INITIALIZE
from benchmarks.report import Goal, goals, machine, publish, table

ROOT = Path(__file__).parents[1]
COMMAND = "python -m benchmarks.cold_start"
LIMIT = 900
"""Seconds of one step."""

TOOL = ("time__get_current_time", {"timezone": "Asia/Tokyo"})
ASSISTANTS = {
    ".claude.json": {"time": {"command": "uvx", "args": ["mcp-server-time"]}},
    ".cursor/mcp.json": {"memory": {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-memory"]}},
}
"""The assistants of this home, and the servers that they start themselves."""

_PASSED = (
    "SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "HTTPS_PROXY", "NO_PROXY", "UV_DEFAULT_INDEX",
)  # fmt: skip
_METHOD = """
- Each home is empty but for the files of Claude Code (`uvx mcp-server-time`) and Cursor (`npx -y
  @modelcontextprotocol/server-memory`). Python, uv and Node.js are there.
- With cached packages: those of Tabane and the servers are in the caches of uv and npm. Without: the caches
  are empty, and everything comes from the network.
- The first answer is that of `{tool}`, called as the assistant does it: the command in its file is started,
  then `initialize`, `tools/list` and `tools/call`.
""".strip()


class FreshHome:
    """A home with assistants and no Tabane. ``caches`` is the folder of packages that are there already."""

    def __init__(self, folder: Path, caches: Path) -> None:
        self.folder = folder
        programs = folder / "programs"
        programs.mkdir(parents=True)
        here = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        for name in ("uv", "uvx", "node", "npx"):
            found = shutil.which(name, path=here)
            assert found, f"{name} is needed"
            (programs / name).symlink_to(found)
        path = [str(folder / ".local/bin"), str(programs), "/usr/bin", "/bin"]
        self.environment = {
            "HOME": str(folder),
            "PATH": os.pathsep.join(path),
            "LANG": "C.UTF-8",
            "UV_CACHE_DIR": str(caches / "uv"),
            "UV_PYTHON": sys.executable,
            "npm_config_cache": str(caches / "npm"),
            "TABANE_PORT": "0",
            **{name: os.environ[name] for name in _PASSED if name in os.environ},
        }
        for name, servers in ASSISTANTS.items():
            file = folder / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(json.dumps({"mcpServers": servers}, indent=2))

    def run(self, *words: str) -> None:
        """Run a command of the README. Exits if it fails."""
        done = subprocess.run(
            words, env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.exit(f"{' '.join(words)} failed:\n{done.stdout}")

    def set_up(self) -> None:
        if os.environ.get("WITHOUT_SETUP"):
            self.run("tabane", "servers", "import", "--yes")
            self.run("tabane", "install", "claude-code")
        else:
            self.run("tabane", "setup", "--yes")

    def first_answer(self) -> str:
        """Start what the assistant's file says, and return the text of the first call of a real server."""
        entries = json.loads((self.folder / ".claude.json").read_text())["mcpServers"]
        (entry,) = [each for each in entries.values() if "mcp" in each.get("args", ())]
        process = subprocess.Popen(
            [entry["command"], *entry["args"]], env=self.environment | entry.get("env", {}),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                ask(process, 1, "initialize", INITIALIZE)
                ask(process, 2, "tools/list", {})
                name, arguments = TOOL
                answer = ask(process, 3, "tools/call", {"name": name, "arguments": arguments})
                return str(answer["content"][0]["text"])
            finally:
                process.kill()


def ask(process: subprocess.Popen[str], number: int, method: str, params: Mapping[str, Any]) -> Any:
    """Send a request, and return its result. Raises KeyError if it is an error."""
    assert process.stdin is not None
    assert process.stdout is not None
    body = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    process.stdin.write(json.dumps(body) + "\n")
    process.stdin.flush()
    for line in process.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message["result"]
    raise EOFError(f"no answer to {method}")


def measured(folder: Path, caches: Path) -> dict[str, float]:
    """Return the seconds of each step, in order."""
    home, seconds = FreshHome(folder, caches), dict[str, float]()

    @contextmanager
    def timed(step: str) -> Iterator[None]:
        began = time.perf_counter()
        yield
        seconds[step] = time.perf_counter() - began
        print(f"cold start: {step}: {seconds[step]:.1f} s", file=sys.stderr, flush=True)

    try:
        with timed("uv tool install ."):
            home.run("uv", "tool", "install", str(ROOT))
        with timed("tabane setup --yes"):
            home.set_up()
        with timed("first answer"):
            text = home.first_answer()
        assert "Asia/Tokyo" in text, text
    finally:
        if (folder / ".local/bin/tabane").exists():
            home.run("tabane", "stop")
    return seconds


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="cold-start-") as name:
        folder = Path(name)
        without = measured(folder / "without", folder / "caches")
        cached = measured(folder / "cached", folder / "caches")  # which the first run has filled
    rows = [[step, f"{cached[step]:.1f}", f"{without[step]:.1f}"] for step in cached]
    page = [
        "From nothing to the first answer",
        machine(COMMAND),
        _METHOD.format(tool=TOOL[0]),
        goals(
            [
                Goal("with cached packages", sum(cached.values()), 60, " s", digits=1, limit_digits=0),
                Goal("without", sum(without.values()), 180, " s", digits=1, limit_digits=0),
            ]
        ),
        table(("seconds", "with cached packages", "without"), rows),
    ]
    publish("cold_start", page, write="--write" in sys.argv)


if __name__ == "__main__":
    main()
