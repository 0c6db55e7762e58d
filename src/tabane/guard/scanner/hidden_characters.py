"""Text that a person does not see: invisible characters, text pushed off the screen, hidden markup.

What is hidden in tag characters and variation selectors is decoded, and scanned like other text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from tabane.guard.scanner.findings import HIDDEN, Finding, excerpt_of
from tabane.messages import Message, say
from tabane.text.invisible_characters import cleaned, has_unseen

MOST_HIDDEN = 2_000
"""Invisible characters up to which each is judged by the text around it; more are hidden text in any case."""

_TAGS = re.compile("[\U000e0001-\U000e007f]+")
_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]{2,}")
_OVERRIDES = re.compile("[\u202a\u202b\u202d\u202e\u2066-\u2068]")
_ESCAPE = re.compile("\x1b[\\[\\]()P^_]|\x9b|\x08|\\\\(?:x1b|033|u001b)\\[[0-9;]*[a-zA-Z]", re.IGNORECASE)
_ANY = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e01ef]"
)
# What begins with a character, not with a condition, is searched several times as fast.
_PUSHED_ASIDE = re.compile("[ \t\u3000\u00a0](?<![ \t\u3000\u00a0]{2})[ \t\u3000\u00a0]{99,}+\\s{0,2000}+\\S")
_PUSHED_DOWN = re.compile("\n(?<![\n \t]\n)[ \t]{0,40}+(?:\n[ \t]{0,40}+){19,}+\\S")
_UNSHOWN = re.compile(
    r"<[a-z]{1,12}\s[^<>]{0,120}?(?:display\s{0,3}:\s{0,3}none|visibility\s{0,3}:\s{0,3}hidden"
    r"|font-size\s{0,3}:\s{0,3}[01](?:px|pt|em)?\b|opacity\s{0,3}:\s{0,3}0\b|color\s{0,3}:\s{0,3}(?:white|#fff|transparent)"
    r"|\bhidden\b)[^<>]{0,120}>[^<]{8}",
    re.IGNORECASE,
)


class VisibleText(NamedTuple):
    """A text as a person sees it, what was hidden in it, and what was found on the way."""

    text: str
    decoded: tuple[str, ...]
    findings: tuple[Finding, ...]


def visible(text: str) -> VisibleText:
    """Return a text without invisible characters, with what they spell and the findings about them."""
    plain = text.isascii() and text.isprintable()
    if plain and len(text) < 30:
        return VisibleText(text, (), ())  # most names and values
    findings = list(_unshown(text))
    if plain or not has_unseen(text):
        return VisibleText(text, (), tuple(findings))
    decoded = tuple(hidden for hidden in (_tagged(text), _selected(text)) if hidden)
    findings.extend(_characters(text, decoded))
    return VisibleText(_shown(text), decoded, tuple(findings))


def _shown(text: str) -> str:
    if len(_ANY.findall(text)) > MOST_HIDDEN:
        return _ANY.sub("", text)
    return cleaned(text).text


def _characters(text: str, decoded: tuple[str, ...]) -> Iterator[Finding]:
    """Yield what invisible characters say about a text: at most one finding, the worst."""
    count = len(_ANY.findall(text))
    removed = {} if count > MOST_HIDDEN else cleaned(text).removed
    first = _ANY.search(text)
    at = max(0, first.start() - 20) if first else 0
    if decoded:
        what = say("It contains hidden text in invisible characters.")
        yield Finding(HIDDEN, "high", what, excerpt_of(decoded[0]))
    elif count > MOST_HIDDEN or removed.get("tag", 0) or removed.get("variation selector", 0) >= 4:
        yield Finding(HIDDEN, "high", _counted(count), excerpt_of(text, at))
    elif (found := _ESCAPE.search(text)) is not None:
        what = say("It contains escape sequences that hide or overwrite text in a terminal.")
        yield Finding(HIDDEN, "high", what, excerpt_of(text, max(0, found.start() - 20)))
    elif removed.get("direction", 0) and (turned := _OVERRIDES.search(text)) is not None:
        what = say("It contains characters that reverse the direction of text.")
        yield Finding(HIDDEN, "high", what, excerpt_of(text, max(0, turned.start() - 20)))
    elif (hidden := removed.get("zero-width", 0) + removed.get("control", 0)) >= 3:
        yield Finding(HIDDEN, "high" if hidden >= 12 else "medium", _counted(hidden), excerpt_of(text, at))


def _counted(count: int) -> Message:
    return say("It contains {count} invisible {count:character|characters}.", count=count)


def _unshown(text: str) -> Iterator[Finding]:
    if (found := _pushed(text)) is not None:
        what = say("A long run of blanks pushes text off the screen.")
        yield Finding(HIDDEN, "medium", what, excerpt_of(text, found.end() - 1))
    if "<" in text and (found := _UNSHOWN.search(text)) is not None:
        what = say("It contains markup that hides its text.")
        yield Finding(HIDDEN, "medium", what, excerpt_of(text, found.start()))


def _pushed(text: str) -> re.Match[str] | None:
    """Return a run of blanks that pushes text away. Texts without two blanks in a row are not searched."""
    if len(text) < _FEW:
        return None
    blanks = _TWO_BLANKS_OF_ASCII if text.isascii() else _TWO_BLANKS
    found = _PUSHED_ASIDE.search(text) if any(two in text for two in blanks) else None
    return found or (_PUSHED_DOWN.search(text) if text.count("\n") >= _FEW else None)


_FEW = 20
_TWO_BLANKS_OF_ASCII = ("  ", " \t", "\t ", "\t\t")
_TWO_BLANKS = tuple(one + other for one in " \t\u3000\u00a0" for other in " \t\u3000\u00a0")


def _tagged(text: str) -> str:
    """Return what tag characters spell: each is a character of ASCII, moved up."""
    runs = (run for run in _TAGS.findall(text) if run not in _FLAGS)
    return "".join("".join(chr(ord(tag) - 0xE0000) for tag in run) for run in runs).strip("\x01\x7f")


_FLAGS = tuple(
    "".join(chr(0xE0000 + ord(letter)) for letter in name) + "\U000e007f"
    for name in ("gbeng", "gbsct", "gbwls")
)


def _selected(text: str) -> str:
    """Return what runs of variation selectors spell: each is a byte."""
    data = bytes(
        ord(selector) - 0xFE00 if selector <= "\ufe0f" else ord(selector) - 0xE0100 + 16
        for run in _SELECTORS.findall(text)
        for selector in run
    )
    spelled = data.decode("utf-8", "replace")
    return spelled if len(spelled) >= 4 and spelled.isprintable() else ""
