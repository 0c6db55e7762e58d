"""Profiles that people changed at the hubs of a group, over those of the settings file.

A change belongs to what the settings file said when it was made. If the file of a hub says something else
now, because a later one was deployed, the file counts there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from tabane.access.permissions import PermissionPatterns
from tabane.access.profiles import MOST_PROFILES, ProfileDefinition
from tabane.errors import StoreFull
from tabane.messages import say
from tabane.settings.files import read_trusted, write_private

log = logging.getLogger(__name__)

FILE = "group_profiles.json"
"""The copy of the changes in the home: profiles apply also while the database is away."""


MOST_CHANGES = 1_000
"""Names of profiles that were changed or removed."""


class ProfileTable(msgspec.Struct, frozen=True):
    """A profile as it is stored."""

    allow: tuple[str, ...]
    deny: tuple[str, ...]
    read_only: bool
    description: str


class ProfileChange(msgspec.Struct, frozen=True):
    """A changed profile, None if it was removed. ``base`` is that of the settings file then, None if none."""

    name: str
    table: ProfileTable | None
    base: ProfileTable | None


class FollowedChanges(NamedTuple):
    """Changes, and the number of the last change of the group."""

    changes: list[ProfileChange]
    last: int


class SharedProfiles(Protocol):
    """Keeps the changed profiles of a group. Raises StoreError if it cannot be reached."""

    async def save(self, change: ProfileChange) -> None:
        """Keep a change in the place of an earlier one of the same profile."""
        ...

    async def changed(self, after: int) -> FollowedChanges:
        """Return what was changed after the change of that number."""
        ...


class GroupProfiles:
    """The changed profiles of a group, and their copy in the ``home``.

    The functions that change profiles call ``apply``, which puts them in force.
    """

    def __init__(self, home: Path) -> None:
        self._path = home / FILE
        self._changes = {change.name: change for change in _read_changes(self._path)}
        self._followed = 0
        self.shared: SharedProfiles | None = None

    def over(self, file: Mapping[str, ProfileDefinition]) -> dict[str, ProfileDefinition]:
        """Return the profiles that apply, given those of the settings file."""
        found = dict(file)
        for name, change in self._changes.items():
            if change.base != _table_of(file.get(name)):
                continue
            if change.table is None:
                found.pop(name, None)
            else:
                table = change.table
                # The patterns were checked when they were saved.
                patterns = PermissionPatterns(table.allow, table.deny, table.read_only)
                found[name] = ProfileDefinition(name, patterns, table.description)
        return found

    @property
    def _is_full(self) -> bool:
        count = sum(change.table is not None for change in self._changes.values())
        return count >= MOST_PROFILES or len(self._changes) >= MOST_CHANGES

    async def save(
        self,
        name: str,
        definition: ProfileDefinition | None,
        file: Mapping[str, ProfileDefinition],
        apply: Callable[[], None],
    ) -> None:
        """Change a profile at all hubs; None removes it. Raises StoreError."""
        assert self.shared is not None
        if definition is not None and name not in self._changes and self._is_full:
            raise StoreFull(say("there are more than {most} {most:profile|profiles}.", most=MOST_PROFILES))
        await self.shared.save(ProfileChange(name, _table_of(definition), _table_of(file.get(name))))
        await self.follow(apply)

    async def follow(self, apply: Callable[[], None]) -> None:
        """Take what was changed at any hub, and put it in force. Raises StoreError."""
        if self.shared is None:
            return
        found = await self.shared.changed(self._followed)
        if found.changes:
            self._changes |= {change.name: change for change in found.changes}
            copy = msgspec.json.encode(list(self._changes.values()))
            await asyncio.to_thread(write_private, self._path, copy)
            apply()
        self._followed = found.last


def _read_changes(path: Path) -> Iterable[ProfileChange]:
    try:
        return msgspec.json.decode(read_trusted(path), type=list[ProfileChange])
    except FileNotFoundError:
        return ()
    except msgspec.MsgspecError as error:
        log.warning("%s is damaged, and is read again from the database: %s", path, error)
        return ()


def _table_of(definition: ProfileDefinition | None) -> ProfileTable | None:
    if definition is None:
        return None
    patterns = definition.patterns
    return ProfileTable(patterns.allow, patterns.deny, patterns.read_only, definition.description)
