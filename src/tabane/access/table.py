"""Declarations of the operations on keys and profiles."""

from __future__ import annotations

from typing import Any

from tabane.access import parameters as given
from tabane.access.key_operations import KeyOperations
from tabane.access.profile_operations import ProfileOperations
from tabane.operations import Face, Operation, Privilege

PERSON = frozenset({Face.RPC, Face.CLI})


def access_table(keys: KeyOperations, profiles: ProfileOperations) -> list[Operation]:
    """Return the operations."""
    return [
        _change("keys_create", "Create an API key; its secret is shown once.", given.CreateKey,
                keys.create),
        _change("keys_update", "Change what an API key may do; at once.", given.UpdateKey,
                keys.update),
        _change("keys_revoke", "Revoke an API key; at once.", given.OneKey, keys.revoke),
        _look("keys_list", "API keys, without their secrets.", given.ListKeys,
              keys.keys),
        _look("keys_show", "One API key, without its secret.", given.OneKey, keys.show),
        Operation(
            "profiles_list", "Profiles that the caller may use.", given.NoProfileParameters,
            profiles.profiles, PERSON, Privilege.READ, read_only=True, source="hub",
        ),
    ]  # fmt: skip


def _change(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(name, description, params, handler, PERSON, Privilege.ADMIN, source="admin")


def _look(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(
        name, description, params, handler, PERSON, Privilege.READ, read_only=True, source="admin"
    )  # fmt: skip
