r"""Rules of .gitignore files, with the results of git; pure.

Follows gitignore(5) and git's wildmatch. The last matching pattern of a file decides, and the file nearest to
a path takes precedence. Paths below an ignored folder cannot be included again. One difference: ``?`` and
``[…]`` match a character, not a byte of UTF-8.

A pattern is matched folder by folder. Each name is matched by a regular expression whose stars never
backtrack, so no pattern takes long.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_PATTERNS, LONGEST_PATTERN = 5000, 1000
"""Limits of the patterns of one file, and of the characters of a pattern. Those beyond are ignored."""

NameTest = Callable[[str], object]
"""Test of a name. The truth of its result says whether the name matches."""

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
        """Return whether a path, relative to the folder of the file, is ignored. None if no rule matches."""
        for rule in self._rules:
            if rule.matches(parts, is_folder):
                return not rule.negated
        return None


class IgnoreLevel(NamedTuple):
    """Rules, and the depth of their file below the top, in folders."""

    depth: int
    rules: IgnoreRules


Levels = tuple[IgnoreLevel, ...]
"""All rules that apply to a folder, in increasing precedence."""


def ignored(levels: Levels, parts: Sequence[str], is_folder: bool) -> bool:
    """Return whether a path below the top is ignored, if no folder above it is. ``depth`` may be negative."""
    for depth, rules in reversed(levels):
        decided = rules.decide(parts[depth:], is_folder)
        if decided is not None:
            return decided
    return False


def lines_of(text: str) -> list[str]:
    """Return the lines of a .gitignore, without a BOM and the CR of a CR LF."""
    return [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]


def rule_of(line: str) -> IgnoreRule | None:
    """Parse a line to a rule. None for an empty line, a comment, or a pattern that never matches."""
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
    r"""Return the pattern without spaces at its end, except for an escaped space (``\ ``)."""
    end = len(line.rstrip(" "))
    behind = len(line[:end]) - len(line[:end].rstrip("\\"))
    return line[: end + 1] if behind % 2 and end < len(line) else line[:end]


def _segments(pattern: str) -> list[str]:
    r"""Split the pattern at its slashes. An escaped slash (``\/``) is a slash too."""
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
    """Return whether the tests match the folders of a path in order. ``**`` matches any number of them.

    At the end, ``**`` matches at least one. Takes at most len(names) · len(parts) steps, because parts before
    the last ``**`` are never matched again.
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
    """Return the test for one part of a pattern. Plain names need no regular expression."""
    if _DEEP.fullmatch(segment):
        return None
    if not re.search(r"[*?\[\\]", segment):
        return segment.__eq__
    if segment[0] == "*" and not re.search(r"[*?\[\\]", segment[1:]):
        ending = segment[1:]
        return lambda name: name.endswith(ending)
    return re.compile(_regex(segment), re.DOTALL).fullmatch


def _regex(segment: str) -> str:
    """Return one part of a pattern as a regular expression in which stars do not backtrack."""
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
    """Return the regular expression of one character or wildcard, and the position after it."""
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
    """Return the regular expression of ``[…]`` after its opening bracket.

    Raises _MalformedPattern if unclosed.
    """
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
    """Return a class, a range or a character of ``[…]``, empty for a reversed range."""
    named = re.compile(r"\[:([^\]]*):\]").match(segment, at)
    if named:
        if named[1] not in _CLASSES:
            raise _MalformedPattern
        return _CLASSES[named[1]], named.end()
    low, at = _plain(segment, at)
    if segment[at : at + 1] == "-" and segment[at + 1 : at + 2] not in ("", "]"):
        high, at = _plain(segment, at + 1)
        # git matches the first character of a range on its own, before it parses the range.
        return (f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low)), at
    return re.escape(low), at


def _plain(segment: str, at: int) -> tuple[str, int]:
    if segment[at : at + 1] == "\\":
        at += 1
    if at >= len(segment):
        raise _MalformedPattern
    return segment[at], at + 1
