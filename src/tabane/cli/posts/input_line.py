"""A line typed at the prompt: edited, completed, and kept in the history.

Uses Python's own ``readline`` (GNU readline or libedit): 1 ms and 0.7 MB to import. prompt_toolkit
draws more, but took 440 ms and 19 MB; a prompt that opens at once is worth more here.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tabane.errors import ConfigurationError
from tabane.settings.files import read_owned, write_private

MOST_LINES = 1000
"""Lines of the history that are kept."""

LONGEST = 2000
"""Characters of a line that is kept."""

Complete = Callable[[str, str], Sequence[str]]
"""The candidates for a word, given the line before it and what is typed of it."""


class InputLine:
    """Reads lines, with editing on a terminal. ``history`` is a file that only the user can read."""

    def __init__(self, history: Path, complete: Complete) -> None:
        self._history, self._complete = history, complete
        self._edited = sys.stdin.isatty() and sys.stdout.isatty()
        self._last = ""
        self._candidates: list[str] = []
        self._readline = _readline() if self._edited else None
        if self._readline:
            self._prepare(self._readline)

    @property
    def edited(self) -> bool:
        """Whether a user types at a terminal."""
        return self._edited

    def read(self, prompt: str) -> str:
        """Return the next line. Raises EOFError at the end, KeyboardInterrupt at Ctrl+C."""
        if self._edited:
            return self._remembered(input(prompt))
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        return line.rstrip("\n")

    def _prepare(self, readline: Any) -> None:
        for line in self._kept():
            readline.add_history(line)
            self._last = line
        readline.set_auto_history(False)
        readline.set_completer_delims(" \t")
        readline.set_completer(self._candidate)
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    def _candidate(self, word: str, number: int) -> str | None:
        readline = self._readline
        if not number and readline:
            before = readline.get_line_buffer()[: readline.get_begidx()]
            found = list(self._complete(before, word))
            self._candidates = [f"{found[0]} "] if len(found) == 1 else found
        return self._candidates[number] if number < len(self._candidates) else None

    def _remembered(self, line: str) -> str:
        if self._readline and line.strip() and line != self._last and len(line) <= LONGEST:
            self._readline.add_history(line)
            self._last = line
            self._keep(line)
        return line

    def _kept(self) -> list[str]:
        """Return the lines of the history. A long history file is cut to its last lines."""
        try:
            lines = read_owned(self._history).decode("utf-8", "replace").splitlines()
        except (FileNotFoundError, ConfigurationError):
            return []
        if len(lines) > 2 * MOST_LINES:
            with contextlib.suppress(OSError):
                write_private(self._history, ("\n".join(lines[-MOST_LINES:]) + "\n").encode())
        return lines[-MOST_LINES:]

    def _keep(self, line: str) -> None:
        # At once: what was typed is there after a crash, too. No history is no reason not to search.
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW
        with contextlib.suppress(OSError), open(os.open(self._history, flags, 0o600), "ab") as file:
            file.write(line.encode("utf-8", "replace") + b"\n")


def _readline() -> Any:
    """Return the module readline, or None if this Python was built without it."""
    try:
        import readline
    except ImportError:
        return None
    return readline
