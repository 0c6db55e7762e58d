"""What is common to pages of all types: limits, and how a failure is said."""

from __future__ import annotations

import html
import re

from tabane.errors import ReadError
from tabane.messages import Message, say

LONGEST = 4_000_000
"""Characters of a page: what is behind them is said to be left out."""

LISTED = 200_000
"""Characters of a table of rows, of JSON or XML: data to look at, not to read."""


def broken(what: Message | str, reason: object) -> ReadError:
    """Bytes that are not what they claim to be."""
    if not isinstance(reason, Message):
        reason = " ".join(str(reason).split())[:200] or type(reason).__name__
    return ReadError(say("The {what} cannot be read: {reason}", what=what, reason=reason), "broken")


def too_large(what: Message | str, size: object, limit: object) -> ReadError:
    """Bytes that would become more than there is room for."""
    return ReadError(
        say(
            "The {what} is too large to be read: {size}; the limit is {limit}.",
            what=what,
            size=size,
            limit=limit,
        ),
        "large",
    )


def bounded(text: str, limit: int = LONGEST) -> tuple[str, tuple[Message, ...]]:
    """Text up to the limit, cut at a line, with a word on what was cut."""
    if len(text) <= limit:
        return text, ()
    at = text.rfind("\n", limit - limit // 10, limit)
    kept = text[: at if at > 0 else limit]
    return kept, (say("Only the first {kept} of {all} characters are here.", kept=len(kept), all=len(text)),)


def fence(text: str, language: str) -> str:
    """A listing of code around any text."""
    marks = "`" * max(3, 1 + max(map(len, re.findall(r"`+", text)), default=0))
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def first_line(text: str, longest: int = 200) -> str | None:
    """Text as a title: one line, without entities."""
    return " ".join(html.unescape(text).split())[:longest] or None
