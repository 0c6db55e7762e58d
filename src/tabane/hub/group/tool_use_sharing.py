"""The use of tools that the hubs of a group add up, exchanged from time to time."""

from __future__ import annotations

import time
from collections.abc import Callable

from tabane.catalog.tools.tool_use import ToolUse, forgotten
from tabane.group.shared_use import SharedToolUse

EVERY = 60.0
"""Seconds between two exchanges."""


class ToolUseSharing:
    """Tells the group what this hub counted, and takes what the others did. ``clock`` returns seconds.

    ``mark`` names the hub: it stays the same over restarts.
    """

    def __init__(self, use: ToolUse, shared: SharedToolUse, mark: str, clock: Callable[[], float]) -> None:
        self._use, self._shared, self._mark, self._clock = use, shared, mark, clock
        self._restored = False
        self._next = 0.0

    async def exchange(self, *, now: bool = False) -> None:
        """Exchange what was counted, if it is time or ``now`` is set. Raises StoreError."""
        if not now and self._clock() < self._next:
            return
        if not self._restored:
            self._use.restore(await self._shared.mine(self._mark))
            self._restored = True
        untold = self._use.untold()
        try:
            others = await self._shared.exchange(self._mark, untold, forgotten(time.time()))
        except BaseException:
            self._use.tell_again(untold)
            raise
        self._use.put_others(others)
        self._next = self._clock() + EVERY
