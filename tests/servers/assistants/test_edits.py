"""What is changed in TOML and YAML that people wrote, line by line, and what is refused."""

from __future__ import annotations

import pytest

from tabane.servers.assistants import yaml_edits
from tabane.servers.assistants.formats import format_of
from tabane.settings.editing import UnsafeTextEdit
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

TOML, YAML = ("mcp_servers", "tabane"), ("extensions", "tabane")
ENTRY = {"command": "/opt/tabane", "args": ["mcp"]}


INLINE = '{ command = "/opt/tabane", args = ["mcp"] }'


@pytest.mark.parametrize(("before", "after"), CASES["toml_is_changed_where_the_entry_is"])
def test_toml_is_changed_where_the_entry_is(before: str, after: str) -> None:
    assert format_of("toml").with_entry(before, TOML, ENTRY) == after
    assert format_of("toml").with_entry(after, TOML, ENTRY) == after


def test_a_table_of_toml_goes_with_all_of_its_parts() -> None:
    text = (
        '# mine\n[a]\nx = """\n[mcp_servers.tabane]\n"""\n\n[mcp_servers.tabane]\ncommand = "t"\n\n'
        '# ours\n[mcp_servers.tabane.env]\nA = "1"\n\n# of b\n[mcp_servers.b]\ncommand = "c"\n'
    )
    left = '# mine\n[a]\nx = """\n[mcp_servers.tabane]\n"""\n\n# ours\n\n# of b\n'
    left += '[mcp_servers.b]\ncommand = "c"\n'
    assert format_of("toml").without_entry(text, TOML) == left
    assert format_of("toml").without_entry(left, TOML) == left


@pytest.mark.parametrize("text", CASES["toml_that_has_no_place_for_the_entry_is_refused"])
def test_toml_that_has_no_place_for_the_entry_is_refused(text: str) -> None:
    with pytest.raises(UnsafeTextEdit):
        format_of("toml").with_entry(text, TOML, ENTRY)


@pytest.mark.parametrize(("before", "after"), CASES["yaml_is_changed_where_the_entry_is"])
def test_yaml_is_changed_where_the_entry_is(before: str, after: str) -> None:
    assert yaml_edits.with_mapping(before, YAML, ENTRY) == after
    assert yaml_edits.with_mapping(after, YAML, ENTRY) == after


def test_the_last_entry_of_yaml_leaves_an_empty_mapping() -> None:
    text = "a: 1\nextensions: # all\n  tabane:\n    cmd: x\n    args:\n    - y\nb: 2\n"
    assert yaml_edits.without_mapping(text, YAML) == "a: 1\nextensions: {} # all\nb: 2\n"


@pytest.mark.parametrize("text", CASES["yaml_that_would_mean_something_else_is_refused"])
def test_yaml_that_would_mean_something_else_is_refused(text: str) -> None:
    with pytest.raises(UnsafeTextEdit):
        yaml_edits.with_mapping(text, YAML, ENTRY)
