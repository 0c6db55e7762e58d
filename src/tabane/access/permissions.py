"""Permissions: patterns of a key, a profile or a scope, their syntax, their errors, and what they allow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tabane.errors import BadArguments
from tabane.messages import Message, say
from tabane.operations.caller import SOURCES, CallTarget
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
    found = tuple(dict.fromkeys(_check_pattern(pattern.strip(), parameter) for pattern in given))
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


def _check_pattern(pattern: str, parameter: str) -> str:
    problem = _pattern_problem(pattern)
    if problem is not None:
        raise BadArguments(say("{parameter}: {problem}", parameter=parameter, problem=problem), parameter)
    return pattern.replace(".", "__", 1) if _dotted(pattern) else pattern


def _pattern_problem(pattern: str) -> Message | None:
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
    if not pattern.startswith("@") or pattern[1:] in GRANTABLE:
        return None
    near = nearest(pattern[1:], GRANTABLE, 1)
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
        """Return whether a name matches."""
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
        """Return whether a pattern matches a name."""
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


MOST_ANSWERS = 20_000
"""Answers that one set of rules remembers: more than the tools of any catalog."""

LONGEST_NAME = 256
"""Characters of a name whose answer is remembered. Callers choose the URIs of resources."""


@dataclass(frozen=True, slots=True)
class PermissionPatterns:
    """The patterns as a person wrote them, checked."""

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    read_only: bool = False

    @classmethod
    def checked(
        cls, allow: Iterable[str], deny: Iterable[str] = (), *, read_only: bool = False
    ) -> PermissionPatterns:
        """Return checked patterns. Raises BadArguments that names the wrong one."""
        return cls(checked_patterns(allow, "allow"), checked_patterns(deny, "deny"), read_only)


class PermissionRules:
    """Decides which targets one list of patterns allows. It never changes.

    - A name is allowed if a pattern of ``allow`` matches it and none of ``deny`` does.
    - ``@posts`` matches the operations of a source, and ``@admin`` those of administration.
    - Administration is allowed only by ``@admin`` or by its exact name, never by a pattern with ``*``.
    - ``read_only`` refuses everything that is not marked as read-only.
    - What belongs to the hub itself is always allowed: it acts on what is allowed only.
    - A method that the hub does not know may do anything at its server, so it is allowed only with the whole
      server.
    """

    def __init__(self, patterns: PermissionPatterns) -> None:
        self.patterns = patterns
        self._answers: dict[CallTarget, bool] = {}
        self._servers: dict[str, bool] = {}

    # Compiled on first use: most keys that are looked up are not used in the same moment.

    @cached_property
    def _allow(self) -> PatternList:
        return PatternList(self.patterns.allow)

    @cached_property
    def _deny(self) -> PatternList:
        return PatternList(self.patterns.deny)

    @property
    def everything(self) -> bool:
        """Whether nothing at all is refused, administration included."""
        given = self.patterns
        return (
            self._allow.every_tool
            and "admin" in self._allow.sources
            and not given.deny
            and not given.read_only
        )

    def allows(self, target: CallTarget) -> bool:
        """Return whether a target is allowed. The answer is remembered."""
        answer = self._answers.get(target)
        if answer is None:
            answer = self._decide_target(target)
            _remember_answer(self._answers, target, answer, len(target.name))
        return answer

    def sees_server(self, server: str) -> bool:
        """Return whether a name such as ``server__tool`` could be allowed."""
        answer = self._servers.get(server)
        if answer is None:
            below = f"{server}__"
            answer = self._allow.may_match_below(below) and not self._deny.matches_all_below(below)
            _remember_answer(self._servers, server, answer, len(server))
        return answer

    def _decide_target(self, target: CallTarget) -> bool:
        if target.changes and self.patterns.read_only:
            return False
        if target.kind == "method":
            below = f"{target.server}__"
            return self._allow.matches_all_below(below) and not self._deny.may_match_below(below)
        if target.server:
            return not self._denies_upstream(target) and any(map(self._allow.matches, target.names))
        if target.kind == "list":
            return True  # its items are checked one by one
        source = target.source or "admin"
        if source == "hub":
            return True
        if source in self._deny.sources or self._deny.matches(target.name):
            return False
        if source in self._allow.sources or target.name in self._allow.names:
            return True
        return source != "admin" and self._allow.matches_widely(target.name)

    def _denies_upstream(self, target: CallTarget) -> bool:
        # A server without a prefix is denied by its own name too: a denial has to hold.
        name, below = target.name, f"{target.server}__"
        if any(map(self._deny.matches, target.names)):
            return True
        return not name.startswith(below) and self._deny.matches(below + name)


_Asked = TypeVar("_Asked")


def _remember_answer(answers: dict[_Asked, bool], key: _Asked, answer: bool, length: int) -> None:
    if length > LONGEST_NAME:
        return
    if len(answers) >= MOST_ANSWERS:
        answers.clear()
    answers[key] = answer


def rules_of(
    allow: Iterable[str] = (EVERY_TOOL,), deny: Iterable[str] = (), *, read_only: bool = False
) -> PermissionRules:
    """Return the rules of patterns. Raises BadArguments that names the wrong one."""
    return PermissionRules(PermissionPatterns.checked(allow, deny, read_only=read_only))


def unmatched(patterns: PermissionPatterns, known: Iterable[CallTarget]) -> list[str]:
    """Return the patterns that match nothing known. They may be meant for a server that is added later."""
    missing = {pattern: PatternList([pattern]) for pattern in (*patterns.allow, *patterns.deny)}
    missing = {pattern: each for pattern, each in missing.items() if not each.sources and not each.every_tool}
    for target in known:
        for pattern in [one for one, each in missing.items() if any(map(each.matches, target.names))]:
            del missing[pattern]
        if not missing:
            break
    return list(missing)
