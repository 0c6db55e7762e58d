"""The door: the one place that every call of an operation passes, which checks permission and guard.

The guard sees what a single permission does not: what was read before, and what a person has to approve. Such
a call waits here before it begins.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast

import msgspec
from msgspec import Raw, Struct, structs

from tabane.errors import BadArguments, Forbidden, UnknownName
from tabane.messages import Message, say
from tabane.operations.caller import Face
from tabane.operations.metering import UNMETERED, FailureReason, NoMeter, OpenCall, ended

if TYPE_CHECKING:
    from tabane.operations.caller import Caller, CallTarget
    from tabane.operations.jobs import Starter, StreamPart
    from tabane.operations.metering import CallMarks, CallMeter, Outcome
    from tabane.operations.operation import Call, Job, Operation, OperationTable, Stream


TargetOfCall = Literal["address", "host", "account", "channel", "user", "path", "id", "value", "program"]
"""Kinds of what a call reaches or changes. ``address`` is a mail address, ``account`` also a phone number,
``id`` names something that is answered, changed or deleted, and ``value`` says what is done."""


class JudgedTarget(Struct, frozen=True):
    """What a call would reach or change, and where that was named before.

    ``parameter`` is the parameter that gives it. ``source`` and ``tool`` say which result named it; empty if
    none did. ``naming``: ``text`` within a text of others, ``record`` as a field of a record of others,
    ``disguised`` in another spelling or in parts, ``nowhere`` in nothing that is still known.
    """

    kind: TargetOfCall
    value: str
    parameter: str = ""
    naming: Literal["text", "record", "disguised", "nowhere"] = "nowhere"
    source: str = ""
    tool: str = ""


class CallVerdict(Struct, frozen=True):
    """The verdict of a rule on a call that it does not let begin.

    ``ask``: a person may approve the call. ``refuse``: nobody may. ``rule`` is the name of the rule, and
    ``reason`` says to a person why. ``pairs`` name what a person may allow for later calls too, each a tool
    and what it reaches, such as ``mail__send>bob@example.com``; none if each call has to be approved on its
    own. ``targets`` are what the person decides about, in the order of the arguments.
    """

    action: Literal["ask", "refuse"]
    rule: str
    reason: Message
    pairs: tuple[str, ...] = ()
    targets: tuple[JudgedTarget, ...] = ()


class CallRule(Protocol):
    """One rule of a guard. It is asked about every call, so that costs a few microseconds at most."""

    def verdict(self, caller: Caller, target: CallTarget, arguments: bytes) -> CallVerdict | None:
        """Return the objection to a call; None if there is none. Nothing changes."""
        ...


class OpenApproval(Protocol):
    """A call that waits until a person approves it."""

    @property
    def verdicts(self) -> tuple[CallVerdict, ...]:
        """The reasons for which the call has to be approved."""
        ...

    def decided(self) -> Awaitable[str]:
        """Return an awaitable, for one use, that waits until a person has approved the call.

        Nobody is asked before it is awaited. It gives a note for the audit log: which approval this was, and
        who gave it in which way. The approval is used up then, and that is on disk. Raises Forbidden if the
        call was refused, or if nobody has answered in time. If the wait is canceled, nobody is asked any
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

    Permissions were checked before. A guard judges the real tool, not ``call_tool`` and other operations
    that pass a call on.
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


class NoGuard(CallGuard):
    """Lets each call begin: for tables that are not part of a hub."""

    def judge(
        self, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenApproval | None:
        return None

    def answered(
        self, caller: Caller, target: CallTarget, arguments: bytes = b"", result: bytes | Raw | None = b""
    ) -> None:
        return None


class GuardedCall(OpenCall):
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
        return self._wait_and_begin().__await__()

    async def _wait_and_begin(self) -> None:
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


class Door:
    """Every face calls operations through a door, and nowhere else. Calls of upstreams' tools pass it too.

    It is the one place where a call is authorized, guarded, limited and recorded. ``starter`` starts the jobs
    of the table. ``meter`` applies limits and records. ``guard`` judges calls that the caller may make.
    Raises ValueError if the table has jobs, but no starter is given.
    """

    def __init__(
        self,
        table: OperationTable,
        starter: Starter | None = None,
        meter: CallMeter | None = None,
        guard: CallGuard | None = None,
    ) -> None:
        if starter is None and any(operation.kind == "job" for operation in table):
            raise ValueError("a table with jobs needs a starter")
        self.table = table
        self._starter, self._meter, self._guard = starter, meter or NoMeter(), guard or NoGuard()

    def over(self, table: OperationTable) -> Door:
        """Return a door with the same rules over another table."""
        return Door(table, self._starter, self._meter, self._guard)

    def check(self, caller: Caller, target: CallTarget) -> None:
        """Raise Forbidden if the caller may not use ``target``."""
        if caller.looks and (target.changes or target.kind == "tool"):
            raise Forbidden(say("{target} changes data, but this call may only read.", target=target.name))
        if not caller.access.allows(target):
            who = caller.access.label or caller.identity
            raise Forbidden(say("{who} is not allowed to use {target}.", who=who, target=target.name))

    def admit(
        self,
        caller: Caller,
        target: CallTarget,
        arguments: bytes = b"",
        request: str = "",
        *,
        judged: bool = False,
    ) -> OpenCall:
        """Admit a call, and return it: it has to be ended. If a person has to approve it, it ``waits``.

        ``request`` is the id of the request if the caller has none. ``judged``: the request goes on with a
        call that the guard has let begin. Raises Forbidden and RateLimited.
        """
        try:
            if caller.looks or not caller.access.allows(target):
                self.check(caller, target)
        except Forbidden as error:
            self._meter.refuse(caller, target, arguments, request, error)
            raise
        if judged:
            return self._meter.begin(caller, target, arguments, request)
        return self._begin(caller, target, arguments, request)

    def _begin(self, caller: Caller, target: CallTarget, arguments: bytes, request: str) -> OpenCall:
        """Judge a call that the caller may make, and begin it. Raises Forbidden and RateLimited."""
        try:
            approval = self._guard.judge(caller, target, arguments, request)
        except Forbidden as error:
            self._meter.refuse(caller, target, arguments, request, error)
            raise
        if approval is not None:
            return self._guarded_call(approval, caller, target, arguments, request)
        return self._meter.begin(caller, target, arguments, request)

    def _guarded_call(
        self, approval: OpenApproval, caller: Caller, target: CallTarget, arguments: bytes, request: str
    ) -> OpenCall:
        def refused(error: Forbidden) -> None:
            self._meter.refuse(caller, target, arguments, request, error)

        def begin(note: str) -> OpenCall:
            self.check(caller, target)
            return self._meter.begin(structs.replace(caller, approval=note), target, arguments, request)

        return GuardedCall(approval, begin, refused)

    def operation(self, caller: Caller, named: str | Operation, face: Face | None = None) -> Operation:
        """Return an operation of that name, or that one, on ``face``; the default is the caller's.

        Raises UnknownName if there is none, and Forbidden if the caller may not use it.
        """
        operation = self.table.get(named) if isinstance(named, str) else named
        if operation is None or (face or caller.face) not in operation.faces:
            name = named if isinstance(named, str) else named.name
            raise UnknownName(say("Method not found: {name}", name=name))
        try:
            self.check(caller, operation.target)
        except Forbidden as error:
            self._meter.refuse(caller, operation.target, b"", "", error)
            raise
        return operation

    async def invoke(self, caller: Caller, name: str, params: bytes | msgspec.Raw) -> Any:
        """Call an operation as :meth:`respond` does, and return its result as it is."""
        result: list[Any] = []

        def keep(value: Any) -> bytes:
            result.append(value)
            return b""

        await self.respond(caller, name, params, keep)
        return result[0]

    async def respond(
        self,
        caller: Caller,
        named: str | Operation,
        params: bytes | msgspec.Raw,
        render: Callable[[Any], bytes],
        *,
        face: Face | None = None,
        request: str = "",
    ) -> bytes:
        """Decode ``params`` (a JSON object) into the operation's type, call it, and render its result.

        ``named`` is its name, or the operation if it was looked up. A job is started, and its state is the
        result. Raises UnknownName, BadArguments (which names the parameter; also for a stream), Forbidden,
        RateLimited, HubError if no job can be started, and the errors of the handler.
        """
        operation = self.operation(caller, named, face)
        if operation.kind == "stream":
            raise BadArguments(
                say(
                    "{name} returns a stream of parts, which this interface does not support.",
                    name=operation.name,
                )
            )
        # Before the parameters are read: a call that is refused costs as little as possible.
        opened = (
            UNMETERED if operation.relays else self._begin(caller, operation.target, bytes(params), request)
        )
        async with ended(opened):
            value = await self._answer_operation(operation, caller, params, opened.waits)
            body = render(value)
            if opened.marks is not None:
                opened.marks.answered(body)
            failed = operation.failed is not None and operation.failed(value)
            result = body if (face or caller.face) is Face.MCP else None
            remark = operation.remark(value) if operation.remark is not None else ""
            recorded = opened.end("failed" if failed else "ok", len(body), reason=remark, result=result)
            if recorded is not None:
                await recorded
        return body

    async def _answer_operation(
        self,
        operation: Operation,
        caller: Caller,
        params: bytes | msgspec.Raw,
        approval: Awaitable[object] | None,
    ) -> Any:
        """Decode the parameters, wait for a person if one has to approve, and return the handler's result."""
        try:
            given = decode_params(operation, params)
        except BadArguments as error:
            if operation.refused is None:
                raise
            return operation.refused(error, caller.lang)
        if approval is not None:
            await approval
        if operation.kind == "job":
            assert self._starter is not None  # checked by the constructor
            title = operation.title(given) if operation.title else Message(operation.name)
            handler = cast("Job", operation.handler)
            job = self._starter.start(
                operation.name, title, lambda progress: handler(caller, given, progress), caller
            )
            return job.state(caller.lang)
        return await cast("Call", operation.handler)(caller, given)

    def stream(
        self, caller: Caller, name: str, params: bytes | msgspec.Raw, request: str = ""
    ) -> AsyncGenerator[StreamPart, None]:
        """Return the parts of a stream's answer. Only the last part has ``more`` False.

        Close the generator to stop the handler early. Before the first part, raises UnknownName, Forbidden
        and BadArguments (also if the operation is not a stream); later RateLimited and the errors of the
        handler.
        """
        operation = self.operation(caller, name)
        if operation.kind != "stream":
            raise BadArguments(say("{name} returns one result, not a stream of parts.", name=name))
        given = decode_params(operation, params)
        return self._metered_parts(
            caller, operation, bytes(params), request, _parts_of(operation, caller, given)
        )

    async def _metered_parts(
        self,
        caller: Caller,
        operation: Operation,
        params: bytes,
        request: str,
        parts: AsyncGenerator[StreamPart, None],
    ) -> AsyncGenerator[StreamPart, None]:
        opened = self._begin(caller, operation.target, params, request)
        async with ended(opened):
            if opened.waits is not None:
                await opened.waits
            async with contextlib.aclosing(parts):
                async for part in parts:
                    # With the first part, the caller has an answer: it need not take the last one.
                    self._guard.answered(caller, operation.target)
                    if not part.more and (recorded := opened.end("ok")) is not None:
                        await recorded
                    yield part


async def _parts_of(
    operation: Operation, caller: Caller, given: msgspec.Struct
) -> AsyncGenerator[StreamPart, None]:
    """Yield parts up to the last one. Raises RuntimeError if the stream ends without it."""
    parts = cast("Stream", operation.handler)(caller, given)
    try:
        async for part in parts:
            yield part
            if not part.more:
                return
        raise RuntimeError(f"{operation.name} ended without a last part")
    finally:
        if isinstance(parts, AsyncGenerator):
            await parts.aclose()


def decode_params(operation: Operation, params: bytes | msgspec.Raw) -> msgspec.Struct:
    """Return the parameters as the operation's struct. Raises BadArguments that names the wrong one."""
    try:
        given = params or b"{}"
        return _decode_struct(
            _rename_to_snake_case(given) if operation.camel_case else given, operation.params
        )
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        from tabane.operations.parameter_errors import parameter_error  # most calls are right

        raise parameter_error(operation, error) from None


def _rename_to_snake_case(params: bytes | msgspec.Raw) -> bytes:
    """Return the parameters under our names. If a name is given in both spellings, ours wins."""
    try:
        members = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        # _decode_struct reports the error
        return bytes(params)
    names = {name: re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), name) for name in members}
    ours = {names[name]: value for name, value in members.items()}
    return msgspec.json.encode(ours | {name: members[name] for name in members if names[name] == name})


def _decode_struct(params: bytes | msgspec.Raw, kind: type[msgspec.Struct]) -> msgspec.Struct:
    try:
        return msgspec.json.decode(params, type=kind)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        # the data plane accepts these too: half a surrogate pair, NaN
        try:
            value = json.loads(bytes(params))
        except ValueError:
            raise error from None
        return msgspec.convert(value, type=kind)
