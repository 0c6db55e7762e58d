"""Handlers of the operations on keys, profiles, limits and policy. Imported with the first of them."""

from __future__ import annotations

from tabane.access.key_operations import KeyOperations
from tabane.access.limits import LimitOperations
from tabane.access.permissions import PermissionPatterns
from tabane.access.policy_operations import PolicyExplainer
from tabane.access.profiles import ProfileOperations
from tabane.hub.context import HubContext
from tabane.hub.people.access import HubAccess


class AccessOperations:
    """Handlers of the operations, over the access of a hub."""

    def __init__(self, access: HubAccess, context: HubContext) -> None:
        self._access = access
        self.keys = KeyOperations(
            access.keys, access.profiles, lambda: context.settings.limits.tiers, access.known
        )
        self.profiles = ProfileOperations(access.profiles, access.known)
        self.limits = LimitOperations(access.limits, access.keys)
        self.policy = PolicyExplainer(self.keys.find, access.find_target, self._patterns)

    def _patterns(self, profile: str) -> PermissionPatterns | None:
        found = self._access.profiles.find(profile)
        return found.definition.patterns if found and found.definition else None
