"""A tool of an upstream server as the catalog holds it, and calls of it, as pure values.

Arguments that the user decides are put into calls: fixed values, defaults, and parameters nobody may give.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw, Struct, field, structs

from tabane.catalog.tools.aliases import other_names
from tabane.catalog.tools.app_metadata import NO_APP, AppMetadata, app_metadata, with_shown_page
from tabane.catalog.tools.definition_repair import DefinitionKind, RepairReport, repair_definition
from tabane.errors import AnswerTooLong, BadArguments, CallerError, TabaneError
from tabane.messages import Lang, Message, say
from tabane.operations import CallTarget
from tabane.wire.json import InvalidJson, Members, decode, encode, fields, join, member, quote
from tabane.wire.json import text as json_text
from tabane.wire.mirrored_arguments import HeaderMirror, mirrors

if TYPE_CHECKING:
    from tabane.servers.server import Server


log = logging.getLogger(__name__)


class ArgumentOverrides(Struct, frozen=True):
    """Overrides of the arguments of a tool by the servers file. Values are JSON.

    ``withheld`` are parameters that no caller may give. ``refused`` is why no call is made at all.
    """

    fixed: Mapping[str, bytes] = field(default_factory=dict)
    defaults: Mapping[str, bytes] = field(default_factory=dict)
    withheld: frozenset[str] = frozenset()
    refused: Message | None = None

    def __repr__(self) -> str:
        return f"ArgumentOverrides({list(self.fixed)}, {list(self.defaults)})"

    def applied(self, arguments: bytes, tool: str) -> bytes:
        """Return the arguments for the server. ``tool`` is the public name, for the error.

        Raises CallerError if the tool may not be called, and BadArguments.
        """
        if self.refused is not None:
            raise CallerError(
                say(
                    'The tool {tool} cannot be called, because its entry in "overrides" of the servers file '
                    "is wrong: {why}",
                    tool=tool,
                    why=self.refused,
                )
            )
        if arguments.strip() in (b"", b"null"):
            given: Members = {}
        else:
            try:
                given = fields(arguments)
            except InvalidJson:
                raise BadArguments(
                    say("arguments of {tool}: an object is required.", tool=tool), "arguments"
                ) from None
        if refused := sorted(self.withheld & given.keys()):
            raise BadArguments(
                say("{tool} has no parameter {name}. Call it without that.", tool=tool, name=refused[0]),
                refused[0],
            )
        defaults = {name: Raw(value) for name, value in self.defaults.items() if name not in given}
        return join({**given, **defaults, **{name: Raw(value) for name, value in self.fixed.items()}})


# Limits of what is read from a definition. The definition itself passes unchanged.
_MOST_DESCRIPTION = 16_384
_MOST_TITLE = 256

_NOTHING = CallTarget("")


class Tool(Struct, frozen=True):
    """One tool, with its definition and the fields that are read from it.

    ``definition`` is the upstream's own JSON object with only ``name`` replaced by ``alias``, and the address
    of its page by the one that clients know. Everything that a model sees is built from it, so none of its
    fields is lost. ``server`` is :data:`OWN` for the hub's own.

    ``alias`` is the public name (``server__tool``, unique, at most 48 characters), ``name`` the upstream's
    own. The remaining fields are read from the definition for searching and listing. ``schema`` is the
    decoded inputSchema ({} if it is not an object). ``tags``, ``category`` and ``about`` are the user's words
    about its server, ``notes`` and ``examples`` (of queries) those about the tool. ``mirrored`` are the
    arguments that are repeated in headers if the tool is called over HTTP. ``task_support`` says whether a
    call may be a task (``optional``) or must be one (``required``), in the handshake era. ``app`` says
    whether it has a page, and who may call it. ``renamed`` is the name that the user gave it, ``arguments``
    are those that the user decides; both from an override. ``target`` is the tool as what a caller wants to
    call. ``digest`` is the SHA-256, in hexadecimal, of the definition as its server gave it: before overrides
    and names, and insensitive to the order of its members; empty for the hub's own.
    """

    alias: str
    server: str
    name: str
    definition: bytes
    title: str = ""
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict)
    read_only: bool = False
    destructive: bool = False
    tags: tuple[str, ...] = ()
    category: str = ""
    about: str = ""
    notes: str = ""
    examples: tuple[str, ...] = ()
    idempotent: bool = False
    mirrored: tuple[HeaderMirror, ...] = ()
    task_support: str = ""
    app: AppMetadata = NO_APP
    renamed: str = ""
    arguments: ArgumentOverrides | None = None
    digest: str = ""
    target: CallTarget = _NOTHING

    def __post_init__(self) -> None:
        if self.target is _NOTHING:
            target = CallTarget(self.alias, self.server, changes=not self.read_only)
            structs.force_setattr(self, "target", target)

    @property
    def shown_name(self) -> str:
        """Return the name in its alias: the user's, if there is one, otherwise the server's own."""
        return self.renamed or self.name

    @property
    def shown_mirrors(self) -> tuple[HeaderMirror, ...]:
        """Return the arguments that a caller over HTTP repeats in headers: those that it may give."""
        withheld = self.arguments.withheld if self.arguments else frozenset()
        return tuple(each for each in self.mirrored if each.path[0] not in withheld)

    @property
    def repeatable(self) -> bool:
        """Return whether a call whose answer was lost may be made once more."""
        return self.read_only or self.idempotent


OWN = ""
"""The server of the hub's own tools: none has an empty name, and one may be called tabane."""


def read_tool(definition: bytes, server: Server, alias: str, digest: str = "") -> Tool | None:
    """Return the tool that an upstream defined, under its public name. None if it has no usable name.

    Everything else in the definition, of any type, passes verbatim. Members that do not have the type that
    MCP prescribes count as absent for searching and listing.
    """
    try:
        members = fields(definition)
    except InvalidJson:
        return None
    name = member(members, "name")
    if not isinstance(name, str) or not name:
        return None
    members["name"] = Raw(quote(alias))
    return _build_tool(members, server, alias, name, digest)


def original_name(definition: bytes) -> str | None:
    """Return the upstream's own name in a definition; None if it has no usable one."""
    return text_member(definition, "name")


def _build_tool(members: Members, server: Server, alias: str, name: str, digest: str) -> Tool:
    schema = member(members, "inputSchema")
    annotations = member(members, "annotations")
    hints = annotations if isinstance(annotations, dict) else {}
    read_only = hints.get("readOnlyHint") is True
    definition = join(with_shown_page(server.name, members))
    said = [hints for hints in server.hints if hints.fits(name)]
    execution = member(members, "execution")
    return Tool(
        alias=alias,
        server=server.name,
        name=name,
        definition=definition,
        title=(_text(member(members, "title")) or _text(hints.get("title")))[:_MOST_TITLE],
        description=_text(member(members, "description"))[:_MOST_DESCRIPTION],
        schema=schema if isinstance(schema, dict) else {},
        read_only=read_only,
        # MCP gives destructiveHint a meaning only if the tool is not read-only.
        destructive=hints.get("destructiveHint") is True and not read_only,
        tags=tuple(dict.fromkeys((*server.tags, *(tag for hints in said for tag in hints.tags)))),
        category=server.category,
        about=_texts(server.description, *server.keywords, *server.examples),
        notes=_texts(*(text for hints in said for text in (hints.description, *hints.keywords))),
        examples=tuple(example for hints in said for example in hints.examples),
        idempotent=hints.get("idempotentHint") is True,
        mirrored=mirrors(definition),
        task_support=_text(execution.get("taskSupport")) if isinstance(execution, dict) else "",
        app=app_metadata(members),
        digest=digest,
        target=CallTarget(
            alias,
            server.name,
            changes=not read_only,
            others=other_names(server.name, server.namespace, name, alias),
        ),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _texts(*texts: str) -> str:
    return "\n".join(text for text in texts if text)


# -- definitions of any kind ------------------------------------------------------------------------

LONGEST_KEY = 16_384
"""Characters of a name or URI; a definition with a longer one is left out."""


def by_key(
    server: str, kind: DefinitionKind, definitions: Iterable[Raw], report: RepairReport, most: int
) -> dict[str, Raw]:
    """Return the definitions by their names or URIs, in their order, repaired, at most ``most``.

    An invalid definition, or one that repeats a key, is left out. The number of these, and the reason for the
    first, is logged, and ``report`` gets all.
    """
    found: dict[str, Raw] = {}
    faults: list[str] = []
    for definition in definitions:
        key = text_member(definition, _KEYS.get(kind, "name"))
        fault = _fault(key, found, most)
        if fault or key is None:
            faults.append(fault)
            continue
        repaired = repair_definition(kind, bytes(definition))
        report.note(key, repaired)
        if repaired.definition is None:
            faults.append(f"{key[:80]!r}: {repaired.repaired[0]} is not valid")
        else:
            found[key] = Raw(repaired.definition)
    for fault in faults:
        if not fault.endswith("is not valid"):
            report.leave_out(fault)
    if faults:
        log.warning("%s: left out %d definitions of a %s: %s", server, len(faults), kind, faults[0])
    return found


_KEYS: dict[DefinitionKind, str] = {"resource": "uri", "template": "uriTemplate"}


def text_member(definition: bytes, key: str) -> str | None:
    """Return a text member of a definition; None if there is no usable one."""
    try:
        text = json_text(fields(definition).get(key))
    except InvalidJson:
        return None
    return text or None


def _fault(key: str | None, found: dict[str, Raw], most: int) -> str:
    if key is None:
        return "it has no name"
    if len(key) > LONGEST_KEY:
        return f"{key[:80]!r} … is too long"
    if key in found:
        return f"{key!r} comes twice"
    return f"only {most} are taken" if len(found) >= most else ""


class ToolCallRequest(msgspec.Struct, frozen=True):
    """A call to a tool: its public name, and the parameters of the request that carry it.

    ``params`` keeps every member of the request (``inputResponses``, ``requestState`` and whatever
    comes later), with ``arguments`` those of the tool itself.
    """

    name: str
    params: Members
    read_only: bool = False

    @property
    def arguments(self) -> bytes:
        return bytes(self.params.get("arguments", b"{}"))

    def params_for(self, tool: Tool) -> Members:
        """Return the parameters for the upstream: the tool's own name, and arguments that the user decides.

        Raises CallerError if an override forbids the call.
        """
        params = {**self.params, "name": Raw(quote(tool.name))}
        if tool.arguments is not None:
            params["arguments"] = Raw(tool.arguments.applied(self.arguments, tool.alias))
        return params

    def check_marks(self, tool: Tool) -> None:
        """Raise CallerError if only read-only tools may be called and this tool is not."""
        if self.read_only and not tool.read_only:
            raise CallerError(say("{tool} is not marked read-only. Call it with call_tool.", tool=tool.alias))

    def check_model(self, tool: Tool) -> None:
        """Raise CallerError if only the app of its server may call the tool, and not a model."""
        if not tool.app.for_model:
            raise CallerError(say("{tool} can only be called by the app of its server.", tool=tool.alias))


def tool_call_request(params: Members, *, read_only: bool = False) -> ToolCallRequest:
    """Return the call inside call_tool. Raises BadArguments that names what is missing, or does not belong.

    Arguments that are a string of JSON, as models sometimes send them, are decoded.
    """
    caller = "call_readonly_tool" if read_only else "call_tool"
    try:
        given = fields(params.get("arguments", Raw(b"{}")))
    except InvalidJson:
        raise BadArguments(say("arguments must be an object with name and arguments."), "arguments") from None
    name = json_text(given.get("name"))
    if not name:
        raise BadArguments(say("name: the name of a tool is required, such as server__tool."), "name")
    if not given.keys() <= _MEMBERS:
        strays = {key: value for key, value in given.items() if key not in _MEMBERS}
        raise _strays(caller, name, given, strays)
    return ToolCallRequest(name, {**params, "arguments": _arguments(given.get("arguments"))}, read_only)


_MEMBERS = frozenset({"name", "arguments"})
"""Members of the arguments of call_tool."""

_MOST_REPEATED = 1_000


def _strays(caller: str, name: str, given: Members, strays: Members) -> BadArguments:
    """Return the error for members beside name and arguments: it repeats them where they belong."""
    meant: Members = {}
    with contextlib.suppress(BadArguments):
        meant = fields(_arguments(given.get("arguments")))
    for key, value in strays.items():
        wraps = key.lower() in _WRAPPERS and bytes(memoryview(value)[:1]) in (b"{", b'"')
        try:
            meant |= fields(_arguments(value)) if wraps else {key: value}
        except BadArguments:
            meant[key] = value
    call = join({"name": Raw(quote(name)), "arguments": Raw(join(meant))})
    if len(call) > _MOST_REPEATED:
        call = join({"name": Raw(quote(name))})[:-1] + b',"arguments":{...}}'
    return BadArguments(
        say(
            "{caller} has only name and arguments, so nothing was called. All parameters of the tool belong "
            "into arguments. Call {caller} again with: {call}",
            caller=caller,
            call=call.decode(),
        ),
        next(iter(strays)),
    )


_WRAPPERS = frozenset(
    ("arguments", "args", "argument", "arg", "parameters", "params", "parameter", "input", "inputs", "kwargs")
)
"""Words for the arguments of a tool that models write instead."""


def _arguments(raw: Raw | None) -> Raw:
    if raw is None:
        return Raw(b"{}")
    first = bytes(memoryview(raw)[:1])
    if first == b"n":
        return Raw(b"{}")
    if first == b'"':
        raw = Raw((json_text(raw) or "").encode("utf-8", "surrogatepass"))
    try:
        fields(raw)
    except InvalidJson:
        raise BadArguments(
            say("arguments: an object with the tool's parameters is required."), "arguments"
        ) from None
    return raw


_WINDOW = 64 << 10
_says_failed = re.compile(rb'"isError"\s*:\s*true').search


def says_failed(result: Raw) -> bool:
    """Return whether a result says that the tool failed.

    Of a result above 128 KiB, only the first and last 64 KiB are read: ``isError`` is beside the content.
    """
    view = memoryview(result)
    if len(view) <= 2 * _WINDOW:
        text = bytes(view)
        at = text.find(b'"isError"')  # faster in a long text than the expression alone
        return at >= 0 and bool(_says_failed(text, at)) and _is_error(result)
    # Inside a text, the quotation marks would be escaped.
    return bool(_says_failed(view[:_WINDOW]) or _says_failed(view[-_WINDOW:]))


def _is_error(result: Raw) -> bool:
    try:
        return bytes(fields(result).get("isError", b"")) == b"true"
    except InvalidJson:
        return False


def check_size(tool: Tool, size: int, most: int) -> None:
    """Raise AnswerTooLong if a result of ``size`` bytes is larger than the caller may have; 0 is no limit."""
    if most and size > most:
        raise AnswerTooLong(
            say(
                "The result of {tool} has {size} KiB, but the limit of this caller is {most} KiB. Request "
                "less data.",
                tool=tool.alias,
                size=-(-size // 1024),
                most=most // 1024,
            )
        )


def tool_failure(error: TabaneError, lang: Lang) -> bytes:
    """Return a failure as the result of a tool: what happened and how to fix it."""
    return _failure(error.text(lang))


def upstream_failure(tool: Tool, error: Raw) -> bytes:
    """Return an upstream's JSON-RPC error as the result of a tool, complete in ``_meta``."""
    try:
        body: Any = decode(error)
    except InvalidJson:
        body = None
    message = body.get("message") if isinstance(body, dict) else None
    code = body.get("code") if isinstance(body, dict) else None
    return _failure(f"{tool.alias}: {message or 'error'} ({code})", {"io.github.tabane/error": error})


def _failure(text: str, meta: dict[str, Raw] | None = None) -> bytes:
    result: dict[str, Any] = {"content": [{"type": "text", "text": text}], "isError": True}
    if meta:
        result["_meta"] = meta
    return encode(result)
