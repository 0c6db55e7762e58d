"""What the demo shows of the archive of posts: taken in, and asked by words and by meaning."""

from __future__ import annotations

import time

from tabane.cli.demo.assistant import Answer, Assistant, NoAnswer
from tabane.cli.demo.page import Page
from tabane.cli.demo.step import Run, awaited, lacking, model_there, step
from tabane.messages import Message, say

EMBEDDING = 60.0
"""Seconds that a model has for the archive; a small one takes a few."""

WORDS = ("こたつ", "こたつを出した日が、猫の新年です。")
MEANING = ("northern lights", "Aurora at 48 degrees north, phone camera, hands shaking. The sky was pink.")
"""What is asked, and the post that must be among the answers. The latter two have no word in common."""


class Posts:
    """Tells it, with the assistant and the commands of one hub."""

    def __init__(self, page: Page, assistant: Assistant, run: Run, patience: float = EMBEDDING) -> None:
        self._page, self._assistant, self._run, self._patience = page, assistant, run, patience

    def tell(self) -> None:
        self._page.chapter(say("An archive of posts, found by words and by meaning"))
        step(self._page, "posts import", self._import)
        step(self._page, f"「{WORDS[0]}」", self._by_words)
        if model_there(self._page, self._run, f'"{MEANING[0]}"'):
            step(self._page, f'"{MEANING[0]}"', self._by_meaning)

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
        answer = self._assistant.ask("search_posts_by_text", {"search_term": term})
        if expected not in answer.text:
            raise lacking(expected, answer)
        return expected, answer.seconds

    def _by_meaning(self) -> tuple[str, float]:
        query, expected = MEANING

        def ask() -> Answer:
            return self._assistant.call("search_similar", {"query": query, "mode": "content", "top_k": 3})

        return expected, awaited(self._page, query, expected, ask, self._patience)
