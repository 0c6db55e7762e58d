"""The definition of a server that the options of `tabane servers add` stand for; pure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from tabane.errors import BadArguments
from tabane.messages import say


def of_command(command: Sequence[str], env: Sequence[str], cwd: str | None, folder: str) -> dict[str, Any]:
    """A server that is started. A relative ``cwd`` counts from ``folder``, where the user stands.

    Raises BadArguments where a part of ``env`` is not KEY or KEY=VALUE.
    """
    first, *rest = command
    if cwd and not cwd.startswith(("~", "${")):
        cwd = os.path.normpath(os.path.join(folder, cwd))
    return {"command": first, "args": rest, "env": dict(_pairs("--env", env)), "cwd": cwd}


def of_url(url: str, headers: Sequence[str], *, sse: bool) -> dict[str, Any]:
    """A server at a URL. Raises BadArguments where a header is not KEY or KEY=VALUE."""
    return {"type": "sse" if sse else "http", "url": url, "headers": dict(_pairs("--header", headers))}


def is_url(word: str) -> bool:
    """Whether a word of the command line is where a server is, and not how it is started."""
    return word.lower().startswith(("http://", "https://"))


def words_of(command: Sequence[str]) -> Sequence[str]:
    """The words of a command, which may have been given in one piece, in quotes, as it was copied."""
    if len(command) != 1 or " " not in command[0].strip() or os.path.exists(command[0]):
        return command
    import shlex

    try:
        return shlex.split(command[0])
    except ValueError:
        raise BadArguments(
            say("A quote in the command does not end: {command}", command=command[0])
        ) from None


def definition(
    command: Sequence[str],
    at: str | None,
    *,
    sse: bool,
    env: Sequence[str],
    header: Sequence[str],
    cwd: str | None,
    description: str | None,
    tags: Sequence[str],
    disabled: bool,
) -> dict[str, Any]:
    """The whole definition, without what was not given. Raises BadArguments where options clash."""
    if len(command) == 1 and not at and is_url(command[0]):
        at = command[0]
        command = ()
    if bool(command) == bool(at):
        raise BadArguments(say("Say how to reach the server: either -- COMMAND ARGS… or --url URL."))
    command = words_of(command)
    if at and (env or cwd):
        raise BadArguments(say("--env and --cwd go with a command, not with --url."))
    if command and (header or sse):
        raise BadArguments(say("--header and --sse go with --url."))
    found = of_url(at, header, sse=sse) if at else of_command(command, env, cwd, os.getcwd())
    found |= {"description": description, "tags": list(tags)}
    return {key: value for key, value in found.items() if value} | ({"enabled": False} if disabled else {})


def _pairs(option: str, given: Sequence[str]) -> Iterator[tuple[str, str]]:
    """A name without a value stands for the variable of that name."""
    for pair in given:
        key, found, value = pair.partition("=")
        if not key:
            raise BadArguments(
                say("{option}: written {option} KEY=VALUE, or {option} KEY.", option=option), option
            )
        yield key, value if found else f"${{{key}}}"
