"""Entries of secrets.env are set and removed, and every other line stays as it was."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import ConfigurationError
from tabane.servers.variables import parse_secrets, with_secret, without_secret

VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=40) | st.text(
    "a \t\n\r'\"\\#$={}", min_size=1, max_size=12
)
NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)
LINES = st.sampled_from(
    ["", "# a comment", "A=1", "export B='x # y'", 'C="two\nlines"', "  D = bare # note", "A='again'"]
)


@given(lines=st.lists(LINES, max_size=6), name=NAMES, value=VALUES, ended=st.booleans())
def test_a_value_is_read_back_as_it_was_set(lines: list[str], name: str, value: str, ended: bool) -> None:
    before = "\n".join(lines) + ("\n" if ended else "")
    after = with_secret(before, name, value, "secrets.env")
    assert parse_secrets(after, "") == {**parse_secrets(before, ""), name: value}
    others = without_secret(before, name, "")
    assert without_secret(after, name, "").rstrip("\n") == others.rstrip("\n")


def test_an_entry_is_replaced_at_its_place_and_earlier_ones_are_removed() -> None:
    before = "# first\nKEY=old\n\nexport KEY='newer' # note\nOTHER=1\n"
    assert with_secret(before, "KEY", "it's", "") == '# first\n\nKEY="it\'s"\nOTHER=1\n'
    assert without_secret(before, "KEY", "") == "# first\n\nOTHER=1\n"


def test_line_ends_and_the_byte_order_mark_stay() -> None:
    assert with_secret("\ufeffA=1\r\nB=2\r\n", "A", "3", "") == "\ufeffA=3\r\nB=2\r\n"


def test_a_file_with_a_line_that_cannot_be_read_is_not_changed() -> None:
    with pytest.raises(ConfigurationError, match=r"secrets.env:2"):
        with_secret("A=1\nnonsense\n", "A", "2", "secrets.env")
