"""Tool lines and tool pages for models: short, and true to the definition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.gateway.tools.disclosure import describe, light_definition, search_text, signature
from tabane.gateway.tools.tool import Tool
from tests.gateway.tools import corpus, tool

STRING = {"type": "string"}
TOOLS = [tool for tools in corpus()[0].values() for tool in tools]

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
KEYWORDS = """
type properties items required enum const anyOf oneOf allOf $ref $defs default description minimum maximum
minLength pattern format additionalProperties multipleOf minItems
"""
SCHEMAS = st.recursive(
    JSON | st.sampled_from(["string", "object", "array", "#", "#/$defs/a", "http://x"]),
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYWORDS.split()) | st.text(max_size=4), inner, max_size=6)
        | st.lists(inner, max_size=3)
    ),
    max_leaves=25,
)


def with_schema(schema: Any, **members: Any) -> Tool:
    return tool("t", "Does it.", inputSchema=schema, **members)


def arguments(properties: dict[str, Any], required: tuple[str, ...] = (), **more: Any) -> str:
    """What stands in the brackets of the signature."""
    line = signature(with_schema({"type": "object", "properties": properties, "required": required, **more}))
    return line.removeprefix("files__t(").removesuffix("): Does it.")


# -- one line ------------------------------------------------------------------------------------


def test_a_signature_is_name_arguments_and_first_sentence() -> None:
    read = tool(
        "read_file",
        "Read a file, e.g. a log. It must exist.",
        {"limit": {"type": "integer"}, "path": STRING},
        inputSchema={
            "type": "object",
            "properties": {"limit": {"type": "integer"}, "path": STRING},
            "required": ["path"],
        },
    )
    assert signature(read) == "files__read_file(path: string, limit?: integer): Read a file, e.g. a log."


def test_a_japanese_sentence_ends_at_its_own_full_stop() -> None:
    assert signature(tool("t", "ファイルを読む。詳細は次。")) == "files__t(): ファイルを読む。"


def test_a_tool_without_description_shows_its_title_or_nothing() -> None:
    assert signature(tool("t", title="Teleport")) == "files__t(): Teleport"
    assert signature(tool("t")) == "files__t()"


@pytest.mark.parametrize(
    ("hints", "mark"),
    [
        ({"readOnlyHint": True}, " [read-only]"),
        ({"destructiveHint": True}, " [destructive]"),
        ({"readOnlyHint": True, "destructiveHint": True}, " [read-only]"),
        ({"readOnlyHint": False}, ""),
        ({"readOnlyHint": "yes", "destructiveHint": 1}, ""),
        ([], ""),
    ],
)
def test_what_a_caller_must_know_is_marked(hints: Any, mark: str) -> None:
    assert signature(tool("t", "Does it.", annotations=hints)) == f"files__t(){mark}: Does it."


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "string"}, "string"),
        ({"type": ["string", "null"]}, "string"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer"),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "integer|string"),
        ({"enum": ["a", "b"]}, '"a"|"b"'),
        ({"enum": ["a", "b", "c", "d", "e"]}, '"a"|"b"|"c"|"d"|…'),
        ({"const": 5}, "5"),
        ({"type": "array", "items": {"type": "string"}}, "string[]"),
        ({"type": "array", "items": {"enum": [1, 2]}}, "(1|2)[]"),
        ({"type": "array"}, "any[]"),
        ({"type": "object"}, "object"),
        ({"type": "object", "properties": {"a": STRING}}, "{…}"),
        ({"$ref": "#/$defs/Mode"}, '"r"|"w"'),
        ({"allOf": [{"$ref": "#/$defs/Mode"}], "description": "x"}, '"r"|"w"'),
        ({"$ref": "http://example.com/x"}, "any"),
        ({"$ref": "#/$defs/Loop"}, "any"),
        ({}, "any"),
        (True, "any"),
    ],
)
def test_a_type_is_written_briefly(schema: Any, kind: str) -> None:
    defs = {"Mode": {"enum": ["r", "w"]}, "Loop": {"$ref": "#/$defs/Loop"}}
    assert arguments({"a": schema}, ("a",), **{"$defs": defs}) == f"a: {kind}"


def test_an_optional_choice_shows_that_it_is_one() -> None:
    assert arguments({"mode": {"enum": ["r", "w", "a"]}}) == 'mode?: "r"|…'


def test_required_arguments_come_first_in_the_order_of_the_schema() -> None:
    properties = {"z": STRING, "b": STRING, "a": STRING}
    assert arguments(properties, ("a", "b")) == "b: string, a: string, z?: string"


def test_many_optional_arguments_are_cut() -> None:
    shown = arguments({f"o{number}": STRING for number in range(9)} | {"needed": STRING}, ("needed",))
    assert shown == "needed: string, o0?: string, o1?: string, o2?: string, o3?: string, …"


def test_a_long_sentence_is_cut_at_a_word() -> None:
    line = signature(tool("t", "word " * 100))
    assert line.endswith("word…")
    assert len(line) < 180


# -- search --------------------------------------------------------------------------------------


def test_a_search_shows_scores_and_the_total() -> None:
    text = search_text([(tool("a", "Does a."), 0.734), (tool("b", "Does b."), 0.5)], 7, "does", [])
    assert text == "2 of 7 matching tools:\n0.73 files__a(): Does a.\n0.50 files__b(): Does b."


def test_a_search_that_finds_nothing_says_so_and_names_near_ones() -> None:
    names = ["files__read_file", "files__write_file", "slack__post_message"]
    assert search_text([], 0, "raed_file", names) == (
        "No tool matches “raed_file”. Similar names: files__read_file, files__write_file"
    )
    assert "near" not in search_text([], 0, "quantum", names)


def test_servers_that_have_not_listed_are_named() -> None:
    text = search_text([], 0, "x", [], ("slow", "late"))
    assert text.splitlines()[-1] == "Still starting: late, slow. Search again in a moment."


def test_a_long_query_is_not_repeated_whole() -> None:
    assert len(search_text([], 0, "word " * 400, [])) < 200


# -- a page --------------------------------------------------------------------------------------


def test_a_page_has_all_that_a_call_needs() -> None:
    schema = {
        "type": "object",
        "required": ["path", "edits"],
        "properties": {
            "limit": {
                "type": "integer",
                "minimum": 1,
                "maximum": 1000,
                "default": 100,
                "description": "Most.",
            },
            "path": {"type": "string", "minLength": 1, "description": "Absolute\n path."},
            "mode": {"type": "string", "pattern": "^[0-7]{3}$"},
            "format": {"enum": ["json", "text", "csv", "xml", "yaml"], "default": "json"},
            "since": {"type": ["string", "null"], "format": "date-time"},
            "ratio": {"type": "number", "exclusiveMinimum": 0},
            "edits": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Edit"}},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        },
        "$defs": {
            "Edit": {
                "type": "object",
                "required": ["old"],
                "properties": {"old": {"type": "string", "description": "Text to find."}, "new": STRING},
            }
        },
    }
    edit = tool(
        "edit",
        "Edit a file.  Returns a diff.",
        inputSchema=schema,
        annotations={"destructiveHint": True, "idempotentHint": True},
        outputSchema={"type": "object", "properties": {"diff": STRING}, "required": ["diff"]},
    )
    assert describe(edit).splitlines() == [
        "files__edit [destructive, idempotent]",
        "Edit a file. Returns a diff.",
        "path: string (>=1 chars) — Absolute path.",
        "edits: object[] (>=1 items)",
        "  old: string — Text to find.",
        "  new?: string",
        "limit?: integer 1..1000 = 100 — Most.",
        "mode?: string /^[0-7]{3}$/",
        'format?: "json"|"text"|"csv"|"xml"|"yaml" = "json"',
        "since?: string|null <date-time>",
        "ratio?: number >0",
        "labels?: {[key]: string}",
        "→ {diff: string}",
    ]


def test_a_page_says_that_there_are_no_arguments() -> None:
    assert describe(tool("now", "Tell the time.")).splitlines()[-1] == "(no arguments)"


def test_a_schema_that_names_itself_ends() -> None:
    node = {"type": "object", "properties": {"name": STRING, "child": {"$ref": "#/$defs/Node"}}}
    page = describe(with_schema({"properties": {"root": {"$ref": "#/$defs/Node"}}, "$defs": {"Node": node}}))
    assert "      child?: " in page
    assert len(page.splitlines()) < 15


def test_a_page_stays_short_whatever_the_definition() -> None:
    wide = {f"p{n}": {"$ref": f"#/$defs/{(n + 1) % 3}"} for n in range(100)}
    schema = {"properties": wide, "$defs": {str(n): {"properties": wide} for n in range(3)}}
    page = describe(tool("t", "long " * 100_000, inputSchema=schema, outputSchema=schema))
    assert len(page) < 10_000
    assert "(more: detail full)" in page


def test_full_detail_is_the_definition_as_it_came() -> None:
    whole = tool("t", "Does it.", extra={"kept": [1, 2.50]})
    assert describe(whole, "full") == whole.definition.decode()
    assert json.loads(describe(whole, "full"))["extra"] == {"kept": [1, 2.5]}


# -- light ---------------------------------------------------------------------------------------


def test_a_light_definition_is_name_and_first_sentence() -> None:
    assert json.loads(light_definition(tool("t", "Does it. And more.", {"a": STRING}))) == {
        "name": "files__t",
        "description": "Does it.",
        "inputSchema": {"type": "object"},
    }


def test_light_definitions_take_no_more_than_they_must() -> None:
    assert max(len(light_definition(tool)) for tool in TOOLS) < 320


# -- whatever upstreams send -----------------------------------------------------------------------


@given(SCHEMAS, st.text(max_size=80), JSON, JSON)
def test_any_definition_can_be_shown(schema: Any, description: str, annotations: Any, output: Any) -> None:
    shown = tool("t", description, inputSchema=schema, annotations=annotations, outputSchema=output)
    assert "\n" not in signature(shown)
    assert len(signature(shown)) < 3000
    assert describe(shown).startswith("files__t")
    json.loads(light_definition(shown))


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.alias)
def test_tools_of_the_corpus_fit_a_line_and_a_page(tool: Tool) -> None:
    assert len(signature(tool)) < 320
    assert len(describe(tool)) < 700
