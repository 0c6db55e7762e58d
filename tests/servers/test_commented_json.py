"""JSON with comments and trailing commas is read as what it says, and mistakes are found where they are."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.commented_json import (
    JsonSyntaxError,
    blank_comments,
    blank_trailing_commas,
    read_document,
)

TEXTS = st.text(st.sampled_from('ab"\\/*,}]{[: \t日本'), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
GAPS = st.sampled_from(["", " ", "\n", "\t", '// , ] " }\n', '/* \n " // , } */', "/**/", "/* 日本語 */\r\n"])


def written(value: Any, gap: st.DataObject) -> str:
    """``value`` as JSON with comments, white space and trailing commas wherever they may stand."""

    def between() -> str:
        return gap.draw(GAPS)

    def closing(filled: bool) -> str:
        return gap.draw(st.sampled_from(["", ","])) + between() if filled else ""

    if isinstance(value, list):
        parts = ",".join(between() + written(part, gap) + between() for part in value)
        return f"[{between()}{parts}{closing(bool(value))}]"
    if isinstance(value, dict):
        parts = ",".join(
            between() + json.dumps(key, ensure_ascii=False) + between() + ":" + between() + written(part, gap)
            for key, part in value.items()
        )
        return f"{{{between()}{parts}{closing(bool(value))}}}"
    return json.dumps(value, ensure_ascii=False)


@given(VALUES, st.data())
def test_comments_and_trailing_commas_change_nothing(value: Any, data: st.DataObject) -> None:
    text = written(value, data)
    assert read_document(text).value == value


@given(VALUES)
def test_strict_json_is_left_as_it_is(value: Any) -> None:
    text = json.dumps(value, indent=1)
    assert blank_trailing_commas(blank_comments(text)) == text
    assert not read_document(text).commented


@given(st.text(st.sampled_from('"\\/*,}]{[ \n\ra日'), max_size=60))
def test_blanking_moves_nothing(text: str) -> None:
    try:
        blanked = blank_trailing_commas(blank_comments(text))
    except JsonSyntaxError as error:
        broken = error
        before = text.split("\n")[: broken.line]
        at = len("\n".join([*before[:-1], ""])) + broken.column - 1
        blanked = text[:at] + " " * (len(text) - at) if text.startswith("/*", at) else ""
        text = blanked
    assert len(blanked) == len(text)
    assert [(i, c) for i, c in enumerate(text) if c in "\r\n"] == [
        (i, c) for i, c in enumerate(blanked) if c in "\r\n"
    ]
    assert all(new in (old, " ") for old, new in zip(text, blanked, strict=True))


@given(st.dictionaries(TEXTS, VALUES, max_size=5), st.data())
def test_members_are_found_in_order_with_their_lines(value: dict[str, Any], data: st.DataObject) -> None:
    document = read_document(written(value, data))
    members = document.members()
    assert {member.key: member.value for member in members} == value
    assert [member.key for member in members] == list(value)
    lines = document.text.split("\n")
    for member in members:
        assert '"' in lines[member.line - 1]
        inner = member.value if isinstance(member.value, dict) else {}
        assert [entry.key for entry in document.members(member.start)] == list(inner)


def test_lines_count_through_comments_and_doubled_keys() -> None:
    document = read_document('// 一\n/* 二\n三 */ {\n "a": 1,\n\n "b": {"c": 2,\n "d": 3}, "a": 4}')
    assert [(member.key, member.value, member.line) for member in document.members()] == [
        ("a", 1, 4),
        ("b", {"c": 2, "d": 3}, 6),
        ("a", 4, 7),
    ]
    inner = document.members(document.members()[1].start)
    assert [(member.key, member.line) for member in inner] == [("c", 6), ("d", 7)]


@pytest.mark.parametrize(
    ("text", "line", "column", "expected"),
    [
        ("", 1, 1, "expected a value, but the text ends"),
        ("// 注釈\n{\n  /* x */ a: 1}", 3, 11, 'expected a name in double quotes or "}", but found a'),
        ('{"a" 1}', 1, 6, 'expected ":" after the name, but found 1'),
        ('{\n "日本": 1 // 語\n "b": 2}', 3, 2, 'expected "," or a closing bracket, but found "'),
        ('{"a": "x\n"}', 1, 9, "expected a closing quote before the end of the line"),
        ('{"a": "x', 1, 7, "expected a closing quote for this text"),
        ('{"path": "C:\\x"}', 1, 13, 'expected "\\\\" for a backslash'),
        ('{"a": "\\u12"}', 1, 9, 'expected four digits after "\\u"'),
        ("{} {}", 1, 4, "expected the end of the file, but found {"),
        ("[1,,]", 1, 4, "expected a value, but found ,"),
        ("[,]", 1, 2, "expected a value, but found ,"),
        ('{"a": 1,\u3000}', 1, 9, 'expected a name in double quotes or "}", but found U+3000'),
        ("{} /* x", 1, 4, "this comment has no closing */"),
        ('{"a": ', 1, 7, "expected a value, but the text ends"),
        ("[" * 100_000, 1, 1, "it is nested too deeply"),
        ("9" * 5_000, 1, 1, "a number in it is too long"),
    ],
)
def test_a_mistake_is_named_with_line_column_and_what_belongs_there(
    text: str, line: int, column: int, expected: str
) -> None:
    with pytest.raises(JsonSyntaxError) as raised:
        read_document(text)
    assert (raised.value.line, raised.value.column, str(raised.value.expected)) == (line, column, expected)
