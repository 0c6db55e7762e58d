"""The door: the one place that every call of an operation passes, which checks its permission."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any, cast

import msgspec

from tabane.errors import BadArguments, Forbidden, UnknownName
from tabane.messages import Message, say
from tabane.operations.caller import Caller, Permission, Privilege
from tabane.operations.parameter_errors import decoder_message, parameter_error

if TYPE_CHECKING:
    from tabane.operations.jobs import Starter, StreamPart
    from tabane.operations.operation import Call, Job, Operation, OperationTable, Stream


class Door:
    """Every face calls operations through a door, and nowhere else.

    ``starter`` starts the jobs of the table. Raises ValueError if the table has jobs, but no starter is
    given.
    """

    def __init__(self, table: OperationTable, permission: Permission, starter: Starter | None = None) -> None:
        if starter is None and any(operation.kind == "job" for operation in table):
            raise ValueError("a table with jobs needs a starter")
        self.table = table
        self._permission, self._starter = permission, starter

    def check(self, caller: Caller, privilege: Privilege, target: str) -> None:
        """Raise Forbidden if the caller may not use ``target``."""
        if caller.looks and privilege is not Privilege.READ:
            raise Forbidden(
                say(
                    "{target} changes data, but this call may only read.",
                    target=target,
                )
            )
        if not self._permission.allows(caller, privilege, target):
            raise Forbidden(say("{who} is not allowed to use {target}.", who=caller.identity, target=target))

    def operation(self, caller: Caller, name: str) -> Operation:
        """Return the operation of that name on the caller's face.

        Raises UnknownName if there is none, and Forbidden if the caller may not use it.
        """
        operation = self.table.get(name)
        if operation is None or caller.face not in operation.faces:
            raise UnknownName(say("Method not found: {name}", name=name))
        self.check(caller, operation.privilege, name)
        return operation

    async def invoke(self, caller: Caller, name: str, params: bytes | msgspec.Raw) -> Any:
        """Decode ``params`` (a JSON object) into the operation's type, call it, and return its result.

        A job is started, and its state is returned at once. Raises UnknownName, BadArguments (which names
        the parameter; also for a stream), Forbidden, HubError if no job can be started, and the errors of
        the handler.
        """
        operation = self.operation(caller, name)
        if operation.kind == "stream":
            raise BadArguments(
                say("{name} returns a stream of parts, which this interface does not support.", name=name)
            )
        given = decode_params(operation, params)
        if operation.kind == "job":
            return self._start(operation, caller, given)
        return await cast("Call", operation.handler)(caller, given)

    def stream(
        self, caller: Caller, name: str, params: bytes | msgspec.Raw
    ) -> AsyncGenerator[StreamPart, None]:
        """Return the parts of a stream's answer. Only the last part has ``more`` False.

        Close the generator to stop the handler early. Before the first part, raises UnknownName, Forbidden
        and BadArguments (also if the operation is not a stream); later the errors of the handler.
        """
        operation = self.operation(caller, name)
        if operation.kind != "stream":
            raise BadArguments(say("{name} returns one result, not a stream of parts.", name=name))
        return _parts(operation, caller, decode_params(operation, params))

    def _start(self, operation: Operation, caller: Caller, given: msgspec.Struct) -> dict[str, Any]:
        assert self._starter is not None  # checked by the constructor
        title = operation.title(given) if operation.title else Message(operation.name)
        handler = cast("Job", operation.handler)
        job = self._starter.start(
            operation.name, title, lambda progress: handler(caller, given, progress), caller
        )
        return job.state(caller.lang)


async def _parts(
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
        return _decoded(_snake_case(given) if operation.camel_case else given, operation.params)
    except msgspec.ValidationError as error:
        raise parameter_error(operation, error) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = say("nested too deeply") if isinstance(error, RecursionError) else decoder_message(error)
        raise BadArguments(
            say("{name}: the parameters are not readable JSON ({detail})", name=operation.name, detail=why)
        ) from None


def _snake_case(params: bytes | msgspec.Raw) -> bytes:
    """Return the parameters under our names. If a name is given in both spellings, ours wins."""
    try:
        members = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        # _decoded reports the error
        return bytes(params)
    names = {name: re.sub("[A-Z]", lambda capital: "_" + capital[0].lower(), name) for name in members}
    ours = {names[name]: value for name, value in members.items()}
    return msgspec.json.encode(ours | {name: members[name] for name in members if names[name] == name})


def _decoded(params: bytes | msgspec.Raw, kind: type[msgspec.Struct]) -> msgspec.Struct:
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
