"""Declarations of the operations on keys and profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tabane.access import parameters as given
from tabane.access.key_operations import KeyOperations
from tabane.access.profile_operations import ProfileOperations
from tabane.operations import Face, Operation, Privilege

PERSON = frozenset({Face.RPC, Face.CLI})


def access_table(
    keys: Callable[[], KeyOperations], profiles: Callable[[], ProfileOperations]
) -> list[Operation]:
    """Return the operations. The handlers are made on first use."""
    return [
        _change("keys_create", "Create an API key; its secret is shown once.", given.CreateKey,
                lambda c, p: keys().create(c, p)),
        _change("keys_update", "Change what an API key may do; at once.", given.UpdateKey,
                lambda c, p: keys().update(c, p)),
        _change("keys_revoke", "Revoke an API key; at once.", given.OneKey, lambda c, p: keys().revoke(c, p)),
        _look("keys_list", "API keys, without their secrets.", given.ListKeys,
              lambda c, p: keys().keys(c, p)),
        _look("keys_show", "One API key, without its secret.", given.OneKey, lambda c, p: keys().show(c, p)),
        Operation(
            "profiles_list", "Profiles that the caller may use.", given.NoProfileParameters,
            lambda c, p: profiles().profiles(c, p), PERSON, Privilege.READ, read_only=True, source="hub",
        ),
    ]  # fmt: skip


def _change(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(name, description, params, handler, PERSON, Privilege.ADMIN, source="admin")


def _look(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(
        name, description, params, handler, PERSON, Privilege.READ, read_only=True, source="admin"
    )  # fmt: skip
