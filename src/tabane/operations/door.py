"""The door: identity, permission, and later limits, usage and audit hang on this one place."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from tabane.errors import BadArguments, Forbidden, UnknownName
from tabane.messages import Lang, say

if TYPE_CHECKING:
    from tabane.operations.operation import Operation, Table


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
    """Who calls: made once per connection by the face that accepted it.

    ``identity`` is ``local`` for a process of the same user on this machine. ``session`` names the
    connection; ``roots`` are the client's folders as file URIs, ``cwd`` its working directory;
    ``capabilities`` is a JSON object of what a client of MCP's handshake era said it can be asked.
    """

    identity: str
    face: Face
    session: str
    lang: Lang = "en"
    client: str = ""
    cwd: str | None = None
    roots: tuple[str, ...] = field(default=())
    capabilities: bytes = b"{}"


class Permission(Protocol):
    """Decides whether a caller may pass. ``target`` is the operation's name, or an upstream tool's."""

    def allows(self, caller: Caller, privilege: Privilege, target: str) -> bool: ...


class AllowLocal:
    """Lets every caller through who reached the hub's own door: the user of this machine."""

    def allows(self, caller: Caller, privilege: Privilege, target: str) -> bool:
        return caller.identity == "local"


class Door:
    """Every face calls operations through here, and nowhere else."""

    def __init__(self, table: Table, permission: Permission) -> None:
        self.table = table
        self._permission = permission

    def check(self, caller: Caller, privilege: Privilege, target: str) -> None:
        """Raises :class:`Forbidden` where the caller may not pass."""
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

        Raises UnknownName, BadArguments (naming the parameter), Forbidden, or what the handler raises.
        """
        operation = self.operation(caller, name)
        return await operation.handler(caller, decode_params(operation, params))


def decode_params(operation: Operation, params: bytes | msgspec.Raw) -> msgspec.Struct:
    """The parameters as the operation's struct. Raises BadArguments that says which one, and why."""
    try:
        given = params or b"{}"
        return _decoded(_snake_case(given) if operation.camel_case else given, operation.params)
    except msgspec.ValidationError as error:
        # msgspec ends its messages with " - at `$.path`".
        detail, _, path = str(error).partition(" - at `$")
        parameter = path.rstrip("`").lstrip(".") or None
        if parameter:
            message = say("{parameter}: {detail}", parameter=parameter, detail=detail)
        else:
            message = say("{name}: {detail}", name=operation.name, detail=detail)
        raise BadArguments(message, parameter) from None
    except (ValueError, RecursionError) as error:
        raise BadArguments(
            say("{name}: the parameters are not readable JSON ({detail})", name=operation.name, detail=error)
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
    except msgspec.DecodeError:
        # What passes the data plane passes here too: half a surrogate pair, NaN.
        return msgspec.convert(json.loads(bytes(params)), type=kind)
