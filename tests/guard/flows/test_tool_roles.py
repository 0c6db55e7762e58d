"""Roles of parameters, forms of results, and servers that keep texts, guessed from what tools say."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.flows.tool_labels import DescribedTool, LabelTable, ServerFacts
from tabane.guard.flows.tool_roles import role_of_parameter, roles_of_tool
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)
TABLE = LabelTable()
UNKNOWN = ServerFacts("mine", ("python", "server.py"))


@pytest.mark.parametrize(("role", "names"), dict(CASES["roles"]).items())
def test_the_name_of_a_parameter_says_what_it_is_for(role: str, names: str) -> None:
    assert {name: role_of_parameter(name) for name in names.split()} == dict.fromkeys(names.split(), role)


@pytest.mark.parametrize(("name", "meaning", "role"), CASES["meanings"])
def test_its_description_decides_if_its_name_says_nothing(name: str, meaning: str, role: str) -> None:
    assert role_of_parameter(name, meaning) == role


@pytest.mark.parametrize(("name", "description", "parameters", "form"), CASES["results"])
def test_only_lists_of_the_users_own_records_are_records(
    name: str, description: str, parameters: str, form: str
) -> None:
    tool = DescribedTool(name, "", description, tuple(parameters.split()))
    assert roles_of_tool(tool, UNKNOWN, TABLE).result == form


@pytest.mark.parametrize("words", CASES["memories"])
def test_a_server_that_keeps_texts_is_known_by_how_it_is_started(words: list[str]) -> None:
    assert roles_of_tool(DescribedTool("search"), ServerFacts("x", tuple(words)), TABLE).memory


@pytest.mark.parametrize("name", CASES["remembering"])
def test_a_tool_that_remembers_says_so(name: str) -> None:
    assert roles_of_tool(DescribedTool(name), UNKNOWN, TABLE).memory


@pytest.mark.parametrize("name", CASES["forgetful"])
def test_other_tools_are_no_memory(name: str) -> None:
    assert not roles_of_tool(DescribedTool(name), UNKNOWN, TABLE).memory


def test_a_number_is_a_recipient_if_the_tool_phones_and_a_destination_if_it_sends() -> None:
    texting = DescribedTool("send_sms", "", "Sends a text message.", ("number", "text"))
    assert roles_of_tool(texting, UNKNOWN, TABLE).parameters == {"number": "recipient", "text": "content"}
    commenting = DescribedTool("add_comment", "", "Comments on an issue.", ("number", "body"))
    assert roles_of_tool(commenting, UNKNOWN, TABLE).parameters["number"] == "object"
    exporting = DescribedTool("export_list", "", "Exports a list to a webhook.", ("destination",))
    assert roles_of_tool(exporting, UNKNOWN, TABLE).parameters == {"destination": "recipient"}
    moving = DescribedTool("move_file", "", "Moves a file.", ("source", "destination"))
    assert roles_of_tool(moving, UNKNOWN, TABLE).parameters["destination"] == "object"


@given(st.text(max_size=80), st.text(max_size=300))
def test_any_parameter_has_a_role(name: str, meaning: str) -> None:
    assert role_of_parameter(name, meaning) in ("recipient", "place", "object", "content", "value", "option")
