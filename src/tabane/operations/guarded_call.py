"""Calls that wait for a person before they begin."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any

from tabane.errors import Forbidden
from tabane.operations.metering import FailureReason

if TYPE_CHECKING:
    from msgspec import Raw

    from tabane.operations.guarding import OpenApproval
    from tabane.operations.metering import CallMarks, OpenCall, Outcome


class GuardedCall:
    """A call that a person has to approve. It takes no place in the limits until then.

    ``begin`` begins the call, after the caller's permission was checked again; it raises Forbidden and
    RateLimited. ``refused`` records a call that may not begin.
    """

    __slots__ = ("_approval", "_begin", "_ended", "_opened", "_refused")

    def __init__(
        self, approval: OpenApproval, begin: Callable[[str], OpenCall], refused: Callable[[Forbidden], None]
    ) -> None:
        self._approval, self._begin, self._refused = approval, begin, refused
        self._opened: OpenCall | None = None
        self._ended = False

    @property
    def waits(self) -> Awaitable[None] | None:
        return None if self._opened is not None else self

    @property
    def marks(self) -> CallMarks | None:
        return self._opened.marks if self._opened is not None else None

    @property
    def most(self) -> int:
        return self._opened.most if self._opened is not None else 0

    @property
    def meta(self) -> dict[str, Raw] | None:
        return self._opened.meta if self._opened is not None else None

    def __await__(self) -> Generator[Any, Any, None]:
        return self._until_begun().__await__()

    async def _until_begun(self) -> None:
        """Wait until the call was approved, and then for its turn. Raises Forbidden and RateLimited."""
        try:
            note = await self._approval.decided()
            self._opened = self._begin(note)
        except Forbidden as error:
            self._refused(error)
            raise
        if self._opened.waits is not None:
            await self._opened.waits

    def end(
        self,
        outcome: Outcome,
        size: int = 0,
        *,
        saved: int = 0,
        reason: str = "",
        result: bytes | Raw | None = None,
    ) -> Awaitable[None] | None:
        """End the call. One that has not begun has no end: its refusal is recorded, or there was none.

        If its server has not begun it, its approval holds for the next attempt.
        """
        if self._opened is None:
            return None
        if not self._ended:
            self._ended = True
            if isinstance(reason, FailureReason) and reason.unmade:
                self._approval.give_back()
        return self._opened.end(outcome, size, saved=saved, reason=reason, result=result)
