"""Permissions: what the patterns of a key, a profile or a scope allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

from tabane.access.patterns import EVERY_TOOL, PatternList, checked_patterns
from tabane.operations.access import CallTarget

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
        """Return whether nothing at all is refused, administration included."""
        given = self.patterns
        return (
            self._allow.every_tool
            and "admin" in self._allow.sources
            and not given.deny
            and not given.read_only
        )

    def allows(self, target: CallTarget) -> bool:
        answer = self._answers.get(target)
        if answer is None:
            answer = self._decide(target)
            _remember(self._answers, target, answer, len(target.name))
        return answer

    def sees_server(self, server: str) -> bool:
        """Return whether a name such as ``server__tool`` could be allowed."""
        answer = self._servers.get(server)
        if answer is None:
            below = f"{server}__"
            answer = self._allow.may_match_below(below) and not self._deny.matches_all_below(below)
            _remember(self._servers, server, answer, len(server))
        return answer

    def _decide(self, target: CallTarget) -> bool:
        if target.changes and self.patterns.read_only:
            return False
        if target.kind == "method":
            return self._allows_whole(target.server)
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

    def _allows_whole(self, server: str) -> bool:
        below = f"{server}__"
        return self._allow.matches_all_below(below) and not self._deny.may_match_below(below)

    def _denies_upstream(self, target: CallTarget) -> bool:
        # A server without a prefix is denied by its own name too: a denial has to hold.
        name, below = target.name, f"{target.server}__"
        if any(map(self._deny.matches, target.names)):
            return True
        return not name.startswith(below) and self._deny.matches(below + name)


_Asked = TypeVar("_Asked")


def _remember(answers: dict[_Asked, bool], key: _Asked, answer: bool, length: int) -> None:
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
