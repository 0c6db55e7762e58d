"""Learned shapes as JSON Schema; pure."""

from __future__ import annotations

from typing import Any

from tabane.code.result_types.shapes import (
    ANY,
    ARRAY,
    BOOLEAN,
    INTEGER,
    NULL,
    NUMBER,
    OBJECT,
    STRING,
    ResultShape,
)

_TYPES = {
    OBJECT: "object", ARRAY: "array", STRING: "string", INTEGER: "integer", NUMBER: "number",
    BOOLEAN: "boolean", NULL: "null",
}  # fmt: skip


def schema_of(shape: ResultShape | None) -> dict[str, Any]:
    """Return the schema of a settled shape. It accepts every value that the shape was seen of."""
    if shape is None or not shape.kinds or shape.kinds & ANY:
        return {}
    kinds = shape.kinds & ~INTEGER if shape.kinds & NUMBER else shape.kinds
    types = [name for kind, name in _TYPES.items() if kinds & kind]
    found: dict[str, Any] = {"type": types[0] if len(types) == 1 else types}
    if shape.kinds & ARRAY and shape.items is not None:
        found["items"] = schema_of(shape.items)
    if shape.kinds & OBJECT:
        found |= _members(shape)
    return found


def _members(shape: ResultShape) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if shape.names:
        found["properties"] = {name: schema_of(each.shape) for name, each in shape.names.items()}
        required = [name for name, each in shape.names.items() if each.count >= shape.objects]
        if required:
            found["required"] = required
    if shape.rest is not None:
        found["additionalProperties"] = schema_of(shape.rest)
    return found
