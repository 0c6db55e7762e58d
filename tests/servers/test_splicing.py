"""Changing a member of a JSON text: everything else stays, character by character."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.servers.commented_json import JsonSyntaxError, blank_comments, read_document
from tabane.servers.json_edits import NotAnObject, with_member, without_member

PATH = ("mcpServers", "tabane")
ENTRY = {"command": "/opt/タバネ/tabane", "args": ["mcp", "--mode", "full"]}

LAID_OUT = """\
{
  // what I use
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]} // the clock
  },
  "number": 1.50, /* as written */ "other": "\\u3042"
}
"""

ADDED = """\
{
  // what I use
  "mcpServers": {
    "time": {"command": "uvx", "args": ["mcp-server-time"]}, // the clock
    "tabane": {
      "command": "/opt/タバネ/tabane",
      "args": [
        "mcp",
        "--mode",
        "full"
      ]
    }
  },
  "number": 1.50, /* as written */ "other": "\\u3042"
}
"""


def test_a_member_is_added_behind_the_others_in_their_layout() -> None:
    assert with_member(LAID_OUT, PATH, ENTRY) == ADDED


def test_taking_it_out_gives_the_text_back() -> None:
    assert without_member(ADDED, PATH) == LAID_OUT


@pytest.mark.parametrize(
    "text",
    [
        '{"mcpServers": {"a": {"command": "x"}}}',
        '{"mcpServers":{"a":1}}',
        '{\n\t"mcpServers": {\n\t\t"a": 1,\n\t},\n}\n',
        '{\r\n  "mcpServers": {\r\n    "a": 1\r\n  }\r\n}\r\n',
        '{"mcpServers": {\n  "a": 1, // one\n  "b": 2 /* two */ // and more\n}}',
        '{"mcpServers": {}}',
        '{"x": 1, "x": 2, "mcpServers": {"a": 1, "a": 2}}',
    ],
)
def test_a_table_that_was_there_comes_back_as_it_was(text: str) -> None:
    assert without_member(with_member(text, PATH, ENTRY), PATH) == text


def test_where_there_is_no_table_one_is_made() -> None:
    for text in ("", "\n", "{}", '{\n    "a": [1] // x\n}\n', '{"mcpServers": null}'):
        grown = with_member(text, PATH, ENTRY)
        assert read_document(grown).value["mcpServers"] == {"tabane": ENTRY}
        assert read_document(without_member(grown, PATH)).value["mcpServers"] == {}


def test_tabs_and_line_ends_are_those_of_the_file() -> None:
    grown = with_member('{\r\n\t"servers": {\r\n\t}\r\n}\r\n', ("servers", "tabane"), {"command": "t"})
    assert grown == (
        '{\r\n\t"servers": {\r\n\t\t"tabane": {\r\n\t\t\t"command": "t"\r\n\t\t}\r\n\t}\r\n}\r\n'
    )


def test_a_value_is_replaced_in_its_place_and_the_same_value_changes_nothing() -> None:
    assert with_member(ADDED, PATH, ENTRY) == ADDED
    changed = with_member(ADDED, (*PATH, "args"), ["mcp"])
    assert read_document(changed).value["mcpServers"]["tabane"] == ENTRY | {"args": ["mcp"]}
    assert "// the clock" in changed


def test_a_comment_never_swallows_what_follows() -> None:
    for text in (
        '{"m": {"a": 1, // note\n "t": 2, "b": 3}}',
        '{"m": {"a": 1, // note\n "t": 2}}',
        '{"m": { // note\n "t": 2}}',
        '{"m": {"a": 1 /* x */ , // note\n "t": 2 /* y */ , /* z\n */ "b": 3}}',
        '{"m": {"t": 2 // note\n , "b": 3}}',
    ):
        left = without_member(text, ("m", "t"))
        expected = read_document(text).value
        del expected["m"]["t"]
        assert read_document(left).value == expected
        assert comments(left) == comments(text)


def test_what_is_no_object_is_named_and_broken_text_refused() -> None:
    with pytest.raises(NotAnObject) as caught:
        with_member('{"mcpServers": [1]}', PATH, ENTRY)
    assert caught.value.key == "mcpServers"
    with pytest.raises(NotAnObject):
        with_member("[]", PATH, ENTRY)
    with pytest.raises(JsonSyntaxError):
        with_member('{"mcpServers": {]}', PATH, ENTRY)


# -- any file ------------------------------------------------------------------------------------

_KEYS = st.sampled_from(["mcpServers", "tabane", "time", "servers", "あ", "a//b", '"', "/*", "{", ","])
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["//", "/*x*/", ",}"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=3),
    max_leaves=6,
)
_TABLES = st.dictionaries(_KEYS.filter(lambda key: key != "tabane"), _VALUES, max_size=3)
_FILLINGS = st.lists(
    st.sampled_from(["", " ", "\t", "\n", "\r\n", "  ", "// note\n", "/* a\n b */", "/* , } */", "//\n\n"]),
    max_size=2,
).map("".join)


@st.composite
def files(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A client's file as a person may have left it: its text, and what it says."""
    value = draw(st.dictionaries(_KEYS.filter(lambda key: key != "mcpServers"), _VALUES, max_size=3))
    if draw(st.booleans()):
        value["mcpServers"] = draw(_TABLES)
        value = dict(draw(st.permutations(list(value.items()))))
    return draw(_FILLINGS) + _written(draw, value) + draw(_FILLINGS), value


def _written(draw: st.DrawFn, value: Any) -> str:
    def fill(text: str = "") -> str:
        return draw(_FILLINGS) + text + draw(_FILLINGS)

    def joined(parts: list[str]) -> str:
        if not parts:
            return draw(_FILLINGS)
        return ",".join(parts) + draw(st.sampled_from(["", ",", ", // last\n", ",\n\t"]))

    if isinstance(value, dict):
        return (
            "{"
            + joined([f"{fill(json.dumps(key))}:{fill(_written(draw, part))}" for key, part in value.items()])
            + "}"
        )
    if isinstance(value, list):
        return "[" + joined([fill(_written(draw, part)) for part in value]) + "]"
    return json.dumps(value, ensure_ascii=draw(st.booleans()))


def comments(text: str) -> list[str]:
    """All that is not JSON in a text, white space aside."""
    blanked = blank_comments(text)
    return [a for a, b in zip(text, blanked, strict=True) if a != b and not a.isspace()]


@given(files())
def test_what_is_put_in_comes_out_again_and_nothing_else_has_changed(
    file: tuple[str, dict[str, Any]],
) -> None:
    text, value = file
    grown = with_member(text, PATH, ENTRY)
    table = value.get("mcpServers", {})
    assert read_document(grown).value == value | {"mcpServers": table | {"tabane": ENTRY}}
    assert comments(grown) == comments(text)
    left = without_member(grown, PATH)
    assert read_document(left).value == value | {"mcpServers": table}
    assert comments(left) == comments(text)
    if table:
        assert left == text
