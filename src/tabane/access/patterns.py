"""Patterns of permissions: their syntax, their errors, and what they match; pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations.access import SOURCES
from tabane.text.nearest_names import nearest

LONGEST_PATTERN = 200
"""Characters of a pattern. Public names of tools have 48 at most, but resources are named by URIs."""

MOST_PATTERNS = 200
"""Patterns of one list."""

EVERY_TOOL = "*"

GRANTABLE = tuple(source for source in SOURCES if source != "hub")
"""Sources that a pattern can name. What belongs to ``hub`` is for everyone who is identified."""

_unprintable = re.compile(r"[\s\x00-\x1f\x7f,]").search
_dotted = re.compile(r"[\w*-]+\.[\w*-]+").fullmatch


def checked_patterns(given: Iterable[str], parameter: str) -> tuple[str, ...]:
    """Return patterns in their one spelling, without repetitions. Raises BadArguments for a wrong one.

    ``server.tool`` means ``server__tool``, as everywhere.
    """
    found = tuple(dict.fromkeys(_checked(pattern.strip(), parameter) for pattern in given))
    if len(found) > MOST_PATTERNS:
        raise BadArguments(
            say(
                "{parameter}: at most {most} {most:pattern is|patterns are} allowed, not {count}. A * "
                "matches many names.",
                parameter=parameter,
                most=MOST_PATTERNS,
                count=len(found),
            ),
            parameter,
        )
    return found


def _checked(pattern: str, parameter: str) -> str:
    problem = _problem(pattern)
    if problem is not None:
        raise BadArguments(say("{parameter}: {problem}", parameter=parameter, problem=problem), parameter)
    return pattern.replace(".", "__", 1) if _dotted(pattern) else pattern


def _problem(pattern: str) -> Message | None:
    """Return what is wrong with a pattern."""
    if not pattern:
        return say("a pattern is empty. Write a name such as github__get_issue, github__*, @posts or *.")
    if len(pattern) > LONGEST_PATTERN:
        return say("a pattern has more than {most} {most:character|characters}.", most=LONGEST_PATTERN)
    if _unprintable(pattern):
        return say(
            "{pattern} contains a space, a comma or a control character. Give each pattern separately.",
            pattern=ascii(pattern),
        )
    return _unknown_source(pattern) if pattern.startswith("@") else None


def _unknown_source(pattern: str) -> Message | None:
    name = pattern[1:]
    if name in GRANTABLE:
        return None
    near = nearest(name, GRANTABLE, 1)
    if near:
        return say("there is no source {pattern}. Did you mean @{near}?", pattern=pattern, near=near[0])
    return say(
        "there is no source {pattern}. The sources are {sources}.",
        pattern=pattern,
        sources=", ".join(f"@{source}" for source in GRANTABLE),
    )


@dataclass(frozen=True, slots=True)
class NamePattern:
    """A pattern over names with ``*`` in it, which stands for any characters.

    ``head`` and ``tail`` are the text before the first and after the last ``*``, ``parts`` what is between.
    Matching takes linear time, whatever the pattern: callers choose the names of resources.
    """

    head: str
    parts: tuple[str, ...]
    tail: str

    @classmethod
    def of(cls, pattern: str) -> NamePattern:
        """Return the pattern of a text that contains ``*``."""
        head, *parts, tail = pattern.split("*")
        return cls(head, tuple(filter(None, parts)), tail)

    def matches(self, name: str) -> bool:
        end = len(name) - len(self.tail)
        place = len(self.head)
        if end < place or not (name.startswith(self.head) and name.endswith(self.tail)):
            return False
        for part in self.parts:
            place = name.find(part, place, end)
            if place < 0:
                return False
            place += len(part)
        return True

    def may_match_below(self, prefix: str) -> bool:
        """Return whether it matches any name that begins with ``prefix``."""
        return self.head.startswith(prefix) or prefix.startswith(self.head)

    def matches_all_below(self, prefix: str) -> bool:
        """Return whether it matches every name that begins with ``prefix``."""
        return not self.parts and not self.tail and prefix.startswith(self.head)


class PatternList:
    """Patterns, sorted by their kind so that matching is fast."""

    def __init__(self, patterns: Sequence[str]) -> None:
        names = [pattern for pattern in patterns if not pattern.startswith("@")]
        self.sources = frozenset(pattern[1:] for pattern in patterns if pattern.startswith("@"))
        self.names = frozenset(name for name in names if "*" not in name)
        self.wild = tuple(NamePattern.of(name) for name in names if "*" in name)
        self.every_tool = any(name.strip("*") == "" for name in names)

    def matches(self, name: str) -> bool:
        return name in self.names or self.matches_widely(name)

    def matches_widely(self, name: str) -> bool:
        """Return whether a pattern with ``*`` matches."""
        return any(pattern.matches(name) for pattern in self.wild)

    def may_match_below(self, prefix: str) -> bool:
        """Return whether any name that begins with ``prefix`` matches."""
        return any(name.startswith(prefix) for name in self.names) or any(
            pattern.may_match_below(prefix) for pattern in self.wild
        )

    def matches_all_below(self, prefix: str) -> bool:
        """Return whether a pattern matches every name that begins with ``prefix``."""
        return any(pattern.matches_all_below(prefix) for pattern in self.wild)
