"""What the demo shows of the archive of posts: taken in, and asked by words and by meaning."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tabane.cli.demo.assistant import Answer, Assistant, NoAnswer
from tabane.cli.demo.page import Page
from tabane.messages import Message, say

EMBEDDING = 60.0
"""Seconds that a model has for the archive; a small one takes a few."""

WORDS = ("こたつ", "こたつを出した日が、猫の新年です。")
MEANING = ("northern lights", "Aurora at 48 degrees north, phone camera, hands shaking. The sky was pink.")
"""What is asked, and the post that must be among the answers. The latter two have no word in common."""

_BETWEEN = 0.3  # seconds between two looks whether it is embedded

Run = Callable[..., Any]
"""Runs a command of tabane with ``--json``, and gives what it printed. Raises NoAnswer."""


class Posts:
    """Tells it, with the assistant and the commands of one hub."""

    def __init__(self, page: Page, assistant: Assistant, run: Run, patience: float = EMBEDDING) -> None:
        self._page, self._assistant, self._run, self._patience = page, assistant, run, patience

    def tell(self) -> None:
        self._page.chapter(say("An archive of posts, found by words and by meaning"))
        self._step("posts import", self._import)
        self._step(f"「{WORDS[0]}」", self._by_words)
        try:
            model = self._run("models", "show")
        except NoAnswer as error:
            self._page.failed("models show", error.message)
            return
        if model["state"] in ("none", "absent"):
            missing = say("no model on this machine, so by words alone; see: tabane models pull")
            self._page.skipped(f'"{MEANING[0]}"', missing)
        else:
            self._step(f'"{MEANING[0]}"', self._by_meaning)

    def _import(self) -> tuple[Message, float]:
        began = time.perf_counter()
        report = self._run("posts", "import", "--sample")
        seconds = time.perf_counter() - began
        stats = self._run("posts", "stats")
        if not report["new"] or report["bad"] or stats["total_posts"] != report["new"]:
            raise NoAnswer(say("{count} posts are there after the import.", count=stats["total_posts"]))
        return say(
            "{posts} posts of {users} people who do not exist",
            posts=stats["total_posts"],
            users=stats["total_users"],
        ), seconds

    def _by_words(self) -> tuple[str, float]:
        term, expected = WORDS
        answer = self._assistant.call("search_posts_by_text", {"search_term": term})
        if answer.failed or expected not in answer.text:
            raise _not_found(expected, answer)
        return expected, answer.seconds

    def _by_meaning(self) -> tuple[str, float]:
        query, expected = MEANING
        deadline = time.monotonic() + self._patience
        while True:
            answer = self._assistant.call("search_similar", {"query": query, "top_k": 3})
            if not answer.failed and expected in answer.text:
                return expected, answer.seconds
            if time.monotonic() > deadline:
                raise _not_found(expected, answer)
            self._page.waiting([query])
            time.sleep(_BETWEEN)

    def _step(
        self, name: str, run: Callable[[], tuple[str, float]] | Callable[[], tuple[Message, float]]
    ) -> None:
        """Only what ran and was checked is printed as done."""
        try:
            text, seconds = run()
        except NoAnswer as error:
            self._page.failed(name, error.message)
        except (LookupError, TypeError) as error:
            self._page.failed(name, f"{type(error).__name__}: {error}")
        else:
            self._page.done(name, text, seconds)


def _not_found(expected: str, answer: Answer) -> NoAnswer:
    return NoAnswer(say("{tool} is not in the answer: {answer}", tool=expected, answer=answer.text))
