"""One step of the demo: run, checked, and printed as done only where it was."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tabane.cli.demo.assistant import Answer, NoAnswer
from tabane.cli.demo.page import Page
from tabane.messages import Message, say

Telling = Callable[[], tuple[str, float]] | Callable[[], tuple[Message, float]]
"""Does it, and gives what is printed and the seconds it took. Raises NoAnswer where it is not so."""

Run = Callable[..., Any]
"""Runs a command of tabane with ``--json``, and gives what it printed. Raises NoAnswer."""

_BETWEEN = 0.3  # seconds between two looks


def step(page: Page, name: str, run: Telling) -> None:
    """Only what ran and was checked is printed as done; a failed step lets the others go on."""
    try:
        text, seconds = run()
    except NoAnswer as error:
        page.failed(name, error.message)
    except (OSError, ValueError, LookupError, TypeError) as error:
        # The answer was not of the shape that is given here.
        page.failed(name, f"{type(error).__name__}: {error}")
    else:
        page.done(name, text, seconds)


def model_there(page: Page, run: Run, name: str) -> bool:
    """Whether a model may answer what is asked by meaning; where not, the step ``name`` says so."""
    try:
        state = run("models", "show")["state"]
    except NoAnswer as error:
        page.failed(name, error.message)
        return False
    if state in ("none", "absent"):
        page.skipped(name, say("no model on this machine, so by words alone; see: tabane models pull"))
        return False
    return True


def awaited(page: Page, query: str, expected: str, ask: Callable[[], Answer], patience: float) -> float:
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
        time.sleep(_BETWEEN)


def lacking(expected: str, answer: Answer) -> NoAnswer:
    """What is raised where ``expected`` is not in an answer."""
    return NoAnswer(say("{tool} is not in the answer: {answer}", tool=expected, answer=answer.text))
