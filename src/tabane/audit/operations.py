"""Operations on the audit log itself: its verification and its head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tabane.audit.chain import kept_head, stored_head

if TYPE_CHECKING:
    from tabane.audit.entry import AuditPaths
    from tabane.audit.table import VerifyAuditLog
    from tabane.operations import Caller, NoParameters, Progress


class AuditOperations:
    """The operations on the log of one home."""

    def __init__(self, paths: AuditPaths) -> None:
        self._paths = paths

    async def verify(self, caller: Caller, params: VerifyAuditLog, progress: Progress) -> dict[str, Any]:
        """Return a report. Raises BadArguments if the head is none, and AuditError if there is no log."""
        from tabane.audit.verification import verify_in_process  # only this operation needs it

        kept_head(params.head)
        return await verify_in_process(self._paths, params.head, caller.lang, progress.tell)

    async def head(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return the stored head as ``SEQ:MAC``; None if there is none. Raises AuditError."""
        found = stored_head(self._paths)
        return {"head": str(found) if found is not None else None}
