"""The door: identity, permission, and later limits, usage and audit hang on this one place."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec

from tabane.errors import BadArguments, Forbidden, UnknownName
from tabane.messages import Lang, Message, say
from tabane.operations.decoding import worded
from tabane.operations.unfit import unfit

if TYPE_CHECKING:
    from tabane.operations.jobs import Part, Starter
    from tabane.operations.operation import Call, Job, Operation, Stream, Table


class Face(Enum):
    """Where a call comes in."""

    RPC = "rpc"
    MCP = "mcp"
    CLI = "cli"
    WEB = "web"


class Privilege(Enum):
    """What a caller needs to be allowed."""

    READ = "read"
    WRITE = "write"
    CALL = "call"
    ADMIN = "admin"


@dataclass(frozen=True)
class Caller:
    """The caller of operations: made once per connection by the face that accepted it.

    ``identity`` is ``local`` for a process of the same user on this machine. ``session`` names the
    connection; ``roots`` are the client's folders as file URIs, ``cwd`` its working directory;
    ``capabilities`` is a JSON object of the capabilities that a client of MCP's handshake era declared.
    ``looks``: this call was allowed because it changes nothing, so it may not change anything.
    ``connected``: it has a connection, whose end ends its jobs. ``pid`` is its process, 0 if that is not
    known.
    """

    identity: str
    face: Face
    session: str
    lang: Lang = "en"
    client: str = ""
    cwd: str | None = None
    roots: tuple[str, ...] = field(default=())
    capabilities: bytes = b"{}"
    looks: bool = False
    connected: bool = False
    pid: int = 0


class Permission(Protocol):
    """Decides whether a caller may pass. ``target`` is the operation's name, or an upstream tool's."""

    def allows(self, caller: Caller, privilege: Privilege, target: str) -> bool: ...


class AllowLocal:
    """Lets every caller through who reached the hub's own door: the user of this machine."""

    def allows(self, caller: Caller, privilege: Privilege, target: str) -> bool:
        return caller.identity == "local"


class Door:
    """Every face calls operations through here, and nowhere else.

    ``starter`` begins the jobs of the table. Raises ValueError where the table has some and there is none.
    """

    def __init__(self, table: Table, permission: Permission, starter: Starter | None = None) -> None:
        if starter is None and any(operation.kind == "job" for operation in table):
            raise ValueError("a table with jobs needs who starts them")
        self.table = table
        self._permission, self._starter = permission, starter

    def check(self, caller: Caller, privilege: Privilege, target: str) -> None:
        """Raises :class:`Forbidden` where the caller may not pass."""
        if caller.looks and privilege is not Privilege.READ:
            raise Forbidden(
                say(
                    "{target} changes something, which a call that was allowed to read may not.",
                    target=target,
                )
            )
        if not self._permission.allows(caller, privilege, target):
            raise Forbidden(say("{who} is not allowed to use {target}.", who=caller.identity, target=target))

    def operation(self, caller: Caller, name: str) -> Operation:
        """The operation of that name on the caller's face.

        Raises UnknownName where there is none, Forbidden where the caller may not use it.
        """
        operation = self.table.get(name)
        if operation is None or caller.face not in operation.faces:
            raise UnknownName(say("Method not found: {name}", name=name))
        self.check(caller, operation.privilege, name)
        return operation

    async def invoke(self, caller: Caller, name: str, params: bytes | msgspec.Raw) -> Any:
        """Decode ``params`` (a JSON object) into the operation's type, call it, return its result.

        A job is begun, and how it is then returned at once. Raises UnknownName, BadArguments (naming the
        parameter; also for a stream), Forbidden, HubError where no job can be begun, or what the handler
        raises.
        """
        operation = self.operation(caller, name)
        if operation.kind == "stream":
            raise BadArguments(say("{name} answers in parts, which cannot be given here.", name=name))
        given = decode_params(operation, params)
        if operation.kind == "job":
            return self._begin(operation, caller, given)
        return await cast("Call", operation.handler)(caller, given)

    def stream(self, caller: Caller, name: str, params: bytes | msgspec.Raw) -> AsyncGenerator[Part, None]:
        """The parts of a stream's answer, of which the last has ``more`` False.

        Who leaves before the last closes the generator, and with it what the handler does. Raises, before
        the first part, UnknownName, BadArguments (also for what is no stream) and Forbidden; later what the
        handler raises.
        """
        operation = self.operation(caller, name)
        if operation.kind != "stream":
            raise BadArguments(say("{name} gives one answer, not parts.", name=name))
        return _parts(operation, caller, decode_params(operation, params))

    def _begin(self, operation: Operation, caller: Caller, given: msgspec.Struct) -> dict[str, Any]:
        assert self._starter is not None  # the constructor saw to it
        title = operation.title(given) if operation.title else Message(operation.name)
        handler = cast("Job", operation.handler)
        job = self._starter.start(
            operation.name, title, lambda progress: handler(caller, given, progress), caller
        )
        return job.state(caller.lang)


async def _parts(operation: Operation, caller: Caller, given: msgspec.Struct) -> AsyncGenerator[Part, None]:
    """Up to the part that says it is the last. Raises RuntimeError for a stream that has none."""
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
    """The parameters as the operation's struct. Raises BadArguments that says which one, and why."""
    try:
        given = params or b"{}"
        return _decoded(_snake_case(given) if operation.camel_case else given, operation.params)
    except msgspec.ValidationError as error:
        raise unfit(operation, error) from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        why = say("nested too deeply") if isinstance(error, RecursionError) else worded(error)
        raise BadArguments(
            say("{name}: the parameters are not readable JSON ({detail})", name=operation.name, detail=why)
        ) from None


def _snake_case(params: bytes | msgspec.Raw) -> bytes:
    """The parameters under our names. A name given in both spellings counts as given in ours."""
    try:
        members = msgspec.json.decode(params, type=dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        # What is wrong with it is said where it is decoded whole.
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
        # What passes the data plane passes here too: half a surrogate pair, NaN.
        try:
            value = json.loads(bytes(params))
        except ValueError:
            raise error from None
        return msgspec.convert(value, type=kind)
