"""systemd and launchd: where their files are, and the commands that start, stop and show a service."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tabane.cli.service.definitions import LABEL, STOPPING, UNIT, launchd_agent, systemd_unit
from tabane.errors import ConfigurationError
from tabane.messages import Message, say

_PATIENCE = STOPPING + 30  # seconds for a command of the manager, which waits for the hub


@dataclass(frozen=True)
class ServiceState:
    """``state`` is the manager's own word, such as active, failed or inactive."""

    running: bool
    state: str


class ServiceManager(ABC):
    """The program of the platform that starts services of a user."""

    program: str
    unavailable: Message

    def __init__(self, home: Path, environ: Mapping[str, str]) -> None:
        self._home, self._environ = home, environ

    @property
    @abstractmethod
    def path(self) -> Path:
        """The file of the service."""

    @abstractmethod
    def definition(self, command: Sequence[str], variables: Mapping[str, str]) -> str:
        """Return the content of that file."""

    @abstractmethod
    def check(self) -> None:
        """Raise ConfigurationError if this user has no such manager."""

    @abstractmethod
    def enable(self) -> None:
        """Start the service now and at each login. Raises ConfigurationError."""

    @abstractmethod
    def disable(self) -> None:
        """Stop the service, and do not start it again. Raises ConfigurationError."""

    @abstractmethod
    def forget(self) -> None:
        """Tell the manager that the file was removed."""

    @abstractmethod
    def state(self) -> ServiceState:
        """Return what the manager says about the service."""

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
        given = self._environ.get("XDG_CONFIG_HOME", "")
        folder = Path(given) if os.path.isabs(given) else self._home / ".config"
        return folder / "systemd" / "user" / UNIT

    def definition(self, command: Sequence[str], variables: Mapping[str, str]) -> str:
        return systemd_unit(command, variables)

    def check(self) -> None:
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
        self.must("--user", "daemon-reload")
        self.must("--user", "enable", UNIT)
        self.must("--user", "restart", UNIT)

    def disable(self) -> None:
        self.must("--user", "disable", "--now", UNIT)

    def forget(self) -> None:
        self.run("--user", "daemon-reload")
        self.run("--user", "reset-failed", UNIT)

    def state(self) -> ServiceState:
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


def service_manager(home: Path, environ: Mapping[str, str]) -> ServiceManager:
    """Return the manager of this platform."""
    return Launchd(home, environ) if sys.platform == "darwin" else Systemd(home, environ)


def _said(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr or done.stdout).strip().splitlines()
    return lines[-1][:300] if lines else f"exit {done.returncode}"
