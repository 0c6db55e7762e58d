"""JSON Schemas read for display: a parameter in a few characters.

Schemas of upstreams can contain anything: every function takes any JSON value, follows local references
only, limits its recursion, and never raises. With references, a short schema can cause endless work. So
every part that is read counts (:class:`SchemaRoot`), and nothing more is read at the limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

from msgspec import Struct

Schema = dict[str, Any]

_MOST_REFERENCES = 8
_MOST_PARAMETERS = 200
_LONGEST_NAME = 200
_LONGEST_TYPE = 40
_LONGEST_LITERAL = 60
_LONGEST_REFERENCE = 1_000
_DEEPEST = 4
# References let a short schema name endless members: what is written inline is few of few.
_MOST_INLINE = 12
_MOST_ALTERNATIVES = 8

_is_word = re.compile(r"[^\W\d][\w./-]{0,39}", re.ASCII).fullmatch
_TAKEN = frozenset(
    ("any", "array", "boolean", "false", "integer", "null", "number", "object", "string", "true")
)

MOST_STEPS = 20_000
"""Steps in which one schema is read: a few milliseconds."""


class SchemaRoot:
    """A schema that local references point into, and the remaining steps to read it."""

    __slots__ = ("left", "schema")

    def __init__(self, schema: Schema, steps: int = MOST_STEPS) -> None:
        self.schema, self.left = schema, steps

    def spend(self, steps: int) -> bool:
        """Take that many steps. Return False if fewer are left, and then always."""
        self.left -= steps
        return self.left >= 0


class SchemaParameter(Struct, frozen=True):
    """A member of an object schema, its references followed."""

    name: str
    schema: Schema
    required: bool


class TypeDetail(Struct, frozen=True):
    """The part of a type that is written out: so many values of an enum, objects so many levels deep.

    ``null`` False leaves out that a value may be null: to leave an argument out says the same. ``quoted``
    False: words of an enum are written without quotation marks.
    """

    values: int
    levels: int
    null: bool = True
    quoted: bool = True


BRIEF = TypeDetail(values=4, levels=0, null=False)
BRIEFEST = TypeDetail(values=1, levels=0, null=False)
WHOLE = TypeDetail(values=60, levels=2, quoted=False)
FLAT = TypeDetail(values=60, levels=0, quoted=False)


def resolved(node: Any, root: SchemaRoot) -> Schema:
    """Return the schema that a node stands for: local ``$ref`` followed, ``allOf`` put together."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(node, dict) or not root.spend(1):
            return {}
        reference = node.get("$ref", node.get("$dynamicRef"))
        if not isinstance(reference, str):
            return _merged(node, root)
        if not root.spend(len(node)):
            return {}
        beside = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
        target = _dereferenced(reference, root)
        followed = isinstance(target, dict) and root.spend(len(target))
        node = {**target, **beside} if followed else beside
    return {}


def parameters(schema: Any, root: SchemaRoot, most: int = _MOST_PARAMETERS) -> list[SchemaParameter]:
    """Return the parameters of an object schema: required ones first, each group in the schema's order.

    No more than ``most``, which are the first of the schema.
    """
    node = resolved(schema, root)
    members = node.get("properties")
    if not isinstance(members, dict):
        return []
    wanted = node.get("required")
    if not isinstance(wanted, list) or not root.spend(len(wanted) // 8):
        wanted = []
    required = {name for name in wanted if isinstance(name, str)}
    found = [
        SchemaParameter(name[:_LONGEST_NAME], resolved(member, root), name in required)
        for name, member in islice(members.items(), most)
        if root.spend(1)
    ]
    return sorted(found, key=lambda parameter: not parameter.required)


def type_of(node: Any, root: SchemaRoot, detail: TypeDetail) -> str:
    """Return a schema's type: ``string``, ``"a"|"b"``, ``integer[]``, ``{path: string, mode?: string}``."""
    return "|".join(dict.fromkeys(_types(resolved(node, root), root, detail, 0))) or "any"


def texts(schema: Schema) -> Iterator[tuple[str, str]]:
    """Yield each parameter's name and description, those of nested objects after it."""
    root, pending = SchemaRoot(schema), [(schema, 0)]
    seen = 0
    while pending and seen < _MOST_PARAMETERS:
        node, level = pending.pop(0)
        for parameter in parameters(node, root):
            seen += 1
            description = parameter.schema.get("description")
            yield parameter.name, description if isinstance(description, str) else ""
            inner = parameter.schema.get("items", parameter.schema)
            if level < _DEEPEST - 2:
                pending.append((inner, level + 1))


def _types(node: Schema, root: SchemaRoot, detail: TypeDetail, level: int) -> list[str]:
    if not root.spend(1):
        return ["…"]
    if "const" in node:
        return [_value(node["const"], detail)]
    if isinstance(values := node.get("enum"), list):
        wanted = (value for value in values if detail.null or value is not None)
        shown = [_value(value, detail) for value in islice(wanted, detail.values)]
        return [*shown, "…"] if len(values) > detail.values else shown
    options = node.get("anyOf") or node.get("oneOf")
    if isinstance(options, list) and level < _DEEPEST:
        found = [
            name
            for option in options[:_MOST_ALTERNATIVES]
            for name in _types(resolved(option, root), root, detail, level + 1)
            if detail.null or name != "null"
        ]
        return [*found, "…"] if len(options) > _MOST_ALTERNATIVES else found
    kinds = node.get("type")
    if isinstance(kinds, list):
        kept = [
            kind
            for kind in kinds[:_MOST_ALTERNATIVES]
            if isinstance(kind, str) and (detail.null or kind != "null")
        ]
        return [name for kind in kept for name in _kind(kind, node, root, detail, level)]
    return _kind(kinds if isinstance(kinds, str) else _inferred_type(node), node, root, detail, level)


def _kind(kind: str, node: Schema, root: SchemaRoot, detail: TypeDetail, level: int) -> list[str]:
    if kind == "array":
        items = node.get("items")
        if level >= _DEEPEST or not isinstance(items, dict):
            return ["any[]"]
        kinds = list(dict.fromkeys(_types(resolved(items, root), root, detail, level + 1))) or ["any"]
        return [f"({'|'.join(kinds)})[]" if len(kinds) > 1 else f"{kinds[0]}[]"]
    if kind == "object":
        return [_object(node, root, detail, level)]
    return [kind[:_LONGEST_TYPE]]


def _object(node: Schema, root: SchemaRoot, detail: TypeDetail, level: int) -> str:
    members = parameters(node, root, _MOST_INLINE + 1)
    if not members:
        values = node.get("additionalProperties")
        if isinstance(values, dict) and values and level < detail.levels:
            kinds = "|".join(_types(resolved(values, root), root, detail, level + 1)) or "any"
            return "{[key]: " + kinds + "}"
        return "object"
    if level >= detail.levels:
        return "{…}"
    shown = [_member(member, root, detail, level + 1) for member in members[:_MOST_INLINE]]
    return "{" + ", ".join(shown) + (", …}" if len(members) > _MOST_INLINE else "}")


def _member(member: SchemaParameter, root: SchemaRoot, detail: TypeDetail, level: int) -> str:
    kinds = "|".join(dict.fromkeys(_types(member.schema, root, detail, level))) or "any"
    return f"{member.name}{'' if member.required else '?'}: {kinds}"


def _value(value: Any, detail: TypeDetail) -> str:
    return literal(value) if detail.quoted else word_or_literal(value)


def word_or_literal(value: Any) -> str:
    """Format a JSON value; a text that is a word, and nothing else in a schema, without quotation marks."""
    return value if isinstance(value, str) and _is_word(value) and value not in _TAKEN else literal(value)


def _inferred_type(node: Schema) -> str:
    """Return the type of a schema that names none."""
    if "properties" in node or "additionalProperties" in node:
        return "object"
    return "array" if "items" in node else "any"


def literal(value: Any) -> str:
    """Format a JSON value, cut at 60 characters. No more of it is formatted than that."""
    try:
        text = json.dumps(_beginning(value, [_LONGEST_LITERAL]), ensure_ascii=False, separators=(",", ":"))
    except ValueError:  # an integer with more digits than Python formats
        return "…"
    return text if len(text) <= _LONGEST_LITERAL else text[: _LONGEST_LITERAL - 1] + "…"


def _beginning(value: Any, left: list[int]) -> Any:
    """Return enough of a value to fill its first 60 characters: each part of it takes at least one."""
    left[0] -= 1
    if isinstance(value, str):
        return value[: _LONGEST_LITERAL + 1]
    if isinstance(value, list):
        return [_beginning(item, left) for item in value if left[0] >= 0]
    if isinstance(value, dict):
        return {
            key[: _LONGEST_LITERAL + 1]: _beginning(item, left) for key, item in value.items() if left[0] >= 0
        }
    return value


def target_of(root: Any, reference: str) -> Any:
    """Return what a local reference (``#`` or ``#/…``) leads to; None if it leads nowhere."""
    if not reference.startswith("#") or len(reference) > _LONGEST_REFERENCE:
        return None
    node, (start, *steps) = root, unquote(reference[1:]).split("/")
    for step in steps:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isascii() and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return None
    return None if start else node


def _dereferenced(reference: str, root: SchemaRoot) -> Any:
    return target_of(root.schema, reference) if root.spend(reference.count("/")) else None


def _merged(node: Schema, root: SchemaRoot) -> Schema:
    parts = node.get("allOf")
    if not isinstance(parts, list) or not root.spend(len(node)):
        return node
    merged: Schema = {key: value for key, value in node.items() if key != "allOf"}
    for part in parts[:_MOST_REFERENCES]:
        # One level: an allOf inside an allOf is rare, and endless if it refers to itself.
        part = _followed(part, root)
        if not root.spend(_width(part) + _width(merged)):
            break
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict) and isinstance(merged.get(key), dict):
                merged[key] = {**value, **merged[key]}
            elif key == "required" and isinstance(value, list) and isinstance(merged.get(key), list):
                merged[key] = [*merged[key], *value]
            elif key != "allOf":
                merged.setdefault(key, value)
    return merged


def _followed(node: Any, root: SchemaRoot) -> Schema:
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str):
        node = _dereferenced(reference, root)
    return node if isinstance(node, dict) else {}


def _width(node: Schema) -> int:
    """Return how many members are copied when a schema is merged with another one."""
    return len(node) + sum(
        len(value) for key in ("properties", "required") if isinstance(value := node.get(key), dict | list)
    )
