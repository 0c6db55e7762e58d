"""Steps of the demo: run, checked, and printed with their time."""

from __future__ import annotations

import io
import shutil
import sys
import time
from collections.abc import Callable
from typing import Any

from tabane.cli.bench.assistant import AssistantReply, NoAnswer
from tabane.cli.output import clear_line, emit
from tabane.cli.terminal_text import StyledText, cells, clean, fitted
from tabane.messages import Lang, Message, say

NAME_WIDTH = 30
LONGEST = 1000
"""Longest reason in columns; it may take several lines of a terminal."""

SIGNS = {"done": ("✓", "green"), "failed": ("✗", "red"), "skipped": ("–", "yellow")}


class DemoPage:
    """Prints steps to standard output in one language, and keeps them for ``--json``.

    With ``silent``, nothing is printed. Characters that the output cannot encode become question marks.
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
        self._print(StyledText(f"{self._chapter}. {title.render(self.lang)}", "bold"))

    def done(self, name: str, text: str | Message = "", seconds: float | None = None) -> None:
        """Print a step that was run and checked."""
        self._step("done", name, self._rendered(text), seconds)

    def failed(self, name: str, reason: str | Message) -> None:
        self._step("failed", name, self._rendered(reason), None)

    def skipped(self, name: str, reason: Message) -> None:
        self._step("skipped", name, self._rendered(reason), None)

    def aside(self, text: str | Message) -> None:
        """Print a received text or a remark, indented below the steps."""
        for line in self._rendered(text).splitlines():
            self._print(StyledText("       " + fitted(clean(line), self._width - 8), "dim"))

    def waiting(self, names: list[str]) -> None:
        """Show what is being waited for, on a terminal, in a line that the next output replaces."""
        if sys.stdout.isatty() and not self._silent:
            self._clear()
            emit(StyledText("   … " + fitted(clean(", ".join(names)), self._width - 6), "dim"), nl=False)
            self._pending = True

    def _step(self, outcome: str, name: str, text: str, seconds: float | None) -> None:
        self.steps.append({"name": name, "outcome": outcome, "text": text, "seconds": seconds})
        sign, color = SIGNS[outcome]
        label = name + " " * max(0, NAME_WIDTH - cells(name))
        room = max(20, self._width - cells(label) - 17)
        text = fitted(" ".join(clean(text).splitlines()), room if outcome == "done" else LONGEST)
        took = "" if seconds is None else " " * (room - cells(text) + 1) + f"{duration(seconds):>9}"
        self._print("   ", StyledText(sign, color), f" {label} {text}{took}")

    def _print(self, *line: str | StyledText) -> None:
        if not self._silent:
            self._clear()
            emit(*line)

    def _clear(self) -> None:
        if self._pending:
            clear_line()
            self._pending = False

    def _rendered(self, text: str | Message) -> str:
        return text if isinstance(text, str) else text.render(self.lang)


def duration(seconds: float) -> str:
    """Format a duration: 0.0031 as ``3.1 ms``, 2.5 as ``2.5 s``."""
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


StepFunction = Callable[[], tuple[str, float]] | Callable[[], tuple[Message, float]]
"""Runs a step and returns the text to print and the seconds it took. Raises NoAnswer if it fails."""

RunCommand = Callable[..., Any]
"""Runs a command of tabane with ``--json`` and returns its output. Raises NoAnswer."""

_RETRY = 0.3  # seconds between two attempts


def step(page: DemoPage, name: str, run: StepFunction) -> None:
    """Run a step and print its result. A step that fails does not end the demo."""
    try:
        text, seconds = run()
    except NoAnswer as error:
        page.failed(name, error.message)
    except (OSError, ValueError, LookupError, TypeError) as error:
        # The answer was not of the shape that is given here.
        page.failed(name, f"{type(error).__name__}: {error}")
    else:
        page.done(name, text, seconds)


def model_there(page: DemoPage, run: RunCommand, name: str) -> bool:
    """Return whether a model is available; if not, print the step ``name`` as skipped."""
    try:
        state = run("models", "show")["state"]
    except NoAnswer as error:
        page.failed(name, error.message)
        return False
    if state in ("none", "absent"):
        page.skipped(
            name,
            say("there is no model on this machine, so results match keywords only; see: tabane models pull"),
        )
        return False
    return True


def awaited(
    page: DemoPage, query: str, expected: str, ask: Callable[[], AssistantReply], patience: float
) -> float:
    """Ask until ``expected`` is in the answer, while a model may still be loading or at work.

    Returns the seconds that answer took. Raises NoAnswer after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    while True:
        answer = ask()
        if not answer.failed and expected in answer.text:
            return answer.seconds
        if time.monotonic() > deadline:
            raise lacking(expected, answer)
        page.waiting([query])
        time.sleep(_RETRY)


def lacking(expected: str, answer: AssistantReply) -> NoAnswer:
    """Return the error for an answer that does not contain ``expected``."""
    return NoAnswer(say("{tool} is not in the answer: {answer}", tool=expected, answer=answer.text))
