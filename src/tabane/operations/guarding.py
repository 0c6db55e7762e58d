"""Guarding of calls: what a single permission does not see, and what a person has to approve."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Literal, Protocol

from msgspec import Raw, Struct

if TYPE_CHECKING:
    from tabane.messages import Message
    from tabane.operations.access import CallTarget
    from tabane.operations.caller import Caller


class CallVerdict(Struct, frozen=True):
    """What a rule says about a call that it does not let begin.

    ``ask``: a person may approve the call. ``refuse``: nobody may. ``rule`` is the name of the rule, and
    ``reason`` says to a person why. ``pair`` names what a person may allow for later calls too, such as
    ``github>mail``; empty if each call has to be approved on its own.
    """

    action: Literal["ask", "refuse"]
    rule: str
    reason: Message
    pair: str = ""


class CallRule(Protocol):
    """One rule of a guard. Its methods are called for every call, so they cost a few microseconds at most."""

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return what stands against a call; None if nothing does. Nothing changes."""
        ...

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes, result: bytes | Raw | None
    ) -> None:
        """Note that the caller gets an answer of ``target``: a result, or an error with its text.

        ``arguments`` and ``result`` are JSON. ``result`` is None if it is not known, and empty if nothing new
        is given.
        """
        ...


class OpenApproval(Protocol):
    """A call that waits until a person approves it."""

    @property
    def verdicts(self) -> tuple[CallVerdict, ...]:
        """Return why the call has to be approved."""
        ...

    def decided(self) -> Awaitable[str]:
        """Return what to await, once, until a person has approved the call.

        Nobody is asked before it is awaited. It gives a note for the audit log: which approval this was, and
        who gave it in which way. The approval is used up then, and that is on disk. Raises Forbidden if the
        call was refused, or if nobody has answered in time. If the wait is cancelled, nobody is asked any
        more.
        """
        ...

    def give_back(self) -> None:
        """Make the approval valid once more: its call was not made, because its server wants a login first.

        The same call can use it then. Does nothing before the call was approved.
        """
        ...


class CallGuard(Protocol):
    """Judges calls before they begin, and sees that they were answered.

    Permissions were checked before. A guard is asked about the real tool, however it is called: not about
    ``call_tool`` and other operations that pass a call on.
    """

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        """Return the approval that a call needs first; None if it may begin now. Raises Forbidden."""
        ...

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        """Note that the caller gets an answer of ``target``: a result, or an error with its text.

        ``arguments`` and ``result`` are JSON. ``result`` is None if it is not known, and empty if nothing new
        is given.
        """
        ...


class NoGuard:
    """Lets each call begin: for tables that are not part of a hub."""

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        return None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        return None
