r"""What a .gitignore leaves out, as git itself decides it; pure.

Follows gitignore(5) and git's wildmatch: the last pattern of a file that matches decides, the file nearest
to a path goes first, and nothing below a folder that is left out can be taken back. One thing differs: ``?``
and ``[…]`` stand for a character, not for a byte of UTF-8.

A pattern is matched folder by folder, and each name by a regular expression whose stars never go back, so
that no pattern takes long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_PATTERNS, LONGEST_PATTERN = 5000, 1000
"""Patterns of one file, and characters of one: those beyond do nothing."""

NameTest = Callable[[str], object]
"""Whether a name matches; its result counts as true or false."""

_CLASSES: Final = {
    "alnum": "a-zA-Z0-9",
    "alpha": "a-zA-Z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\s",
    "upper": "A-Z",
    "xdigit": "0-9a-fA-F",
}
_DEEP: Final = re.compile(r"\*\*+")


class _MalformedPattern(Exception):
    """A pattern that never matches anything."""


@dataclass(frozen=True, slots=True)
class IgnoreRule:
    """One pattern. ``names`` has a test for each folder on the way, None for ``**``."""

    negated: bool
    folders_only: bool
    names: tuple[NameTest | None, ...]
    anchored: bool

    def matches(self, parts: Sequence[str], is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        if not self.anchored:
            test = self.names[0]
            return test is None or bool(test(parts[-1]))
        return _match(self.names, parts)


class IgnoreRules:
    """The patterns of one file, or of a command line."""

    def __init__(self, lines: Iterable[str]) -> None:
        found = (rule_of(line) for line, _ in zip(lines, range(MOST_PATTERNS), strict=False))
        self._rules = [rule for rule in found if rule is not None]
        self._rules.reverse()

    def __bool__(self) -> bool:
        return bool(self._rules)

    def decide(self, parts: Sequence[str], is_folder: bool) -> bool | None:
        """Whether a path, relative to where the file is, is left out. None if nothing speaks of it."""
        for rule in self._rules:
            if rule.matches(parts, is_folder):
                return not rule.negated
        return None


class IgnoreLevel(NamedTuple):
    """Rules, and how many folders below the top the file is that they stand in."""

    depth: int
    rules: IgnoreRules


Levels = tuple[IgnoreLevel, ...]
"""All rules that a folder is under, those that go first last."""


def ignored(levels: Levels, parts: Sequence[str], is_folder: bool) -> bool:
    """Whether a path below the top is left out, where no folder above it is. ``depth`` may be negative."""
    for depth, rules in reversed(levels):
        decided = rules.decide(parts[depth:], is_folder)
        if decided is not None:
            return decided
    return False


def lines_of(text: str) -> list[str]:
    """Return the lines of a .gitignore: a BOM, and the CR of a CR LF, are no part of them."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def rule_of(line: str) -> IgnoreRule | None:
    """Return the rule that a line is; None for an empty one, a comment, and what never matches."""
    if line.startswith("#") or len(line) > LONGEST_PATTERN:
        return None
    pattern = _without_spaces_behind(line)
    negated = pattern.startswith("!")
    pattern = pattern[negated:]
    folders_only = pattern.endswith("/")
    pattern = pattern[: len(pattern) - folders_only]
    anchored = "/" in pattern
    pattern = pattern.removeprefix("/")
    if not pattern:
        return None
    try:
        names = tuple(map(_test, _segments(pattern)))
    except _MalformedPattern:
        return None
    return IgnoreRule(negated, folders_only, names, anchored)


def _without_spaces_behind(line: str) -> str:
    r"""Return the pattern without the spaces at its end, but for one that is written ``\ ``."""
    end = len(line.rstrip(" "))
    behind = len(line[:end]) - len(line[:end].rstrip("\\"))
    return line[: end + 1] if behind % 2 and end < len(line) else line[:end]


def _segments(pattern: str) -> list[str]:
    r"""Return the pattern at its slashes; an escaped one (``\/``) is a slash too."""
    parts, start, at = [], 0, 0
    while at < len(pattern):
        if pattern[at] == "\\" and pattern[at + 1 : at + 2] != "/":
            at += 2
            continue
        escaped = pattern[at] == "\\"
        if escaped or pattern[at] == "/":
            parts.append(pattern[start:at])
            at += escaped
            start = at + 1
        at += 1
    return [*parts, pattern[start:]]


def _match(names: Sequence[NameTest | None], parts: Sequence[str]) -> bool:
    """Return whether tests fit the folders of a path one after the other, ``**`` any number of them.

    At the end ``**`` stands for at least one. Takes at most len(names) · len(parts) steps: what was
    before the last ``**`` is never looked at again.
    """
    deep_at, resume = -1, 0
    at = number = 0
    while number < len(parts):
        if at < len(names) and names[at] is None:
            if at == len(names) - 1:
                return True
            deep_at, resume = at, number
            at += 1
        elif at < len(names) and _fits(names[at], parts[number]):
            at, number = at + 1, number + 1
        elif deep_at >= 0:
            resume += 1
            at, number = deep_at + 1, resume
        else:
            return False
    return at == len(names)


def _fits(test: NameTest | None, name: str) -> bool:
    assert test is not None
    return bool(test(name))


def _test(segment: str) -> NameTest | None:
    """Return the test of a name that part of a pattern is; plain ones without a regular expression."""
    if _DEEP.fullmatch(segment):
        return None
    if not re.search(r"[*?\[\\]", segment):
        return segment.__eq__
    if segment[0] == "*" and not re.search(r"[*?\[\\]", segment[1:]):
        ending = segment[1:]
        return lambda name: name.endswith(ending)
    return re.compile(_regex(segment), re.DOTALL).fullmatch


def _regex(segment: str) -> str:
    """Return a name's part of a pattern as a regular expression in which stars do not go back."""
    pieces, stars, at = [""], 0, 0
    while at < len(segment):
        character = segment[at]
        if character == "*":
            stars += 1
            pieces.append("")
            at += 1
            continue
        written, at = _one(segment, at)
        pieces[-1] += written
    if not stars:
        return pieces[0]
    middle = "".join(f"(?>.*?{piece})" for piece in pieces[1:-1] if piece)
    return f"{pieces[0]}{middle}.*{pieces[-1]}"


def _one(segment: str, at: int) -> tuple[str, int]:
    """One character of a pattern, or what stands for one, as a regular expression; and where it ends."""
    character = segment[at]
    if character == "?":
        return ".", at + 1
    if character == "[":
        return _bracket(segment, at + 1)
    if character == "\\":
        if at + 1 == len(segment):
            raise _MalformedPattern
        return re.escape(segment[at + 1]), at + 2
    return re.escape(character), at + 1


def _bracket(segment: str, at: int) -> tuple[str, int]:
    """``[…]`` from behind its first bracket on. Raises _Malformed if it does not end."""
    negated = segment[at : at + 1] in ("!", "^")
    at += negated
    parts: list[str] = []
    first = True
    while first or segment[at : at + 1] != "]":
        if at >= len(segment):
            raise _MalformedPattern
        first = False
        part, at = _member(segment, at)
        parts.append(part)
    inside = "".join(parts)
    if negated:
        return (f"[^{inside}]" if inside else "."), at + 1
    return (f"[{inside}]" if inside else "(?!)"), at + 1


def _member(segment: str, at: int) -> tuple[str, int]:
    """Return a class, a range or a character of ``[…]``; empty for a range that runs backwards."""
    named = re.compile(r"\[:([^\]]*):\]").match(segment, at)
    if named:
        if named[1] not in _CLASSES:
            raise _MalformedPattern
        return _CLASSES[named[1]], named.end()
    low, at = _plain(segment, at)
    if segment[at : at + 1] == "-" and segment[at + 1 : at + 2] not in ("", "]"):
        high, at = _plain(segment, at + 1)
        # git looks at the character that a range begins with on its own, before it sees the range.
        return (f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)), at
    return re.escape(low), at


def _plain(segment: str, at: int) -> tuple[str, int]:
    if segment[at : at + 1] == "\\":
        at += 1
    if at >= len(segment):
        raise _MalformedPattern
    return segment[at], at + 1
