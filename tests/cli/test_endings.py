"""How a command ends where nobody reads, nothing can be written, or after Ctrl+C: never in a traceback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tabane.cli.main import main
from tests.harness.home import Home
from tests.harness.patience import LONG, wait_until
from tests.harness.terminal import on_terminal

PRINTING = (
    "--help",
    "--version",
    "status",
    "status --json",
    "settings list --help",
    "completion bash",
    "nope",
)


def run_in_shell(home: Home, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which ``tabane`` is a command."""
    script = f'tabane() {{ "{sys.executable}" -m tabane "$@"; }}; {line}'
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script],
        env=home.environment,
        capture_output=True,
        text=True,
        timeout=LONG,
    )


@pytest.mark.heavy("starts Python for each")
@pytest.mark.parametrize("command", PRINTING)
def test_an_output_that_cannot_be_written_ends_a_command_without_a_traceback(
    home: Home, command: str
) -> None:
    prints = command != "nope"  # an error is not printed there
    full = run_in_shell(home, f"tabane {command} > /dev/full")
    assert full.returncode == (1 if prints else 2)
    assert ("No space left on device" in full.stderr) == prints
    assert len(full.stderr.splitlines()) == (1 if prints else 3)
    closed = run_in_shell(home, f"tabane {command} >&-")
    assert closed.returncode in (0, 1, 2)
    assert "Traceback" not in closed.stderr
    for line in (
        f"tabane {command} | true",
        f"tabane {command} 2>&1 | head -c 1",
        f"tabane {command} 2>/dev/full",
    ):
        done = run_in_shell(home, line)
        assert not prints or done.stderr == "", line


class SilentHub:
    """A hub that takes a connection and never answers."""

    def __init__(self, home: Home) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(home.tabane / "hub.sock"))
        self._socket.listen(50)
        home.environment["TABANE_URL"] = f"unix:{home.tabane}"
        self._accepted: list[socket.socket] = []

    def accept(self, limit: float) -> bool:
        """Wait for a connection, and return whether one came and said hello."""
        self._socket.settimeout(limit)
        try:
            connection, _ = self._socket.accept()
            connection.settimeout(limit)
            connection.recv(1)
        except TimeoutError:
            return False
        self._accepted.append(connection)
        return True

    def close(self) -> None:
        for each in (self._socket, *self._accepted):
            each.close()


@pytest.fixture
def silent(home: Home) -> Iterator[SilentHub]:
    hub = SilentHub(home)
    yield hub
    hub.close()


def client_commands(command: click.Command, *path: str) -> Iterator[list[str]]:
    """Yield each command that has ``--url``, with a word for each argument that it needs."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            under = command.get_command(click.Context(command), name)
            assert under is not None
            yield from client_commands(under, *path, name)
    elif any("--url" in option.opts for option in command.params if option.name != "at"):
        needed = [each for each in command.params if isinstance(each, click.Argument) and each.required]
        yield [*path, *("x=1" if each.name == "pairs" else "1" for each in needed)]


@pytest.mark.heavy("runs every command")
def test_ctrl_c_ends_every_command_that_waits_for_the_hub_with_130(home: Home, silent: SilentHub) -> None:
    wrong, waited = {}, 0
    for words in client_commands(main):
        process = subprocess.Popen(
            [sys.executable, "-m", "tabane", *words],
            env=home.environment,
            cwd=home.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        while not (reached := silent.accept(0.2)) and process.poll() is None:
            pass
        if reached:
            waited += 1
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LONG)
        if b"Traceback" in err or (reached and process.returncode != 130):
            wrong[" ".join(words)] = (process.returncode, err.decode()[-300:])
    assert not wrong
    assert waited > 40


def test_ctrl_c_in_a_question_ends_with_130(home: Home) -> None:
    with on_terminal(home, "secrets", "set", "TOKEN") as terminal:
        terminal.read_until("TOKEN")
        wait_until(lambda: terminal.shows(":"), "the question is asked")
        os.write(terminal.fd, b"\x03")
        terminal.end()
        assert terminal.process.returncode == 130
        assert "Traceback" not in terminal.out


def test_sigterm_ends_a_command_at_once(home: Home, silent: SilentHub, tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-m", "tabane", "health"], env=home.environment)
    assert silent.accept(LONG)
    process.terminate()
    assert process.wait(LONG) == -signal.SIGTERM
