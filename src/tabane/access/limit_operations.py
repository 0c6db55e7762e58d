"""The operation that shows the limits: who is near them, and who was refused."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

from msgspec import Meta, Struct

from tabane.access.limits import CallLimits
from tabane.operations import Caller, Face, Operation, Privilege

FACES = frozenset({Face.RPC, Face.CLI, Face.MCP})


class RateLimitStats(Struct, frozen=True, forbid_unknown_fields=True):
    """``holder``: only this one, such as local or key:ID."""

    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of callers.")] = 50
    holder: Annotated[str, Meta(max_length=300, description="Only this caller, such as key:ID.")] = ""


class LimitOperations:
    """Operations on the limits of a hub."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits

    def table(self) -> list[Operation]:
        return [
            Operation(
                "get_rate_limit_stats",
                "Show the rate limits: for each caller its tier, tokens left, calls in flight and waiting, "
                "and refused calls; and the limits that all callers share. The latest callers come first.",
                RateLimitStats,
                self.stats,
                FACES,
                Privilege.READ,
                read_only=True,
            )
        ]

    async def stats(self, caller: Caller, params: RateLimitStats) -> dict[str, Any]:
        limits = self._limits
        rows = limits.report(params.holder or None)
        return {
            "results": list(islice(rows, params.limit)),
            "total": len(limits),
            "refused": limits.refused,
            "shared": limits.shared(),
        }
