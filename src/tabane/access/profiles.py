"""Profiles: named sets of servers and tools, which narrow whoever uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tabane.access.permissions import PermissionRules
from tabane.access.profile_file import ProfileDefinition
from tabane.errors import UnknownName
from tabane.messages import say
from tabane.operations.access import Access, CallTarget
from tabane.text.nearest_names import nearest


class Profile:
    """One profile. It is live: a change of the settings file applies to the sessions that use it.

    A profile that was removed from the file allows nothing.
    """

    def __init__(self, definition: ProfileDefinition) -> None:
        self.definition: ProfileDefinition | None = definition
        self.name = definition.name
        self.revision = 0
        self._rules = PermissionRules(definition.patterns)

    def allows(self, target: CallTarget) -> bool:
        return self.definition is not None and self._rules.allows(target)

    def sees_server(self, server: str) -> bool:
        return self.definition is not None and self._rules.sees_server(server)

    @property
    def everything(self) -> bool:
        """Return whether it narrows nothing."""
        return self.definition is not None and self._rules.everything

    def replace(self, definition: ProfileDefinition | None) -> None:
        """Put another definition in force; None if there is none any more."""
        if definition == self.definition:
            return
        self.definition = definition
        self.revision += 1
        if definition is not None:
            self._rules = PermissionRules(definition.patterns)


class NarrowedAccess:
    """The intersection of an access and a profile."""

    def __init__(self, access: Access, profile: Profile) -> None:
        self._access, self.profile = access, profile

    @property
    def holder(self) -> str:
        return self._access.holder

    @property
    def label(self) -> str:
        return self._access.label

    @property
    def tier(self) -> str:
        return self._access.tier

    @property
    def everything(self) -> bool:
        return self.profile.everything and self._access.everything

    @property
    def revision(self) -> int:
        # Both only grow, so their sum changes with each of them.
        return self._access.revision + self.profile.revision

    def allows(self, target: CallTarget) -> bool:
        return self.profile.allows(target) and self._access.allows(target)

    def sees_server(self, server: str) -> bool:
        return self.profile.sees_server(server) and self._access.sees_server(server)


def narrowed(access: Access, profile: Profile) -> Access:
    """Return what both allow, never more than either."""
    return NarrowedAccess(access, profile)


class Profiles:
    """The profiles of the settings file. ``read`` reads them, and raises ConfigurationError."""

    def __init__(self, read: Callable[[], Mapping[str, ProfileDefinition]]) -> None:
        self._read = read
        self._profiles = {name: Profile(definition) for name, definition in read().items()}

    def reload(self) -> None:
        """Read them again. Raises ConfigurationError, and then changes nothing."""
        found = self._read()
        for name, profile in self._profiles.items():
            profile.replace(found.get(name))
        for name, definition in found.items():
            self._profiles.setdefault(name, Profile(definition))

    def find(self, name: str) -> Profile | None:
        """Return the profile of that name, also one that the file has no more and a session may use."""
        return self._profiles.get(name)

    def get(self, name: str) -> Profile:
        """Return the profile of that name. Raises UnknownName with the nearest names."""
        profile = self._profiles.get(name)
        if profile is None or profile.definition is None:
            raise self._unknown(name)
        return profile

    def names(self) -> list[str]:
        """Return the names of the profiles that the file has."""
        return [profile.name for profile in self.all()]

    def narrowed(self, access: Access, name: str) -> Access:
        """Return what an identity may do within the profile of that name. Raises UnknownName."""
        return narrowed(access, self.get(name))

    def all(self) -> list[Profile]:
        """Return the profiles that the file has, in its order."""
        return [profile for profile in self._profiles.values() if profile.definition is not None]

    def _unknown(self, name: str) -> UnknownName:
        names = self.names()
        near = nearest(name, names)
        if near:
            return UnknownName(
                say(
                    "There is no profile {name}. Did you mean {near}?",
                    name=name[:100],
                    near=", ".join(near),
                ),
                near,
            )
        if names:
            return UnknownName(
                say("There is no profile {name}. List them with: tabane profiles list", name=name[:100])
            )
        return UnknownName(
            say(
                "There is no profile {name}. To create it, add a table [profiles.{name}] with allow and "
                "deny to tabane.toml.",
                name=name[:100],
            )
        )


def usable(profiles: Iterable[Profile], access: Access, known: Iterable[CallTarget]) -> list[Profile]:
    """Return the profiles with which the caller may call anything of ``known``."""
    if access.everything:
        return list(profiles)
    targets = [target for target in known if access.allows(target)]
    return [profile for profile in profiles if any(map(profile.allows, targets))]
