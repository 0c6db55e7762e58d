"""Tools as the user's overrides show them: their names, texts and parameters, and the faults of overrides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec import Raw, structs

from tabane.catalog.tools.aliases import SEPARATOR, other_names
from tabane.catalog.tools.argument_overrides import ArgumentOverrides
from tabane.catalog.tools.schema_parameters import (
    ParameterChange,
    UnchangeableSchema,
    changed_schema,
    has_parameter,
    requires,
)
from tabane.catalog.tools.tool import Tool, original_name, read_tool
from tabane.messages import Message, say
from tabane.text.nearest_names import nearest
from tabane.wire.json import decode, encode, fields, join, member
from tabane.wire.mirrored_arguments import mirrors

if TYPE_CHECKING:
    from tabane.servers.server import Server
    from tabane.servers.tool_overrides import ParameterOverride, ToolOverride


class OverriddenTool(NamedTuple):
    """A tool with its override applied, and what of the override could not be."""

    tool: Tool
    faults: tuple[Message, ...]


def shown_names(server: Server, originals: Iterable[str]) -> dict[str, str]:
    """Return the name that each tool of the server is shown with, by the server's own name.

    A new name that another tool of the server has is not used.
    """
    names = {name: name for name in originals}
    renamed = {each.tool: each.name for each in server.overrides if each.name and each.tool in names}
    names |= renamed
    while twice := [name for name in renamed if Counter(names.values())[names[name]] > 1]:
        for name in twice:
            names[name] = name
            del renamed[name]
    return names


def read_overridden(
    definition: bytes, server: Server, alias: str, override: ToolOverride, shown: str
) -> OverriddenTool | None:
    """Return the tool under its public name, as its override shows it. None if it has no usable name.

    ``shown`` is the name that the alias was made of.
    """
    plain = read_tool(definition, server, alias)
    if plain is None:
        return None
    schema, parameters, faults, refused = _ParameterChanges(plain.schema, override).result()
    changes: dict[str, Any] = {
        key: value
        for key, value in (("title", override.title), ("description", override.description))
        if value is not None
    }
    if schema is not plain.schema:
        changes["inputSchema"] = schema
    members = fields(definition)
    if override.annotations:
        hints = member(members, "annotations")
        changes["annotations"] = {**(hints if isinstance(hints, dict) else {}), **override.annotations}
    members |= {key: Raw(encode(value)) for key, value in changes.items()}
    tool = read_tool(join(members), server, alias) or plain
    others = (*tool.target.others, *_original_names(server, plain.name, alias, shown))
    return OverriddenTool(
        structs.replace(
            tool,
            renamed=shown if shown != plain.name else "",
            mirrored=mirrors(definition),
            target=structs.replace(tool.target, others=tuple(dict.fromkeys(others))),
            arguments=structs.replace(parameters, refused=override.refused or refused),
        ),
        (*faults, *_name_fault(override, shown)),
    )


def _original_names(server: Server, original: str, alias: str, shown: str) -> tuple[str, ...]:
    """Return what the tool was called before it was renamed: permissions with that name still hold."""
    if shown == original:
        return ()
    namespace = server.namespace
    plain = namespace + SEPARATOR + original if namespace else original
    return (plain, *other_names(server.name, namespace, original, alias))


def _name_fault(override: ToolOverride, shown: str) -> tuple[Message, ...]:
    if not override.name or override.name == shown:
        return ()
    return (say('another tool has the name "{name}", so it keeps its own.', name=override.name),)


def override_faults(server: Server, definitions: Iterable[bytes]) -> list[tuple[ToolOverride, Message]]:
    """Return what of the server's overrides has no effect on the tools that it listed, and why."""
    listed = {name: bytes(each) for each in definitions if (name := original_name(bytes(each)))}
    shown = shown_names(server, listed)
    found: list[tuple[ToolOverride, Message]] = []
    for override in server.overrides:
        if not override.tool:
            continue
        if override.tool not in listed:
            found.append((override, _unknown_tool(override.tool, listed)))
            continue
        read = read_overridden(listed[override.tool], server, "tool", override, shown[override.tool])
        found += [(override, fault) for fault in (read.faults if read else ())]
    return found


def _unknown_tool(name: str, listed: Iterable[str]) -> Message:
    if near := nearest(name, list(listed), 1):
        return say("the server has no tool of that name. Did you mean {near}?", near=near[0])
    return say("the server has no tool of that name.")


class _ParameterChanges:
    """The overrides of a tool's parameters, applied to its schema one after the other."""

    def __init__(self, schema: dict[str, Any], override: ToolOverride) -> None:
        self._original, self._schema, self._override = schema, schema, override
        self._faults: list[Message] = []
        self._refused: Message | None = None
        self._fixed: dict[str, bytes] = {}
        self._defaults: dict[str, bytes] = {}
        self._withheld: set[str] = set()

    def result(self) -> tuple[dict[str, Any], ArgumentOverrides, tuple[Message, ...], Message | None]:
        """Return the schema as shown, what is sent, the faults, and why the tool cannot be called."""
        for each in self._override.parameters:
            self._apply(each)
        sent = ArgumentOverrides(self._fixed, self._defaults, frozenset(self._withheld))
        return self._schema, sent, tuple(self._faults), self._refused

    def _apply(self, given: ParameterOverride) -> None:
        value = given.fixed if given.fixed is not None else given.default if given.hidden else None
        if given.withheld:
            self._withheld.add(given.name)
        if given.fixed is not None or (given.hidden and value is not None):
            self._fixed[given.name] = value or b"null"
        elif given.default is not None:
            self._defaults[given.name] = given.default
        missing = self._missing(given.name)
        if missing is not None:
            self._fail(missing, required=value is not None)
        elif given.hidden and value is None and requires(self._original, given.name):
            self._withheld.discard(given.name)
            self._fail(_needs_value(given.name))
        elif not self._changed(given, value):
            what = say("the schema of the tool allows no call with that for {name}.", name=given.name)
            self._fail(what, required=value is not None)

    def _missing(self, name: str) -> Message | None:
        """Return that the tool has no such parameter; None if it has."""
        if has_parameter(self._original, name):
            return None
        if near := nearest(name, _names(self._original), 1):
            return say("the tool has no parameter {name}. Did you mean {near}?", name=name, near=near[0])
        return say("the tool has no parameter {name}.", name=name)

    def _changed(self, given: ParameterOverride, value: bytes | None) -> bool:
        """Change the schema. Return whether that is possible."""
        change = ParameterChange(
            given.name,
            given.withheld,
            value is not None,
            None if value is None else decode(value),
            given.description,
            given.default is not None,
            given.default is not None and given.shown_default,
            None if given.default is None else decode(given.default),
        )
        try:
            self._schema = changed_schema(self._schema, change)
        except UnchangeableSchema:
            return False
        return True

    def _fail(self, why: Message, *, required: bool = False) -> None:
        """Note a fault. ``required``: a value has to be sent, so the tool is not called without it."""
        self._faults.append(why)
        if required:
            self._refused = self._refused or why


def _needs_value(name: str) -> Message:
    return say(
        'the tool requires the parameter {name}, so it is hidden only with "fixed" or "default".', name=name
    )


def _names(schema: Mapping[str, Any]) -> list[str]:
    named = schema.get("properties")
    return list(named) if isinstance(named, dict) else []
