"""The language of permissions once more, as small as it can be: what a policy allows, and its access."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import count
from typing import Literal

from hypothesis import strategies as st

from tabane.operations.caller import CallTarget

DISCLOSURE = frozenset(
    {
        *("search_tools", "describe_tools", "call_tool", "call_readonly_tool", "execute_parallel"),
        *("read_more", "run_script", "search_everything"),
    }
)
"""Operations that every identified caller has: they act on what is allowed."""

Kind = Literal["tool", "prompt", "resource", "operation", "list"]


@dataclass(frozen=True)
class Policy:
    """What one identity may do, and a profile that narrows it."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()
    read_only: bool = False
    profile: Policy | None = None

    def allows(self, name: str, source: str, *, changes: bool, server: str = "") -> bool:
        if self.profile is not None and not self.profile.allows(name, source, changes=changes, server=server):
            return False
        if changes and self.read_only:
            return False
        names = [name] if not server or name.startswith(f"{server}__") else [name, f"{server}__{name}"]
        if any(_fits(pattern, each, source) for pattern in self.deny for each in names):
            return False
        return any(_fits(pattern, name, source) for pattern in self.allow)

    def hides(self, server: str) -> bool:
        """Return whether nothing that this server could ever offer is allowed."""
        if self.profile is not None and self.profile.hides(server):
            return True
        own = f"{server}__"
        if any(pattern in ("*", f"{own}*") for pattern in self.deny):
            return True
        return not any(_reaches(pattern, own) for pattern in self.allow)


def _fits(pattern: str, name: str, source: str) -> bool:
    if pattern.startswith("@"):
        return source == pattern[1:]
    if source == "admin" and pattern != name:
        return False
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), name, re.DOTALL) is not None


def _reaches(pattern: str, own: str) -> bool:
    """Return whether a pattern may match a name that begins with ``own``."""
    if pattern.startswith("@"):
        return False
    literal, star, _ = pattern.partition("*")
    return literal.startswith(own) or (bool(star) and own.startswith(literal))


_numbers = count(1)


@dataclass
class PolicyAccess:
    """The access of a policy. ``policy`` may be replaced while it is in use; None is a revoked key."""

    policy: Policy | None
    holder: str = field(default_factory=lambda: f"key:test{next(_numbers):08d}")
    label: str = "test"
    tier: str = "local"
    everything: bool = False
    revision: int = 0

    def allows(self, target: CallTarget) -> bool:
        if self.policy is None:
            return False
        if target.source == "hub":
            return not (target.changes and self.policy.read_only)
        if target.name in DISCLOSURE:
            return True
        return self.policy.allows(target.name, target.source, changes=target.changes, server=target.server)

    def sees_server(self, server: str) -> bool:
        return self.policy is not None and not self.policy.hides(server)

    def become(self, policy: Policy | None) -> None:
        self.policy = policy
        self.revision += 1


PATTERNS = (
    *("*", "forge1__*", "forge2__*", "*__get_ticket", "forge1__get_ticket", "forge1__get_tickets"),
    *(
        "*ticket*",
        "forge1__greet*",
        "forge1__forge1://*",
        "forge2__shared://notes",
        "plain_lookup",
        "bare__*",
    ),
    *("*shared*", "@posts", "@documents", "@pages", "@docs", "search_documents", "put_document", "f*"),
)
"""Patterns over the names of the world, among them names that are near each other."""

_some = st.lists(st.sampled_from(PATTERNS), max_size=4, unique=True).map(tuple)
_one = st.builds(Policy, allow=_some, deny=_some, read_only=st.booleans())
policies = st.builds(Policy, allow=_some, deny=_some, read_only=st.booleans(), profile=st.none() | _one)
