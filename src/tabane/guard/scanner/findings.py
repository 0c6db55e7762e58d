"""What a scan of a definition finds. The hub and the process that scans share these values."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from msgspec import Raw, Struct

from tabane.messages import Message, say
from tabane.text.lazy_patterns import lazy_pattern

Severity = Literal["high", "medium", "low"]
Kind = Literal["tool", "prompt", "resource", "template", "skill", "instructions"]

HIDDEN = "hidden-text"
"""The rule about what a person does not see, or what could not be scanned."""

MOST_EXCERPT = 300
"""Characters of an excerpt before its invisible characters are written as numbers."""

_UNREADABLE = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e01ef]"
)


class ScannedText(NamedTuple):
    """A definition as a server gave it, to be scanned."""

    kind: Kind
    name: str
    body: bytes | Raw


class Finding(Struct, frozen=True):
    """One reason to look at a definition before a model reads it.

    ``rule`` is the kind of attack: ``orders``, ``hidden-text``, ``shadowing``, ``exfiltration`` or
    ``lookalike``. ``excerpt`` is the text that was found, on one line, in which invisible characters are
    numbers such as ``⟨U+200B⟩``.
    """

    rule: str
    severity: Severity
    message: Message
    excerpt: str = ""


def excerpt_of(text: str, start: int = 0, end: int | None = None) -> str:
    """Return a part of a text as an excerpt: short, on one line, with nothing invisible in it."""
    stop = len(text) if end is None else end
    part = text[start : min(stop, start + MOST_EXCERPT)]
    line = " ".join(_UNREADABLE.sub(lambda found: f"\u27e8U+{ord(found[0]):04X}\u27e9", part).split())
    return line + ("…" if stop - start > MOST_EXCERPT else "")


_TOKENS = re.compile(r"[^\W_]+")
_ESCAPED = re.compile("\u27e8U\\+[0-9A-F]{4,6}\u27e9")
_BETWEEN = r"(?:\\u[0-9a-f]{4}|[\W_]){1,80}+"
"""Separators between words of an excerpt: punctuation, spaces, line ends, escapes of invisible characters.

The pattern does not backtrack, so a search takes time in proportion to the text.
"""

LEAST_WORDS = 2
"""Words that an excerpt needs to be looked for in a text."""


def passage_of(excerpt: str, text: str) -> tuple[int, int] | None:
    """Return where an excerpt is in a text as it was written: start and end. None if it is not found.

    Only its words count: a scan reads small letters, without marks, line ends and invisible characters.
    """
    words = _TOKENS.findall(_ESCAPED.sub(" ", excerpt.removesuffix("\u2026")))
    if len(words) < LEAST_WORDS:
        return None
    if excerpt.endswith("\u2026"):
        words = words[:-1] or words  # it may be cut
    found = re.search(_BETWEEN.join(map(re.escape, words)), text, re.IGNORECASE)
    return found.span() if found is not None else None


SEVERITIES: tuple[Severity, ...] = ("high", "medium", "low")
"""All severities, the worst first."""


def unfinished() -> Finding:
    """Return the finding about a definition whose scan did not end."""
    return Finding(HIDDEN, "medium", say("It could not be scanned in time. Read it before you use it."))
