"""A call that waits until a person approves it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from tabane.errors import ApprovalRequired
from tabane.guard.approvals.approval import Approval, ApprovalBinding, ApprovalReason
from tabane.guard.approvals.approvals import LIFE, refusal
from tabane.hub.people.approvals.desk import ApprovalDesk
from tabane.messages import Message, say
from tabane.operations import Caller, CallTarget, Face
from tabane.operations.guarding import CallVerdict
from tabane.wire.argument_digest import argument_digest

AT_ONCE = 64 << 10
"""Bytes of arguments above which their digest is made in a thread."""


class AskingScript(Protocol):
    """A script, one of whose calls has to be approved."""

    def asks(self, approval: str, wait: Callable[[], Awaitable[object]]) -> None:
        """Note that a call waits for this approval; ``wait`` waits for it if no client can be asked."""
        ...


class ApprovalParts(Protocol):
    """What is needed once a call has to be approved."""

    def desk(self) -> ApprovalDesk:
        """Return where approvals are asked for. It is made with the first one."""
        ...

    def definition(self, target: CallTarget) -> str:
        """Return a digest of the definition of a tool; empty for what has none."""
        ...

    def shown(self, arguments: bytes) -> tuple[bytes, int]:
        """Return arguments without secrets; only the beginning, and their size, if they are long."""
        ...

    def wait(self, caller: Caller) -> float:
        """Return for how many seconds a call waits for a person before its caller gets an error."""
        ...

    def tell(self, caller: Caller, approval: Approval) -> bool:
        """Tell a caller that watches what its call waits for. Return whether a person is asked there."""
        ...

    def script(self, caller: Caller) -> AskingScript | None:
        """Return the script that makes a call; None if none does."""
        ...

    def check(self, caller: Caller, target: CallTarget, arguments: bytes) -> None:
        """Raise Forbidden if a rule refuses the call by now."""
        ...


class GuardedApproval:
    """A call that a person has to approve. Nobody is asked before :meth:`decided` is awaited."""

    __slots__ = ("_arguments", "_caller", "_parts", "_request", "_target", "_used", "verdicts")

    def __init__(
        self, parts: ApprovalParts, verdicts: tuple[CallVerdict, ...], caller: Caller, target: CallTarget,
        arguments: bytes, request: str,
    ) -> None:  # fmt: skip
        self._parts, self.verdicts = parts, verdicts
        self._caller, self._target, self._arguments, self._request = caller, target, arguments, request
        self._used: Approval | None = None

    async def decided(self) -> str:
        """Return what the audit log says of the approval, which is used up then.

        The request of an MCP client does not wait here: its session asks the client, and makes it again.
        Raises ApprovalRequired if nobody has decided, and Forbidden if somebody has refused.
        """
        desk, digest = self._parts.desk(), await self._digest()
        used = await desk.claim(self._binding(digest))
        if used is None:
            asked = await desk.ask(await self._wanted(digest))
            if asked.state == "open" and not self._asked_by_session:
                asked = await self._decided(desk, asked)
            if asked.state == "open":
                raise approval_required(asked)
            used = await desk.claim(self._binding(digest))
            if used is None:
                raise refusal((await desk.approvals()).find(asked.id))
        self._parts.check(self._caller, self._target, self._arguments)
        self._used = used
        return used.note

    async def _decided(self, desk: ApprovalDesk, asked: Approval) -> Approval:
        """Wait for a person, and return the approval as it is then."""
        script = self._parts.script(self._caller)
        if script is None:
            return await self._told(desk, asked)
        script.asks(asked.id, lambda: self._told(desk, asked))  # it pauses, and calls again then
        return asked

    async def _told(self, desk: ApprovalDesk, asked: Approval) -> Approval:
        wait = self._parts.wait(self._caller)
        here = self._parts.tell(self._caller, asked)
        return await desk.decided(asked.id, LIFE if here else wait)

    def give_back(self) -> None:
        if self._used is not None:
            self._parts.desk().give_back(self._used)
            self._used = None

    @property
    def _asked_by_session(self) -> bool:
        return self._caller.face is Face.MCP and bool(self._request)

    async def _digest(self) -> str:
        given = self._arguments or b"{}"
        if len(given) <= AT_ONCE:
            return argument_digest(given).hex()
        return (await asyncio.to_thread(argument_digest, given)).hex()

    def _binding(self, digest: str) -> ApprovalBinding:
        """Return what the approval is bound to, with the definition of this moment."""
        target = self._target
        definition = self._parts.definition(target)
        return ApprovalBinding(self._caller.access.holder, target.name, target.server, definition, digest)

    async def _wanted(self, digest: str) -> Approval:
        desk, caller = self._parts.desk(), self._caller
        shown, size = await asyncio.to_thread(self._parts.shown, self._arguments)
        now = desk.clock()
        return Approval(
            id=os.urandom(5).hex(),
            binding=self._binding(digest),
            asked=now,
            expires=now + LIFE,
            reasons=tuple(ApprovalReason.of(verdict) for verdict in self.verdicts),
            client=caller.client,
            label=caller.access.label,
            arguments=shown.decode("utf-8", "replace"),
            arguments_size=size,
            pairs=tuple(dict.fromkeys(verdict.pair for verdict in self.verdicts if verdict.pair)),
        )


def approval_required(approval: Approval) -> ApprovalRequired:
    """Return the error of a call that nobody has approved yet: who has to do what, and until when."""
    text = say(
        "{tool} was not called: a person has to approve this call first. {reason} Ask the user to approve it "
        "on the web page (tabane open /approvals) or with: tabane approve {id}. Then call again with the "
        "same arguments, within {minutes} {minutes:minute|minutes}.",
        tool=approval.binding.tool,
        reason=_joined([reason.message for reason in approval.reasons]),
        id=approval.id,
        minutes=int(LIFE // 60),
    )
    return ApprovalRequired(text, approval.id)


def _joined(reasons: Sequence[Message]) -> Message:
    """Return all reasons as one text."""
    fields = {f"reason{number}": reason for number, reason in enumerate(reasons)}
    return Message(" ".join(f"{{{name}}}" for name in fields), **fields)
