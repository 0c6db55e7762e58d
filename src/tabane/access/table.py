"""Declarations of the operations on keys, profiles and limits. Handlers are imported on first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tabane.access import parameters as given
from tabane.operations import Face, Operation, Privilege

if TYPE_CHECKING:
    from tabane.access.key_operations import KeyOperations
    from tabane.access.limits import LimitOperations
    from tabane.access.policy_operations import PolicyExplainer
    from tabane.access.profiles import ProfileOperations
    from tabane.messages import Lang

PERSON = frozenset({Face.RPC, Face.CLI})
MODEL = frozenset({Face.RPC, Face.CLI, Face.MCP})


def access_table(
    keys: Callable[[], KeyOperations],
    profiles: Callable[[], ProfileOperations],
    limits: Callable[[], LimitOperations],
    policy: Callable[[], PolicyExplainer],
) -> list[Operation]:
    """Return the operations. Each argument is called with the first of its operations."""
    return [
        _admin_operation("keys_create", "Create an API key; its secret is shown once.", given.CreateKey,
                lambda c, p: keys().create(c, p)),
        _admin_operation("keys_update", "Change what an API key may do; at once.", given.UpdateKey,
                lambda c, p: keys().update(c, p)),
        _admin_operation("keys_revoke", "Revoke an API key; at once.", given.OneKey,
                lambda c, p: keys().revoke(c, p)),
        _read_operation("keys_list", "API keys, without their secrets.", given.ListKeys,
              lambda c, p: keys().keys(c, p)),
        _read_operation("keys_show", "One API key, without its secret.", given.OneKey,
              lambda c, p: keys().show(c, p)),
        Operation(
            "profiles_list", "Profiles that the caller may use.", given.NoProfileParameters,
            lambda c, p: profiles().profiles(c, p), PERSON, Privilege.READ, read_only=True, source="hub",
        ),
        Operation(
            "get_rate_limit_stats",
            "Show the rate limits: for each caller its tier, tokens left, calls in flight and waiting, "
            "and refused calls; and the limits that all callers share. The latest callers come first.",
            given.RateLimitStats, lambda c, p: limits().stats(c, p), MODEL, Privilege.READ, read_only=True,
        ),
        Operation(
            "explain_policy", "Explain whether an API key may call a tool, and which pattern decides it.",
            given.ExplainPolicyParams, lambda c, p: policy().explain(c, p), PERSON, Privilege.READ,
            text=_policy_text, read_only=True, source="admin", label="Explain a permission",
        ),
    ]  # fmt: skip


def _admin_operation(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(name, description, params, handler, PERSON, Privilege.ADMIN, source="admin")


def _read_operation(name: str, description: str, params: Any, handler: Any) -> Operation:
    return Operation(
        name, description, params, handler, PERSON, Privilege.READ, read_only=True, source="admin"
    )  # fmt: skip


def _policy_text(found: dict[str, Any], lang: Lang) -> str:
    from tabane.access.policy_operations import policy_text

    return policy_text(found, lang)
