"""Schemas without some of their parameters, and schemas in which a parameter cannot be changed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.overridden_tool import UnchangeableSchema, changed_schema
from tabane.servers.tool_overrides import ParameterOverride
from tabane.wire.json import encode

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


@pytest.mark.heavy("hundreds of random schemas")
@given(documents(), VALUES, st.lists(arguments, min_size=1, max_size=4))
def test_what_the_server_accepts_with_the_fixed_value_is_accepted_without_it(
    schema: Json, value: Any, calls: list[Json]
) -> None:
    with suppress(UnchangeableSchema):
        changed = changed_schema(schema, ParameterOverride("p", fixed=encode(value)))
        assert "p" not in changed.get("properties", {})
        for call in calls:
            if jsonschema_rs.is_valid(schema, {**call, "p": value}):
                assert jsonschema_rs.is_valid(changed, call), (changed, call)


@pytest.mark.heavy("hundreds of random schemas")
@given(documents(), st.lists(arguments, min_size=1, max_size=4))
def test_a_schema_without_a_parameter_that_is_never_sent_accepts_exactly_the_calls_without_it(
    schema: Json, calls: list[Json]
) -> None:
    with suppress(UnchangeableSchema):
        changed = changed_schema(schema, ParameterOverride("p", hidden=True))
        for call in calls:
            expected = jsonschema_rs.is_valid(schema, call)
            assert expected == jsonschema_rs.is_valid(changed, call), (changed, call)


def test_a_fixed_parameter_leaves_properties_required_and_examples() -> None:
    schema = {
        "type": "object",
        "properties": {"owner": {"type": "string"}, "repo": {"$ref": "#/$defs/repo"}},
        "required": ["owner", "repo"],
        "maxProperties": 2,
        "additionalProperties": False,
        "examples": [{"owner": "x", "repo": "y"}],
        "$defs": {"repo": {"properties": {"owner": {}}}},
    }
    assert changed_schema(schema, ParameterOverride("owner", fixed=b'"me"')) == {
        "type": "object",
        "properties": {"repo": {"$ref": "#/$defs/repo"}},
        "required": ["repo"],
        "maxProperties": 1,
        "additionalProperties": False,
        "$defs": {"repo": {"properties": {"owner": {}}}},
    }


def test_a_parameter_with_a_default_is_optional_and_described() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    assert changed_schema(schema, ParameterOverride("n", "How many.", default=b"5")) == {
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "How many.", "default": 5}},
    }


@pytest.mark.parametrize("value", [b"7", b"null", b'"other"'], ids=["number", "null", "text"])
def test_a_fixed_value_that_the_schema_excludes_is_refused(value: bytes) -> None:
    schema = {"type": "object", "properties": {"n": {"enum": ["one", "two"]}}}
    with pytest.raises(UnchangeableSchema, match="allows no call with that for n"):
        changed_schema(schema, ParameterOverride("n", fixed=value))


KIND = {"properties": {"kind": {"const": "file"}}, "required": ["kind"]}
DEEP: Json = KIND
for _ in range(5_000):
    DEEP = {"allOf": [DEEP]}


@pytest.mark.parametrize(
    "beside",
    [
        {"oneOf": [KIND, {"required": ["path"]}]},
        {"anyOf": [{"required": ["kind"]}]},
        DEEP,
        {"not": {"required": ["kind"]}},
        {"if": KIND, "then": {"required": ["path"]}},
        {"dependentRequired": {"path": ["kind"]}},
        {"dependentSchemas": {"kind": {"required": ["path"]}}},
        {"propertyNames": {"enum": ["kind", "path"]}},
        {"propertyNames": {"pattern": "^(kind|path)$"}},
        {"patternProperties": {"^kind$": {"type": "string"}}},
        {"allOf": [{"patternProperties": {"^kind$": {}}}]},
        {"$ref": "#/$defs/kind", "$defs": {"kind": KIND}},
        {"allOf": [{"$ref": "#/properties/path"}], "properties": {"kind": {}, "path": KIND}},
    ],
    ids=lambda part: ",".join(part),
)
@pytest.mark.parametrize(
    "override", [{"hidden": True}, {"fixed": b'"file"'}, {"default": b'"file"'}], ids=str
)
def test_a_parameter_that_a_schema_names_elsewhere_is_refused(beside: Json, override: Json) -> None:
    schema = {"type": "object", "properties": {"kind": {}, "path": {}}, **beside}
    with pytest.raises(UnchangeableSchema, match="a condition, an alternative or a reference"):
        changed_schema(schema, ParameterOverride("kind", **override))
    assert changed_schema(schema, ParameterOverride("kind", "What it is."))["properties"]["kind"]


@pytest.mark.parametrize(
    "beside",
    [
        {"properties": {"kind": {}, "path": {"$ref": "#/properties/kind"}}},
        {"properties": {"kind": {}, "path": {"$ref": "#/properties/%6Bind/items"}}},
        {"properties": {"kind": {"$anchor": "k"}, "path": {"items": {"$ref": "#k"}}}},
        {"additionalProperties": {"$ref": "#/properties/kind"}},
        {"$defs": {"kind": {"$ref": "#/properties/kind"}}},
    ],
    ids=str,
)
def test_a_parameter_that_a_reference_leads_to_is_not_removed(beside: Json) -> None:
    schema = {"type": "object", "properties": {"kind": {}, "path": {}}, **beside}
    for override in (ParameterOverride("kind", hidden=True), ParameterOverride("kind", fixed=b"1")):
        with pytest.raises(UnchangeableSchema, match="a condition, an alternative or a reference"):
            changed_schema(schema, override)
    shown = changed_schema(schema, ParameterOverride("kind", default=b"1"))
    assert shown["properties"]["kind"]["default"] == 1
