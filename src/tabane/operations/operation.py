"""Operations as data: name, parameters, result, handler, how it reads, who may call it and whence."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from tabane.errors import TabaneError
    from tabane.messages import Lang, Message
    from tabane.operations.door import Caller, Face, Privilege
    from tabane.operations.jobs import Part, Progress

    Call = Callable[[Caller, Any], Awaitable[Any]]
    Job = Callable[[Caller, Any, Progress], Awaitable[Any]]
    Stream = Callable[[Caller, Any], AsyncIterator[Part]]

Kind = Literal["call", "stream", "job"]


@dataclass(frozen=True)
class Operation:
    """One thing Tabane can do, defined once for every face.

    ``params`` is a frozen msgspec.Struct whose fields carry their limits and descriptions in
    ``msgspec.Meta``; the JSON Schema that MCP shows is made of it. ``description`` is written for a
    model and is English. ``camel_case`` also takes the names of parameters as ``maxConcurrency``, where
    they once were so.

    A parameter that is marked ``extra_json_schema={"hidden": True}`` is taken and not shown.
    ``structured`` makes of a call's result what an assistant gets beside its text.

    ``label`` is its title on a list of tools. Where it answers its failures as values, ``failed`` says which
    values are such; ``failure`` words what it raises for a reader, where that is not the error's own text.
    ``content`` makes the blocks of a tool's result, where they are not one of text.

    ``alias_of`` names the operation that this one is an older name of: it is called and described as any, and
    on no list of tools. ``strict``: over a revision of MCP that has it so, arguments that do not fit are an
    error of the protocol, not a result.

    ``handler`` takes the caller and the decoded parameters. What it gives depends on ``kind``, and is
    always something that msgspec can encode: of a ``call``, an awaited result, which ``text`` renders for
    a reader (an assistant, a terminal); of a ``stream``, parts, the last of which says so; of a ``job``,
    which takes where to tell its progress as well, the result in the end. ``title`` says what a job with
    these parameters does; without one it is called by its name. A ``public`` one is also for programs that
    reach the hub over TCP without its token.

    One that needs Privilege.READ changes nothing that a user keeps, and is marked ``read_only``. ``moved``
    has the names of parameters that it once took, and the operations that do their work now.
    """

    name: str
    description: str
    params: type[msgspec.Struct]
    handler: Call | Job | Stream
    faces: frozenset[Face]
    privilege: Privilege
    text: Callable[[Any, Lang], str] | None = None
    kind: Kind = "call"
    read_only: bool = False
    annotations: Mapping[str, bool] = field(default_factory=dict)
    camel_case: bool = False
    title: Callable[[Any], Message] | None = None
    public: bool = False
    structured: Callable[[Any, Lang], Any] | None = None
    label: str | None = None
    failed: Callable[[Any], bool] | None = None
    failure: Callable[[TabaneError, Lang], str] | None = None
    content: Callable[[Any, Lang], list[dict[str, Any]]] | None = None
    moved: Mapping[str, str] = field(default_factory=dict)
    alias_of: str = ""
    strict: bool = False


class Table:
    """The operations of a hub by name. Sources declare theirs; a name may be declared once."""

    def __init__(self, operations: list[Operation]) -> None:
        self._by_name: dict[str, Operation] = {}
        for operation in operations:
            if operation.name in self._by_name:
                raise ValueError(f"operation {operation.name!r} is declared twice")
            self._by_name[operation.name] = operation

    def get(self, name: str) -> Operation | None:
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._by_name.values())

    def with_face(self, face: Face) -> list[Operation]:
        return [operation for operation in self if face in operation.faces]


def input_schema(params: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a parameter struct, flat and without titles, so that it costs few tokens.

    Raises ValueError where a struct nests another: parameters of an operation are plain.
    """
    (schema,), components = msgspec.json.schema_components([params], ref_template="{name}")
    if len(components) != 1:
        raise ValueError(f"{params.__name__} nests other structs")
    schema = dict(components[schema["$ref"]])
    schema.pop("title", None)
    schema.pop("description", None)
    schema["properties"] = {
        name: _plain(part) for name, part in schema.get("properties", {}).items() if not _hidden(part)
    }
    if not schema.get("required"):
        schema.pop("required", None)
    return schema


def _hidden(part: dict[str, Any]) -> bool:
    """Whether a property is for those who know of it: another way to say what others say."""
    return any(option.get("hidden") for option in (part, *part.get("anyOf", [])))


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """A property as a model needs it: that null is as good as absent goes without saying."""
    options = [option for option in part.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        part = {**{key: value for key, value in part.items() if key != "anyOf"}, **options[0]}
    return {key: value for key, value in part.items() if key != "default" or value is not None}
