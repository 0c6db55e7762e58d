"""The operation that shows the limits: who is near them, and who was refused."""

from __future__ import annotations

from itertools import islice
from typing import Any

from tabane.access.limits import CallLimits
from tabane.access.parameters import RateLimitStats
from tabane.operations.caller import Caller


class LimitOperations:
    """Operations on the limits of a hub."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits

    async def stats(self, caller: Caller, params: RateLimitStats) -> dict[str, Any]:
        limits = self._limits
        rows = limits.report(params.holder or None)
        return {
            "results": list(islice(rows, params.limit)),
            "total": len(limits),
            "refused": limits.refused,
            "shared": limits.shared(),
        }
