"""Showing a tool takes few steps, whatever its definition expands to."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tabane.catalog.tools.disclosure import describe, signature, tool_page
from tabane.catalog.tools.schemas import WHOLE, SchemaRoot, literal, parameters, resolved, texts, type_of
from tests.catalog.tools.hostile import HOSTILE
from tests.catalog.tools.tools import tool


class Counted(dict[str, Any]):
    """An object that counts how often its members are asked for."""

    asked = 0

    def get(self, key: str, default: Any = None) -> Any:
        Counted.asked += 1
        return super().get(key, default)


def everywhere(count: int) -> dict[str, Any]:
    return {
        "$defs": {
            "a": {
                "anyOf": [{"$ref": "#/$defs/a"}] * 8,
                "properties": {f"x{n}": {"$ref": "#/$defs/a"} for n in range(20)},
                "items": {"$ref": "#/$defs/a"},
            }
        },
        "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(count)},
    }


SHOWN: dict[str, dict[str, Any]] = {
    "refers to its root": {"type": "object", "properties": {f"p{n}": {"$ref": "#"} for n in range(20_000)}},
    "everything is everything": everywhere(200),
    "put together": {
        "$defs": {"a": {"properties": {f"x{n}": {} for n in range(5_000)}, "required": ["x"] * 5_000}},
        "properties": {f"p{n}": {"allOf": [{"$ref": "#/$defs/a"}] * 8} for n in range(200)},
    },
    "long words": {
        "$defs": {"a": {"type": "string", "default": ["x" * 500_000], "description": "word " * 100_000}},
        "properties": {f"p{n}": {"$ref": "#/$defs/a"} for n in range(200)},
    },
    "long references": {"properties": {f"p{n}": {"$ref": "#/" + "a/" * 20_000} for n in range(200)}},
    "many values": {"properties": {"p": {"enum": [{"k": [n]} for n in range(50_000)]}}},
    **{name: schema for name, (schema, _) in HOSTILE.items()},
}


@pytest.mark.parametrize("name", SHOWN)
def test_any_definition_is_shown(name: str) -> None:
    shown = tool("t", "Does it.", inputSchema=SHOWN[name], outputSchema=SHOWN[name])
    assert signature(shown).startswith("files__t(")
    assert len(signature(shown)) < 5_000
    assert tool_page(shown).startswith("files__t")
    assert len(tool_page(shown)) < 100_000
    assert len(describe(shown, "compact")) < 100_000
    assert len(list(texts(shown.schema))) <= 400


def test_the_steps_of_reading_a_schema_are_counted() -> None:
    schema = everywhere(200)
    schema["$defs"]["a"] = Counted(schema["$defs"]["a"])
    for steps in (0, 10, 1_000):
        Counted.asked = 0
        root = SchemaRoot(schema, steps)
        for parameter in parameters(schema, root):
            type_of(parameter.schema, root, WHOLE)
        assert Counted.asked <= 10 * steps + 10


def test_a_schema_that_is_read_within_its_steps_is_read_whole() -> None:
    schema = everywhere(3)
    assert [parameter.name for parameter in parameters(schema, SchemaRoot(schema))] == ["p0", "p1", "p2"]
    assert resolved({"$ref": "#/$defs/a"}, SchemaRoot(schema)) == schema["$defs"]["a"]


@pytest.mark.parametrize(
    "value",
    [
        "x" * 59,
        "x" * 60,
        "x" * 5_000,
        '"' * 5_000,
        "束" * 100,
        ["x" * 500_000, "y"],
        [[[[[["a"] * 30] * 30] * 30]]],
        {"k" * 100: {"a": [1, 2.5, None, True]}},
        {f"k{n}": n for n in range(10_000)},
        list(range(10_000)),
        [],
        {},
        None,
        1.5,
    ],
)
def test_a_value_is_written_as_before_and_cut(value: Any) -> None:
    whole = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    assert literal(value) == (whole if len(whole) <= 60 else whole[:59] + "…")


def test_numbers_that_are_larger_than_any_float_are_shown() -> None:
    large = {"type": "number", "maximum": 10**400, "multipleOf": 10**400, "default": 7}
    assert "p?: number = 7" in tool_page(tool("t", inputSchema={"properties": {"p": large}}))
    assert literal(10**5_000) == "…"
