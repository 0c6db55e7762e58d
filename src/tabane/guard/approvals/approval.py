"""An approval: a call that a person has to approve, and what became of it."""

from __future__ import annotations

from typing import Literal

import msgspec

from tabane.messages import Message
from tabane.operations.guarding import CallVerdict

ApprovalState = Literal["open", "approved", "refused", "used", "expired", "withdrawn"]
"""``open`` and ``approved`` wait, for a person and for the call. ``refused`` holds until it expires."""

LONGEST_REASON = 2000
"""Characters of a field of a reason."""


class ApprovalBinding(msgspec.Struct, frozen=True):
    """What an approval is bound to: who calls which tool with which definition and arguments.

    ``definition`` and ``arguments`` are digests. If any of them changes, it is another call.
    """

    holder: str
    tool: str
    server: str = ""
    definition: str = ""
    arguments: str = ""


class ApprovalReason(msgspec.Struct, frozen=True):
    """Why a call has to be approved: the rule that says so, and its sentence."""

    rule: str
    template: str
    fields: dict[str, str | int | float] = {}

    @classmethod
    def of(cls, verdict: CallVerdict) -> ApprovalReason:
        """Return the reason of a verdict."""
        given = verdict.reason.fields.items()
        return cls(verdict.rule, verdict.reason.template, {name: _plain(value) for name, value in given})

    @property
    def message(self) -> Message:
        return Message(self.template, **self.fields)


class Approval(msgspec.Struct, frozen=True):
    """One approval. Times are seconds since 1970.

    ``client`` and ``label`` say who calls, for a person. ``arguments`` are shown to the person, without
    secrets. ``arguments_size`` is the number of their bytes if that is not all of them. ``pairs`` may
    be allowed for later calls too; ``remember``: they are. ``by`` is the holder who decided, and ``way`` how:
    elicitation, page, command or rpc.
    """

    id: str
    binding: ApprovalBinding
    asked: float
    expires: float
    reasons: tuple[ApprovalReason, ...] = ()
    client: str = ""
    label: str = ""
    arguments: str = ""
    arguments_size: int = 0
    pairs: tuple[str, ...] = ()
    state: ApprovalState = "open"
    by: str = ""
    way: str = ""
    remember: bool = False

    @property
    def note(self) -> str:
        """Return what the audit log says of a call that used it."""
        return f"{self.id} approved by {self.by} ({self.way})"


def _plain(value: object) -> str | int | float:
    if isinstance(value, int | float):
        return value
    return str(value)[:LONGEST_REASON]
