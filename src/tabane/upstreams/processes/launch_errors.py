"""Reasons why a program cannot be started, as messages that say how to fix it, or how to install it.

:func:`launch_error` explains a start that has failed. :func:`obstacle` predicts a failure from files. It
starts nothing, and blocks.
"""

from __future__ import annotations

import errno
import os
import shlex

from tabane.messages import Message, say
from tabane.upstreams.processes.launch import candidates

_NODE, _UV, _DOCKER = "Node.js", "uv", "Docker"
_PACKAGES = {
    "node": _NODE,
    "npm": _NODE,
    "npx": _NODE,
    "uv": _UV,
    "uvx": _UV,
    "docker": _DOCKER,
    "bun": "Bun",
    "bunx": "Bun",
    "deno": "Deno",
    "podman": "Podman",
    "git": "Git",
    "python": "Python",
    "python3": "Python",
    "pipx": "pipx",
}


def how_to_install(program: str) -> Message | None:
    """Return how a program is installed, as a sentence; None if nothing is known of it."""
    package = _PACKAGES.get(program)
    if package is None:
        return None
    if package == _NODE:
        return say(
            "{program} comes with Node.js. Install version 22 or newer (nodejs.org, or your package "
            "manager), then run: tabane restart",
            program=program,
        )
    if package == _UV:
        return say(
            "{program} comes with uv. Install it (docs.astral.sh/uv, or: pipx install uv), "
            "then run: tabane restart",
            program=program,
        )
    if package == _DOCKER:
        return say("Install Docker (docs.docker.com), start it, then run: tabane restart")
    return say("Install {package}, then run: tabane restart", package=package)


def launch_error(
    argv: list[bytes], env: dict[bytes, bytes], cwd: bytes | None, step: str, number: int
) -> Message:
    """Return the message for a start that failed at ``step`` with errno ``number``.

    Steps: cwd, exec, fork, and ``cage:`` with the part of a cage that cannot be had.
    """
    if step == "fork":
        return say(
            "The system cannot start another process ({detail}). End some processes, or raise the limit.",
            detail=os.strerror(number),
        )
    if step == "cwd":
        return _folder(os.fsdecode(cwd or b""), number)
    if step.startswith("cage"):
        return _cage(step.partition(":")[2], number)
    command = os.fsdecode(argv[0])
    if number == errno.ENOENT:
        return _missing(argv[0], env, cwd)
    if number == errno.EACCES:
        return say(
            "{command} cannot be executed. Check that it is a program, and check its permissions (chmod +x).",
            command=command,
        )
    if number == errno.ENOEXEC:
        return say(
            "{command} is neither a program for this machine nor a script whose first line "
            "names its interpreter.",
            command=command,
        )
    if number == errno.E2BIG:
        return say(
            "The arguments and environment of {command} are longer than the system allows.", command=command
        )
    return say("{command} could not be started ({detail}).", command=command, detail=os.strerror(number))


def _cage(part: str, number: int) -> Message:
    if part == "network":
        return say(
            "The network of its sandbox is limited to hosts, and the system allows no empty network for "
            "that ({detail}). Allow user namespaces, or set network to true or false. It is not started "
            "without its sandbox.",
            detail=os.strerror(number),
        )
    return say(
        "Its sandbox cannot be set up here ({part}: {detail}). It is not started without one. tabane doctor "
        "lists what the system offers.",
        part=part or "–",
        detail=os.strerror(number),
    )


def _folder(cwd: str, number: int) -> Message:
    if number == errno.ENOENT:
        return say(
            "The working directory {cwd} does not exist. Create it, or fix cwd in the servers file.",
            cwd=cwd,
        )
    return say(
        "The working directory {cwd} cannot be used ({detail}). Fix cwd in the servers file.",
        cwd=cwd,
        detail=os.strerror(number),
    )


def _missing(command: bytes, env: dict[bytes, bytes], cwd: bytes | None) -> Message:
    name = os.fsdecode(command)
    found = [path for path in candidates(command, env) if os.path.isfile(os.path.join(cwd or b".", path))]
    if found:
        file = os.path.join(cwd or b".", found[0])
        return say(
            "{path} exists, but its interpreter {interpreter} does not. Install it, or fix the "
            "first line of the script.",
            path=os.fsdecode(found[0]),
            interpreter=(_interpreter(file) or [os.fsdecode(file)])[0],  # of a program: its loader
        )
    if b"/" in command:
        return say("The command {command} does not exist. Fix it in the servers file.", command=name)
    hint = how_to_install(name)
    if hint is not None:
        return say(
            "The command {command} was not found on PATH ({path}). {hint}. Or write its full path in the "
            "servers file.",
            command=name,
            path=os.fsdecode(env.get(b"PATH", os.defpath.encode())),
            hint=hint,
        )
    return say(
        "The command {command} was not found on PATH ({path}). Install it, or write its "
        "full path in the servers file.",
        command=name,
        path=os.fsdecode(env.get(b"PATH", os.defpath.encode())),
    )


def obstacle(command: str, environment: dict[str, str], cwd: str | None) -> Message | None:
    """Return why the command cannot be started in that environment and folder; None if nothing is known.

    The rules are those of the start: PATH is searched in order, and a script needs its interpreter.
    """
    env = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    folder = None if cwd is None else os.fsencode(cwd)
    if folder is not None and (number := _entering(folder)):
        return launch_error([b""], env, folder, "cwd", number)
    argv = [os.fsencode(command)]
    refused = 0
    for path in candidates(argv[0], env):
        found = os.path.join(folder or b".", path)
        number = _executing(found)
        if not number:
            return _without_interpreter(found, command, env)
        refused = refused or (number if number != errno.ENOENT else 0)
    return launch_error(argv, env, folder, "exec", refused or errno.ENOENT)


def _entering(folder: bytes) -> int:
    if not os.path.isdir(folder):
        return errno.ENOTDIR if os.path.lexists(folder) else errno.ENOENT
    return 0 if os.access(folder, os.X_OK) else errno.EACCES


def _executing(path: bytes) -> int:
    """Return the errno that an exec of the file fails with, 0 for none."""
    if not os.path.exists(path):
        return errno.ENOENT
    if not os.path.isfile(path) or not os.access(path, os.X_OK):
        return errno.EACCES
    words = _interpreter(path)
    return errno.ENOENT if words and not os.path.exists(words[0]) else 0


def _without_interpreter(path: bytes, command: str, env: dict[bytes, bytes]) -> Message | None:
    """Return what is missing after ``#!/usr/bin/env NAME``; there the exec itself succeeds."""
    words = _interpreter(path)
    if len(words) < 2 or os.path.basename(words[0]) != "env":
        return None
    name = words[2] if words[1] == "-S" and len(words) > 2 else words[1]
    plain = not name.startswith("-") and "=" not in name
    if not plain or any(not _executing(one) for one in candidates(os.fsencode(name), env)):
        return None
    return say(
        "{path} exists, but its interpreter {interpreter} was not found on PATH ({search}). Install it.",
        path=os.fsdecode(path) if os.path.isabs(path) else command,
        interpreter=name,
        search=os.fsdecode(env.get(b"PATH", os.defpath.encode())),
    )


def _interpreter(path: bytes) -> list[str]:
    """Return the words after ``#!``; empty if the file is not a script or cannot be read."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        return []
    if not first.startswith(b"#!"):
        return []
    try:
        return shlex.split(os.fsdecode(first[2:]))
    except ValueError:
        return []
