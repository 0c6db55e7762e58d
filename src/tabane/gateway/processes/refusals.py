"""Why a program could not be started, said so that its user can mend it."""

from __future__ import annotations

import errno
import os

from tabane.gateway.processes.launch import candidates
from tabane.messages import Message, say


def refusal(argv: list[bytes], env: dict[bytes, bytes], cwd: bytes | None, step: str, number: int) -> Message:
    """What to tell about a start that failed at ``step`` (cwd, exec, fork) with errno ``number``."""
    if step == "fork":
        return say(
            "The system has no room for another process ({detail}). End some, or raise the limit.",
            detail=os.strerror(number),
        )
    if step == "cwd":
        return _folder(os.fsdecode(cwd or b""), number)
    return _program(argv, env, cwd, number)


def _folder(cwd: str, number: int) -> Message:
    if number == errno.ENOENT:
        return say(
            "The working directory {cwd} does not exist. Make it, or correct cwd in the servers file.",
            cwd=cwd,
        )
    return say(
        "The working directory {cwd} cannot be entered ({detail}). Correct cwd in the servers file.",
        cwd=cwd,
        detail=os.strerror(number),
    )


def _program(argv: list[bytes], env: dict[bytes, bytes], cwd: bytes | None, number: int) -> Message:
    command = os.fsdecode(argv[0])
    if number == errno.ENOENT:
        return _missing(argv[0], env, cwd)
    if number == errno.EACCES:
        return say(
            "{command} may not be executed. Check that it is a program and its permissions (chmod +x).",
            command=command,
        )
    if number == errno.ENOEXEC:
        return say(
            "{command} is no program for this machine, nor a script whose first line names its interpreter.",
            command=command,
        )
    if number == errno.E2BIG:
        return say("The arguments and environment of {command} are too long for the system.", command=command)
    return say("{command} could not be started ({detail}).", command=command, detail=os.strerror(number))


def _missing(command: bytes, env: dict[bytes, bytes], cwd: bytes | None) -> Message:
    name = os.fsdecode(command)
    found = [path for path in candidates(command, env) if os.path.isfile(os.path.join(cwd or b".", path))]
    if found:
        return say(
            "{path} is there, but its interpreter {interpreter} is not. Install it, or correct its "
            "first line.",
            path=os.fsdecode(found[0]),
            interpreter=_interpreter(os.path.join(cwd or b".", found[0])),
        )
    if b"/" in command:
        return say("The command {command} does not exist. Correct it in the servers file.", command=name)
    return say(
        "The command {command} was not found on PATH ({path}). Install it, or give its full path in the "
        "servers file.",
        command=name,
        path=os.fsdecode(env.get(b"PATH", os.defpath.encode())),
    )


def _interpreter(path: bytes) -> str:
    """What stands after ``#!``; the program's own name where it is no script, and lacks its loader."""
    try:
        with open(path, "rb") as file:
            first = file.readline(256)
    except OSError:
        first = b""
    if first.startswith(b"#!") and first[2:].split():
        return os.fsdecode(first[2:].split()[0])
    return os.fsdecode(path)
