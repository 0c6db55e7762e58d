"""A name that is nearly right leads to the right one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.gateway.tools.name_matching import NameMatch, measure, nearest

NAMES = ["files__read_file", "files__write_file", "slack__post_message", "db__run_query"]


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
def test_the_nearest_name_comes_first(wanted: str, first: str) -> None:
    assert nearest(NAMES, wanted)[0] == first


def test_of_servers_with_the_same_tool_the_one_that_was_named_comes_first() -> None:
    names = [f"{server}__read_file" for server in ("aa", "bb", "cc", "dd", "yy")]
    assert nearest(names, "yy__read_fil")[0] == "yy__read_file"


def test_a_right_server_is_no_reason_to_offer_its_tools() -> None:
    assert nearest(NAMES, "slack__zzzzzz") == ()


def test_nothing_is_near_to_nonsense() -> None:
    assert nearest(NAMES, "quantum") == ()
    assert nearest(NAMES, "") == ()
    assert nearest([], "read_file") == ()


def test_no_more_names_than_asked() -> None:
    assert len(nearest([f"read_file{n}" for n in range(9)], "read_file")) == 3
    assert len(nearest([f"read_file{n}" for n in range(9)], "read_file", 1)) == 1


@given(st.lists(st.text(max_size=40), max_size=5), st.text(max_size=200))
def test_any_name_can_be_compared(names: list[str], wanted: str) -> None:
    assert set(nearest(names, wanted)) <= set(names)


@pytest.mark.parametrize("match", ["partial", "prefix"])
def test_a_longer_match_is_more_alike(match: NameMatch) -> None:
    likeness = measure(match)
    assert likeness("read", "read") == 1
    assert 1 > likeness("read", "read_file") > likeness("read", "read_many_files") > 0
    assert likeness("read", "write") == 0
