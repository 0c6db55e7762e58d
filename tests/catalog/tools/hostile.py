"""Schemas that keep a validator busy for minutes or forever, each with arguments that trigger it."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def doubled(combine: Any, end: Any, levels: int = 40, **more: Any) -> Json:
    """Return a schema of a few kilobytes that expands to 2^levels: each level names the next one twice."""
    levels_of = {f"a{n}": combine({"$ref": f"#/$defs/a{n + 1}"}) for n in range(levels)}
    return {"$defs": {**levels_of, f"a{levels}": end}, "$ref": "#/$defs/a0", **more}


def nested(levels: int, leaf: Any, name: str = "x") -> Any:
    for _ in range(levels):
        leaf = {name: leaf}
    return leaf


def tower(keyword: str, levels: int, leaf: Any, width: int = 2) -> Json:
    schema: Json = {keyword: [leaf] * width}
    for _ in range(levels - 1):
        schema = {keyword: [schema] * width}
    return schema


def _uneven(levels: int) -> Json:
    schema: Json = {"type": "string"}
    for _ in range(levels):
        schema = {"unevaluatedProperties": schema, "allOf": [schema], "anyOf": [schema, {"required": ["z"]}]}
    return schema


_RUNAWAY = "^(?=x|a)(a|aa)+c(?!d)$"
_RECURSIVE = {
    "anyOf": [
        {"properties": {"x": {"$ref": "#"}}, "required": ["y"]},
        {"properties": {"x": {"$ref": "#"}}, "required": ["z"]},
        {"properties": {"x": {"$ref": "#"}}, "minProperties": 2},
    ]
}
_DYNAMIC = {
    "$dynamicAnchor": "node",
    "anyOf": [
        {"properties": {"x": {"$dynamicRef": "#node"}}, "required": ["y"]},
        {"properties": {"x": {"$dynamicRef": "#node"}}, "required": ["z"]},
    ],
}
_WRONG = {"type": "integer"}
_OBJECT = {"type": "object", "required": ["never"]}

HOSTILE: dict[str, tuple[Json, Json]] = {
    "all_of_doubled": (doubled(lambda r: {"allOf": [r, r]}, {"type": "object"}), {"a": 1}),
    "any_of_doubled": (doubled(lambda r: {"anyOf": [r, r]}, _OBJECT), {"a": 1}),
    "one_of_doubled": (doubled(lambda r: {"oneOf": [r, r]}, {"type": "object"}), {"a": 1}),
    "not_doubled": (doubled(lambda r: {"not": {"anyOf": [r, r]}}, _OBJECT, 41), {"a": 1}),
    "if_doubled": (doubled(lambda r: {"if": r, "then": r, "else": r}, {"type": "object"}), {"a": 1}),
    "dependent_doubled": (
        doubled(lambda r: {"dependentSchemas": {"a": r, "b": r}}, {"type": "object"}),
        {"a": 1, "b": 2},
    ),
    "properties_doubled": (
        doubled(lambda r: {"properties": {"x": {"allOf": [r, r]}}}, {"type": "object"}),
        nested(60, {}),
    ),
    "draft_7_doubled": (
        {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "definitions": {
                **{f"a{n}": {"allOf": [{"$ref": f"#/definitions/a{n + 1}"}] * 2} for n in range(40)},
                "a40": {"type": "object"},
            },
            "allOf": [{"$ref": "#/definitions/a0"}],
        },
        {"a": 1},
    ),
    "additional_twice": (
        {
            "additionalProperties": {"$ref": "#"},
            "patternProperties": {"^": {"$ref": "#"}, "x": {"$ref": "#"}},
        },
        nested(100, {}),
    ),
    "unevaluated_tree": (_uneven(9), nested(60, {"y": {}})),
    "unevaluated_doubled": (
        doubled(lambda r: {"allOf": [r, r], "unevaluatedProperties": r}, {"properties": {"a": True}}),
        {f"p{n}": 1 for n in range(20)},
    ),
    "recursive": (_RECURSIVE, nested(120, {})),
    "recursive_dynamic": (_DYNAMIC, nested(120, {})),
    "contains_tree": (
        doubled(lambda r: {"contains": r, "items": {"not": r}, "prefixItems": [r, r]}, _WRONG, 24),
        {"x": [[[[["a"] * 9] * 9] * 9] * 9] * 5},
    ),
    "runaway_pattern": (
        {"properties": {"a": {"items": {"pattern": _RUNAWAY}}}},
        {"a": ["a" * 2_000 + "!"] * 2_000},
    ),
    "runaway_names": (
        {"propertyNames": {"pattern": _RUNAWAY}},
        {"a" * 900 + f"!{n}": n for n in range(1_500)},
    ),
    "many_pattern_properties": (
        {"patternProperties": {f"^(?=a)(a|aa)+{n}$": {} for n in range(400)}},
        {"a" * 400 + f"!{n}": n for n in range(200)},
    ),
    "large_patterns": (
        {"properties": {"a": {"allOf": [{"pattern": f"(\\w{{50}}){{{n}}}x"} for n in range(10, 190)]}}},
        {"a": "a" * 40_000},
    ),
    "any_of_tower": (tower("anyOf", 14, {"required": ["z"]}), {"a": list(range(2_000))}),
    "one_of_tower": (tower("oneOf", 4, _WRONG, 9), {"a": list(range(20_000))}),
    "endless_enum": (
        {"properties": {"a": {"items": {"enum": [{"k": [n]} for n in range(8_000)]}}}},
        {"a": [{"k": [-n]} for n in range(8_000)]},
    ),
    "unique_objects": (
        {"properties": {"a": {"uniqueItems": True}}},
        {"a": [{"k": n, "l": [1.5, "x" * 20]} for n in range(30_000)]},
    ),
    "long_fractions": ({"properties": {"a": {"items": {"multipleOf": 1e-300}}}}, {"a": [1.7e308] * 9_000}),
    "many_faults": (
        {"required": [f"q{n}" for n in range(3_000)], "additionalProperties": False},
        {f"p{n}": n for n in range(3_000)},
    ),
    "very_deep": (nested(400, {"type": "string"}, "not"), {"a": 1}),
    "deep_items": (nested(300, {"type": "string"}, "items"), {"a": 1}),
    "refers_to_itself": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, {"a": 1}),
    "refer_to_each_other": (
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}] * 2}, "b": {"anyOf": [{"$ref": "#/$defs/a"}] * 2}}}
        | {"$ref": "#/$defs/a"},
        {"a": 1},
    ),
}
"""By name: the schema, and its arguments."""

ENDLESS = ("all_of_doubled", "any_of_doubled", "one_of_doubled", "if_doubled", "recursive")
"""Those that no machine can finish."""
