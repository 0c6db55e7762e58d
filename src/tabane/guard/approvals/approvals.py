"""Approvals of calls: asked for, given, used and expired; pure, with the clock handed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from tabane.errors import ApprovalRefused, ApprovalRequired, Forbidden, UnknownName
from tabane.messages import Message, say
from tabane.operations.door import CallVerdict, JudgedTarget

ApprovalState = Literal["open", "approved", "refused", "used", "expired", "withdrawn"]
"""``open`` and ``approved`` wait, for a person and for the call. ``refused`` holds until it expires."""

WARNING_RULES = frozenset({"flow"})
"""Rules that find that somebody else may want the call. The others only want a person to be asked."""

LONGEST_REASON = 2000
"""Characters of a field of a reason."""


class ApprovalBinding(msgspec.Struct, frozen=True):
    """The call that an approval is for: caller, tool, definition and arguments.

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
        fields = {
            name: value if isinstance(value, int | float) else str(value)[:LONGEST_REASON]
            for name, value in verdict.reason.fields.items()
        }
        return cls(verdict.rule, verdict.reason.template, fields)

    @property
    def is_warning(self) -> bool:
        """Whether the rule speaks against the call, and not only for asking a person."""
        return self.rule in WARNING_RULES

    @property
    def message(self) -> Message:
        """The sentence, which can be rendered in any language."""
        return Message(self.template, **self.fields)


class ApprovalTrail(msgspec.Struct, frozen=True):
    """Sources that the caller had read when it asked, and the tool that read each of them.

    ``since`` is when the first of it was read, in seconds since 1970.
    """

    private: dict[str, str] = {}
    untrusted: dict[str, str] = {}
    since: float = 0.0


class Approval(msgspec.Struct, frozen=True):
    """One approval. Times are seconds since 1970.

    ``client``, ``label`` and ``folder`` say who calls, for a person. ``arguments`` are shown to the person,
    without secrets. ``arguments_size`` is the number of their bytes if that is not all of them. ``pairs`` may
    be allowed for later calls too; ``remember``: they are. ``by`` is the holder who decided, and ``way`` how:
    elicitation, page, command or rpc. ``title`` and ``labels`` are those of the tool, and ``trail`` is what
    was read, when it was asked. ``targets`` are what the call would reach, and where that was named.
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
    title: str = ""
    labels: tuple[str, ...] = ()
    folder: str = ""
    trail: ApprovalTrail | None = None
    targets: tuple[JudgedTarget, ...] = ()

    @property
    def is_warned(self) -> bool:
        """Whether a rule speaks against the call."""
        return any(reason.is_warning for reason in self.reasons)

    @property
    def note(self) -> str:
        """Return what the audit log says of a call that used it."""
        return f"{self.id} approved by {self.by} ({self.way})"


LIFE = 600.0
"""Seconds for which a call waits for a person, and then for which an approval can be used."""

MOST = 256
"""Approvals of the whole hub that are open or can be used."""

MOST_OF_ONE = 64
"""Open approvals of one caller. The user of this machine may have all."""

MOST_ENDED = 256
"""Ended approvals of which it is remembered how they ended, and as many refused ones."""

_OVER = 0.0
"""When an approval that is over expires, among those of a group."""

LIVING: frozenset[ApprovalState] = frozenset({"open", "approved"})


class Approvals:
    """The approvals of a hub. ``clock`` returns seconds since 1970.

    There is at most one of a binding that is open, approved or refused.
    """

    def __init__(self, clock: Callable[[], float], kept: Iterable[Approval] = ()) -> None:
        self._clock = clock
        self._current: OrderedDict[ApprovalBinding, Approval] = OrderedDict()
        self._ended: OrderedDict[str, Approval] = OrderedDict()
        for approval in kept:
            if approval.expires == _OVER:
                self._ended[approval.id] = approval
            elif approval.expires > clock():
                self._current[approval.binding] = approval

    def listed(self) -> list[Approval]:
        """Return those that are open or can be used, the latest first."""
        self.expire()
        return [one for one in reversed(self._current.values()) if one.state in LIVING]

    def kept(self) -> tuple[Approval, ...]:
        """Return what has to outlive the hub: those that are open, approved or refused."""
        return tuple(self._current.values())

    def whole(self) -> tuple[Approval, ...]:
        """Return all of them for other hubs of a group. Of those that are over, only what became of them."""
        nothing: dict[str, Any] = {"reasons": (), "arguments": "", "trail": None, "targets": ()}
        over = (replace(one, expires=_OVER, **nothing) for one in self._ended.values())
        return (*self._current.values(), *over)

    def adopt(self, kept: Iterable[Approval]) -> None:
        """Add approvals of a hub that joins, unless somebody waits for the same calls here."""
        for one in kept:
            if one.binding not in self._current and one.id not in self._ended:
                self._current[one.binding] = one

    def find(self, id: str) -> Approval:
        """Return the approval of that id, also if it is over. Raises UnknownName."""
        self.expire()
        for one in self._current.values():
            if one.id == id:
                return one
        if id in self._ended:
            return self._ended[id]
        raise UnknownName(
            say("There is no approval {id}. It may have expired. List all with: tabane approve", id=id)
        )

    def ask(self, wanted: Approval) -> Approval:
        """Return the approval that waits for a decision about this call: ``wanted``, or an earlier one.

        Raises Forbidden if a person has refused the same call, or if too many wait.
        """
        self.expire()
        current = self._current.get(wanted.binding)
        if current is None:
            self._check_room(wanted.binding.holder)
            self._current[wanted.binding] = wanted
            return wanted
        if current.state == "refused":
            raise _refused(current)
        return current

    def decide(self, id: str, *, approved: bool, by: str, way: str, remember: bool = False) -> Approval:
        """Note the decision of a person, who may change it until the call was sent.

        Raises UnknownName if there is no such approval, or if it is over.
        """
        found = self.find(id)
        if self._current.get(found.binding) is not found:
            match found.state:
                case "used":
                    why = say("Approval {id} was used already: its call was sent.", id=found.id)
                case "withdrawn":
                    why = say("Nobody waits for approval {id} any more: its call was canceled.", id=found.id)
                case "refused":
                    why = say("Approval {id} was refused.", id=found.id)
                case _:
                    why = say("Approval {id} has expired. The call has to be made again.", id=found.id)
            raise UnknownName(why)
        if approved and found.state == "refused":
            self._check_room(found.binding.holder)
        state: ApprovalState = "approved" if approved else "refused"
        expires, remember = self._clock() + LIFE, remember and approved
        decided = replace(found, state=state, by=by, way=way, remember=remember, expires=expires)
        self._current[found.binding] = decided
        refused = [approval for approval in self._current.values() if approval.state == "refused"]
        for one in refused[: max(0, len(refused) - MOST_ENDED)]:
            self._end(one, "refused")
        return decided

    def claim(self, binding: ApprovalBinding) -> Approval | None:
        """Use up the approval of a call, and return it; None if there is none that was given."""
        self.expire()
        found = self._current.get(binding)
        return self._end(found, "used") if found is not None and found.state == "approved" else None

    def give_back(self, used: Approval) -> Approval | None:
        """Make an approval valid again whose call was not made; None if the same call waits meanwhile."""
        if used.binding in self._current or self._ended.pop(used.id, None) is None:
            return None
        again = replace(used, state="approved", expires=self._clock() + LIFE)
        self._current[used.binding] = again
        return again

    def withdraw(self, id: str) -> Approval | None:
        """Drop an approval that nobody has decided about, because nobody wants the call any more."""
        found = next((one for one in self._current.values() if one.id == id), None)
        return self._end(found, "withdrawn") if found is not None and found.state == "open" else None

    def expire(self) -> list[Approval]:
        """Drop those whose time is over, and return them."""
        now = self._clock()
        return [self._end(one, "expired") for one in list(self._current.values()) if one.expires <= now]

    @property
    def next_expiry(self) -> float | None:
        """Return when the next one expires; None if there is none."""
        return min((one.expires for one in self._current.values()), default=None)

    def _end(self, approval: Approval, state: ApprovalState) -> Approval:
        del self._current[approval.binding]
        ended = replace(approval, state=state)
        self._ended[ended.id] = ended
        if len(self._ended) > MOST_ENDED:
            self._ended.popitem(last=False)
        return ended

    def _check_room(self, holder: str) -> None:
        living = [one for one in self._current.values() if one.state in LIVING]
        of_one = sum(1 for one in living if one.binding.holder == holder)
        if len(living) >= MOST or (holder != "local" and of_one >= MOST_OF_ONE):
            raise Forbidden(
                say(
                    "Too many calls wait for an approval ({count}). Approve or refuse some first: "
                    "tabane approve",
                    count=len(living),
                )
            )


def approval_required(approval: Approval) -> ApprovalRequired:
    """Return the error of a call that nobody has approved yet: who has to do what, and until when."""
    reasons = {f"reason{number}": reason.message for number, reason in enumerate(approval.reasons)}
    text = say(
        "{tool} was not called: a person has to approve this call first. {reason} Ask the user to approve it "
        "on the web page (tabane open /approvals) or with: tabane approve {id}. Then call again with the "
        "same arguments, within {minutes} {minutes:minute|minutes}.",
        tool=approval.binding.tool,
        reason=Message(" ".join(f"{{{name}}}" for name in reasons), **reasons),
        id=approval.id,
        minutes=int(LIFE // 60),
    )
    return ApprovalRequired(text, approval.id)


def _refused(approval: Approval) -> ApprovalRefused:
    return ApprovalRefused(
        say(
            "A person refused this call of {tool}. Do not repeat it. (Approval {id}.)",
            tool=approval.binding.tool,
            id=approval.id,
        )
    )


def refusal(approval: Approval) -> ApprovalRefused:
    """Return the error of a call that waited for an approval, which was not given."""
    match approval.state:
        case "refused":
            return _refused(approval)
        case "used":
            return ApprovalRefused(
                say(
                    "Approval {id} was used by another call with the same arguments. Each call has to be "
                    "approved on its own: call again to ask for that.",
                    id=approval.id,
                )
            )
        case "approved":
            return ApprovalRefused(
                say(
                    "{tool} has changed since approval {id} was asked for, so it was not called. Call again "
                    "to ask for another approval.",
                    tool=approval.binding.tool,
                    id=approval.id,
                )
            )
    return ApprovalRefused(
        say(
            "Nobody approved the call of {tool} in time. Call again to ask once more. (Approval {id}.)",
            tool=approval.binding.tool,
            id=approval.id,
        )
    )
