"""A misspelled name leads to the nearest known name."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.text.nearest_names import closest, nearest, nearest_qualified

SETTINGS = ["log_level", "log_size", "model_url", "idle_minutes"]
TOOLS = ["files__read_file", "files__write_file", "slack__post_message", "db__run_query"]


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("log_levle", "log_level"),
        ("loglevel", "log_level"),
        ("LOG-LEVEL", "log_level"),
        ("ｌｏｇ＿ｌｅｖｅｌ", "log_level"),
        ("level", "log_level"),
        ("idle", "idle_minutes"),
    ],
)
def test_the_nearest_name_comes_first(wanted: str, first: str) -> None:
    assert nearest(wanted, SETTINGS)[0] == first


@pytest.mark.parametrize("wanted", ["LOG-SIZE", "logsize"])
def test_a_name_that_differs_in_case_and_joints_comes_alone(wanted: str) -> None:
    assert nearest(wanted, SETTINGS) == ("log_size",)


@pytest.mark.parametrize(
    ("wanted", "first"),
    [
        ("files__raed_file", "files__read_file"),
        ("read_fiel", "files__read_file"),
        ("files.read_files", "files__read_file"),
        ("READ_FILE", "files__read_file"),
        ("post", "slack__post_message"),
        ("database__run_query", "db__run_query"),
    ],
)
def test_a_tool_is_found_without_its_server(wanted: str, first: str) -> None:
    assert nearest_qualified(wanted, TOOLS)[0] == first


def test_of_servers_with_the_same_tool_the_one_that_was_named_comes_first() -> None:
    names = [f"{server}__read_file" for server in ("aa", "bb", "cc", "dd", "yy")]
    assert nearest_qualified("yy__read_fil", names)[0] == "yy__read_file"


def test_a_right_server_is_no_reason_to_offer_its_tools() -> None:
    assert nearest_qualified("slack__zzzzzz", TOOLS) == ()


@pytest.mark.parametrize("find", [nearest, nearest_qualified])
def test_nothing_is_near_to_nonsense(find: Callable[..., tuple[str, ...]]) -> None:
    assert find("quantum", TOOLS) == ()
    assert find("", TOOLS) == ()
    assert find("read_file", []) == ()


@pytest.mark.parametrize("find", [nearest, nearest_qualified])
def test_no_more_names_than_asked(find: Callable[..., tuple[str, ...]]) -> None:
    names = [f"read_file{n}" for n in range(9)]
    assert len(find("read_file", names)) == 3
    assert len(find("read_file", names, 1)) == 1


@given(st.text(max_size=200), st.lists(st.text(max_size=40), max_size=5))
def test_any_name_can_be_compared(wanted: str, names: list[str]) -> None:
    assert set(nearest(wanted, names)) <= set(names)
    assert set(nearest_qualified(wanted, names)) <= set(names)
    assert len(closest(wanted, names, 3)) == min(3, len(names))


def test_the_closest_names_are_given_however_far_they_are() -> None:
    assert closest("alise", ["bob", "alice", "zoë"], 2) == [1, 0]
