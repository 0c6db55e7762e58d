"""Tools as typed functions."""

from __future__ import annotations

import ast
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.code.signatures import ScriptTool, WrongArguments, signature, signatures_text

ISSUES = ScriptTool(
    "github",
    "search_issues",
    "github__search_issues",
    'Search issues. Quotes """ and \\ do no harm.',
    {
        "type": "object",
        "properties": {
            "page-size": {"type": "integer", "default": 30},
            "q": {"type": "string"},
            "state": {"enum": ["open", "closed"]},
            "labels": {"type": ["array", "null"], "items": {"type": "string"}},
            "in": {"$ref": "#/$defs/Place"},
        },
        "required": ["q"],
        "$defs": {
            "Place": {"type": "object", "properties": {"repo": {"type": "string"}}, "required": ["repo"]}
        },
    },
    {
        "type": "object",
        "properties": {
            "total": {"type": "integer"},
            "items": {
                "type": "array",
                "items": {"type": "object", "properties": {"title": {"type": "string"}, "a-b": {}}},
            },
        },
        "required": ["total"],
    },
)


def test_a_signature_has_the_types_of_arguments_and_result() -> None:
    assert signature(ISSUES) == (
        'async def search_issues(q: str, page_size: int = 30, state: Literal["open", "closed"] = ..., '
        'labels: list[str] | None = ..., in_: {"repo": str} = ...) -> '
        '{"total": int, "items": NotRequired[list[{"title": NotRequired[str], "a-b": NotRequired[Any]}]]}:\n'
        '    """Search issues."""'
    )


def test_a_large_object_is_a_class_with_its_small_ones_inside() -> None:
    names = {f"member_of_the_address_{i}": {"type": "string"} for i in range(9)}
    place = {"type": "object", "properties": {"zip": {"type": "string"}}, "required": ["zip"]}
    result = {"type": "object", "properties": {"place": place, **names}, "required": ["place", *names]}
    text = signature(ScriptTool("", "find", "find", result=result))
    assert 'class FindResult(TypedDict):\n    place: {"zip": str}\n    member_of_the_address_0: str\n' in text
    assert text.endswith("-> FindResult: ...")


def test_the_best_tools_have_a_signature_and_the_others_are_named() -> None:
    tools = [
        ScriptTool(module, f"find_{i}", "") for i, module in enumerate(("mail", "", "mail", "web", "web"))
    ]
    assert signatures_text(tools) == (
        "from tools import mail, find_1\n"
        "async def find_1(**more: Any) -> Any: ...\n"
        "# await mail.find_0(…)\n"
        "async def find_0(**more: Any) -> Any: ...\n"
        "async def find_2(**more: Any) -> Any: ...\n"
        "# Also: web.find_3, web.find_4"
    )


def test_a_tool_without_parameters_takes_none() -> None:
    schema = {"type": "object", "properties": {}}
    assert signature(ScriptTool("", "go", "go", schema=schema)) == "async def go() -> Any: ..."


def test_arguments_get_the_names_of_the_tool() -> None:
    assert ISSUES.arguments(["bug"], {"page_size": 5, "in_": {"repo": "a"}, "state": None}) == {
        "q": "bug",
        "page-size": 5,
        "in": {"repo": "a"},
    }


@pytest.mark.parametrize(
    ("given", "named", "text"),
    [
        ([], {}, "needs q"),
        ([], {"stat": 1, "q": ""}, "has no parameter stat. Did you mean state?"),
        (["a"], {"q": "b"}, "got the argument q twice"),
        (["a"] * 9, {}, "takes 5 arguments at most"),
    ],
)
def test_wrong_arguments_are_named_with_the_signature(
    given: list[Any], named: dict[str, Any], text: str
) -> None:
    tool = ScriptTool("", "find", "find", schema={**ISSUES.schema, "additionalProperties": False})
    with pytest.raises(WrongArguments, match="find ") as error:
        tool.arguments(given, named)
    assert text in str(error.value)
    assert "async def find(q: str" in str(error.value)


def test_a_tool_that_declares_nothing_takes_and_returns_anything() -> None:
    assert signature(ScriptTool("", "go", "go")) == "async def go(**more: Any) -> Any: ..."


def test_a_schema_that_needs_itself_ends() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {"type": "object", "properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}
    assert '{"next": NotRequired[Any]}' in signature(ScriptTool("", "walk", "walk", schema=schema))


def test_a_large_schema_is_written_without_classes() -> None:
    inner = {"type": "object", "properties": {f"member_{i}": {"type": "string"} for i in range(40)}}
    schema = {"type": "object", "properties": {f"p{i}": inner for i in range(50)}, "required": ["p0"]}
    text = signature(ScriptTool("", "big", "big", schema=schema))
    assert len(text) < 4_200
    assert "p0: dict[str, Any]" in text


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "enum", "const", "anyOf", "allOf", "$ref", "required"]
            )
            | st.text(max_size=5),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.text(max_size=6), _json, max_size=4), _json, st.text(max_size=40))
def test_any_schema_gives_a_signature_that_python_reads(
    members: dict[str, Any], result: Any, description: str
) -> None:
    returned = result if isinstance(result, dict) else {"type": result}
    tool = ScriptTool("m", "f", "m__f", description, {"type": "object", "properties": members}, returned)
    ast.parse(signature(tool))
