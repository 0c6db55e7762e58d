"""Schemas of tools that are made to be expensive, each with arguments that make a validator work."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def doubling_refs() -> tuple[Json, Json]:
    """40 definitions that each refer twice to the next: 2^40 visits."""
    defs: Json = {
        f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(40)
    }
    defs["d40"] = {"type": "object"}
    return {"type": "object", "$defs": defs, "$ref": "#/$defs/d0"}, {"a": 1}


def nested_any_of() -> tuple[Json, Json]:
    schema: Json = {"type": "string"}
    for _ in range(7):
        schema = {"anyOf": [{"items": schema}, {"items": schema, "minItems": 1}, {"not": {"items": schema}}]}
    defs: Json = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 3} for n in range(20)}
    defs["a20"] = {"type": "integer"}
    value: Any = "x"
    for _ in range(16):
        value = [value]
    properties = {"v": schema, "w": {"$ref": "#/$defs/a0"}}
    return {"type": "object", "$defs": defs, "properties": properties}, {"v": value, "w": "text"}


def unevaluated() -> tuple[Json, Json]:
    defs: Json = {}
    for n in range(24):
        branch = {"properties": {f"p{n}": {"$ref": f"#/$defs/u{n + 1}"}}}
        ref = {"$ref": f"#/$defs/u{n + 1}"}
        defs[f"u{n}"] = {"anyOf": [ref, {**branch, "allOf": [ref]}], "unevaluatedProperties": False}
    defs["u24"] = {"type": "object"}
    return {"type": "object", "$defs": defs, "$ref": "#/$defs/u0"}, {f"p{n}": {} for n in range(24)}


def catastrophic_pattern() -> tuple[Json, Json]:
    pattern = {"type": "string", "pattern": "^(([a-z])+.)+[A-Z]([a-z])+$"}
    backtracking = {"type": "string", "pattern": "^(?=a)(a+)+\\1$"}
    return (
        {"type": "object", "properties": {"a": pattern, "b": backtracking}},
        {"a": "a" * 5000, "b": "a" * 5000 + "!"},
    )


def catastrophic_property_names() -> tuple[Json, Json]:
    schema: Json = {"type": "object", "patternProperties": {"^(?=a)(a|aa)+\\1b$": {}}}
    return {**schema, "additionalProperties": False}, {"a" * 60 + "!" * n: n for n in range(1, 40)}


def deep() -> tuple[Json, Json]:
    schema: Json = {"type": "string"}
    for _ in range(400):
        schema = {"type": "object", "properties": {"a": schema}}
    return schema, {"a": {"a": {"a": "x"}}}


def many_properties() -> tuple[Json, Json]:
    return (
        {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(100_000)}},
        {"p1": 1},
    )


def huge_enum() -> tuple[Json, Json]:
    return (
        {"type": "object", "properties": {"a": {"enum": [f"value {n}" for n in range(200_000)]}}},
        {"a": "none of them"},
    )


def recursive_ref() -> tuple[Json, Json]:
    return {"type": "object", "allOf": [{"$ref": "#"}], "properties": {"a": {"$ref": "#"}}}, {"a": {"a": {}}}


def dynamic_ref() -> tuple[Json, Json]:
    loop = {"$dynamicAnchor": "node", "anyOf": [{"$dynamicRef": "#node"}, {"$dynamicRef": "#node"}]}
    return {"type": "object", "$defs": {"node": loop}, "properties": {"a": {"$ref": "#/$defs/node"}}}, {
        "a": 1
    }


def remote_ref() -> tuple[Json, Json]:
    return {"type": "object", "$ref": "http://127.0.0.1:9/schema.json"}, {"a": 1}


def unique_items() -> tuple[Json, Json]:
    items = {"type": "array", "uniqueItems": True}
    return {"type": "object", "properties": {"a": items}}, {"a": [{"n": n} for n in range(20_000)]}


def no_object() -> tuple[Json, Json]:
    return 7, {"a": 1}  # type: ignore[return-value]


def wrong_keywords() -> tuple[Json, Json]:
    return {"type": 7, "properties": [], "required": "a", "pattern": "(", "items": 3}, {"a": 1}


SCHEMAS = {
    maker.__name__: maker
    for maker in (
        *(doubling_refs, nested_any_of, unevaluated, catastrophic_pattern, catastrophic_property_names),
        *(deep, many_properties, huge_enum, recursive_ref, dynamic_ref, remote_ref, unique_items),
        *(no_object, wrong_keywords),
    )
}
