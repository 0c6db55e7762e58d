"""Schemas without some of their parameters: they accept what the server accepts once the values are added."""

from __future__ import annotations

from typing import Any

import jsonschema_rs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.catalog.tools.overridden_tool import (
    ParameterChange,
    UnchangeableSchema,
    changed_schema,
    has_parameter,
    requires,
)

Json = dict[str, Any]
VALUES = st.sampled_from(["a", "b", 1, 2, True, None])
NAMES = st.sampled_from(["p", "q", "r"])

leaves = st.one_of(
    st.builds(lambda value: {"const": value}, VALUES),
    st.builds(lambda values: {"enum": values}, st.lists(VALUES, min_size=1, max_size=3)),
    st.builds(
        lambda kind: {"type": kind}, st.sampled_from(["string", "integer", "boolean", "null", "number"])
    ),
    st.sampled_from([True, False, {}, {"minLength": 2}, {"pattern": "^b"}, {"minimum": 2}]),
)


def combined(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    several = st.lists(parts, min_size=1, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "properties": st.dictionaries(NAMES, leaves, max_size=3),
            "required": st.lists(NAMES, unique=True, max_size=3),
            "additionalProperties": st.sampled_from([False, True, {"type": "string"}]),
            "minProperties": st.integers(0, 3),
            "maxProperties": st.integers(0, 3),
            "dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, unique=True, max_size=2), max_size=2),
            "dependentSchemas": st.dictionaries(NAMES, parts, max_size=2),
            "propertyNames": st.sampled_from([{"enum": ["p", "q"]}, {"enum": ["q", "r"]}]),
            "patternProperties": st.sampled_from([{"^p": {"type": "string"}}, {"q|r": {"type": "integer"}}]),
            "const": st.sampled_from([{"p": "a"}, {"q": "a"}, {"p": "a", "q": "a"}]),
            "allOf": several,
            "anyOf": several,
            "oneOf": several,
            "not": parts,
            "if": parts,
            "then": parts,
            "else": parts,
            "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
        },
    )


schemas = st.recursive(st.one_of(st.booleans(), combined(st.booleans())), combined, max_leaves=6)


@st.composite
def documents(draw: st.DrawFn) -> Json:
    plain = combined(st.booleans()).map(lambda part: {k: v for k, v in part.items() if k != "$ref"})
    root = draw(combined(schemas))
    return {"type": "object", **root, "$defs": {"one": draw(plain), "two": draw(plain)}}


arguments = st.dictionaries(st.sampled_from(["q", "r"]), VALUES, max_size=2)


@pytest.mark.heavy("real servers as processes")
@given(documents(), VALUES, st.lists(arguments, min_size=1, max_size=4))
def test_what_the_server_accepts_with_the_fixed_value_is_accepted_without_it(
    schema: Json, value: Any, calls: list[Json]
) -> None:
    parameter = ParameterChange("p", withheld=True, sent=True, value=value)
    try:
        changed = changed_schema(schema, parameter)
    except UnchangeableSchema:
        changed = {"not": {}}
    for call in calls:
        if jsonschema_rs.is_valid(schema, {**call, "p": value}):
            assert jsonschema_rs.is_valid(changed, call), (changed, call)


@pytest.mark.heavy("real servers as processes")
@given(documents(), st.lists(arguments, min_size=1, max_size=4))
def test_a_schema_without_a_parameter_that_is_never_sent_accepts_exactly_the_calls_without_it(
    schema: Json, calls: list[Json]
) -> None:
    try:
        changed = changed_schema(schema, ParameterChange("p", withheld=True))
    except UnchangeableSchema:
        changed = {"not": {}}
    for call in calls:
        assert jsonschema_rs.is_valid(schema, call) == jsonschema_rs.is_valid(changed, call), (changed, call)


@pytest.mark.heavy("real servers as processes")
@given(documents())
@example({"type": "object", "then": {"properties": {"p": {"const": "a"}}}})
def test_a_withheld_parameter_is_not_described_any_more(schema: Json) -> None:
    try:
        changed = changed_schema(schema, ParameterChange("p", withheld=True, sent=True, value="a"))
    except UnchangeableSchema:
        return
    assert not has_parameter(changed, "p")


def test_simple_schemas_stay_simple() -> None:
    schema = {
        "type": "object",
        "properties": {"owner": {"type": "string"}, "repo": {"type": "string"}},
        "required": ["owner", "repo"],
        "dependentRequired": {"owner": ["repo"]},
        "additionalProperties": False,
        "examples": [{"owner": "x", "repo": "y"}],
    }
    fixed = ParameterChange("owner", withheld=True, sent=True, value="me")
    assert changed_schema(schema, fixed) == {
        "type": "object",
        "properties": {"repo": {"type": "string"}},
        "required": ["repo"],
        "additionalProperties": False,
        "examples": [{"repo": "y"}],
    }


def test_alternatives_that_need_a_hidden_parameter_disappear() -> None:
    schema = {
        "type": "object",
        "properties": {"id": {}, "name": {}},
        "anyOf": [{"required": ["id"]}, {"required": ["name"]}],
    }
    hidden = changed_schema(schema, ParameterChange("id", withheld=True))
    assert hidden == {"type": "object", "properties": {"name": {}}, "anyOf": [{"required": ["name"]}]}
    fixed = changed_schema(schema, ParameterChange("id", withheld=True, sent=True, value=1))
    assert fixed == {"type": "object", "properties": {"name": {}}}


def test_a_fixed_value_chooses_among_alternatives() -> None:
    schema = {
        "type": "object",
        "oneOf": [
            {"properties": {"kind": {"const": "file"}, "path": {}}, "required": ["kind", "path"]},
            {"properties": {"kind": {"const": "page"}, "url": {}}, "required": ["kind", "url"]},
        ],
    }
    changed = changed_schema(schema, ParameterChange("kind", withheld=True, sent=True, value="page"))
    assert changed == {"type": "object", "oneOf": [{"properties": {"url": {}}, "required": ["url"]}]}


def test_a_definition_that_others_refer_to_keeps_the_parameter_there() -> None:
    schema = {
        "type": "object",
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {"name": {}, "owner": {}, "parts": {"items": {"$ref": "#/$defs/node"}}},
            }
        },
    }
    changed = changed_schema(schema, ParameterChange("owner", withheld=True))
    assert changed["properties"] == {"name": {}, "parts": {"items": {"$ref": "#/$defs/node"}}}
    assert "owner" in changed["$defs"]["node"]["properties"]


def test_a_parameter_with_a_default_is_optional_and_described() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    change = ParameterChange("n", description="How many.", optional=True, shows_default=True, default=5)
    assert changed_schema(schema, change) == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "How many.", "default": 5}},
    }
    assert requires(schema, "n")


@pytest.mark.parametrize("value", [7, None, "other"], ids=["number", "null", "text"])
def test_a_fixed_value_that_the_schema_excludes_is_no_schema(value: object) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": ["one", "two"]}}}
    with pytest.raises(UnchangeableSchema):
        changed_schema(schema, ParameterChange("n", withheld=True, sent=True, value=value))


def test_a_schema_that_never_ends_is_given_up() -> None:
    deep: Json = {}
    for _ in range(5_000):
        deep = {"allOf": [deep]}
    circle = {
        "$ref": "#/$defs/a",
        "$defs": {"a": {"allOf": [{"$ref": "#/$defs/a"}], "properties": {"p": {}}}},
    }
    wide = {"$ref": "#/$defs/0", "$defs": {
        str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 8, "properties": {"p": {}}} for n in range(40)
    }}  # fmt: skip
    for schema in (deep, circle, wide):
        with pytest.raises(UnchangeableSchema):
            changed_schema({"type": "object", **schema}, ParameterChange("p", withheld=True))
