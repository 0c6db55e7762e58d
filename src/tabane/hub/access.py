"""Access to a hub: its profiles and its API keys, and the operations on them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

from tabane.access.key_operations import KeyOperations
from tabane.access.key_store import FILE, KeyStore
from tabane.access.keys import KeyRing
from tabane.access.limit_operations import LimitOperations
from tabane.access.limits import CallLimits
from tabane.access.permissions import PermissionPatterns
from tabane.access.policy_operations import PolicyExplainer
from tabane.access.profile_file import read_profiles
from tabane.access.profile_operations import ProfileOperations
from tabane.access.profiles import Profiles
from tabane.access.table import access_table
from tabane.errors import TabaneError
from tabane.gateway.gateway import Gateway
from tabane.messages import Lang
from tabane.operations import LOCAL, METRICS, Access, Caller, CallTarget, Operation, OperationTable
from tabane.settings import Settings


class HubAccess:
    """The profiles, keys and limits of a hub.

    Raises ConfigurationError if the profiles are wrong.
    """

    def __init__(
        self,
        settings: Callable[[], Settings],
        loop: asyncio.AbstractEventLoop,
        gateway: Gateway,
        table: Callable[[], OperationTable],
    ) -> None:
        self._settings, self._gateway, self._table = settings, gateway, table
        self.limits = CallLimits(loop.time, lambda: settings().limits)
        self.profiles = Profiles(lambda: read_profiles(settings().config))
        self.keys = KeyRing(settings().home, loop, self.profiles.find)
        self._key_operations = KeyOperations(
            self.keys, self.profiles, lambda: settings().limits.tiers, self._known
        )
        self._profile_operations = ProfileOperations(self.profiles, self._known)

    def table(self) -> list[Operation]:
        return [
            *access_table(self._key_operations, self._profile_operations),
            *LimitOperations(self.limits).table(),
            *PolicyExplainer(self._key_operations.find, self._target, self._patterns).table(),
        ]

    def narrowed(self, profile: str) -> Access:
        """Return what the user of this machine may do within a profile; "" is none. Raises UnknownName."""
        return self.profiles.narrowed(LOCAL, profile) if profile else LOCAL

    def reload(self) -> None:
        """Read the profiles again. Raises ConfigurationError, and then changes nothing."""
        self.profiles.reload()

    async def report(self, lang: Lang) -> dict[str, Any]:
        """Return what status shows: the profiles, and the number of keys, or why they cannot be read."""
        return {"profiles": self.profiles.names(), **await self._counted(lang)}

    async def _counted(self, lang: Lang) -> dict[str, Any]:
        if not (self._settings().home / FILE).exists():
            return {"keys": 0}  # without a thread
        try:
            return {"keys": await self.keys.read(KeyStore.count, 0)}
        except TabaneError as error:
            return {"keys_problem": error.text(lang)}

    async def close(self) -> None:
        await self.keys.close()

    async def _target(self, caller: Caller, name: str) -> CallTarget:
        """Return what a name stands for: an operation, or a tool of a server. Raises UnknownName."""
        if name == METRICS.name:
            return METRICS
        operation = self._table().get(name)
        return operation.target if operation else (await self._gateway.find(caller, name)).target

    def _patterns(self, profile: str) -> PermissionPatterns | None:
        found = self.profiles.find(profile)
        return found.definition.patterns if found and found.definition else None

    def _known(self) -> Iterator[CallTarget]:
        """Yield what can be called now: tools of servers, operations, and the metrics."""
        yield METRICS
        catalog = self._gateway.catalogue
        for name in catalog.names:
            tool = catalog.get(name)
            if tool is not None:
                yield tool.target
        for operation in self._table():
            yield operation.target
