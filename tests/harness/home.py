"""A user's home with its own folders, and `tabane` as a real process."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.harness.forked_commands import can_be_forked, run_forked
from tests.harness.patience import LONG

CHILD = Path(__file__).parents[1] / "harness" / "servers" / "child.py"
LIMIT = LONG
"""Seconds for one command; they take less than one."""
_MARKING = (("bench",), ("demo",))  # they find their hub by its environment


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what it wrote."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def succeeded(self) -> Outcome:
        """This outcome, which must be a success."""
        assert self.status == 0, self.err
        return self

    @property
    def rows(self) -> list[list[str]]:
        """A table as it is printed where no terminal is."""
        return [line.split("\t") for line in self.out.splitlines()]


class Home:
    """The files of one user: all lie under ``folder``. No hub runs until a command starts one."""

    forks_hub = True
    """Whether bridges and hubs may be forks, which have everything imported: see forked_commands.py."""

    def __init__(self, folder: Path, name: str = "tabane", *, made: bool = True) -> None:
        self.folder = folder
        self.tabane = folder / name
        if made:
            self.tabane.mkdir(mode=0o700)
        self.environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "TABANE_HOME": str(self.tabane),
            "TABANE_HTTP": "false",
            "HF_HUB_OFFLINE": "1",  # no test asks anybody for a model
            "TABANE_MODEL": "none",  # what is searched by meaning takes a process, and time
            "TABANE_LIST_WAIT": "60",  # lists wait for servers that start, also on a loaded machine
            "TABANE_PROBE_TIMEOUT": "60",  # and each is asked for its era
            "LANG": "C.UTF-8",
        }

    @property
    def servers(self) -> Path:
        """The servers file of this home."""
        mac = self.folder / "Library" / "Application Support" / "tabane"
        folder = mac if sys.platform == "darwin" else self.folder / "config" / "tabane"
        return folder / "mcp-servers.json"

    def write_servers(self, text: str | Mapping[str, Any], path: Path | None = None) -> Path:
        """Write a servers file: this home's, if no path is given."""
        path = path or self.servers
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps({"mcpServers": text}))
        path.chmod(0o600)
        return path

    def read_servers(self) -> Any:
        return json.loads(self.servers.read_text())["mcpServers"]

    def run(
        self,
        *arguments: str,
        stdin: str = "",
        environment: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        python: Sequence[str] | None = None,
    ) -> Outcome:
        """Run `tabane ARGUMENTS` with its outputs piped: in a fresh interpreter if ``python`` starts one."""
        variables, folder = {**self.environment, **(environment or {})}, cwd or self.folder
        if python is None and can_be_forked(variables):
            done = run_forked(arguments, stdin.encode(), variables, folder, LIMIT, forks_hub=self.forks_hub)
        else:
            done = subprocess.run(
                [*(python or (sys.executable,)), "-m", "tabane", *arguments],
                input=stdin.encode(),
                capture_output=True,
                env=variables,
                cwd=folder,
                timeout=LIMIT,
                check=False,
            )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def run_with(self, python: str, *arguments: str) -> Outcome:
        """Run a command of the version that another interpreter imports. Its hub is a new process."""
        done = run_forked(
            arguments, b"", self.environment, self.folder, LIMIT, forks_hub=False, python=python
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def json(self, *arguments: str) -> Any:
        """Return the output of a command with `--json` that must succeed."""
        return self.run(*arguments, "--json").succeeded.json

    def run_on_terminal(self, *arguments: str, columns: int = 100) -> Outcome:
        """The same with standard output on a terminal of that width."""
        return self._on_terminal(arguments, "", columns, {"COLUMNS": str(columns)}, output_alone=True)

    def converse(self, *arguments: str, typed: str = "", columns: int = 100, **variables: str) -> Outcome:
        """The same with all three standard streams on the terminal, and ``typed`` waiting to be read."""
        return self._on_terminal(arguments, typed, columns, variables, output_alone=False)

    def _on_terminal(
        self,
        arguments: Sequence[str],
        typed: str,
        columns: int,
        variables: Mapping[str, str],
        *,
        output_alone: bool,
    ) -> Outcome:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        os.write(ours, typed.encode())
        process = subprocess.Popen(
            [sys.executable, "-m", "tabane", *arguments],
            stdin=subprocess.DEVNULL if output_alone else theirs,
            stdout=theirs,
            stderr=subprocess.PIPE if output_alone else theirs,
            env={**self.environment, "TERM": "xterm", **variables},
            cwd=self.folder,
        )
        os.close(theirs)
        try:
            out = _read_to_end(ours)
            _, err = process.communicate(timeout=LIMIT)
        finally:
            os.close(ours)
            process.kill()
            process.wait()
        return Outcome(process.returncode, out.decode().replace("\r\n", "\n"), (err or b"").decode())

    def child(self, *arguments: str) -> dict[str, Any]:
        """The definition of a server of the tests' own."""
        return {"command": sys.executable, "args": [str(CHILD), *arguments]}


def _read_to_end(fd: int) -> bytes:
    parts: list[bytes] = []
    while True:
        try:
            part = os.read(fd, 1 << 16)
        except OSError:  # what Linux says at the end of a terminal
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


@contextmanager
def hub(home: Home, *flags: str) -> Iterator[Home]:
    """A hub runs at this home while the block does."""
    started = home.run("start", *flags)
    assert started.status == 0, started.err
    try:
        yield home
    finally:
        stopped = home.run("stop")
        assert stopped.status == 0, stopped.err
