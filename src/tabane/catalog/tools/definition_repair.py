"""Repair of definitions that official SDKs refuse, so that one odd definition does not hide the whole list.

A client on the TypeScript or Python SDK validates a whole list at once, and compiles each outputSchema while
it lists. Rules here are pure. What has one clear meaning is written as the schema of MCP wants it ("true" as
true, a missing ``type`` of an inputSchema as "object"); an optional member without a usable value is removed;
a definition whose meaning would change is left out. A definition that is in order stays byte for byte.

Source: schemas of 2025-11-25 and 2026-07-28, @modelcontextprotocol/sdk 1.32 and client 2.3, mcp 2.3 (PyPI).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from operator import is_
from typing import Any, Literal, NamedTuple

from msgspec import Raw

from tabane.catalog.tools.schemas import target_of
from tabane.messages import Message, say
from tabane.wire.json import InvalidJson, decode, encode, fields, join

DefinitionKind = Literal["tool", "prompt", "resource", "template"]

MOST_DEPTH = 100
"""Levels of a definition. Parsers of clients stop at 200 (pydantic), and a list adds some."""

MOST_NAMED, MOST_SHOWN = 5, 80
"""Definitions that a report names, and characters of each name."""

_MOST_NODES = 20_000
"""Subschemas of an outputSchema that are checked. One with more is removed."""


class RepairedDefinition(NamedTuple):
    """A definition that every client can read, and the members that were changed or removed.

    ``definition`` is None if it is left out, because of the member in ``repaired``. Members that are null
    count as absent, and are not named.
    """

    definition: bytes | None
    repaired: tuple[str, ...] = ()


class RepairReport:
    """The repairs and omissions in one list of one server, as texts for its user."""

    def __init__(self, method: str) -> None:
        self._method = method
        self._repaired: list[str] = []
        self._left_out: list[str] = []

    def note(self, name: str, found: RepairedDefinition) -> None:
        """Note what became of the definition of that name."""
        if found.repaired:
            text = f"{name[:MOST_SHOWN]} ({', '.join(found.repaired)})"
            (self._left_out if found.definition is None else self._repaired).append(text)

    def leave_out(self, reason: str) -> None:
        """Note a definition that cannot be used at all."""
        self._left_out.append(reason)

    def messages(self) -> list[Message]:
        """Return a sentence about those that were repaired, and one about those that were left out."""
        found = []
        if self._repaired:
            found.append(say(
                "{list}: repaired {count} {count:definition|definitions} that MCP clients refuse: {names}",
                list=self._method, count=len(self._repaired), names=_first(self._repaired)))  # fmt: skip
        if self._left_out:
            found.append(say(
                "{list}: left out {count} {count:definition|definitions} that MCP clients refuse: {names}",
                list=self._method, count=len(self._left_out), names=_first(self._left_out)))  # fmt: skip
        return found


def _first(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + (", …" if len(names) > MOST_NAMED else "")


def repair_definition(kind: DefinitionKind, definition: bytes) -> RepairedDefinition:
    """Return the definition of that kind as clients can read it. Raises InvalidJson if it is no object."""
    given, repaired = fields(definition), list[str]()
    kept, huge = dict(given), _huge(definition) is not None
    may_be_deep = definition.count(b"{") + definition.count(b"[") > MOST_DEPTH
    for name, rule in _RULES[kind].items():
        notes: list[object] = []
        try:
            value = decode(kept[name]) if name in kept else _ABSENT
            if may_be_deep and _depth_of(value) > MOST_DEPTH:
                raise _Unusable
            found = rule(_finite(value, notes) if huge and name in _SCHEMAS else value, notes)
        except (InvalidJson, _Unusable):
            if name in _NEEDED:
                return RepairedDefinition(None, (name,))
            notes, found = [name], _ABSENT
        if found is _ABSENT:
            kept.pop(name, None)
        elif found is not value:
            kept[name] = Raw(encode(found))
        if notes:
            repaired.append(name)
    if "name" not in kept and kind in ("resource", "template"):
        kept["name"] = Raw(encode(_name_of(kept)))
        repaired = list(dict.fromkeys((*repaired, "name")))
    return RepairedDefinition(join(kept) if kept != given else definition, tuple(repaired))


def legacy_definition(definition: bytes) -> bytes:
    """Return a tool's definition for clients up to 2025-11-25, whose outputSchema has ``type: object``."""
    if b'"outputSchema"' not in definition:
        return definition
    members = fields(definition)
    schema = decode(members.get("outputSchema", Raw(b"{}")))
    if isinstance(schema, dict) and schema.get("type") == "object" and _shape_fits(schema):
        return definition
    return join({name: value for name, value in members.items() if name != "outputSchema"})


class _Unusable(Exception):
    """A value has no meaning that could be kept."""


_ABSENT: Any = object()
_Rule = Callable[[Any, list[object]], Any]


# -- values ------------------------------------------------------------------------------------------


def _removed(value: Any, notes: list[object]) -> Any:
    if value is not None and value is not _ABSENT:
        notes.append(value)
    return _ABSENT


def _text(value: Any, notes: list[object]) -> Any:
    return value if isinstance(value, str) else _removed(value, notes)


def _flag(value: Any, notes: list[object]) -> Any:
    if isinstance(value, bool):
        return value
    said = str(value).strip().lower() if isinstance(value, str | int) else ""
    if said in ("true", "1", "false", "0"):
        notes.append(value)
        return said in ("true", "1")
    return _removed(value, notes)


def _size(value: Any, notes: list[object]) -> Any:
    if isinstance(value, str) and re.fullmatch(r"\d{1,15}", value):
        notes.append(value)
        return int(value)
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = number and -(2**53) <= value <= 2**53 and value == int(value)
    return value if fits else _removed(value, notes)


def _priority(value: Any, notes: list[object]) -> Any:
    fits = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1
    return value if fits else _removed(value, notes)


_stamp = re.compile(
    r"\d{4}-\d\d-\d\dT([01]\d|2[0-3]):[0-5]\d(:[0-5]\d(\.\d+)?)?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
).fullmatch


def _time(value: Any, notes: list[object]) -> Any:
    """Accept a time as zod reads it: a date alone, or a time without its zone, is removed."""
    if not isinstance(value, str) or not _stamp(value):
        return _removed(value, notes)
    try:
        datetime.strptime(value[:10], "%Y-%m-%d")
    except ValueError:
        return _removed(value, notes)
    return value


def _one_of(*allowed: str) -> _Rule:
    return lambda value, notes: value if value in allowed else _removed(value, notes)


def _list_of(rule: _Rule) -> _Rule:
    """Accept a list of such values. A single one becomes a list, others in the list are removed."""

    def accept(value: Any, notes: list[object]) -> Any:
        if value is None or value is _ABSENT:
            return _ABSENT
        given = value if isinstance(value, list) else [value]
        if given is not value:
            notes.append(value)
        found = [rule(each, notes) for each in given]
        if any(each is _ABSENT for each in found):
            notes.append(value)
        return _unless_same(value, found)

    return accept


def _unless_same(value: Any, found: Any) -> Any:
    """Return the parts that were found, without absent ones; the value itself if these are its own."""
    kept: Any
    if isinstance(found, dict):
        kept = {name: each for name, each in found.items() if each is not _ABSENT}
        same = len(kept) == len(value) and all(kept[name] is each for name, each in value.items())
    else:
        kept = [each for each in found if each is not _ABSENT]
        same = isinstance(value, list) and len(kept) == len(value) and all(map(is_, kept, value))
    return value if same else kept


def _object_of(rules: Mapping[str, _Rule], needed: str = "") -> _Rule:
    """Accept an object with such members and any others; remove it without the one ``needed``."""

    def accept(value: Any, notes: list[object]) -> Any:
        if not isinstance(value, dict) or (needed and not isinstance(value.get(needed), str)):
            return _ABSENT if value == [] else _removed(value, notes)  # PHP writes an empty object as []
        found = {name: rules[name](each, notes) if name in rules else each for name, each in value.items()}
        return _unless_same(value, found)

    return accept


def _argument(value: Any, notes: list[object]) -> Any:
    if isinstance(value, str):
        notes.append(value)
        return {"name": value}
    return _named_argument(value, notes)


def _arguments(value: Any, notes: list[object]) -> Any:
    if isinstance(value, dict):
        if not all(isinstance(each, dict) for each in value.values()):
            raise _Unusable
        notes.append(value)
        value = [{**each, "name": name} for name, each in value.items()]
    return _list_of(_argument)(value, notes)


# -- schemas -----------------------------------------------------------------------------------------

_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")


def _input_schema(value: Any, notes: list[object]) -> Any:
    if not isinstance(value, dict):
        if value is False or not (value in (None, True, [], "") or value is _ABSENT):
            raise _Unusable
        notes.append(value)
        return {"type": "object"}
    schema = value
    kind = schema.get("type", _ABSENT)
    if kind != "object":
        named = kind if isinstance(kind, list) else [kind]
        says_object = any(isinstance(each, str) and each.lower() == "object" for each in named)
        if not says_object and kind is not _ABSENT and kind not in (None, [], ""):
            raise _Unusable
        notes.append(kind)
        schema = {**schema, "type": "object"}
    return _shaped(schema, notes)


def _output_schema(value: Any, notes: list[object]) -> Any:
    if not isinstance(value, dict):
        return _removed(value, notes)
    schema = _shaped(value, notes)
    if "$id" in schema:  # the TypeScript SDK would take the schema of the first tool with that identifier
        notes.append(value)
        schema = {name: each for name, each in schema.items() if name != "$id"}
    return schema if _is_compilable(schema) else _removed(value, notes)


def _shaped(schema: dict[str, Any], notes: list[object]) -> dict[str, Any]:
    """Return a schema whose ``properties``, ``required`` and ``$schema`` have the types that MCP wants."""
    properties = schema.get("properties", _ABSENT)
    if isinstance(properties, dict):
        found = {name: _property(each, notes) for name, each in properties.items()}
        if all(found[name] is each for name, each in properties.items()):
            found = properties
    elif properties is _ABSENT or properties in (None, []):
        found = _ABSENT
    else:
        raise _Unusable
    required = schema.get("required", _ABSENT)
    if not isinstance(required, str | list):
        required = _removed(required, notes)
    changed = {
        "properties": found,
        "required": _list_of(_text)(required, notes),
        "$schema": _text(schema.get("$schema", _ABSENT), notes),
    }
    if all(schema.get(name, _ABSENT) is each for name, each in changed.items()):
        return schema
    kept = {name: each for name, each in schema.items() if name not in changed}
    return kept | {name: each for name, each in changed.items() if each is not _ABSENT}


def _property(value: Any, notes: list[object]) -> Any:
    if isinstance(value, dict):
        return value
    notes.append(value)
    if value is False:
        return {"not": {}}
    return {"type": value} if isinstance(value, str) and value in _TYPES else {}


def _finite(value: Any, notes: list[object]) -> Any:
    """Return a schema without members whose numbers are infinite to a client, such as 1e400."""
    if isinstance(value, dict):
        return _unless_same(value, {name: _finite(each, notes) for name, each in value.items()})
    if isinstance(value, list):
        return _unless_same(value, [_finite(each, notes) for each in value])
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return _removed(value, notes) if number and not -1e308 < value < 1e308 else value


_MAPS = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_PARTS = frozenset(
    (
        *("additionalProperties", "additionalItems", "not", "if", "then", "else", "contains"),
        *("propertyNames", "items", "unevaluatedItems", "unevaluatedProperties", "contentSchema"),
    )
)
_NUMBERS = frozenset(
    (
        *("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum", "multipleOf", "maxLength"),
        *("minLength", "maxItems", "minItems", "maxProperties", "minProperties", "maxContains"),
        "minContains",
    )
)
_TEXTS = frozenset({"title", "description", "format", "$comment", "$schema", "contentMediaType"})
_REFUSED = frozenset(
    (
        *("id", "$id", "$anchor", "$dynamicRef", "$dynamicAnchor", "$recursiveRef"),
        *("$recursiveAnchor", "$async", "$data", "formatMinimum", "formatMaximum"),
        *("formatExclusiveMinimum", "formatExclusiveMaximum", "dependencies"),
    )
)
"""Keywords that validators of clients refuse or resolve among the schemas of all tools."""


def _is_compilable(root: dict[str, Any]) -> bool:
    """Return whether validators of clients (Ajv, jsonschema) take the keywords of a schema."""
    waiting: list[Any] = [root]
    for _ in range(_MOST_NODES):
        if not waiting:
            return True
        schema = waiting.pop()
        if isinstance(schema, bool):
            continue
        if not isinstance(schema, dict) or not all(
            _keyword_fits(root, name, value, waiting) for name, value in schema.items()
        ):
            return False
        if "nullable" in schema and not ("type" in schema and isinstance(schema["nullable"], bool)):
            return False
        if schema.get("nullable") is False and "null" in schema["type"]:
            return False
    return False


def _keyword_fits(root: dict[str, Any], name: str, value: Any, waiting: list[Any]) -> bool:
    """Return whether a keyword has a value of its type; put the schemas in it on the list."""
    if name in _MAPS:
        if not isinstance(value, dict):
            return False
        waiting += value.values()
        return name != "patternProperties" or all(map(_is_portable, value))
    if name in _LISTS or (name == "items" and isinstance(value, list)):
        if not isinstance(value, list) or not value:
            return False
        waiting += value
        return True
    if name in _PARTS:
        waiting.append(value)
        return True
    if name in _NUMBERS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if name == "type":
        types = value if isinstance(value, list) else [value]
        return bool(types) and all(isinstance(each, str) and each in _TYPES for each in types)
    if name == "enum":
        return isinstance(value, list) and bool(value)
    if name == "required":
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if name == "uniqueItems":
        return isinstance(value, bool)
    if name == "pattern":
        return isinstance(value, str) and _is_portable(value)
    if name == "$ref":
        return isinstance(value, str) and isinstance(target_of(root, value), dict | bool)
    return name not in _REFUSED and (name not in _TEXTS or isinstance(value, str))


_CLASS = r"(?:[^\\\]]|\\[dDwWsSnrtfv^$\\.*+?()\[\]{}|/-]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|\\[pP]\{\w\})"
_portable = re.compile(
    r"(?:[^\\\[\](){}*+?]|\\[dDwWsSbBnrtfv^$\\.*+?()\[\]{}|/]|\\u[0-9a-fA-F]{4}|\\x[0-9a-fA-F]{2}|"
    r"\\[pP]\{(?:L[ulmto]?|N[dlo]?|P|S|Z)\}|"
    r"\((?:\?(?:[:=!]|<[=!]|<[A-Za-z]\w*>))?|\)|"
    rf"\[\^?{_CLASS}*+\]|"
    r"(?<![(|^$])(?<!\\[bB])(?:[*+?]|(?<!\A)\{\d+(?:,\d*)?\})\??(?![*+?{]))*+",
    re.ASCII,
).fullmatch
_property_class = re.compile(r"\\[pP]\{\w+\}")


def _is_portable(pattern: str) -> bool:
    """Return whether a pattern is valid in JavaScript with the flag u as well. In doubt, it is not."""
    if len(pattern) > 2_000 or not _portable(pattern):
        return False
    if re.search(r"\(\?<?[=!]", pattern) and re.search(r"\)[*+?{]", pattern):
        return False  # JavaScript does not repeat a look-around
    try:
        re.compile(_property_class.sub("x", re.sub(r"\(\?<(?![=!])", "(?P<", pattern)))
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _shape_fits(schema: dict[str, Any]) -> bool:
    try:
        notes: list[object] = []
        return _shaped(schema, notes) is schema
    except _Unusable:
        return False


_huge = re.compile(rb"[0-9][eE]\+?[0-9]{3}|[0-9]{200}").search


def _depth_of(value: Any) -> int:
    """Return how many levels a value has; above :data:`MOST_DEPTH` only that it has more."""
    level, depth = [value], 0
    while level and depth <= MOST_DEPTH:
        level = [
            each
            for part in level
            if isinstance(part, dict | list)
            for each in (part.values() if isinstance(part, dict) else part)
        ]
        depth += 1
    return depth


# -- the rules ---------------------------------------------------------------------------------------

_icons = _list_of(
    _object_of(
        {"mimeType": _text, "sizes": _list_of(_text), "theme": _one_of("light", "dark")},
        needed="src",
    )
)
_COMMON: dict[str, _Rule] = {
    "title": _text,
    "description": _text,
    "icons": _icons,
    "_meta": _object_of({}),
}
_named_argument = _object_of({"title": _text, "description": _text, "required": _flag}, needed="name")
_annotations = _object_of(
    {"audience": _list_of(_one_of("user", "assistant")), "priority": _priority, "lastModified": _time}
)
_hints = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_CONTENT: dict[str, _Rule] = {"mimeType": _text, "annotations": _annotations}

_RULES: dict[DefinitionKind, dict[str, _Rule]] = {
    "tool": {
        **_COMMON,
        "inputSchema": _input_schema,
        "outputSchema": _output_schema,
        "annotations": _object_of({"title": _text, **dict.fromkeys(_hints, _flag)}),
        "execution": _object_of({"taskSupport": _one_of("required", "optional", "forbidden")}),
    },
    "prompt": {**_COMMON, "arguments": _arguments},
    "resource": {**_COMMON, **_CONTENT, "size": _size, "name": _text},
    "template": {**_COMMON, **_CONTENT, "name": _text},
}

_SCHEMAS = frozenset({"inputSchema", "outputSchema"})
_NEEDED = frozenset({"inputSchema", "arguments"})
"""Members without which a definition means something else."""


def _name_of(members: Mapping[str, Raw]) -> str:
    """Return a name for a resource or template without one: its title, or the end of its URI."""
    for key in ("title", "uri", "uriTemplate"):
        try:
            value = decode(members.get(key, Raw(b"null")))
        except InvalidJson:
            continue
        if isinstance(value, str) and value:
            return value if key == "title" else value.rstrip("/").rsplit("/", 1)[-1] or value
    return "resource"
