"""Identities of tests: keys, tokens and profiles that a test gives and takes away."""

from __future__ import annotations

from collections.abc import Collection
from fnmatch import fnmatchcase

from tabane.errors import HubError
from tabane.hub.http.authentication import HttpIdentities
from tabane.messages import Message
from tabane.operations.caller import Access, CallTarget


class GivenAccess:
    """What a test allows: patterns over names. ``ended`` takes it away, as a revocation does."""

    def __init__(self, holder: str, *patterns: str, admin: bool = False) -> None:
        self.holder, self.label, self.tier = holder, holder, "authenticated"
        self.patterns, self.admin = patterns or ("*",), admin
        self.everything = False
        self.revision = 0
        self.ended = False

    def allows(self, target: CallTarget) -> bool:
        if self.ended:
            return False
        if target.source == "hub":
            return True
        if target.source == "admin":
            return self.admin
        return any(fnmatchcase(target.name, pattern) for pattern in self.patterns)

    def sees_server(self, server: str) -> bool:
        return not self.ended


class GivenKeys:
    """Keys by secret."""

    def __init__(self, **keys: GivenAccess) -> None:
        self.keys: dict[str, GivenAccess] = {f"tbn_{name}": access for name, access in keys.items()}

    def find(self, secret: str) -> Access | None:
        access = self.keys.get(secret)
        return None if access is None or access.ended else access


class GivenTokens:
    """Tokens of an OAuth server, which takes its time to say whose they are."""

    def __init__(self, **tokens: GivenAccess) -> None:
        self.tokens = tokens
        self.asked: list[str] = []

    async def verify(self, token: str) -> Access:
        self.asked.append(token)
        access = self.tokens.get(token)
        if access is None or access.ended:
            raise HubError(Message("this token is not for this hub"))
        return access


class GivenProfiles:
    """Profiles by name, each with the patterns that it allows."""

    def __init__(self, **profiles: tuple[str, ...]) -> None:
        self.profiles = profiles

    def names(self) -> Collection[str]:
        return self.profiles

    def narrowed(self, access: Access, name: str) -> Access:
        return NarrowedAccess(access, self.profiles[name])


class NarrowedAccess:
    """An access within a profile."""

    everything = False

    def __init__(self, whole: Access, patterns: tuple[str, ...]) -> None:
        self.holder, self.label, self.tier, self.revision = whole.holder, whole.label, whole.tier, 0
        self._whole, self._patterns = whole, patterns

    def allows(self, target: CallTarget) -> bool:
        inside = target.source == "hub" or any(fnmatchcase(target.name, one) for one in self._patterns)
        return inside and self._whole.allows(target)

    def sees_server(self, server: str) -> bool:
        return self._whole.sees_server(server)


class RecordedRefusals:
    """The failed attempts that a hub reports."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []

    def __call__(self, source: str, reason: str) -> None:
        self.seen.append((source, reason))


class GivenIdentities(HttpIdentities):
    """Identities that a test gives, whose refusals it sees."""

    def __init__(
        self,
        keys: GivenKeys | None,
        tokens: GivenTokens | None,
        profiles: GivenProfiles | None,
        refusals: RecordedRefusals,
        restored: Access | None = None,
    ) -> None:
        super().__init__(keys, tokens, profiles)
        self._refusals, self._restored = refusals, restored

    def restore(self, holder: str) -> Access | None:
        return self._restored or super().restore(holder)

    def refused(self, source: str, reason: str) -> None:
        self._refusals(source, reason)


def identities(
    keys: GivenKeys | None = None,
    tokens: GivenTokens | None = None,
    profiles: GivenProfiles | None = None,
    refused: RecordedRefusals | None = None,
    restored: Access | None = None,
) -> HttpIdentities:
    """Return what a hub knows besides its token. ``restored`` is the access of a holder seen before."""
    return GivenIdentities(keys, tokens, profiles, refused or RecordedRefusals(), restored)
