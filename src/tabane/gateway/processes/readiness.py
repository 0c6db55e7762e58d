"""Reasons why a program cannot be started, as far as its files show; nothing is started. Blocks."""

from __future__ import annotations

import errno
import os
import shlex

from tabane.gateway.processes.launch import candidates
from tabane.gateway.processes.refusals import refusal
from tabane.messages import Message, say


def obstacle(command: str, environment: dict[str, str], cwd: str | None) -> Message | None:
    """Return why the command cannot be started in that environment and folder; None if nothing is known.

    The rules are those of the start: PATH is searched in order, and a script needs its interpreter.
    """
    env = {os.fsencode(name): os.fsencode(value) for name, value in environment.items()}
    folder = None if cwd is None else os.fsencode(cwd)
    if folder is not None and (number := _entering(folder)):
        return refusal([b""], env, folder, "cwd", number)
    argv = [os.fsencode(command)]
    refused = 0
    for path in candidates(argv[0], env):
        found = os.path.join(folder or b".", path)
        number = _executing(found)
        if not number:
            return _without_interpreter(found, command, env)
        refused = refused or (number if number != errno.ENOENT else 0)
    return refusal(argv, env, folder, "exec", refused or errno.ENOENT)


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
    """Return what is missing after ``#!/usr/bin/env NAME``; the exec itself succeeds there."""
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
