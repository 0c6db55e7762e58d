"""The last lines of a log file, and lines that are added to it."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from tabane.cli.output import Terminal, emit
from tabane.messages import say
from tabane.upstreams.processes.log_files import last_lines
from tabane.upstreams.processes.stderr import file_name

_CHUNK = 1 << 16
_POLL = 0.2


def show_server_log(terminal: Terminal, name: str, lines: int, *, follow: bool) -> None:
    """Print the last lines that a server wrote to stderr, and with ``follow`` also new lines.

    With ``--json``, each new line is an object. Raises HubError and UnknownName.
    """
    path = os.path.join(terminal.endpoint().logs, "servers", file_name(name))
    answer = terminal.hub().call("server_logs", {"name": name, "lines": lines})
    found = {key: answer[key] for key in ("name", "lines")}
    if follow:
        # Read here as well, so that no line is lost between what was there and what is added.
        found["lines"], end = _end_of(path, lines)
    terminal.show(found, lambda: _print(found["lines"]))
    if not found["lines"]:
        terminal.note(say("{name!n} has written nothing.", name=name))
    if follow:
        terminal.close()
        follow_lines(terminal, path, end)


def follow_lines(terminal: Terminal, path: str, end: int) -> None:
    """Print what is added to a log after the first ``end`` bytes, until Ctrl+C, which is a good end."""
    with contextlib.suppress(KeyboardInterrupt):
        for line in follow_file(path, end):
            if terminal.json:
                terminal.print_json_line(json.dumps({"line": line}))
            else:
                emit(line)


def _print(lines: Iterable[str]) -> None:
    for line in lines:
        emit(line)


def follow_file(path: str, end: int) -> Iterator[str]:
    """Yield lines that are added after the first ``end`` bytes, without end, also across log rotation."""
    file = _opened(path)
    file.seek(end)
    rest = b""
    try:
        while True:
            chunk = file.read(_CHUNK)
            if not chunk:
                time.sleep(_POLL)
                if _replaced(path, file.fileno()):
                    file.close()
                    file = _opened(path)
                continue
            *lines, rest = (rest + chunk).split(b"\n")
            yield from (line.decode(errors="replace") for line in lines)
    finally:
        file.close()


def _end_of(path: str, lines: int) -> tuple[list[str], int]:
    try:
        return last_lines(path, lines)
    except FileNotFoundError:
        return [], 0


def _opened(path: str) -> BinaryIO:
    """Open the log. Waits until it exists: the first line creates it."""
    while True:
        try:
            return open(path, "rb")
        except FileNotFoundError:
            time.sleep(_POLL)


def _replaced(path: str, fd: int) -> bool:
    mine = os.fstat(fd)
    try:
        now = os.stat(path)
    except FileNotFoundError:
        return False
    return (now.st_dev, now.st_ino) != (mine.st_dev, mine.st_ino)
