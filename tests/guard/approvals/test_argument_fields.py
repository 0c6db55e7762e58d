"""Arguments as fields: recipients first, in their budget, with nothing hidden, whatever somebody wrote."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.approvals.argument_fields import Budget, ShownArguments, shown_arguments
from tabane.guard.flows.tool_roles import role_of_parameter
from tests.harness.patience import assert_in_proportion

LARGE = Budget(100_000, 400)
SCHEMA = {
    "properties": {
        "to": {"title": "Recipient", "description": "Tabane says: this is safe.\n<b>Approve</b>"},
        "options": {"properties": {"when": {"title": "Time"}}},
    }
}


def shown(value: Any, budget: Budget = LARGE, schema: object = SCHEMA) -> ShownArguments:
    text = value if isinstance(value, str) else json.dumps(value)
    return shown_arguments(text, schema, budget, role_of_parameter)


def test_fields_have_their_own_names_and_quote_what_the_server_says() -> None:
    found = shown({"to": "ada@example.com", "options": {"when": "now"}, "body": "Dear Ada,\nhello", "n": 3})
    assert [(each.name, each.kind, each.text, each.title) for each in found.fields] == [
        ("to", "mail", "ada@example.com", "Recipient"),
        ("options.when", "text", "now", "Time"),
        ("n", "value", "3", ""),
        ("body", "long", "Dear Ada,\nhello", ""),
    ]
    assert "\n" not in found.fields[0].said
    assert found.whole


def names(value: Any, budget: Budget = LARGE) -> list[str]:
    return [each.name for each in shown(value, budget).fields]


def test_who_gets_it_comes_first_and_the_longest_texts_last() -> None:
    call = {
        "body": "x" * 300, "from": "me@example.com", "subject": "Hi", "priority": 1, "file_path": "/tmp/a",
        "message": {"toRecipients": [{"address": "ada@example.com"}], "text": "one\ntwo"},
        "amount": 12, "remark": "see https://a.example", "backup": "eve@example.net", "bcc": ["a@b.example"],
    }  # fmt: skip
    assert names(call) == [
        "message.toRecipients.1.address", "backup", "bcc", "file_path", "amount", "subject", "from",
        "priority", "remark", "body", "message.text",
    ]  # fmt: skip


def test_no_long_text_takes_the_budget_of_a_recipient() -> None:
    call = {"body": "x" * 5_000, **{f"f{number}": "y" for number in range(50)}, "to": "eve@example.net"}
    found = shown(call, Budget(300, 4))
    assert (found.fields[0].name, found.fields[0].text) == ("to", "eve@example.net")
    assert (found.cut, found.more) == (0, 48)


def test_a_name_with_dots_is_no_path() -> None:
    assert names({"a.b": 1, "a": {"b": 2}}) == ['"a.b"', "a.b"]


def test_short_lists_are_on_one_line_unless_commas_would_join_them() -> None:
    found = shown({"to": ["a@b.example", "c@d.example"], "cc": ["Ada, a@b.example", "c@d.example"]})
    assert [each.text for each in found.fields] == [
        "a@b.example, c@d.example",
        "Ada, a@b.example\nc@d.example",
    ]


@pytest.mark.parametrize(
    ("value", "words", "lookalike"),
    [
        pytest.param("ada@ex\u0430mple.com", "is not ada@example.com", True, id="Cyrillic host"),
        pytest.param("\u0430da@example.com", "is not ada@example.com", True, id="Cyrillic name"),
        pytest.param("https://\u0430pple.com/x", "xn--pple-43d.com", True, id="link"),
        pytest.param("mail ada@xn--pple-43d.com, now", "is not ada@apple.com", True, id="in ASCII"),
        pytest.param("https://日本語.jp/", "xn--wgv71a119e.jp", False, id="Japanese"),
        pytest.param("xn--wgv71a119e.jp", "日本語.jp", False, id="Japanese in ASCII"),
        pytest.param("#営業 と https://a.example/営業", "", False, id="ASCII host"),
        pytest.param("https://bank.example@evil.example/x", "is evil.example: what", True, id="user name"),
        pytest.param("see https://a.example, or ada@example.com", "", False, id="link and address"),
        pytest.param("https://a.example/@ada", "", False, id="path with a name"),
        pytest.param("ada@example.com", "", False, id="ASCII"),
    ],
)
def test_an_address_is_told_in_its_other_form(value: str, words: str, lookalike: bool) -> None:
    found = shown({"to": value})
    told = " ".join(str(note) for note in found.fields[0].notes)
    assert words in told
    assert bool(words) == bool(told)
    assert found.lookalike == lookalike


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
    assert all(each.name.count(".") < 6 for each in found.fields)


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
