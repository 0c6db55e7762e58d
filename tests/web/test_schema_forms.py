"""Any schema becomes a form, and a form says the arguments that were put into it."""

from __future__ import annotations

import json
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tabane.web.schema_forms import (
    DEEPEST,
    MOST_FIELDS,
    MOST_VARIANTS,
    SchemaField,
    arguments_of,
    filled,
    read_json,
    read_schema,
    shows,
    values_of,
)

Json = dict[str, Any]

FULL: Json = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "A file", "minLength": 1},
        "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 3},
        "ratio": {"type": "number", "exclusiveMinimum": 0},
        "deep": {"type": "boolean"},
        "mode": {"enum": ["fast", "slow", 3]},
        "version": {"const": 2},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "range": {
            "type": "object",
            "properties": {"from": {"type": "string", "format": "date"}, "to": {"type": ["string", "null"]}},
            "required": ["from", "to"],
        },
        "target": {"oneOf": [{"type": "string", "title": "Name"}, {"$ref": "#/$defs/point"}]},
        "rows": {"type": "array", "items": {"$ref": "#/$defs/point"}},
        "anything": {},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["path", "version"],
    "additionalProperties": True,
    "$defs": {"point": {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}},
}


def fields(form: SchemaField) -> list[SchemaField]:
    return [form, *(each for part in form.fields for each in fields(part))]


def by_key(form: SchemaField) -> dict[str, SchemaField]:
    return {each.key: each for each in form.fields}


def test_each_kind_of_schema_has_its_field() -> None:
    found = by_key(read_schema(FULL))
    kinds = {key: each.kind for key, each in found.items()}
    assert kinds == {
        "path": "text", "count": "integer", "ratio": "number", "deep": "choice", "mode": "choice",
        "version": "constant", "tags": "list", "range": "group", "target": "variants", "rows": "list",
        "anything": "json", "labels": "json",
    }  # fmt: skip
    assert [each.label for each in found["target"].fields] == ["Name", "point"]
    assert next(iter(found)) == "path"
    assert (found["path"].required, found["path"].hint) == (True, "A file")
    assert found["range"].fields[1].nullable
    assert found["count"].default == "3"


@pytest.mark.parametrize(
    "arguments",
    [
        {"path": "a\n\nb", "version": 2},
        {"path": "x", "version": 2, "count": 10, "ratio": 0.5, "deep": False, "mode": 3, "tags": []},
        {"path": "x", "version": 2, "tags": ["a", "b"], "range": {"from": "2026-01-02", "to": None}},
        {"path": "x", "version": 2, "target": "here", "rows": [{"x": 1}, {"x": -2}]},
        {"path": "x", "version": 2, "target": {"x": 5}, "anything": [1, {"a": None}], "labels": {"k": "v"}},
        {"path": "x", "version": 2, "unknown": {"deep": [True]}, "anything": None},
    ],
)
def test_arguments_pass_through_the_form(arguments: Json) -> None:
    form = read_schema(FULL)
    read = arguments_of(form, values_of(form, arguments))
    assert (read.errors, read.arguments) == ({}, arguments)
    assert shows(form, arguments)


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"/path": [""]}, "/path"),
        ({"/path": ["x"], "/count": ["11"]}, "/count"),
        ({"/path": ["x"], "/count": ["1.5"]}, "/count"),
        ({"/path": ["x"], "/ratio": ["0"]}, "/ratio"),
        ({"/path": ["x"], "/ratio": ["NaN"]}, "/ratio"),
        ({"/path": ["x"], "/mode": ['"other"']}, "/mode"),
        ({"/path": ["x"], "/anything": ["{"]}, "/anything"),
        ({"/path": ["x"], "o:/range": ["1"]}, "/range/from"),
        ({"/path": ["x"], "v:/target": ["1"]}, "/target/~v1/x"),
        ({"/path": ["x"], "i:/rows": ["0", "7"], "/rows/0/x": ["1"]}, "/rows/7/x"),
        ({"/path": ["x"], "i:/tags": ["0", "1", "2", "3"]}, "/tags"),
        ({"/path": ["x"], "m:": ['{"path": "again"}']}, "m:"),
    ],
)
def test_what_is_wrong_is_said_beside_its_field(values: dict[str, list[str]], wrong: str) -> None:
    form = read_schema(FULL)
    read = arguments_of(form, values)
    assert wrong in read.errors
    filled(form, values, read.errors)


def test_an_object_that_was_not_added_is_left_out() -> None:
    form = read_schema(FULL)
    assert arguments_of(form, {"/path": ["x"], "/range/from": ["2026-01-01"]}).arguments == {
        "path": "x",
        "version": 2,
    }


def test_a_schema_that_refers_to_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#"}, "name": {"type": "string"}}}
    found = fields(read_schema(node))
    assert len(found) <= 2 * (DEEPEST + 2)
    assert "json" in {each.kind for each in found}
    assert read_schema({"$ref": "#"}).kind == "json"


def test_a_huge_schema_has_a_bounded_form() -> None:
    wide = {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}
    form = read_schema(wide)
    assert len(fields(form)) <= MOST_FIELDS
    assert form.open
    assert shows(form, {"p0": "a", "p9999": "b"})
    bushy: Json = {"type": "string"}
    for _ in range(DEEPEST):
        bushy = {"anyOf": [bushy] * MOST_VARIANTS}
    assert (
        len(fields(read_schema({"type": "object", "properties": {"a": bushy}})))
        <= MOST_FIELDS + MOST_VARIANTS
    )


def test_json_is_read_with_the_place_of_a_mistake() -> None:
    assert read_json('{"a": 1}') == {"a": 1}
    for text in ("{", "NaN", "[" * 100_000, "1" * 10_000):
        assert type(read_json(text)).__name__ == "JsonFault"


KEYWORDS = [
    "type", "properties", "items", "enum", "const", "default", "required", "oneOf", "anyOf", "allOf", "$ref",
    "minimum", "maximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "title", "format",
    "description", "additionalProperties", "pattern", "not", "prefixItems", "$defs",
]  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    | st.sampled_from(["object", "array", "string", "integer", "null", "#", "#/$defs/a", "#/properties"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=4), inner, max_size=5),
    max_leaves=30,
)  # fmt: skip
FORM_VALUES = st.dictionaries(
    st.text(alphabet="ieovm:/~{}0123ab", max_size=8), st.lists(st.text(max_size=8), max_size=3), max_size=8
)


@settings(max_examples=50, deadline=None)
@given(JUNK, FORM_VALUES, JUNK)
def test_no_schema_and_no_values_make_a_form_fail(schema: Any, values: Any, arguments: Any) -> None:
    form = read_schema(schema)
    paths = [each.path for each in fields(form)]
    assert len(set(paths)) == len(paths)
    read = arguments_of(form, values)
    filled(form, values, read.errors)
    if isinstance(arguments, dict):
        filled(form, values_of(form, arguments))
        shows(form, arguments)


TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=12)
KEYS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=6)


def _object(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return st.dictionaries(KEYS, inner, max_size=4).flatmap(
        lambda found: st.sets(st.sampled_from(sorted(found)) if found else st.nothing()).map(
            lambda required: {
                "type": "object",
                "properties": found,
                "required": sorted(required),
                "additionalProperties": False,
            }
        )
    )


LEAVES: st.SearchStrategy[Json] = st.sampled_from(
    [
        {"type": "string"},
        {"type": "string", "minLength": 2, "maxLength": 9},
        {"type": "integer"},
        {"type": "integer", "minimum": -5, "maximum": 7},
        {"type": "number"},
        {"type": "boolean"},
        {"type": ["string", "null"]},
        {"enum": ["a", "", 1, None, [2]]},
        {"const": "fixed"},
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        {"oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "B"}]},
        {},
    ]
)
SCHEMAS: st.SearchStrategy[Json] = st.recursive(
    LEAVES,
    lambda inner: (
        _object(inner)
        | inner.map(lambda items: {"type": "array", "items": items, "maxItems": 3})
        | st.lists(inner, min_size=1, max_size=3).map(lambda options: {"anyOf": options})
    ),
    max_leaves=8,
)


def _instances(schema: Json) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return st.one_of([_instances(option) for option in options])
    return _typed(schema)


def _typed(schema: Json) -> st.SearchStrategy[Any]:
    match schema.get("type"):
        case "string":
            return st.text(
                st.characters(exclude_categories=["Cs", "Cc"]),
                min_size=schema.get("minLength", 0),
                max_size=schema.get("maxLength", 12),
            )
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(allow_nan=False, allow_infinity=False) | st.integers()
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(_instances(schema["items"]), max_size=3)
        case "object":
            required = {key: _instances(schema["properties"][key]) for key in schema["required"]}
            others = {k: _instances(v) for k, v in schema["properties"].items() if k not in required}
            return st.fixed_dictionaries(required, optional=others)
        case ["string", "null"]:
            return st.none() | TEXTS
        case "null":
            return st.none()
        case _:
            return st.recursive(
                st.none() | st.booleans() | st.integers() | TEXTS, lambda x: st.lists(x, max_size=2)
            )


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_valid_arguments_pass_through_the_form_of_their_schema(data: st.DataObject) -> None:
    schema = data.draw(_object(SCHEMAS))
    arguments = data.draw(_instances(schema))
    form = read_schema(schema)
    read = arguments_of(form, values_of(form, arguments))
    assert read.errors == {}
    assert json.loads(json.dumps(read.arguments)) == arguments
    assert shows(form, arguments)
    jsonschema_rs.validator_for(schema).validate(read.arguments)
