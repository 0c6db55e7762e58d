"""Tools as the user's overrides show them: their names, texts and parameters, and the faults of overrides.

Single parameters are withheld, described or given a default in the schema of the arguments; pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import unquote

from msgspec import Raw, structs

from tabane.catalog.tools.aliases import SEPARATOR, other_names
from tabane.catalog.tools.argument_errors import compiled_from, fits
from tabane.catalog.tools.tool import ArgumentOverrides, Tool, original_name, read_tool
from tabane.messages import Message, say
from tabane.text.nearest_names import nearest
from tabane.wire.json import decode, encode, fields, join, member
from tabane.wire.mirrored_arguments import mirrors

if TYPE_CHECKING:
    from tabane.servers.server import Server
    from tabane.servers.tool_overrides import ParameterOverride, ToolOverride

_CONDITIONAL = (
    *("$ref", "$dynamicRef", "$recursiveRef", "allOf", "anyOf", "oneOf", "not", "if", "then"),
    *("else", "dependentRequired", "dependentSchemas", "dependencies", "propertyNames", "const"),
    *("enum", "patternProperties"),
)
"""Keywords beside "properties" and "required" that may say something of a parameter by its name."""

_REFERENCES = frozenset(_CONDITIONAL[:3])
_JUDGED = ("type", "const", "enum")


class UnchangeableSchema(Exception):
    """A schema in which a parameter cannot be changed, and why."""

    def __init__(self, why: Message) -> None:
        super().__init__(str(why))
        self.why = why


def changed_schema(schema: dict[str, Any], override: ParameterOverride) -> dict[str, Any]:
    """Return the schema with the override of one parameter. Raises UnchangeableSchema.

    Only "properties" and "required" of the schema itself are changed, so nothing else in it may name a
    parameter that is withheld or that becomes optional.
    """
    name, named = override.name, schema.get("properties")
    beside = (override.withheld or override.default is not None) and _names_elsewhere(schema, name)
    beside = beside or (override.withheld and _refers_to(schema, name))
    if not isinstance(named, dict) or name not in named or beside:
        raise UnchangeableSchema(_why_unchangeable(schema, name, beside=beside))
    found = {"type": "object", **schema}
    if override.withheld:
        _withhold(found, override)
    else:
        found["properties"] = {**named, name: _describe_parameter(named[name], override)}
    if override.withheld or override.default is not None:
        required = schema.get("required")
        _set_or_drop(found, "required", [each for each in _listed(required) if each != name])
    return found


def _why_unchangeable(schema: dict[str, Any], name: str, *, beside: bool) -> Message:
    if beside or _names_elsewhere(schema, name):
        return say(
            "the schema of the tool names {name} in a condition, an alternative or a reference, "
            "so it cannot be changed.",
            name=name,
        )
    named = schema.get("properties")
    if near := nearest(name, (list(named) if isinstance(named, dict) else []), 1):
        return say("the tool has no parameter {name}. Did you mean {near}?", name=name, near=near[0])
    return say("the tool has no parameter {name}.", name=name)


def _names_elsewhere(schema: dict[str, Any], name: str) -> bool:
    """Return whether a condition, an alternative or a target of a reference may name the parameter."""
    waiting: list[Any] = [{key: schema[key] for key in _CONDITIONAL if key in schema}]
    referring = False
    for part in waiting:  # which grows as it is read
        if part == name or (isinstance(part, dict) and (name in part or _has_pattern_of(part, name))):
            return True
        if isinstance(part, dict | list):
            waiting.extend(part.values() if isinstance(part, dict) else part)
        if isinstance(part, dict) and not referring and _REFERENCES & part.keys():
            referring = True
            waiting.extend(schema.get(key) for key in ("$defs", "definitions"))
            named = schema.get("properties")
            waiting.extend(named.values() if isinstance(named, dict) else ())
    return False


def _has_pattern_of(part: dict[str, Any], name: str) -> bool:
    """Return whether a pattern for names contains the name. No pattern is ever run."""
    texts = part.get("patternProperties")
    return any(
        isinstance(text, str) and name in text
        for text in (part.get("pattern"), *(texts if isinstance(texts, dict) else ()))
    )


def _refers_to(schema: dict[str, Any], name: str) -> bool:
    """Return whether a reference anywhere in the schema may lead to the parameter, which is to be removed."""
    waiting: list[Any] = [schema]
    for part in waiting:  # which grows as it is read
        if isinstance(part, dict | list):
            waiting.extend(part.values() if isinstance(part, dict) else part)
        for reference in (part.get(key) for key in _REFERENCES) if isinstance(part, dict) else ():
            if isinstance(reference, str) and reference.startswith("#") and reference != "#":
                start, *steps = unquote(reference[1:]).split("/")
                keys = [step.replace("~1", "/").replace("~0", "~") for step in steps[:2]]
                if start or keys == ["properties", name]:  # an anchor may be within the parameter
                    return True
    return False


def _withhold(found: dict[str, Any], override: ParameterOverride) -> None:
    """Remove a parameter that callers neither see nor give, also from defaults and examples."""
    name, value = override.name, override.fixed if override.fixed is not None else override.default
    parameter = found["properties"][name]
    if value is None and name in _listed(found.get("required")):
        raise UnchangeableSchema(
            say(
                'the tool requires the parameter {name}, so it is hidden only with "fixed" or "default".',
                name=name,
            )
        )
    if value is not None and not _may_fit(parameter, value):
        raise UnchangeableSchema(
            say("the schema of the tool allows no call with that for {name}.", name=name)
        )
    _set_or_drop(found, "properties", {key: part for key, part in found["properties"].items() if key != name})
    for keyword in ("default", "examples"):  # of all arguments
        found.pop(keyword, None)
    for keyword in ("minProperties", "maxProperties") if value is not None else ():
        if isinstance(count := found.get(keyword), int | float):
            found[keyword] = max(0, count - 1)


def _may_fit(schema: Any, value: bytes) -> bool:
    """Return whether a value fits, by the keywords that cost nothing."""
    if not isinstance(schema, dict):
        return schema is not False
    judged = {key: schema[key] for key in _JUDGED if key in schema}
    compiled = compiled_from(judged) if judged else None
    return compiled is None or fits(compiled, decode(value))


def _describe_parameter(schema: Any, override: ParameterOverride) -> Any:
    if schema is False:
        return False
    found = dict(schema) if isinstance(schema, dict) else {}
    if override.description is not None:
        found["description"] = override.description
    if override.default is not None:
        found.pop("default", None)
        if override.shown_default:
            found["default"] = decode(override.default)
    return found


def _listed(names: Any) -> list[Any]:
    return names if isinstance(names, list) else []


def _set_or_drop(found: dict[str, Any], keyword: str, value: Any) -> None:
    if value:
        found[keyword] = value
    else:
        found.pop(keyword, None)


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
            fault = say("the server has no tool of that name.")
            if near := nearest(override.tool, list(listed), 1):
                fault = say("the server has no tool of that name. Did you mean {near}?", near=near[0])
            found.append((override, fault))
            continue
        read = read_overridden(listed[override.tool], server, "tool", override, shown[override.tool])
        found += [(override, fault) for fault in (read.faults if read else ())]
    return found


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
            value = each.fixed if each.fixed is not None else each.default if each.hidden else None
            if each.withheld:
                self._withheld.add(each.name)
            if value is not None:
                self._fixed[each.name] = value or b"null"
            elif each.default is not None:
                self._defaults[each.name] = each.default
            try:
                self._schema = changed_schema(self._schema, each)
            except UnchangeableSchema as error:
                if value is None and each.name in _listed(self._original.get("required")):
                    self._withheld.discard(each.name)  # no call is valid without it
                self._fail(error.why, required=value is not None)
        sent = ArgumentOverrides(self._fixed, self._defaults, frozenset(self._withheld))
        return self._schema, sent, tuple(self._faults), self._refused

    def _fail(self, why: Message, *, required: bool = False) -> None:
        """Note a fault. ``required``: a value has to be sent, so the tool is not called without it."""
        self._faults.append(why)
        if required:
            self._refused = self._refused or why
