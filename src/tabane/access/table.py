"""Operations on keys, profiles, limits and policies: their parameters and declarations."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from tabane.operations import EVERYONE, Opener, Operation, Privilege, Reference, bound

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
Patterns = Annotated[list[Pattern], Meta(max_length=200)]
KeyName = Annotated[str, Meta(min_length=1, max_length=64)]
KeyReference = Annotated[str, Meta(min_length=1, max_length=100)]
Expiry = Annotated[str, Meta(min_length=1, max_length=50)]
Tier = Annotated[str, Meta(min_length=1, max_length=64)]
Person = Annotated[str, Meta(max_length=100, description="Name of the person who uses the key.")]


class CreateKey(Struct, frozen=True, forbid_unknown_fields=True):
    """``allow`` and ``deny`` are patterns. ``expires``: 90d, 12h, 2w, 1y, an ISO date, or never."""

    name: KeyName
    allow: Patterns = []
    deny: Patterns = []
    read_only: bool = False
    expires: Expiry = "never"
    tier: Tier = "authenticated"
    profile: Annotated[str, Meta(max_length=64)] = ""
    person: Person = ""


class UpdateKey(Struct, frozen=True, forbid_unknown_fields=True):
    """Members that are not given stay. ``key``: as in OneKey. An empty profile or person removes it."""

    key: KeyReference
    allow: Patterns | None = None
    deny: Patterns | None = None
    read_only: bool | None = None
    expires: Expiry | None = None
    tier: Tier | None = None
    profile: Annotated[str, Meta(max_length=64)] | None = None
    person: Person | None = None


class OneKey(Struct, frozen=True, forbid_unknown_fields=True):
    """``key`` is a name, an id, or ``tbn_`` and the beginning of an id."""

    key: KeyReference


class ListKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """``revoked``: revoked keys too. ``after`` is the ``next`` of the page before."""

    revoked: bool = False
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    after: Annotated[str, Meta(max_length=64)] = ""


class ListProfiles(Struct, frozen=True, forbid_unknown_fields=True):
    """``draft``: also say what a profile of these patterns would allow, such as one that somebody is writing.

    Without ``allow``, that is everything that is not denied.
    """

    draft: bool = False
    allow: Patterns = []
    deny: Patterns = []
    read_only: bool = False


class RateLimitStats(Struct, frozen=True, forbid_unknown_fields=True):
    """``holder``: only this one, such as local or key:ID."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of callers.")] = 50
    holder: Annotated[str, Meta(max_length=300, description="Only this caller, such as key:ID.")] = ""


class ExplainPolicyParams(Struct, frozen=True, forbid_unknown_fields=True):
    """The longest names of keys and tools have fewer than 300 characters."""

    key: Annotated[str, Meta(min_length=1, max_length=300, description="Name or id of a key, see keys_list.")]
    tool: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=300,
            description="Name of a tool (server__tool) or of an operation (search_documents).",
        ),
    ]


_OPERATIONS = (
    Operation(
        "keys_create", "Create an API key; its secret is shown once.",
        CreateKey, "access.key_operations:KeyOperations.create",
    ),
    Operation(
        "keys_update", "Change what an API key may do; at once.",
        UpdateKey, "access.key_operations:KeyOperations.update",
    ),
    Operation(
        "keys_revoke", "Revoke an API key; at once.",
        OneKey, "access.key_operations:KeyOperations.revoke",
    ),
    Operation(
        "keys_list", "API keys, without their secrets.",
        ListKeys, "access.key_operations:KeyOperations.keys", privilege=Privilege.READ,
    ),
    Operation(
        "keys_show", "One API key, without its secret.", OneKey, "access.key_operations:KeyOperations.show",
        privilege=Privilege.READ,
    ),
    Operation(
        "profiles_list", "Profiles that the caller may use.",
        ListProfiles, "access.profiles:ProfileOperations.profiles", source="hub", privilege=Privilege.READ,
    ),
    Operation(
        "get_rate_limit_stats",
        "Show the rate limits: for each caller its tier, tokens left, calls in flight and waiting, "
        "and refused calls; and the limits that all callers share. The latest callers come first.",
        RateLimitStats, "access.limits:LimitOperations.stats", EVERYONE, privilege=Privilege.READ,
    ),
    Operation(
        "explain_policy", "Explain whether an API key may call a tool, and which pattern decides it.",
        ExplainPolicyParams, "access.policy_operations:PolicyExplainer.explain",
        text=Reference("access.policy_operations:policy_text"), label="Explain a permission",
        privilege=Privilege.READ,
    ),
)  # fmt: skip


def access_table(keys: Opener, profiles: Opener, limits: Opener, policy: Opener) -> list[Operation]:
    """Return the operations on keys, profiles, limits and the policy."""
    return bound(
        _OPERATIONS, KeyOperations=keys, ProfileOperations=profiles, LimitOperations=limits,
        PolicyExplainer=policy,
    )  # fmt: skip
