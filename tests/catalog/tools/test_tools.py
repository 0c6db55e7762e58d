"""A definition passes as its upstream wrote it, with nothing but its name replaced."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.tool import Tool, original_name, read_tool
from tabane.servers.server import Server
from tabane.wire.json import fields

SERVER = Server(name="files", tags=("local",), category="storage")

# Members as an upstream may spell them: numbers that Python would write otherwise, odd escapes.
SPELLINGS = st.sampled_from(
    [b"1.50", b"1e3", b"123456789012345678901234567890", b'"\\u00e9"', b"null", b'[ 1,2 , "x"]']
)


def read(definition: bytes | dict[str, Any]) -> Tool | None:
    raw = definition if isinstance(definition, bytes) else json.dumps(definition).encode()
    return read_tool(raw, SERVER, "files__read")


def test_a_tool_is_read_off_its_definition() -> None:
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    definition = {
        "name": "read",
        "title": "Read",
        "description": "Reads.",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": True},
    }
    raw = json.dumps(definition, separators=(",", ":")).encode()
    assert read(raw) == Tool(
        alias="files__read",
        server="files",
        name="read",
        definition=raw.replace(b'"name":"read"', b'"name":"files__read"'),
        title="Read",
        description="Reads.",
        schema=schema,
        read_only=True,
        tags=("local",),
        category="storage",
    )


@given(st.dictionaries(st.sampled_from(["a", "b", "description", "inputSchema", "_meta"]), SPELLINGS))
def test_every_other_member_keeps_its_spelling(members: dict[str, bytes]) -> None:
    raw = b'{"name":"read"' + b"".join(b',"%b":%b' % (k.encode(), v) for k, v in members.items()) + b"}"
    tool = read(raw)
    assert tool is not None
    passed = {key: bytes(value) for key, value in fields(tool.definition).items()}
    assert passed == {"name": b'"files__read"', **members}


@pytest.mark.parametrize(
    "definition",
    [b"", b"[]", b"null", b'"name"', b"{}", b'{"name":1}', b'{"name":""}', b'{"name":null}', b'{"name":"x"'],
)
def test_what_has_no_usable_name_is_no_tool(definition: bytes) -> None:
    assert read(definition) is None
    assert original_name(definition) is None


@pytest.mark.parametrize(
    "members",
    [
        {"description": 5},
        {"description": ["a"]},
        {"inputSchema": "object"},
        {"inputSchema": None},
        {"annotations": "read-only"},
        {"annotations": {"readOnlyHint": "true", "title": 7}},
        {"title": {}},
    ],
)
def test_members_of_the_wrong_type_count_as_absent(members: dict[str, Any]) -> None:
    tool = read({"name": "read", **members})
    assert tool is not None
    assert (tool.title, tool.description, tool.schema, tool.read_only) == ("", "", {}, False)
    assert json.loads(tool.definition) == {**members, "name": "files__read"}


def test_a_lone_surrogate_is_replaced_since_not_every_client_reads_it() -> None:
    tool = read(b'{"name":"read","description":"cut \\ud83d","inputSchema":{"title":"\\udc00"}}')
    assert tool is not None
    assert tool.description == "cut \ufffd"
    assert tool.schema == {"title": "\ufffd"}
    assert b'"cut \\ufffd"' in tool.definition


def test_a_huge_description_passes_whole_and_is_read_in_part() -> None:
    tool = read({"name": "read", "description": "x" * 1_000_000})
    assert tool is not None
    assert len(tool.definition) > 1_000_000
    assert len(tool.description) < 20_000


def test_a_title_may_stand_among_the_annotations() -> None:
    tool = read({"name": "read", "annotations": {"title": "Read it"}})
    assert tool is not None
    assert tool.title == "Read it"


@pytest.mark.parametrize(
    ("hints", "expected"),
    [
        ({"readOnlyHint": True}, (True, False)),
        ({"readOnlyHint": True, "destructiveHint": True}, (True, False)),
        ({"readOnlyHint": False, "destructiveHint": True}, (False, True)),
        ({"destructiveHint": False}, (False, False)),
        ({}, (False, False)),
    ],
)
def test_a_tool_is_destructive_only_where_it_is_not_read_only(
    hints: dict[str, bool], expected: tuple[bool, bool]
) -> None:
    tool = read({"name": "read", "annotations": hints})
    assert tool is not None
    assert (tool.read_only, tool.destructive) == expected


def test_the_original_name_is_what_the_upstream_calls_it() -> None:
    assert original_name(b'{"name": "read \\u00e9"}') == "read é"


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_anything_that_is_no_definition_is_refused(raw: bytes) -> None:
    tool = read(raw)
    assert tool is None or tool.name
