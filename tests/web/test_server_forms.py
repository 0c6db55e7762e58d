"""A definition goes through the form and comes back as it was, and what people paste is understood."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.foreign_keys import our_definition
from tabane.web.pages.server_editing import (
    NotInForm,
    draft_of,
    fields_of,
    fits_form,
    from_fields,
    meaning,
    pasted,
    read_draft,
)
from tabane.web.pages.servers import DEEPEST, MOST_PARAMETERS, parameters_of

COMMAND = {
    "command": "npx",
    "args": ["-y", "a b", "--token", "***"],
    "env": {"KEY": "${KEY}", "A": "b=c"},
    "cwd": "~/x",
    "description": "d",
    "tags": ["one", "two"],
    "share": "roots",
    "timeout": 90,
    "allow": ["get_*"],
    "sandbox": False,
    "unknown": {"x": [1]},
}
URL = {
    "serverUrl": "https://example.com/mcp",
    "headers": {"Authorization": "Bearer ***", "X": "a: b"},
    "type": "http",
    "timeout": 0.5,
    "disabled": True,
}


@pytest.mark.parametrize(
    "definition", [{}, COMMAND, URL, {"command": "x"}, {"command": "x", "type": "stdio"}]
)
def test_an_unchanged_form_changes_nothing(definition: dict[str, Any]) -> None:
    assert fits_form(definition)
    assert from_fields(fields_of(definition), definition) == definition


@pytest.mark.parametrize(
    "definition",
    [
        {"command": "x", "args": ["two\nlines"]},
        {"command": "x", "args": [""]},
        {"command": "x", "args": [1]},
        {"command": 1},
        {"command": "x", "env": {"A": "1\n2"}},
        {"command": "x", "env": ["A"]},
        {"command": "x", "tags": ["a, b"]},
        {"command": "x", "url": "https://example.com"},
        {"command": "x", "timeout": "1"},
    ],
)
def test_what_the_form_cannot_hold_is_edited_as_json(definition: dict[str, Any]) -> None:
    assert not fits_form(definition)
    draft = draft_of("x", definition, "x")
    assert draft.view == "json"
    assert json.loads(draft.json) == definition


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
KEYS = [
    "command",
    "args",
    "env",
    "url",
    "headers",
    "tags",
    "share",
    "type",
    "timeout",
    "enabled",
    "allow",
    "keywords",
    "examples",
    "tools",
    "x",
]


@given(st.dictionaries(st.sampled_from(KEYS), JSON))
def test_no_definition_is_changed_by_a_form_that_fits_it(definition: dict[str, Any]) -> None:
    draft = draft_of("x", definition, "x", "1")
    form = {**draft.fields, "name": "x", "base": draft.json, "json": draft.json, "view": draft.view}
    back = read_draft(form)
    assert dict(back.definition) == definition


def test_a_whole_command_line_is_split_into_its_words() -> None:
    found = from_fields({"kind": "command", "command": "uvx 'a b' --x ~/notes", "enabled": "true"}, {})
    assert found == {"command": "uvx", "args": ["a b", "--x", "${HOME}/notes"]}


def test_a_variable_without_a_value_refers_to_the_variable_of_its_name() -> None:
    found = from_fields({"kind": "command", "command": "x", "env": "TOKEN\nA=1", "enabled": "true"}, {})
    assert found["env"] == {"TOKEN": "${TOKEN}", "A": "1"}


def test_another_kind_of_server_loses_what_belongs_to_the_former_kind() -> None:
    form = {**fields_of(COMMAND), "kind": "url", "url": "https://example.com"}
    found = from_fields(form, COMMAND)
    assert {"command", "args", "env", "cwd"}.isdisjoint(found)
    assert found["url"] == "https://example.com"
    assert found["unknown"] == COMMAND["unknown"]


@pytest.mark.parametrize(
    ("form", "key"),
    [
        ({"view": "json", "json": "{"}, "json"),
        ({"view": "json", "json": "[]"}, "json"),
        ({"view": "json", "json": "[" * 100_000}, "json"),
        ({"view": "json", "json": '{"mcpServers": {"a": {}, "b": {}}}'}, "json"),
        ({"command": "a 'b"}, "command"),
        ({"kind": "url", "headers": "no colon"}, "headers"),
        ({"command": "x", "timeout": "soon"}, "timeout"),
    ],
)
def test_a_fault_is_at_its_field(form: dict[str, str], key: str) -> None:
    assert set(read_draft({"name": "x", **form}).errors) == {key}


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"time": {"command": "uvx"}}}',
        '{"servers": {"time": {"command": "uvx"}}}',
        '{"time": {"command": "uvx"}}',
    ],
)
def test_an_entry_of_another_program_can_be_pasted(text: str) -> None:
    assert pasted("", text) == ("time", {"command": "uvx"})
    assert pasted("mine", text) == ("mine", {"command": "uvx"})


def test_a_definition_is_pasted_as_it_is() -> None:
    assert pasted("x", '{"command": "uvx"}') == ("x", {"command": "uvx"})
    with pytest.raises(NotInForm):
        pasted("x", '{"mcpServers": {"a": 1}}')


def test_the_meaning_names_the_program_and_what_it_gets() -> None:
    found = meaning(COMMAND)
    assert (found["program"], found["downloads"], found["variables"]) == ("npx", True, ["A", "KEY"])
    assert found["command"] == "npx -y 'a b' --token ***"
    assert meaning(our_definition(URL.items()).values)["host"] == "example.com"
    assert meaning({"url": "http://example.com"})["open"]


def test_parameters_of_a_hostile_schema_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"type": "object", "properties": {"x": deep}}
    assert len(list(parameters_of(deep))) == DEEPEST
    wide: dict[str, Any] = {"properties": {str(number): {} for number in range(1000)}}
    assert len(list(parameters_of(wide))) == MOST_PARAMETERS
    odd = {
        "properties": {"a": 1, "b": {"type": 3, "enum": {}, "description": [], "items": []}},
        "required": 1,
    }
    assert [row["name"] for row in parameters_of(odd)] == ["a", "b"]


@given(JSON)
def test_any_schema_has_parameters(schema: Any) -> None:
    for row in parameters_of({"properties": {"x": schema}}):
        assert isinstance(row["type"], str)
