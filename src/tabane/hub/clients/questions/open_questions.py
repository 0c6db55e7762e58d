"""The questions of servers that nobody has answered yet, wherever they were put."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from typing import Any

from msgspec import Raw

from tabane.operations import Caller
from tabane.upstreams.call import UpstreamReply
from tabane.upstreams.server_requests import LIMIT
from tabane.wire import json
from tabane.wire.questions import Question

MOST_LISTED = 1024
"""Questions that can be answered elsewhere than at the client. Further ones are only asked there."""

LONGEST_MESSAGE = 4000
"""Characters of a message that are listed."""


class OpenQuestion:
    """A question that waits for an answer. ``on_given`` takes one from elsewhere than the client."""

    __slots__ = ("asked", "caller", "id", "on_given", "question", "server", "tool")

    def __init__(
        self, caller: Caller, server: str, tool: str, question: Question,
        on_given: Callable[[UpstreamReply], None] | None = None,
    ) -> None:  # fmt: skip
        self.id = os.urandom(5).hex()
        self.caller, self.server, self.tool, self.question = caller, server, tool, question
        self.asked, self.on_given = time.time(), on_given

    def give(self, reply: UpstreamReply) -> None:
        """Take an answer of a person, and end the question."""
        if self.on_given is not None:
            self.on_given(reply)

    def row(self) -> dict[str, Any]:
        """Return the question for a person: ``schema`` only of a form, ``url`` only of a URL."""
        members = json.fields(self.question.params)
        row: dict[str, Any] = {
            "id": self.id,
            "server": self.server,
            "tool": self.tool,
            "client": self.caller.client,
            "kind": self.question.kind,
            "message": self._message(members)[:LONGEST_MESSAGE],
            "asked": self.asked,
            "expires": self.asked + LIMIT,
        }
        if self.question.kind == "form":
            row["schema"] = members.get("requestedSchema", Raw(b"{}"))
        elif self.question.kind == "url":
            row["url"] = json.text(members.get("url"))
        return row

    def _message(self, members: json.Members) -> str:
        if self.question.kind == "sampling":
            messages = json.member(members, "messages")
            texts: list[str] = []
            for message in messages if isinstance(messages, list) else []:
                content = message.get("content") if isinstance(message, dict) else None
                blocks = content if isinstance(content, list) else [content]
                values = (block.get("text") for block in blocks if isinstance(block, dict))
                texts.extend(value for value in values if isinstance(value, str))
            return "\n\n".join(texts)
        return json.text(members.get("message")) or ""


class OpenQuestions:
    """All open questions of a hub. ``watcher`` is called whenever one begins or ends."""

    def __init__(self) -> None:
        self._open: dict[str, OpenQuestion] = {}
        self.watcher: Callable[[], None] | None = None

    def __len__(self) -> int:
        return len(self._open)

    def put(self, question: OpenQuestion) -> OpenQuestion:
        """List a question, unless too many are listed."""
        if len(self._open) < MOST_LISTED:
            self._open[question.id] = question
            self._changed()
        return question

    def drop(self, question: OpenQuestion | None) -> None:
        """Note that a question is over."""
        if question is not None and self._open.pop(question.id, None) is not None:
            self._changed()

    def _changed(self) -> None:
        if self.watcher is not None:
            self.watcher()

    def of(self, holder: str | None) -> list[OpenQuestion]:
        """Return the questions of one identity's calls, or of all, the latest first."""
        found = (one for one in reversed(self._open.values()) if holder in (None, one.caller.access.holder))
        return list(itertools.islice(found, MOST_LISTED))

    def find(self, name: str, holder: str | None) -> OpenQuestion | None:
        """Return a question by its id, if it is of that identity's calls; of any, if none is given."""
        found = self._open.get(name)
        return found if found is not None and holder in (None, found.caller.access.holder) else None
