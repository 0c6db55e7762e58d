"""Operations on the audit log itself: its verification and its head."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct

from tabane.audit.chain import kept_head, stored_head
from tabane.messages import say
from tabane.operations import Caller, Face, Operation, Privilege
from tabane.operations.jobs import Progress

if TYPE_CHECKING:
    from tabane.audit.entry import AuditPaths

_FACES = frozenset({Face.RPC, Face.CLI})


class VerifyAuditLog(Struct, frozen=True, forbid_unknown_fields=True):
    """``head``: an entry that the log must contain, as ``audit_head`` returned it earlier."""

    head: (
        Annotated[str, Meta(max_length=100, description="Head of the log that was kept elsewhere")] | None
    ) = None


class AuditHead(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters."""


class AuditOperations:
    """The operations on the log of one home."""

    def __init__(self, paths: AuditPaths) -> None:
        self._paths = paths

    def table(self) -> list[Operation]:
        """Return the declarations of the operations."""
        return [
            Operation(
                "verify_audit_log",
                "Check whether entries of the audit log were changed or removed, and say which one is first.",
                VerifyAuditLog,
                self.verify,
                _FACES,
                Privilege.ADMIN,
                kind="job",
                title=lambda params: say("Verifying the audit log"),
            ),
            Operation(
                "audit_head",
                "Return the head of the audit log. Kept elsewhere, it proves later that nothing was cut.",
                AuditHead,
                self.head,
                _FACES,
                Privilege.READ,
                read_only=True,
            ),
        ]

    async def verify(self, caller: Caller, params: VerifyAuditLog, progress: Progress) -> dict[str, Any]:
        """Return a report. Raises BadArguments if the head is none, and AuditError if there is no log."""
        from tabane.audit.verification import verify_in_process  # only this operation needs it

        kept_head(params.head)
        return await verify_in_process(self._paths, params.head, caller.lang, progress.tell)

    async def head(self, caller: Caller, params: AuditHead) -> dict[str, Any]:
        """Return the stored head as ``SEQ:MAC``; None if there is none. Raises AuditError."""
        found = stored_head(self._paths)
        return {"head": str(found) if found is not None else None}
