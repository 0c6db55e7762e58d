"""Operations on calls as they happen: their parameters and declarations."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from tabane.operations import Opener, Operation, Privilege, bound

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
    lookups: Annotated[bool, Meta(description="Also operations of Tabane that only look")] = True


class ShowLiveCall(Struct, frozen=True, forbid_unknown_fields=True):
    """``number`` is that of a listed call."""

    number: Annotated[int, Meta(ge=1, description="Number of the call in list_live_calls")]


class GetActivity(Struct, frozen=True, forbid_unknown_fields=True):
    """``seconds`` are those that are shown."""

    seconds: Annotated[int, Meta(ge=1, le=900, description="Seconds to look back")] = 300


_OPERATIONS = (
    Operation(
        "list_live_calls",
        "Calls that run and the last ones that ended, the latest first. Of calls before the first use of "
        "this operation or of the web page, the last 200 are listed, without arguments, result and steps.",
        ListLiveCalls, "hub.telemetry.live_recording:LiveOperations.calls", privilege=Privilege.READ,
    ),
    Operation(
        "show_live_call", "One of these calls: arguments and result without secrets, and its times.",
        ShowLiveCall, "hub.telemetry.live_recording:LiveOperations.show", privilege=Privilege.READ,
    ),
    Operation(
        "get_activity", "Calls by the second: their number, failures and times.",
        GetActivity, "hub.telemetry.live_recording:LiveOperations.activity", privilege=Privilege.READ,
    ),
)  # fmt: skip


def live_table(live: Opener) -> list[Operation]:
    """Return the operations. Recording begins with the first call of one."""
    return bound(_OPERATIONS, LiveOperations=live)
