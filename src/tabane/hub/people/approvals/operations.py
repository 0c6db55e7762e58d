"""Operations on approvals and the passphrase: what waits for a person, and what a person decides and sets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Meta, Struct, to_builtins

from tabane.access.passphrase import LONGEST, SHORTEST
from tabane.errors import CallerError
from tabane.hub.people.guards import APPROVING, HubGuards
from tabane.messages import say
from tabane.operations import Caller, Face, NoParameters, Operation, Privilege

if TYPE_CHECKING:
    from tabane.guard.approvals.approvals import Approval
    from tabane.messages import Lang

_Id = Annotated[str, Meta(min_length=1, max_length=40, description="Id of the approval, as listed.")]


class ListApprovals(Struct, frozen=True, forbid_unknown_fields=True):
    id: Annotated[
        str,
        Meta(
            max_length=40,
            description="Only this one, with all that is kept of its arguments (up to 128 KB), and with what "
            "was decided about the same tool before.",
        ),
    ] = ""


class NextApproval(Struct, frozen=True, forbid_unknown_fields=True):
    asks: Annotated[
        bool,
        Meta(
            description="A person is asked on this connection: the call waits for up to ten minutes, "
            "whatever approval_wait says."
        ),
    ] = False


class ApproveCall(Struct, frozen=True, forbid_unknown_fields=True):
    id: _Id
    remember: Annotated[
        bool,
        Meta(description="Allow the same for later calls too, if the approval has pairs."),
    ] = False


class RefuseCall(Struct, frozen=True, forbid_unknown_fields=True):
    id: _Id


class ApprovalOperations:
    """Handlers over the approvals of a hub. Only administrators decide: nobody approves its own calls."""

    def __init__(self, guards: HubGuards) -> None:
        self._guards = guards

    def table(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "list_approvals",
                "Calls that wait until a person approves them, and approvals that are not used yet, the "
                "latest first: id, tool, server, reasons, arguments without secrets, pairs that can be "
                "allowed for later calls too, who calls, state (open, approved), and when it was asked and "
                "expires (seconds since 1970). Also the title and labels of the tool, what was read before "
                "(trail), whether that speaks against the call (warned), what the call reaches and where "
                "that was named (targets), how often calls of this tool were approved and refused "
                "(decisions), and all of that in words for a person (letter). With id: that one alone, with "
                "whole arguments.",
                ListApprovals, self.list_approvals, privilege=Privilege.READ,
            ),
            Operation(
                "next_approval",
                "Wait until a call of this connection has to be approved by a person, and return what "
                "list_approvals has of it, and whether this caller may approve it (may_approve). For "
                "programs with a connection that stays.",
                NextApproval, self.next_approval, source="hub", relays=True, privilege=Privilege.READ,
            ),
            Operation(
                "approve_call", "Approve one of these calls. It is made once, with these arguments.",
                ApproveCall, self.approve_call,
            ),
            Operation(
                "refuse_call", "Refuse one of these calls. The same call is refused for ten minutes.",
                RefuseCall, self.refuse_call,
            ),
        ]  # fmt: skip

    async def list_approvals(self, caller: Caller, params: ListApprovals) -> dict[str, Any]:
        """Return what waits for a person, the latest first; or one of them, with all of its arguments."""
        found = (await self._guards.desk().approvals()).listed()
        if params.id:
            found = [one for one in found if one.id == params.id]
        return {"results": await self._letters(found, caller.lang, whole=bool(params.id))}

    async def next_approval(self, caller: Caller, params: NextApproval) -> dict[str, Any]:
        """Wait for the next approval that a call of this connection needs, and return it."""
        if not caller.connected:
            raise CallerError(say("This needs a connection that stays: use a WebSocket."))
        asked = await self._guards.desk().watches.next(caller.session, asks=params.asks)
        [found] = await self._letters([asked], caller.lang, whole=False)
        return found | {"may_approve": caller.access.allows(APPROVING)}

    async def _letters(self, found: Sequence[Approval], lang: Lang, *, whole: bool) -> list[dict[str, Any]]:
        """Return approvals with their letters."""
        desk, schemas = self._guards.desk(), [self._guards.schema(one) for one in found]
        letters = await asyncio.to_thread(desk.letters, found, schemas, lang, whole=whole)
        rows = []
        for one, (letter, earlier) in zip(found, letters, strict=True):
            decisions = earlier._asdict()
            if decisions["changed"] is None:
                del decisions["changed"]
            letter_row = {"decisions": decisions, "letter": to_builtins(letter)}
            rows.append(row(one, lang, whole=whole) | letter_row)
        return rows

    async def approve_call(self, caller: Caller, params: ApproveCall) -> dict[str, Any]:
        """Approve a call, and return the approval. Raises UnknownName and Conflict."""
        return await self._decide(caller, params.id, approved=True, remember=params.remember)

    async def refuse_call(self, caller: Caller, params: RefuseCall) -> dict[str, Any]:
        """Refuse a call, and return the approval. Raises UnknownName and Conflict."""
        return await self._decide(caller, params.id, approved=False)

    async def _decide(
        self, caller: Caller, id: str, *, approved: bool, remember: bool = False
    ) -> dict[str, Any]:
        decided = await self._guards.desk().decide(
            id, approved=approved, by=caller.access.holder, way=_way(caller), remember=remember
        )
        return row(decided, caller.lang)


LONGEST_LISTED = 8 << 10
"""Characters of arguments in a list."""


def row(approval: Approval, lang: Lang, *, whole: bool = False) -> dict[str, Any]:
    """Return an approval for a person. ``whole``: with all that is kept of its arguments."""
    arguments, size = approval.arguments, approval.arguments_size
    if not whole and len(arguments) > LONGEST_LISTED:
        arguments, size = arguments[:LONGEST_LISTED], size or len(arguments.encode())
    trail = approval.trail
    return {
        "id": approval.id,
        "tool": approval.binding.tool,
        "title": approval.title,
        "server": approval.binding.server,
        "labels": list(approval.labels),
        "reasons": [reason.message.render(lang) for reason in approval.reasons],
        "rules": [reason.rule for reason in approval.reasons],
        "warned": approval.is_warned,
        "arguments": arguments,
        "arguments_size": size,
        "pairs": list(approval.pairs),
        "trail": None
        if trail is None
        else {"private": trail.private, "untrusted": trail.untrusted, "since": trail.since},
        "targets": to_builtins(approval.targets),
        "holder": approval.binding.holder,
        "label": approval.label,
        "client": approval.client,
        "folder": approval.folder,
        "state": approval.state,
        "asked": approval.asked,
        "expires": approval.expires,
    }


def _way(caller: Caller) -> str:
    """Return how somebody decides: on the web page, with a command of this machine, or as a program."""
    if caller.face is Face.WEB:
        return "page"
    return "command" if caller.pid else "rpc"


class SetPassphrase(Struct, frozen=True, forbid_unknown_fields=True):
    passphrase: Annotated[str, Meta(min_length=SHORTEST, max_length=LONGEST)]


class Unlock(Struct, frozen=True, forbid_unknown_fields=True):
    passphrase: Annotated[str, Meta(max_length=LONGEST)]


class PassphraseOperations:
    """Handlers over the passphrase."""

    def __init__(self, guards: HubGuards) -> None:
        self._guards = guards

    def table(self) -> list[Operation]:
        """Return the operations."""
        return [
            Operation(
                "passphrase_state", "Whether a passphrase is set, and whether the caller has shown it.",
                NoParameters, self.passphrase_state, privilege=Privilege.READ,
            ),
            Operation(
                "unlock",
                "Show the passphrase: for five minutes, this connection may approve calls and change what is "
                "allowed.",
                Unlock, self.unlock,
            ),
            Operation(
                "set_passphrase",
                "Set a passphrase, which is needed then to approve calls, for sign-in links, and to change "
                "settings, servers, keys and profiles.",
                SetPassphrase, self.set_passphrase,
            ),
            Operation(
                "remove_passphrase", "Remove the passphrase.",
                NoParameters, self.remove_passphrase,
            ),
        ]  # fmt: skip

    async def passphrase_state(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Return whether a passphrase is set, and whether the caller has shown it."""
        passphrase = self._guards.passphrase()
        return {"set": passphrase.is_set, "unlocked": not passphrase.is_set or passphrase.unlocked(caller)}

    async def unlock(self, caller: Caller, params: Unlock) -> dict[str, Any]:
        """Let a caller that knows the passphrase use what it protects. Raises Forbidden and RateLimited."""
        await self._guards.passphrase().unlock(caller, params.passphrase)
        return await self.passphrase_state(caller, NoParameters())

    async def set_passphrase(self, caller: Caller, params: SetPassphrase) -> dict[str, Any]:
        """Set the passphrase, or replace it. Raises StoreError."""
        await self._guards.passphrase().set(params.passphrase)
        self._guards.passphrase_changed()
        return await self.passphrase_state(caller, NoParameters())

    async def remove_passphrase(self, caller: Caller, params: NoParameters) -> dict[str, Any]:
        """Remove the passphrase."""
        await self._guards.passphrase().remove()
        self._guards.passphrase_changed()
        return await self.passphrase_state(caller, NoParameters())
