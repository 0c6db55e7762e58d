"""Operations as data: name, parameters, handler, text, faces and privilege; opened at first use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct, field, structs

from tabane.errors import CodeMissing
from tabane.operations.caller import CallTarget, Face, Privilege

if TYPE_CHECKING:
    from tabane.errors import TabaneError
    from tabane.messages import Lang, Message
    from tabane.operations.caller import Caller
    from tabane.operations.jobs import Progress, StreamPart

    Call = Callable[[Caller, Any], Awaitable[Any]]
    Job = Callable[[Caller, Any, Progress], Awaitable[Any]]
    Stream = Callable[[Caller, Any], AsyncIterator[StreamPart]]

Kind = Literal["call", "stream", "job"]
Opened = TypeVar("Opened")
Opener = Callable[[], object]
"""Returns the object that answers operations; it is called with the first of them."""

PEOPLE = frozenset({Face.RPC, Face.CLI})
"""The faces of people and their programs."""

EVERYONE = PEOPLE | {Face.MCP}
"""The faces of people, programs and models."""


class NoParameters(Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of an operation that has none."""


class Lazy(Generic[Opened]):
    """An object that is opened at its first use, once. ``opened`` is the object; None before that."""

    def __init__(self, open: Callable[[], Opened]) -> None:
        self._open = open
        self.opened: Opened | None = None

    def __call__(self) -> Opened:
        """Return the object. Raises what its opening raises; the next use opens it again then."""
        if self.opened is None:
            self.opened = self._open()
        return self.opened


class Reference(Struct, frozen=True, dict=True):
    """A function of Tabane by its place, ``room.module:function`` or ``room.module:Class.method``.

    It is imported at its first use. A call raises ImportError if there is no such place: the package was
    upgraded while the hub ran.
    """

    place: str

    @property
    def module(self) -> str:
        """The full name of the module."""
        return "tabane." + self.place.partition(":")[0]

    @property
    def path(self) -> str:
        """The names of class and method, or of the function."""
        return self.place.partition(":")[2]

    @cached_property
    def found(self) -> Any:
        """The function. Raises CodeMissing."""
        try:
            return _attribute(import_module(self.module), self.path, self)
        except ImportError as error:
            raise CodeMissing(str(error), name=error.name) from error

    def __call__(self, *given: Any) -> Any:
        """Call the function, and return its result. Raises ImportError, and what the function raises."""
        return self.found(*given)


class BoundReference(Struct, frozen=True):
    """A method by its place, and ``answering``, which returns the object that has it."""

    reference: Reference
    answering: Opener

    @property
    def found(self) -> Any:
        """The method of the object. Raises CodeMissing, and what the opening of the object raises."""
        try:
            return _attribute(self.answering(), self.reference.path.partition(".")[2], self.reference)
        except ImportError as error:
            raise CodeMissing(str(error), name=error.name) from error

    def __call__(self, *given: Any) -> Any:
        """Call the method, and return its result. Raises ImportError, and what the method raises."""
        return self.found(*given)


def _attribute(owner: object, path: str, reference: Reference) -> Any:
    try:
        return attrgetter(path)(owner)
    except AttributeError as error:
        raise ImportError(f"there is no {reference.place} in Tabane", name=reference.module) from error


class Operation(Struct, frozen=True, dict=True):
    """One thing that Tabane can do, defined once for every face.

    ``params`` is a frozen msgspec.Struct. Its fields have limits and descriptions in ``msgspec.Meta``. MCP's
    JSON Schema and the options of the command line are derived from it. ``description`` is written for a
    model, in English. With ``camel_case``, parameters may also be named as ``maxConcurrency``.

    A parameter marked ``extra_json_schema={"hidden": True}`` is accepted but not shown. With the mark
    ``{"programs": True}`` it is shown to people and programs but not to models, with ``{"seldom": True}`` to
    models too, but not in the list of mode *search*.
    ``structured`` converts a call's result to the structured content that an assistant gets beside the text.

    ``label`` is the title in a list of tools; the default is the name in words. ``failed`` says whether a
    result is a failure, if the operation returns failures as values. ``remark`` returns what the audit
    log says of a result, in a few words. ``failure`` is the text of an error for
    a reader, if it is not the error's own. ``content`` makes the blocks of a tool's result, if they are not
    one block of text. ``refused`` makes the result of a call whose parameters do not fit; by default, that is
    an error.

    ``alias_of`` names the operation that this one is an older name of. It can be called and described, but is
    in no list of tools. ``strict``: in revisions of MCP that allow it, arguments that do not fit are a
    protocol error, not a result.

    ``handler`` gets the caller and the decoded parameters. A text is its place, as in :class:`Reference`;
    :func:`bound` adds the object that answers. Its results can be encoded by msgspec and depend on ``kind``.
    A ``call`` returns one result, which ``text`` renders for a reader. A ``stream`` yields
    parts, and marks the last one. A ``job`` also gets a receiver of its progress, and returns its result in
    the end. ``title`` describes a job with these parameters; the default is the name. Programs that connect
    over TCP without the hub's token may use a ``public`` operation.

    An operation that names no privilege is for administrators. One with Privilege.READ changes nothing that a
    user keeps, so it is ``read_only``. ``moved`` maps parameters that it no longer has to the operations that
    replaced them.

    ``source`` is what it belongs to (:data:`tabane.operations.caller.SOURCES`); without one it is
    administration. An operation that ``relays`` calls other tools: those are checked, limited and recorded
    instead of it.
    """

    name: str
    description: str
    params: type[msgspec.Struct]
    handler: Call | Job | Stream | str
    faces: frozenset[Face] = PEOPLE
    privilege: Privilege = Privilege.ADMIN
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
    source: str = ""
    relays: bool = False
    remark: Callable[[Any], str] | None = None
    refused: Callable[[TabaneError, Lang], Any] | None = None

    def __post_init__(self) -> None:
        if self.privilege is Privilege.READ:
            structs.force_setattr(self, "read_only", True)

    @cached_property
    def target(self) -> CallTarget:
        """The operation as what a caller wants to call. An old name is the operation of today."""
        return CallTarget(
            self.alias_of or self.name,
            source="admin" if self.privilege is Privilege.ADMIN else self.source or "admin",
            kind="operation",
            changes=not self.read_only and not self.relays,
            public=self.public and self.privilege is Privilege.READ,
        )


def bound(operations: Iterable[Operation], **answering: Opener) -> list[Operation]:
    """Return operations whose handlers are places, bound to objects that answer, by the names of classes.

    Nothing is imported or opened before the first call. Raises ValueError if nothing answers for a class.
    """
    found = []
    for operation in operations:
        reference = Reference(str(operation.handler))
        owner = reference.path.partition(".")[0]
        if owner not in answering:
            raise ValueError(f"nothing answers for {reference.place}")
        found.append(structs.replace(operation, handler=BoundReference(reference, answering[owner])))
    return found


class OperationTable:
    """The operations of a hub by name. Raises ValueError if a name is declared twice, or is not bound.

    A function that returns them is called at the first use of the table: a hub that only forwards calls of
    its servers' tools imports no parameters and no handlers of its own operations.
    """

    def __init__(self, declared: Iterable[Operation] | Callable[[], Iterable[Operation]]) -> None:
        self._declared = declared
        if not callable(declared):
            self._by_name  # noqa: B018  (the error belongs to who made the list)

    @cached_property
    def _by_name(self) -> Mapping[str, Operation]:
        found: dict[str, Operation] = {}
        try:
            declared = list(self._declared() if callable(self._declared) else self._declared)
        except ImportError as error:
            raise CodeMissing(str(error), name=error.name) from error
        for operation in declared:
            if operation.name in found:
                raise ValueError(f"operation {operation.name!r} is declared twice")
            if isinstance(operation.handler, str):
                raise ValueError(f"operation {operation.name!r} is not bound")
            found[operation.name] = operation
        return found

    def get(self, name: str) -> Operation | None:
        """Return the operation of that name; None if there is none."""
        return self._by_name.get(name)

    def __iter__(self) -> Iterator[Operation]:
        return iter(self._by_name.values())

    def with_face(self, face: Face) -> list[Operation]:
        """Return the operations that can be called through an interface."""
        return [operation for operation in self if face in operation.faces]


def input_schema(params: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON Schema of a parameter struct, flat and without titles, so that it costs few tokens.

    Hidden parameters are left out. Raises ValueError if a struct nests another: parameters are plain.
    """
    schema: dict[str, Any] = msgspec.json.decode(_encoded_schema(params))
    return schema


@cache
def _encoded_schema(params: type[msgspec.Struct]) -> bytes:
    """Return the schema as JSON: a hub asks four times for each, and making one takes a millisecond."""
    (schema,), components = msgspec.json.schema_components([params], ref_template="{name}")
    if len(components) != 1:
        raise ValueError(f"{params.__name__} nests other structs")
    schema = dict(components[schema["$ref"]])
    schema.pop("title", None)
    schema.pop("description", None)
    schema["properties"] = {
        name: _plain_property(part)
        for name, part in schema.get("properties", {}).items()
        if not any(option.get("hidden") for option in (part, *part.get("anyOf", [])))
    }
    if not schema.get("required"):
        schema.pop("required", None)
    return msgspec.json.encode(schema)


def _plain_property(part: dict[str, Any]) -> dict[str, Any]:
    """Return a property without the option null: it means the same as absent."""
    options = [option for option in part.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        part = {**{key: value for key, value in part.items() if key != "anyOf"}, **options[0]}
    return {key: value for key, value in part.items() if key != "default" or value is not None}
