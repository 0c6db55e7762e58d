"""Parameters of the operations on calls as they happen."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

Name = Annotated[str, Meta(max_length=500)]


class ListLiveCalls(Struct, frozen=True, forbid_unknown_fields=True):
    """Filters of calls: all that are given have to fit."""

    after: Annotated[int, Meta(ge=0, description="Only calls with a higher number")] = 0
    limit: Annotated[int, Meta(ge=1, le=500, description="Most calls to return")] = 100
    server: Annotated[str, Meta(max_length=500, description="Only calls of this server")] | None = None
    tool: Annotated[str, Meta(max_length=500, description="Only tools with this in their name")] | None = None
    client: (
        Annotated[str, Meta(max_length=500, description="Only clients and keys with this in their name")]
        | None
    ) = None
    outcome: Literal["ok", "failed", "refused", "limited", "cancelled", "running"] | None = None


class ShowLiveCall(Struct, frozen=True, forbid_unknown_fields=True):
    """``number`` is that of a listed call."""

    number: Annotated[int, Meta(ge=1, description="Number of the call in list_live_calls")]


class GetActivity(Struct, frozen=True, forbid_unknown_fields=True):
    """``seconds`` are those that are shown."""

    seconds: Annotated[int, Meta(ge=1, le=900, description="Seconds to look back")] = 300
