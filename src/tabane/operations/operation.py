"""Operations as data: name, parameters, result, handler, how it reads, who may call it and whence."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from tabane.messages import Lang
    from tabane.operations.door import Caller, Face, Privilege

Kind = Literal["call", "stream", "job"]


@dataclass(frozen=True)
class Operation:
    """One thing Tabane can do, defined once for every face.

    ``params`` is a frozen msgspec.Struct whose fields carry their limits and descriptions in
    ``msgspec.Meta``; the JSON Schema that MCP shows is made of it. ``handler`` takes the caller and
    the decoded parameters and returns a value that msgspec can encode. ``text`` renders that value
    for a reader (an assistant, a terminal). ``description`` is written for a model and is English.
    ``camel_case`` also takes the names of parameters as ``maxConcurrency``, where they once were so.
    """

    name: str
    description: str
    params: type[msgspec.Struct]
    handler: Callable[[Caller, Any], Awaitable[Any]]
    faces: frozenset[Face]
    privilege: Privilege
    text: Callable[[Any, Lang], str] | None = None
    kind: Kind = "call"
    read_only: bool = False
    annotations: Mapping[str, bool] = field(default_factory=dict)
    camel_case: bool = False


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
    schema["properties"] = {name: _plain(part) for name, part in schema.get("properties", {}).items()}
    if not schema.get("required"):
        schema.pop("required", None)
    return schema


def _plain(part: dict[str, Any]) -> dict[str, Any]:
    """A property as a model needs it: that null is as good as absent goes without saying."""
    options = [option for option in part.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        part = {**{key: value for key, value in part.items() if key != "anyOf"}, **options[0]}
    return {key: value for key, value in part.items() if key != "default" or value is not None}
