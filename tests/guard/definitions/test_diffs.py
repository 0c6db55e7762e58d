"""Differences of definitions: what changed is there, and nothing in it is hidden."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.definitions.definition import MOST_LINES, definition_diff, shown_lines

HIDDEN = ["\u200b", "\u202e", "\U000e0041", "\ufe0f", "\u3164", "\x1b", "\x7f", "\u2028", "\ud800"]


def lines(old: Any, new: Any) -> list[str]:
    before = None if old is None else json.dumps(old).encode()
    return [line.mark + line.text for line in definition_diff(before, json.dumps(new).encode())]


def test_a_line_of_a_long_text_is_shown_alone() -> None:
    old = {"name": "look", "description": "One.\nTwo.\nThree."}
    found = lines(old, old | {"description": "One.\n2.\nThree."})
    assert [line for line in found if line[0] in "+-"] == ['-    "Two.",', '+    "2.",']


def test_a_new_definition_is_shown_whole() -> None:
    found = lines(None, {"name": "look"})
    assert found[1:] == ["+{", '+  "name": "look"', "+}"]


@given(st.text(), st.sampled_from(HIDDEN), st.text())
def test_nothing_is_hidden_in_a_difference(before: str, hidden: str, after: str) -> None:
    found = lines({"name": "look"}, {"name": "look", "description": before + hidden + after})
    text = "".join(found)
    assert hidden not in text
    assert not any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in text)
    assert any(line[0] == "+" for line in found)


def test_a_member_that_is_given_twice_is_shown() -> None:
    old, new = b'{"name":"look","x":1}', b'{"name":"look","x":2,"x":1}'
    found = [line.mark + line.text for line in definition_diff(old, new)]
    assert found[-2:] == ["-" + old.decode(), "+" + new.decode()]


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_anything_has_a_difference(old: bytes, new: bytes) -> None:
    assert (definition_diff(old, new) == ()) is (old == new or shown_lines(old) == shown_lines(new) == [])


def test_long_definitions_are_cut() -> None:
    found = shown_lines(json.dumps(list(range(10 * MOST_LINES))).encode())
    assert len(found) == MOST_LINES + 1
    assert "more lines" in found[-1]
    (_, line, _) = shown_lines(json.dumps(["x" * 100_000]).encode())
    assert len(line) < 3_000
    assert "more characters" in line
