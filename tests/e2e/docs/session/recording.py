"""Commands that run on a terminal, one after the other, and the time of each part of their output."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tabane.cli.terminal_text import cells
from tests.e2e.docs.session.drawing import ENTER, Typing
from tests.e2e.docs.session.screen import COLUMNS, Screen
from tests.harness.patience import LONG

PROMPT = "$ "
KEY = 0.045
"""Seconds between two characters that are typed."""
LONGEST_WAIT = 1.2
"""Seconds that waiting for the next line takes in the picture, if it took longer."""
THOUGHT = 2.5
"""Seconds before a question is answered."""
AT_ONCE = 0.02
"""Seconds between two parts of the output that are one."""
NEW_LINE = 0.07
"""Seconds between two lines of output at least, so that eyes can follow."""
READ_LINE, SHORTEST_READ, LONGEST_READ = 0.22, 1.2, 4.0
"""Seconds for reading after a command: for each line, at least, and at most."""


@dataclass(frozen=True)
class Step:
    """A command as it is typed, and the answers to its questions: a pattern of the question, and the line."""

    command: str
    answers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True)
class Part:
    """Output that came at once, how long that took, in seconds, and whether it follows an answer."""

    wait: float
    text: str
    answered: bool = False


@dataclass
class Session:
    """A terminal on which commands run. ``replaced`` are texts of this machine and what is shown for them."""

    environment: Mapping[str, str]
    folder: Path
    replaced: Mapping[str, str]
    screen: Screen = field(default_factory=Screen)
    typed: list[Typing] = field(default_factory=list)
    time: float = 0.5
    _waited: float = 0.0
    """Seconds since the last line in the picture."""

    def run(self, step: Step) -> str:
        """Run a command, show it, and return its output. Raises RuntimeError if it fails."""
        self._type(PROMPT, step.command)
        parts, status = self._record(step)
        written = "".join(part.text for part in parts)
        if status:
            raise RuntimeError(f"{step.command}: exit status {status}\n{written}")
        first = self.screen.row
        for part in parts:
            self._show(part)
        read = READ_LINE * (self.screen.row - first)
        self.time += min(max(SHORTEST_READ, read), LONGEST_READ)
        return written

    def end(self) -> float:
        """Show a last prompt, and return its time."""
        self.screen.write(PROMPT, self.time)
        return self.time

    def _type(self, prompt: str, text: str) -> None:
        start = self.time
        self.time += 0.4
        keys = []
        for character in text:
            self.time += KEY
            keys.append((self.time, cells(character)))
        self.typed.append(Typing(self.screen.row, self.screen.column + cells(prompt), start, keys))
        self.screen.write(f"\x1b[2m{prompt}\x1b[0m\x1b[1m{text}\x1b[0m\r\n", start)
        self.time += ENTER

    def _show(self, part: Part) -> None:
        wait = min(part.wait, LONGEST_WAIT - self._waited)
        self.time += wait + (THOUGHT if part.answered else 0)
        self._waited = 0.0 if "\n" in part.text else self._waited + wait
        for line in re.split(r"(?<=\n)", part.text):
            self.screen.write(line, self.time)
            if line.endswith("\n"):
                self.time += NEW_LINE

    def _record(self, step: Step) -> tuple[list[Part], int]:
        """Run a command to its end, and answer its questions."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        process = subprocess.Popen(
            ["bash", "-c", step.command],
            stdin=theirs, stdout=theirs, stderr=theirs,
            env=dict(self.environment), cwd=self.folder, start_new_session=True,
        )  # fmt: skip
        os.close(theirs)
        try:
            return self._read(ours, list(step.answers)), process.wait(LONG)
        finally:
            os.close(ours)

    def _read(self, fd: int, answers: list[tuple[str, str]]) -> list[Part]:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        parts: list[Part] = []
        before, written, answered = time.monotonic(), "", False
        while True:
            ready, _, _ = select.select([fd], [], [], LONG)
            if not ready:
                raise RuntimeError(f"it does not end: {written!r}")
            try:
                text = decoder.decode(os.read(fd, 1 << 16))
            except OSError:  # Linux says EIO when nobody has the terminal open any more
                return self._clean(parts)
            now = time.monotonic()
            parts.append(Part(now - before, text, answered))
            before, written, answered = now, written + text, False
            if answers and re.search(answers[0][0], written):
                os.write(fd, f"{answers.pop(0)[1]}\n".encode())
                written, answered = "", True

    def _clean(self, parts: list[Part]) -> list[Part]:
        """Return the parts without texts of this machine. Parts that came at once are one."""
        found: list[Part] = []
        for part in parts:
            if found and part.wait < AT_ONCE and not part.answered:
                found[-1] = replace(found[-1], text=found[-1].text + part.text)
            else:
                found.append(part)
        return [replace(part, text=self._shown(part.text)) for part in found]

    def _shown(self, text: str) -> str:
        for ours, theirs in self.replaced.items():
            text = text.replace(ours, theirs)
        return text
