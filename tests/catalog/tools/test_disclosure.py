"""Tool lines and tool pages for models: short, and true to the definition."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tabane.catalog.tools.disclosure import describe, light_definition, search_text, signature, unlisted_lines
from tabane.catalog.tools.tool import Tool
from tests.catalog.tools.tools import corpus, tool
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

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


@pytest.mark.parametrize(("hints", "mark"), CASES["what_a_caller_must_know_is_marked"])
def test_what_a_caller_must_know_is_marked(hints: Any, mark: str) -> None:
    assert signature(tool("t", "Does it.", annotations=hints)) == f"files__t(){mark}: Does it."


@pytest.mark.parametrize(("schema", "kind"), CASES["a_type_is_written_briefly"])
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


def test_a_search_shows_the_total_and_a_line_for_the_better_tools() -> None:
    names = "abcde"
    found = [tool(name, f"Does {name}.") for name in names]
    lines = [*(f"files__{name}(): Does {name}." for name in "abc"), "Also: files__d, files__e"]
    assert search_text(found, "does", [], total=7).splitlines() == ["5 of 7:", *lines]
    assert search_text(found, "does", []).splitlines() == lines


def test_tools_that_perhaps_do_not_fit_are_lines_like_any_other() -> None:
    found = [tool(name, f"Does {name}.") for name in "abcde"]
    first, *lines = search_text(found, "does", [], total=7, doubtful=True).splitlines()
    assert first == "Perhaps none of these fits. If so, search once more with other words."
    assert lines == search_text(found, "does", []).splitlines()


def test_a_step_has_fewer_lines_and_names_all_its_tools() -> None:
    found = [tool(name, f"Does {name}.") for name in "abcde"]
    text = search_text(found, "does", [], of_step=True)
    assert text.splitlines() == [
        "files__a(): Does a.",
        "files__b(): Does b.",
        "Also: files__c, files__d, files__e",
    ]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 8, 50])
def test_every_tool_that_a_search_finds_is_named_once(count: int) -> None:
    found = [tool(f"tool_{number}_", "Does it.") for number in range(count)]
    text = search_text(found, "does", [], total=count)
    assert all(text.count(each.alias) == 1 for each in found)
    assert len(text.splitlines()) <= count + 1


def test_a_line_of_a_search_is_only_what_a_model_needs_to_choose() -> None:
    schema = {
        "type": "object",
        "required": ["path", "count"],
        "properties": {"path": STRING, "count": {"type": "integer"}, "deep": {"type": "boolean"}},
    }
    sentence = "Show how the database would run a query, and what it expects it to cost."
    found = tool("explain", f"{sentence} More.", inputSchema=schema, annotations={"readOnlyHint": True})
    line = "files__explain(path, count: integer) [read-only]: Show how the database would run a query"
    assert search_text([found], "x", []) == line


def test_arguments_are_shown_if_none_is_required() -> None:
    assert signature(with_schema({"properties": {"a": STRING}}), typed=False) == "files__t(a?): Does it."


def test_a_search_that_finds_nothing_says_so_and_names_near_ones() -> None:
    names = ["files__read_file", "files__write_file", "slack__post_message"]
    assert search_text([], "raed_file", names) == (
        "No tool matches “raed_file”. Similar names: files__read_file, files__write_file. "
        "Call describe_tools with the one you mean."
    )
    assert "near" not in search_text([], "quantum", names)


def test_servers_that_have_not_listed_are_named() -> None:
    starting = "Still starting: late, slow. Search again in a moment."
    assert unlisted_lines(("slow", "late"), ["why"], "en") == [starting, "why"]


def test_a_long_query_is_not_repeated_whole() -> None:
    assert len(search_text([], "word " * 400, [])) < 200


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
        "path — Absolute path.",
        "edits: object[] (>=1 items)",
        "  old — Text to find.",
        "  new?",
        "limit?: integer = 100 — Most.",
        "mode?: string /^[0-7]{3}$/",
        "format?: json|text|csv|xml|yaml = json",
        "since?: string|null <date-time>",
        "ratio?: number >0",
        "labels?: {[key]: string}",
        "→ {diff: string}",
    ]


def test_a_page_for_one_known_name_does_not_repeat_it() -> None:
    read = tool("read", "Read it.", {"path": STRING}, annotations={"readOnlyHint": True})
    assert describe(read, named=False).splitlines() == ["[read-only] Read it.", "path?"]
    assert describe(tool("now"), named=False) == "(no arguments)"


@pytest.mark.parametrize(
    ("value", "shown"), [("a-b", "a-b"), ("a b", '"a b"'), ("string", '"string"'), ("1", '"1"'), (1, "1")]
)
def test_words_of_an_enum_are_shown_without_quotation_marks(value: Any, shown: str) -> None:
    page = describe(with_schema({"properties": {"a": {"enum": [value]}}}))
    assert page.splitlines()[-1] == f"a?: {shown}"


def test_a_limit_near_the_default_is_shown() -> None:
    page = describe(
        with_schema({"properties": {"a": {"type": "integer", "minimum": 1, "maximum": 50, "default": 10}}})
    )
    assert page.splitlines()[-1] == "a?: integer <=50 = 10"


def test_of_a_long_description_the_first_sentences_are_shown() -> None:
    long = f"It reads. {'It reads well. ' * 30}"
    lines = describe(tool("t", long)).splitlines()
    assert lines[1].startswith("It reads. It reads well.")
    assert lines[1].endswith("well. (more: detail full)")
    assert 250 < len(lines[1]) < 330
    harmless = describe(tool("t", long, annotations={"readOnlyHint": True})).splitlines()
    assert len(harmless[1]) < 150


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
@example({"properties": {"\n": "string"}}, "", None, None)
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
