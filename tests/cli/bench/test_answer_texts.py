"""The scripted agent reads the hub's answers, and fills arguments from facts by names and types."""

from __future__ import annotations

from typing import Any

import pytest

from tabane.catalog.tools.disclosure import describe, search_text
from tabane.cli.bench.scripted_agent import UnfilledParameter, arguments_for, names_in, parameters_in
from tests.catalog.tools.tools import tool

EDIT = tool(
    "edit_file",
    "Edit a file. Note: string matching is exact.",
    {
        "path": {"type": "string"},
        "edits": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"oldText": {"type": "string"}, "newText": {"type": "string"}},
                "required": ["oldText", "newText"],
            },
        },
        "dryRun": {"type": "boolean", "default": False},
    },
)


def page(schema: dict[str, Any], *required: str) -> list[Any]:
    found = tool(
        "t",
        "Does something.",
        schema,
        inputSchema={"type": "object", "properties": schema, "required": list(required)},
    )
    return list(parameters_in(describe(found), found.alias))


def test_the_names_in_an_answer_are_those_of_its_lines_in_order() -> None:
    found = [EDIT, tool("在庫を確認", "在庫"), tool("get-sum", "Add (a + b).")]
    for doubtful in (False, True):
        text = search_text(found, "edit", (), total=3, doubtful=doubtful)
        assert names_in(text) == ["files__edit_file", "files__在庫を確認", "files__get-sum"]
    assert names_in(search_text([], "edit (now)", ["files__edit_file"])) == []


def test_tools_that_an_answer_only_names_come_after_those_that_it_describes() -> None:
    text = "4 of 9:\nfiles__read(path) [read-only]: Read.\nput_file(path)\nAlso: files__move, files__copy\n"
    assert names_in(text) == ["files__read", "put_file", "files__move", "files__copy"]


def test_a_page_without_name_and_types_is_read_too() -> None:
    text = (
        "[destructive] Edit a file. Note: exact.\npath\nedits: object[]\n  oldText — What is there.\n"
        "  newText\nmode?: fast|safe = safe — How.\nlabel? — Any.\n→ {content: string}"
    )
    read = parameters_in(text, "files__edit")
    assert [(each.name, each.type, each.required) for each in read] == [
        ("path", "string", True),
        ("edits", "object[]", True),
        ("mode", "fast|safe", False),
        ("label", "string", False),
    ]
    assert [each.name for each in read[1].members] == ["oldText", "newText"]
    facts = {"path": "/a", "old text": "x", "new text": "y", "mode": "safe"}
    assert arguments_for(read, facts)["mode"] == "safe"
    assert parameters_in("[read-only] Tell it.\n(no arguments)", "clock__now") == []


def test_facts_take_the_parameter_of_their_name_of_similar_words_or_of_their_type() -> None:
    text = {"type": "string"}
    parameters = page(
        {"repo_path": text, "branch_name": text, "depth": {"type": "integer"}},
        "repo_path",
        "branch_name",
        "depth",
    )
    facts = {"branch": "main", "repository path": "/r", "how far": 3}
    assert arguments_for(parameters, facts) == {"repo_path": "/r", "branch_name": "main", "depth": 3}


def test_a_list_takes_one_value_and_a_list_of_objects_the_facts_of_its_members() -> None:
    names = page({"names": {"type": "array", "items": {"type": "string"}}}, "names")
    assert arguments_for(names, {"query": "Hana"}) == {"names": ["Hana"]}
    schema = EDIT.schema["properties"]
    edits = page(schema, "path", "edits")
    assert arguments_for(edits, {"path": "/a", "old text": "x", "new text": "y"}) == {
        "path": "/a",
        "edits": [{"oldText": "x", "newText": "y"}],
    }


def test_an_optional_parameter_takes_a_fact_of_its_own_name_only() -> None:
    parameters = page({"path": {"type": "string"}, "encoding": {"type": "string"}}, "path")
    assert arguments_for(parameters, {"path": "/a", "text": "b"}) == {"path": "/a"}
    assert arguments_for(parameters, {"path": "/a", "encoding": "utf-8"}) == {
        "path": "/a",
        "encoding": "utf-8",
    }


@pytest.mark.parametrize(
    ("schema", "facts"),
    [
        ({"count": {"type": "integer"}}, {"text": "many"}),
        ({"kind": {"type": "string", "enum": ["a", "b"]}}, {"kind": "c"}),
        ({"x": {"type": "string"}, "y": {"type": "string"}}, {"one": "1", "two": "2"}),
        ({"商品コード": {"type": "string"}}, {}),
    ],
    ids=["type", "enum", "ambiguous", "none"],
)
def test_a_required_parameter_without_a_fact_that_fits_is_said_to_be_missing(
    schema: dict[str, Any], facts: dict[str, Any]
) -> None:
    with pytest.raises(UnfilledParameter):
        arguments_for(page(schema, *schema), facts)
