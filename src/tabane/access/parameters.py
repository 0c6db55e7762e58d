"""Parameters of the operations on keys, profiles, limits and policies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Pattern = Annotated[str, Meta(min_length=1, max_length=200)]
Patterns = Annotated[list[Pattern], Meta(max_length=200)]
KeyName = Annotated[str, Meta(min_length=1, max_length=64)]
KeyReference = Annotated[str, Meta(min_length=1, max_length=100)]
Expiry = Annotated[str, Meta(min_length=1, max_length=50)]
Tier = Annotated[str, Meta(min_length=1, max_length=64)]


class CreateKey(Struct, frozen=True, forbid_unknown_fields=True):
    """``allow`` and ``deny`` are patterns. ``expires``: 90d, 12h, 2w, 1y, an ISO date, or never."""

    name: KeyName
    allow: Patterns = []
    deny: Patterns = []
    read_only: bool = False
    expires: Expiry = "never"
    tier: Tier = "authenticated"
    profile: Annotated[str, Meta(max_length=64)] = ""


class UpdateKey(Struct, frozen=True, forbid_unknown_fields=True):
    """Members that are not given stay. ``key``: as in OneKey. An empty profile removes it."""

    key: KeyReference
    allow: Patterns | None = None
    deny: Patterns | None = None
    read_only: bool | None = None
    expires: Expiry | None = None
    tier: Tier | None = None
    profile: Annotated[str, Meta(max_length=64)] | None = None


class OneKey(Struct, frozen=True, forbid_unknown_fields=True):
    """``key`` is a name, an id, or ``tbn_`` and the beginning of an id."""

    key: KeyReference


class ListKeys(Struct, frozen=True, forbid_unknown_fields=True):
    """``revoked``: revoked keys too. ``after`` is the ``next`` of the page before."""

    revoked: bool = False
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    after: Annotated[str, Meta(max_length=64)] = ""


class NoProfileParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


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
