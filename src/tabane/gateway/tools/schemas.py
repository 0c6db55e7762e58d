"""JSON Schemas read for showing: what a parameter is, in a few characters.

Upstreams' schemas are anything: every function takes any JSON value, follows local references only,
never recurses deeper than a handful, and never raises.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

Schema = dict[str, Any]

_MOST_REFERENCES = 8
_MOST_PARAMETERS = 200
_LONGEST_NAME = 200
_LONGEST_TYPE = 40
_DEEPEST = 4
# References let a short schema name endless members: what is written inline is few of few.
_MOST_INLINE = 12
_MOST_ALTERNATIVES = 8


@dataclass(frozen=True, slots=True)
class Parameter:
    """A member of an object schema, its references followed."""

    name: str
    schema: Schema
    required: bool


@dataclass(frozen=True, slots=True)
class Detail:
    """How much of a type is written out: so many values of an enum, objects so many levels deep.

    ``null`` False leaves out that a value may be null: to leave an argument out says the same.
    """

    values: int
    levels: int
    null: bool = True


BRIEF = Detail(values=4, levels=0, null=False)
BRIEFEST = Detail(values=1, levels=0, null=False)
WHOLE = Detail(values=60, levels=2)
FLAT = Detail(values=60, levels=0)


def resolved(node: Any, root: Schema) -> Schema:
    """The schema that a node stands for: local ``$ref`` followed, ``allOf`` put together."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(node, dict):
            return {}
        reference = node.get("$ref", node.get("$dynamicRef"))
        if not isinstance(reference, str):
            return _together(node, root)
        beside = {key: value for key, value in node.items() if key not in ("$ref", "$dynamicRef")}
        target = _pointed(reference, root)
        node = {**target, **beside} if isinstance(target, dict) else beside
    return {}


def parameters(schema: Any, root: Schema, most: int = _MOST_PARAMETERS) -> list[Parameter]:
    """The parameters of an object schema: required ones first, each group in the schema's order.

    No more than ``most``, which are the first of the schema.
    """
    node = resolved(schema, root)
    members = node.get("properties")
    if not isinstance(members, dict):
        return []
    wanted = node.get("required")
    required = {name for name in wanted if isinstance(name, str)} if isinstance(wanted, list) else set()
    found = [
        Parameter(name[:_LONGEST_NAME], resolved(member, root), name in required)
        for name, member in islice(members.items(), most)
    ]
    return sorted(found, key=lambda parameter: not parameter.required)


def type_of(node: Any, root: Schema, detail: Detail) -> str:
    """A schema as a type: ``string``, ``"a"|"b"``, ``integer[]``, ``{path: string, mode?: string}``."""
    return "|".join(dict.fromkeys(_types(resolved(node, root), root, detail, 0))) or "any"


def texts(schema: Schema) -> Iterator[tuple[str, str]]:
    """Each parameter's name and description, those of nested objects after it."""
    pending = [(schema, 0)]
    seen = 0
    while pending and seen < _MOST_PARAMETERS:
        node, level = pending.pop(0)
        for parameter in parameters(node, schema):
            seen += 1
            description = parameter.schema.get("description")
            yield parameter.name, description if isinstance(description, str) else ""
            inner = parameter.schema.get("items", parameter.schema)
            if level < _DEEPEST - 2:
                pending.append((inner, level + 1))


def _types(node: Schema, root: Schema, detail: Detail, level: int) -> list[str]:
    if "const" in node:
        return [literal(node["const"])]
    if isinstance(values := node.get("enum"), list):
        return _values(values, detail)
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
        kept = [kind for kind in kinds if isinstance(kind, str) and (detail.null or kind != "null")]
        return [name for kind in kept for name in _kind(kind, node, root, detail, level)]
    return _kind(kinds if isinstance(kinds, str) else _guessed(node), node, root, detail, level)


def _kind(kind: str, node: Schema, root: Schema, detail: Detail, level: int) -> list[str]:
    if kind == "array":
        return [_array(node, root, detail, level)]
    if kind == "object":
        return [_object(node, root, detail, level)]
    return [kind[:_LONGEST_TYPE]]


def _array(node: Schema, root: Schema, detail: Detail, level: int) -> str:
    items = node.get("items")
    if level >= _DEEPEST or not isinstance(items, dict):
        return "any[]"
    kinds = list(dict.fromkeys(_types(resolved(items, root), root, detail, level + 1))) or ["any"]
    return f"({'|'.join(kinds)})[]" if len(kinds) > 1 else f"{kinds[0]}[]"


def _object(node: Schema, root: Schema, detail: Detail, level: int) -> str:
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


def _member(member: Parameter, root: Schema, detail: Detail, level: int) -> str:
    kinds = "|".join(dict.fromkeys(_types(member.schema, root, detail, level))) or "any"
    return f"{member.name}{'' if member.required else '?'}: {kinds}"


def _values(values: list[Any], detail: Detail) -> list[str]:
    shown = [literal(value) for value in values if detail.null or value is not None][: detail.values]
    return [*shown, "…"] if len(values) > detail.values else shown


def _guessed(node: Schema) -> str:
    """The type of a schema that names none."""
    if "properties" in node or "additionalProperties" in node:
        return "object"
    return "array" if "items" in node else "any"


def literal(value: Any) -> str:
    """A JSON value as it is written, cut at 60 characters."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 60 else text[:59] + "…"


def _pointed(reference: str, root: Schema) -> Any:
    """What a local reference points to; None for a remote one or none that is there."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    node: Any = root
    for step in reference[2:].split("/"):
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, list) and key.isdigit() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return None
    return node


def _together(node: Schema, root: Schema) -> Schema:
    parts = node.get("allOf")
    if not isinstance(parts, list):
        return node
    merged: Schema = {key: value for key, value in node.items() if key != "allOf"}
    for part in parts[:_MOST_REFERENCES]:
        # One level: an allOf inside an allOf is rare, and endless where it names itself.
        part = _followed(part, root)
        for key, value in part.items():
            if key == "properties" and isinstance(value, dict) and isinstance(merged.get(key), dict):
                merged[key] = {**value, **merged[key]}
            elif key == "required" and isinstance(value, list) and isinstance(merged.get(key), list):
                merged[key] = [*merged[key], *value]
            elif key != "allOf":
                merged.setdefault(key, value)
    return merged


def _followed(node: Any, root: Schema) -> Schema:
    if isinstance(node, dict) and isinstance(reference := node.get("$ref"), str):
        node = _pointed(reference, root)
    return node if isinstance(node, dict) else {}
