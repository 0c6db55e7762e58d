"""A name in a sentence or a command is read as a name."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.messages import say


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("github", "github"),
        ("time", '"time"'),
        ("All", '"All"'),
        ("my server", '"my server"'),
        ("-x", '"-x"'),
        ("天気", "天気"),
        ("io.github.user/weather", "io.github.user/weather"),
    ],
)
def test_a_name_that_reads_as_a_word_is_quoted(name: str, shown: str) -> None:
    assert say("{server!n} was stopped.", server=name).render("en") == f"{shown} was stopped."


@given(st.text(st.characters(exclude_characters="\0"), min_size=1))
def test_a_name_in_a_command_is_one_argument_and_no_option(name: str) -> None:
    words = shlex.split(say("tabane servers start {server!c}", server=name).render("en"))
    assert words[-1] == name
    assert ("--" in words[:-1]) is name.startswith("-")
