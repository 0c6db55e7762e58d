"""`tabane service`: a hub that systemd or launchd starts at login.

First the files by which they start it (pure), then the managers themselves, then the commands.
"""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from tabane.cli.hub_process import end_hub
from tabane.cli.options import dry_run_option, option, with_json
from tabane.cli.output import FAILED, Group, TableState, Terminal, emit, examples, lang
from tabane.errors import ConfigurationError
from tabane.hub.servers.recorded_environment import record_environment
from tabane.messages import Message, say
from tabane.servers.assistants.installation import launcher
from tabane.settings.files import home_folder, write_private

MARK = "Written by tabane service install"
"""In each file that Tabane wrote; only such a file is replaced or removed."""

UNIT = "tabane.service"
LABEL = "tabane.hub"
STOPPING = 90
"""Seconds that the hub has to finish its calls before it is killed."""

_UNSAFE = ("TOKEN", "SECRET", "PASSWORD", "KEY", "AUTH", "CREDENTIAL")
_NOT_PASSED = frozenset({"TABANE_URL", "TABANE_MODE", "TABANE_PROFILE"})  # for clients of the hub


def kept_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what a hub at login needs from this environment: PATH, and the settings in TABANE_* variables.

    Names that look like secrets are left out: the files can be read by other programs.
    """
    found = {
        name: value
        for name, value in environ.items()
        if name.startswith("TABANE_")
        and name not in _NOT_PASSED
        and not any(part in name for part in _UNSAFE)
    }
    if environ.get("PATH"):
        found["PATH"] = environ["PATH"]
    return {name: value for name, value in sorted(found.items()) if value.isprintable()}


def systemd_unit(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return a user unit (systemd.service(5)) that restarts the hub if it fails, not if it is stopped."""
    environment = "".join(f"Environment={_quoted(f'{name}={value}')}\n" for name, value in variables.items())
    return (
        f"# {MARK}. To remove it: tabane service remove\n"
        "[Unit]\n"
        "Description=Tabane, a local hub for MCP\n"
        "StartLimitIntervalSec=300\n"
        "StartLimitBurst=5\n"
        "\n"
        "[Service]\n"
        "Type=notify\n"
        "NotifyAccess=main\n"
        f"ExecStart={' '.join(_quoted(part.replace('$', '$$')) for part in command)}\n"
        f"{environment}"
        "Restart=on-failure\n"
        "RestartSec=5\n"
        # the keeper ends the servers, and what is left is killed afterwards
        "KillMode=mixed\n"
        f"TimeoutStopSec={STOPPING}\n"
        "\n"
        "[Install]\n"
        "WantedBy=default.target\n"
    )


def launchd_agent(command: Sequence[str], variables: Mapping[str, str]) -> str:
    """Return a launch agent (launchd.plist(5)) that starts the hub at login and after a failure."""
    agent = {
        "Label": LABEL,
        "ProgramArguments": list(command),
        "EnvironmentVariables": dict(variables),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": STOPPING,
        # the hub has a log of its own, of a bounded size
        "StandardOutPath": "/dev/null",
        "StandardErrorPath": "/dev/null",
    }
    written = plistlib.dumps(agent, sort_keys=False).decode()
    head, doctype, rest = written.partition("<plist ")
    return f"{head}<!-- {MARK} -->\n{doctype}{rest}"


def _quoted(text: str) -> str:
    """Return one word of a unit file (systemd.syntax(7)), without specifiers."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"'


_PATIENCE = STOPPING + 30  # seconds for a command of the manager, which waits for the hub


@dataclass(frozen=True)
class ServiceState:
    """``state`` is the manager's own word, such as active, failed or inactive."""

    running: bool
    state: str


class ServiceManager:
    """The program of the platform that starts services of a user: how it is run."""

    program: str
    unavailable: Message

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home, self._environ = home, environ

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the manager's command. Raises ConfigurationError if there is none, or it does not end."""
        found = shutil.which(self.program, path=self._environ.get("PATH"))
        if found is None:
            raise ConfigurationError(self.unavailable)
        try:
            return subprocess.run(
                [found, *arguments],
                env=dict(self._environ),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ConfigurationError(
                say("{program} did not end within {seconds} s.", program=self.program, seconds=_PATIENCE)
            ) from None

    def must(self, *arguments: str) -> None:
        """Run the program of the service manager. Raises ConfigurationError if it fails."""
        done = self.run(*arguments)
        if done.returncode:
            raise ConfigurationError(
                say(
                    "{command} failed: {reason}",
                    command=" ".join((self.program, *arguments)),
                    reason=_said(done),
                )
            )


class Systemd(ServiceManager):
    """The systemd instance of a user (``systemctl --user``)."""

    program = "systemctl"
    unavailable = say(
        "systemd is not available here. Start the hub with: tabane start. To use another service manager, "
        "let it run: tabane start --foreground"
    )

    @property
    def path(self) -> Path:
        """The file of the service."""
        given = self._environ.get("XDG_CONFIG_HOME", "")
        folder = Path(given) if os.path.isabs(given) else self._home / ".config"
        return folder / "systemd" / "user" / UNIT

    def definition(self, command: Sequence[str], variables: Mapping[str, str]) -> str:
        """Return the content of that file."""
        return systemd_unit(command, variables)

    def check(self) -> None:
        """Raise ConfigurationError if this user has no such manager."""
        done = self.run("--user", "show-environment")
        if done.returncode:
            raise ConfigurationError(
                say(
                    "systemd does not manage services for this user: {reason}. It does after a login. In a "
                    "container, start the hub with: tabane start --foreground",
                    reason=_said(done),
                )
            )

    def enable(self) -> None:
        """Start the service now and at each login. Raises ConfigurationError."""
        self.must("--user", "daemon-reload")
        self.must("--user", "enable", UNIT)
        self.must("--user", "restart", UNIT)

    def disable(self) -> None:
        """Stop the service, and do not start it again. Raises ConfigurationError."""
        self.must("--user", "disable", "--now", UNIT)

    def forget(self) -> None:
        """Tell the manager that the file was removed."""
        self.run("--user", "daemon-reload")
        self.run("--user", "reset-failed", UNIT)

    def state(self) -> ServiceState:
        """Return what the manager says about the service."""
        state = self.run("--user", "is-active", UNIT).stdout.strip() or "unknown"
        return ServiceState(state == "active", state)


class Launchd(ServiceManager):
    """launchd on macOS, in the session of the user. Not tested on a Mac yet."""

    program = "launchctl"
    unavailable = say("launchctl was not found. Start the hub with: tabane start")

    @property
    def path(self) -> Path:
        return self._home / "Library" / "LaunchAgents" / f"{LABEL}.plist"

    def definition(self, command: Sequence[str], variables: Mapping[str, str]) -> str:
        return launchd_agent(command, variables)

    def check(self) -> None:
        self.must("version")

    def enable(self) -> None:
        self.run("bootout", f"{self._domain}/{LABEL}")
        self.must("bootstrap", self._domain, str(self.path))

    def disable(self) -> None:
        if self.state().state != "unknown":
            self.must("bootout", f"{self._domain}/{LABEL}")

    def forget(self) -> None:
        """Do nothing: launchd forgot the service when it was stopped."""

    def state(self) -> ServiceState:
        done = self.run("print", f"{self._domain}/{LABEL}")
        lines = (line.strip() for line in done.stdout.splitlines())
        state = next(
            (line.removeprefix("state = ") for line in lines if line.startswith("state = ")), "unknown"
        )
        return ServiceState(state == "running", state)

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1][:300] if lines else f"exit {done.returncode}"


_MOST_BYTES = 1 << 20


@click.group(
    "service", cls=Group, help=say("Start the hub at each login, and again if it fails (systemd, launchd).")
)
def service() -> None: ...


@service.command(
    help=say(
        "Install the hub as a service of your user: a systemd unit on Linux, a launch agent on macOS. It "
        "keeps PATH, the TABANE_ variables, and proxies and certificates of this environment, but no "
        "secrets. A hub that is running is replaced."
    ),
    epilog=examples("tabane service install", "tabane service install --print"),
)
@option("--print", "only_print", is_flag=True, help=say("Print the file, and change nothing."))
@dry_run_option
@option("--force", is_flag=True, help=say("Replace a file that Tabane did not write."))
@with_json
def install(terminal: Terminal, only_print: bool, dry_run: bool, force: bool) -> None:
    manager = _manager()
    command = [*launcher(os.environ), "start", "--foreground"]
    written = manager.definition(command, kept_variables(os.environ))
    result = {"file": str(manager.path), "content": written}
    if only_print:
        if not terminal.show_json(result):
            emit(written, nl=False)
        return
    if dry_run:
        words = say("Would write {file} and start the service.", file=manager.path)
        terminal.show(result, words)
        return
    _check_ours(manager, force)
    manager.check()
    record_environment(terminal.endpoint().home, os.environ)
    manager.path.parent.mkdir(parents=True, exist_ok=True)
    write_private(manager.path, written.encode(), 0o644)
    with terminal.working(say("Starting the hub")):
        end_hub(terminal.endpoint(), lang(), restart=False)
        manager.enable()
    terminal.show(result, say("The service is running: {file}", file=manager.path))
    if isinstance(manager, Systemd):
        terminal.note(say("To keep it running when you are not logged in: loginctl enable-linger"))


@service.command(help=say("Stop the service and remove its file."), epilog=examples("tabane service remove"))
@dry_run_option
@with_json
def remove(terminal: Terminal, dry_run: bool) -> None:
    manager = _manager()
    there = os.path.lexists(manager.path)
    result = {"file": str(manager.path), "removed": there and not dry_run}
    if not there:
        terminal.show(result, say("The service is not installed."))
        return
    _check_ours(manager, force=False)
    if dry_run:
        words = say("Would stop the service and remove {file}.", file=manager.path)
        terminal.show(result, words)
        return
    manager.check()
    with terminal.working(say("Stopping the hub and its servers")):
        manager.disable()
    manager.path.unlink()
    manager.forget()
    terminal.show(result, say("Removed {file}.", file=manager.path))


@service.command(
    help=say("Show whether the service is installed and running. The exit status is 1 if it is not running."),
    epilog=examples("tabane service status", "tabane service status --json"),
)
@with_json
def status(terminal: Terminal) -> None:
    manager = _manager()
    installed = manager.path.exists()
    state = manager.state() if installed else None
    running = state is not None and state.running
    word = state.state if state else "not installed"
    result = {"file": str(manager.path), "installed": installed, "running": running, "state": word}
    rows = [(say("file"), manager.path), (say("state"), TableState("running" if running else word))]
    if not terminal.show_json(result):
        terminal.pairs(rows)
    if not running:
        raise click.exceptions.Exit(FAILED)


def _manager() -> Systemd | Launchd:
    """Return the manager of this platform."""
    home = Path(home_folder(os.environ))
    return Launchd(home, os.environ) if sys.platform == "darwin" else Systemd(home, os.environ)


def _check_ours(manager: Systemd | Launchd, force: bool) -> None:
    """Raise ConfigurationError if the file exists and Tabane did not write it."""
    try:
        with manager.path.open("rb") as file:
            written = file.read(_MOST_BYTES)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigurationError(
            say("{file} cannot be read: {reason}", file=manager.path, reason=error.strerror)
        ) from None
    if MARK.encode() not in written and not force:
        raise ConfigurationError(
            say(
                "{file} was not written by Tabane, so it is not changed. To replace it: "
                "tabane service install --force",
                file=manager.path,
            )
        )
