"""Access to a hub: its profiles, API keys and limits.

Each of them is imported on first use: most hubs have one user, and none of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabane.catalog.gateway import Gateway
from tabane.errors import TabaneError
from tabane.hub.context import HubContext
from tabane.messages import Lang
from tabane.operations import LOCAL, METRICS, Access, Caller, CallTarget, OperationTable
from tabane.settings.files import read_trusted

if TYPE_CHECKING:
    from tabane.access.keys import KeyRing, SharedKeys
    from tabane.access.limits import CallLimits
    from tabane.access.profiles import ProfileDefinition, Profiles
    from tabane.access.token_bucket import TokenLedger
    from tabane.group.profile_changes import GroupProfiles, SharedProfiles
    from tabane.settings.limit_rules import LimitRules


KEYS = "access.db"
"""The file of keys, under the home."""


class HubAccess:
    """The profiles, keys and limits of a hub.

    Raises ConfigurationError if the profiles are wrong.
    """

    def __init__(
        self,
        context: HubContext,
        gateway: Gateway,
        table: OperationTable,
    ) -> None:
        self._context, self._gateway, self._table = context, gateway, table
        self._known_rules: LimitRules | None = None
        self._free: frozenset[str] = frozenset()
        self._reads_profiles = _names_profiles(context.settings.config)
        if self._reads_profiles:
            self.profiles.all()  # an error in them is told now

    @cached_property
    def limits(self) -> CallLimits:
        """The limits of calls, imported on first use."""
        from tabane.access.limits import CallLimits

        return CallLimits(self._context.loop.time, lambda: self._context.settings.limits)

    @cached_property
    def profiles(self) -> Profiles:
        """The profiles, read on first use. Raises ConfigurationError."""
        from tabane.access.profiles import Profiles

        return Profiles(self._read_profiles)

    @cached_property
    def _group_profiles(self) -> GroupProfiles | None:
        """Return the profiles that were changed at the hubs of the group; None if this hub is in none."""
        if not self._context.settings.advertise:
            return None
        from tabane.group.profile_changes import GroupProfiles

        return GroupProfiles(self._context.home)

    @cached_property
    def keys(self) -> KeyRing:
        """The API keys, imported on first use."""
        from tabane.access.keys import KeyRing

        return KeyRing(self._context.home, self._context.loop, self.profiles.find)

    def limits_of(self, tier: str) -> CallLimits | None:
        """Return the limits; None while they do not limit a tier in any way."""
        rules = self._context.settings.limits
        if rules is not self._known_rules:
            self._known_rules, self._free = rules, rules.free_tiers()
        return None if tier in self._free else self.limits

    @property
    def limiting(self) -> bool:
        """Return whether there are callers with limits: the user of this machine, or holders of keys."""
        return self.limits_of(LOCAL.tier) is not None or (self._context.home / KEYS).exists()

    def narrowed(self, profile: str) -> Access:
        """Return what the user of this machine may do within a profile; "" is none. Raises UnknownName."""
        return self.profiles.narrowed(LOCAL, profile) if profile else LOCAL

    def reload(self) -> None:
        """Read the profiles again. Raises ConfigurationError, and then changes nothing."""
        if self._reads_profiles or _names_profiles(self._context.settings.config):
            profiles = self.profiles
            self._reads_profiles = True
            profiles.reload()

    async def report(self, lang: Lang) -> dict[str, Any]:
        """Return what status shows: the profiles, and the number of keys, or why they cannot be read."""
        names = self.profiles.names() if self._reads_profiles or self._group_profiles else []
        return {"profiles": names, **await self._counted(lang)}

    async def _counted(self, lang: Lang) -> dict[str, Any]:
        if not (self._context.home / KEYS).exists():
            return {"keys": 0}  # without a thread, and without the modules of keys
        from tabane.access.key_store import KeyStore

        try:
            return {"keys": await self.keys.read(KeyStore.count, 0)}
        except TabaneError as error:
            return {"keys_problem": error.text(lang)}

    async def people(self, holders: Iterable[str]) -> dict[str, str]:
        """Return the names of people by the names of holders such as ``key:ID``, also of revoked keys."""
        found = await self.keys.holders(holders)
        return {holder: names.person for holder, names in found.items() if names.person}

    def share(self, keys: SharedKeys, ledger: TokenLedger, profiles: SharedProfiles) -> None:
        """Share the API keys, the limits of callers and the profiles with the other hubs of a group."""
        self.keys.shared, self.limits.ledger = keys, ledger
        if self._group_profiles is not None:
            self._group_profiles.shared = profiles

    async def follow(self) -> None:
        """Copy what other hubs of the group have changed: API keys and profiles. Raises TabaneError."""
        await self.keys.follow()
        if self._group_profiles is not None:
            await self._group_profiles.follow(self.profiles.reload)

    async def save_profile(self, name: str, definition: ProfileDefinition | None) -> bool:
        """Change a profile at all hubs of the group; None removes it. Return False if this hub is in none.

        Raises StoreError, and UnknownName for the removal of one that does not exist.
        """
        changes = self._group_profiles
        if changes is None or changes.shared is None:
            return False
        if definition is None:
            self.profiles.get(name)
        await changes.save(name, definition, self._file_profiles(), self.profiles.reload)
        return True

    async def tidy(self) -> None:
        """Give the group what this hub has taken and does not use. Raises StoreError."""
        await self.limits.return_unused()

    async def close(self) -> None:
        """Close the file of keys if it is open."""
        if "keys" in self.__dict__:
            await self.keys.close()

    def _read_profiles(self) -> dict[str, ProfileDefinition]:
        """Return the profiles that apply: those of the settings file, with the changes of the group."""
        file = self._file_profiles()
        return file if self._group_profiles is None else self._group_profiles.over(file)

    def _file_profiles(self) -> dict[str, ProfileDefinition]:
        """Return the profiles; none before the settings file has named one, and was read for that."""
        from tabane.access.profiles import read_profiles

        return read_profiles(self._context.settings.config) if self._reads_profiles else {}

    async def find_target(self, caller: Caller, name: str) -> CallTarget:
        """Return what a name stands for: an operation, or a tool of a server. Raises UnknownName."""
        if name == METRICS.name:
            return METRICS
        operation = self._table.get(name)
        return operation.target if operation else (await self._gateway.lookup.find(caller, name)).target

    def known(self) -> Iterator[CallTarget]:
        """Yield what can be called now: tools of servers, operations, and the metrics."""
        yield METRICS
        catalog = self._gateway.catalog
        for name in catalog.names:
            tool = catalog.get(name)
            if tool is not None:
                yield tool.target
        for operation in self._table:
            yield operation.target


def _names_profiles(path: Path) -> bool:
    """Return whether a settings file may have profiles."""
    try:
        return b"profiles" in read_trusted(path)
    except FileNotFoundError:
        return False
