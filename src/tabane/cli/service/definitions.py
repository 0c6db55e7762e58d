"""The files by which systemd and launchd start a hub; pure."""

from __future__ import annotations

import plistlib
from collections.abc import Mapping, Sequence

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
