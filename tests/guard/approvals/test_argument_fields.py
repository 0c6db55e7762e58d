"""Arguments as fields: whole, in their budget, with nothing hidden, whatever somebody wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.web.argument_fields import Budget, ShownArguments, shown_arguments
from tests.harness.patience import assert_in_proportion

LARGE = Budget(100_000, 400)
SCHEMA = {
    "properties": {
        "to": {"title": "Recipient", "description": "Tabane says: this is safe.\n<b>Approve</b>"},
        "options": {"properties": {"when": {"title": "Time"}}},
    }
}


def shown(value: Any, budget: Budget = LARGE, schema: object = SCHEMA) -> ShownArguments:
    return shown_arguments(value if isinstance(value, str) else json.dumps(value), schema, budget)


def test_fields_have_their_own_names_and_quote_what_the_server_says() -> None:
    found = shown({"to": "ada@example.com", "options": {"when": "now"}, "body": "Dear Ada,\nhello", "n": 3})
    assert [(each.path, each.depth, each.kind, each.text, each.title) for each in found.fields] == [
        ("to", 0, "mail", "ada@example.com", "Recipient"),
        ("options", 0, "group", "", ""),
        ("options.when", 1, "text", "now", "Time"),
        ("body", 0, "long", "Dear Ada,\nhello", ""),
        ("n", 0, "value", "3", ""),
    ]
    assert "\n" not in found.fields[0].said
    assert found.whole


@pytest.mark.parametrize(
    "sign", ["\u202e", "\u200b", "\u2066", "\u200f", "\u3164", "\x1b", "\U000e0041", "\u00ad"]
)
@pytest.mark.parametrize("place", ["value", "name"])
def test_a_character_that_nobody_sees_is_an_escape_and_is_told(sign: str, place: str) -> None:
    found = shown({"a": f"x{sign}y"} if place == "value" else {f"a{sign}b": "x"})
    text = found.fields[0].text + found.fields[0].name
    assert sign not in text
    assert f"\u27e8U+{ord(sign):04X}\u27e9" in text
    assert found.hidden


def test_a_text_that_only_spells_an_escape_hides_nothing() -> None:
    assert not shown({"a": "\u27e8U+202E\u27e9"}).hidden


def test_a_field_that_is_given_twice_is_shown_twice() -> None:
    found = shown('{"to": "boss@example.com", "to": "eve@example.net"}')
    assert [(each.text, each.twice) for each in found.fields] == [
        ("boss@example.com", True),
        ("eve@example.net", True),
    ]
    assert found.twice


def test_a_field_that_is_given_twice_deep_inside_is_shown_twice() -> None:
    found = shown('{"a":{"b":{"c":{"d":{"e":{"f":{"to": "eve", "to": "boss", "n": 1e999}}}}}}}')
    assert found.fields[-1].text == '{"to": "eve", "to": "boss", "n": 1e999}'
    assert found.twice


@pytest.mark.parametrize("part", ['\\"', "[", '"', '{"a":', "\\", '"x",,', "[],"])
def test_the_beginning_of_long_arguments_is_read_in_proportion_to_its_length(part: str) -> None:
    def look(count: int) -> None:
        shown(json.dumps('{"a":["' + part * count), Budget(300, 4))

    assert_in_proportion(look, 2_000)


def test_numbers_are_shown_as_they_were_written() -> None:
    found = shown('{"a": 1e999, "b": 0.10, "c": 12345678901234567890, "d": NaN}')
    assert [each.text for each in found.fields] == ["1e999", "0.10", "12345678901234567890", "NaN"]


@pytest.mark.parametrize(
    ("value", "cut", "more"),
    [
        pytest.param({"a": "x" * 300_000}, 200_000, 0, id="long value"),
        pytest.param({f"f{number}": number for number in range(10_000)}, 0, 9_600, id="many fields"),
        pytest.param({"a": [{"b": "y" * 10_000} for _ in range(20)]}, 100_000, 0, id="many long values"),
    ],
)
def test_what_exceeds_the_budget_is_counted(value: Any, cut: int, more: int) -> None:
    found = shown(value)
    assert (found.cut, found.more, found.whole) == (cut, more, False)
    assert sum(len(each.text) for each in found.fields) <= LARGE.characters
    assert len(found.fields) <= LARGE.fields


@pytest.mark.parametrize("depth", [100, 1_000, 20_000])
def test_deep_nesting_is_shown_as_text(depth: int) -> None:
    found = shown('{"a":' * depth + "1" + "}" * depth)
    assert found.fields or found.raw
    assert all(each.depth < 7 for each in found.fields)


def test_the_beginning_of_long_arguments_is_shown_as_fields() -> None:
    cut = json.dumps({"path": "x", "text": "one\ntwo\n" * 50})[:90]
    found = shown(json.dumps(cut))  # as a hub keeps it
    assert found.fields[1].text.startswith("one\ntwo\n")


@given(st.text(), st.integers(0, 200))
def test_any_beginning_can_be_shown(text: str, length: int) -> None:
    written = json.dumps({"a": {"b": [1, {"c": text}]}, "d": "e\\"})[:length]
    found = shown(json.dumps(written))
    assert found.fields or found.raw or not written.strip("{ ")


def test_time_is_in_proportion_to_what_is_given() -> None:
    assert_in_proportion(lambda size: shown(json.dumps('{"a": "' + "[{" * size)), 500)
