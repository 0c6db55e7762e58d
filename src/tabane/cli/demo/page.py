"""How the demo prints: chapters, and lines that say what was done, what was not, and how long it took."""

from __future__ import annotations

import io
import shutil
import sys
from typing import Any
from unicodedata import east_asian_width

import click

from tabane.messages import Lang, Message

NAME_WIDTH = 30
LONGEST = 1000
"""Columns of a reason, which may take several lines of a terminal."""

SIGNS = {"done": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


class Page:
    """Prints to standard output in one language, and keeps the steps for ``--json``.

    ``silent`` prints nothing. Signs that the output cannot spell become question marks.
    """

    def __init__(self, lang: Lang, silent: bool = False) -> None:
        self.lang = lang
        self.steps: list[dict[str, Any]] = []
        self._silent = silent
        self._chapter = 0
        self._pending = False
        self._width = shutil.get_terminal_size((110, 24)).columns
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="replace")

    @property
    def failures(self) -> int:
        return sum(step["outcome"] == "failed" for step in self.steps)

    def say(self, message: Message) -> None:
        self._print(message.render(self.lang))

    def blank(self) -> None:
        self._print("")

    def chapter(self, title: Message) -> None:
        self._chapter += 1
        self._print("")
        self._print(click.style(f"{self._chapter}. {title.render(self.lang)}", bold=True))

    def done(self, name: str, text: str | Message = "", seconds: float | None = None) -> None:
        """A step that happened and was checked."""
        self._step("done", name, self._rendered(text), seconds)

    def failed(self, name: str, reason: str | Message) -> None:
        self._step("failed", name, self._rendered(reason), None)

    def skipped(self, name: str, reason: Message) -> None:
        self._step("skipped", name, self._rendered(reason), None)

    def aside(self, text: str | Message) -> None:
        """What was received, or is worth adding: set in from the steps."""
        for line in self._rendered(text).splitlines():
            self._print(click.style("       " + fitted(line, self._width - 8), dim=True))

    def waiting(self, names: list[str]) -> None:
        """What is being waited for, on a line that the next one replaces; on a terminal alone."""
        if sys.stdout.isatty() and not self._silent:
            self._clear()
            click.secho("   … " + fitted(", ".join(names), self._width - 6), dim=True, nl=False)
            self._pending = True

    def _step(self, outcome: str, name: str, text: str, seconds: float | None) -> None:
        self.steps.append({"name": name, "outcome": outcome, "text": text, "seconds": seconds})
        sign, colour = SIGNS[outcome]
        label = name + " " * max(0, NAME_WIDTH - width(name))
        room = max(20, self._width - width(label) - 17)
        text = fitted(text, room if outcome == "done" else LONGEST)
        took = "" if seconds is None else " " * (room - width(text) + 1) + f"{duration(seconds):>9}"
        self._print(f"   {click.style(sign, fg=colour)} {label} {text}{took}")

    def _print(self, line: str) -> None:
        if not self._silent:
            self._clear()
            click.echo(line)

    def _clear(self) -> None:
        if self._pending:
            click.echo("\r\x1b[K", nl=False)
            self._pending = False

    def _rendered(self, text: str | Message) -> str:
        return text if isinstance(text, str) else text.render(self.lang)


def duration(seconds: float) -> str:
    """0.0031 → ``3.1 ms``, 2.5 → ``2.5 s``."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def width(text: str) -> int:
    """Columns on a terminal: wide characters take two."""
    return sum(2 if east_asian_width(character) in "WF" else 1 for character in text)


def fitted(text: str, columns: int) -> str:
    """The text on one line, cut to so many columns with an ellipsis."""
    text = " ".join(text.splitlines())
    if width(text) <= columns:
        return text
    while text and width(text) >= columns:
        text = text[:-1]
    return text + "…"
