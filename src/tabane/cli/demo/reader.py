"""What the demo shows of the reader: pages read in parts and kept, and a door that stays shut."""

from __future__ import annotations

import re

from tabane.cli.demo.assistant import Answer, Assistant, NoAnswer
from tabane.cli.demo.page import Page
from tabane.cli.demo.site import GUIDE, HIDDEN, LEAVES, MENU, MOVED, SECTIONS, TEA, Site
from tabane.cli.demo.step import lacking, step
from tabane.messages import Message, say

PART = 300
"""Tokens of a part: the guide takes more than one."""

MOST_PARTS = 20
QUESTION = "thickness of culms tied with hemp"
REFUSED = "reader_allow"
"""The setting that a refusal of the guard names, in every language."""

_CURSOR = re.compile(r"cursor ([\w-]+)")
_TAGS = re.compile("[\U000e0000-\U000e007f]")


class Reader:
    """Tells it, with the assistant of one hub whose settings allow the pages of ``site`` and no more."""

    def __init__(self, page: Page, assistant: Assistant, site: Site) -> None:
        self._page, self._assistant, self._site = page, assistant, site

    def tell(self) -> None:
        self._page.chapter(say("Pages as Markdown: whole, clean, and nothing from a private network"))
        step(self._page, "read_url_content", self._whole)
        step(self._page, "read_url_content", self._encoding)
        step(self._page, self._site.door, lambda: self._refused(self._site.door))
        step(self._page, "302 → " + self._site.door, lambda: self._refused(self._site.url(MOVED)))
        step(self._page, "remember_url", self._remember)
        step(self._page, "search_everything", self._search)

    def _whole(self) -> tuple[Message, float]:
        """All of the guide, part by part: every section once, in order, and nothing else."""
        first = self._read(GUIDE, max_tokens=PART)
        parts = [first, *self._further(first)]
        text = "\n".join(part.text for part in parts)
        places = [text.find(words) for words in SECTIONS.values() if text.count(words) == 1]
        if len(places) < len(SECTIONS) or places != sorted(places):
            raise NoAnswer(say("Not all of the page was read: {text}", text=text))
        if MENU in text or HIDDEN in text or _TAGS.search(text):
            raise NoAnswer(say("More was read than a person sees: {text}", text=text))
        asked = self._site.asked.count(GUIDE)
        if len(parts) < 2 or asked != 1:
            raise NoAnswer(say("{count} parts came of {asked} requests.", count=len(parts), asked=asked))
        return say(
            "{count} sections in {parts} parts, fetched once; no menu, no hidden text",
            count=len(SECTIONS),
            parts=len(parts),
        ), sum(part.seconds for part in parts)

    def _further(self, first: Answer) -> list[Answer]:
        """The parts behind the first, each by the cursor that the one before it names."""
        parts: list[Answer] = []
        last = first
        while (cursor := _CURSOR.search(last.text.rstrip().rpartition("\n")[2])) and len(parts) < MOST_PARTS:
            last = self._read(GUIDE, max_tokens=PART, cursor=cursor[1])
            parts.append(last)
        return parts

    def _encoding(self) -> tuple[str, float]:
        answer = self._read(TEA)
        if LEAVES not in answer.text:
            raise lacking(LEAVES, answer)
        return f"Shift_JIS: {LEAVES}", answer.seconds

    def _refused(self, url: str) -> tuple[Message, float]:
        """The guard refuses by name, and nobody came to the door."""
        answer = self._assistant.call("read_url_content", {"url": url})
        if not answer.failed or REFUSED not in answer.text or self._site.knocks:
            raise NoAnswer(say("The guard let it through: {answer}", answer=answer.text))
        return say("refused: a private address, and no connection was made"), answer.seconds

    def _remember(self) -> tuple[Message, float]:
        answer = self._assistant.ask("remember_url", {"url": self._site.url(GUIDE)})
        if f"remembered: {self._site.url(GUIDE)}" not in answer.text:
            raise lacking("remembered", answer)
        return say("the page is a document now"), answer.seconds

    def _search(self) -> tuple[str, float]:
        answer = self._assistant.ask("search_everything", {"query": QUESTION})
        expected = f'get_document {{"filepath":"{self._site.url(GUIDE)}"}}'
        if expected not in answer.text:
            raise lacking(expected, answer)
        return f'"{QUESTION}" → {expected}', answer.seconds

    def _read(self, path: str, **more: object) -> Answer:
        return self._assistant.ask("read_url_content", {"url": self._site.url(path), **more})
