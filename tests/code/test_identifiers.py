"""Python names of servers, tools and parameters."""

from __future__ import annotations

import asyncio
import keyword
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.code.host_messages import ScriptLimits
from tabane.code.monty_sandbox import MontySandbox
from tabane.code.script_run import ScriptEnd, ScriptRun, ToolNames, read_source
from tabane.code.signatures import identifier, identifiers
from tests.code.sandboxed import echo
from tests.harness.patience import LONG


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("search_issues", "search_issues"),
        ("searchIssues", "searchIssues"),
        ("search-issues", "search_issues"),
        ("repo/list..all", "repo_list_all"),
        ("import", "import_"),
        ("3d-view", "tool_3d_view"),
        ("_private", "private"),
        ("--", "tool"),
        ("", "tool"),
        ("検索", "検索"),
        ("Ｆｕｌｌ", "Full"),
    ],
)
def test_a_name_becomes_the_nearest_identifier(name: str, expected: str) -> None:
    assert identifier(name, "tool") == expected


def test_a_reserved_name_gets_an_underscore() -> None:
    assert identifiers(["time", "time_", "re"], "server", reserved={"time"}) == {
        "time": "time_",
        "time_": "time__2",
        "re": "re",
    }


@given(st.lists(st.text(max_size=12)))
def test_every_name_gets_an_identifier_of_its_own(names: list[str]) -> None:
    found = identifiers(names, "tool", taken=["taken"])
    assert set(found) == set(names)
    assert len(set(found.values())) == len(found)
    for each in found.values():
        assert each.isidentifier()
        assert not keyword.iskeyword(each)
        assert not each.startswith("_")
        assert each != "taken"


@given(st.lists(st.text(max_size=6)))
def test_the_order_of_names_changes_nothing(names: list[str]) -> None:
    assert identifiers(names, "tool") == identifiers(reversed(names), "tool")


def test_a_name_that_is_an_identifier_keeps_it_in_a_collision() -> None:
    assert identifiers(["a-b", "a.b", "a_b"], "tool") == {"a_b": "a_b", "a-b": "a_b_2", "a.b": "a_b_3"}


def test_a_server_can_have_the_name_of_any_module_of_python() -> None:
    names = ToolNames((name, "go", f"{name}__go") for name in sys.stdlib_module_names)
    modules = {each.module: [each.function] for each in names.by_name.values()}

    async def imported() -> ScriptEnd:
        sandbox, limits = MontySandbox(ScriptLimits(workers=1)), ScriptLimits()
        try:
            async with sandbox.session(modules, limits) as session:
                run = ScriptRun(session, [], limits, echo)
                end = await run.run(read_source(f"from tools import {', '.join(modules)}\n1"), {}, LONG)
                assert isinstance(end, ScriptEnd)
                return end
        finally:
            await sandbox.close()

    assert asyncio.run(imported()).failure == ""
    assert "time_" in modules
