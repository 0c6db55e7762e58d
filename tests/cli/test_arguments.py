"""A tool's arguments, typed at the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.cli.arguments import read_object, read_pairs
from tabane.errors import BadArguments

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "text": {"type": "string"},
        "count": {"type": "integer"},
        "ratio": {"type": "number"},
        "deep": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "maybe_sizes": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "filter": {"type": "object"},
        "maybe": {"type": ["string", "null"]},
        "limit": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "id": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "to": {"type": ["string", "array"], "items": {"type": "string"}},
        "ids": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "integer"}}]},
        "level": {"enum": ["low", "high", 3]},
        "fixed": {"const": "5"},
        "place": {"$ref": "#/$defs/Place"},
        "circle": {"$ref": "#/$defs/Circle"},
        "nowhere": {"$ref": "https://example.com/schema.json"},
        "anything": {},
        "yes": True,
    },
    "$defs": {
        "Place": {"$ref": "#/$defs/a~1b"},
        "a/b": {"type": "string"},
        "Circle": {"anyOf": [{"$ref": "#/$defs/Circle"}, {"$ref": "#/$defs/Circle"}]},
    },
}


@pytest.mark.parametrize(
    ("pairs", "arguments"),
    [
        ([], {}),
        (["text=hello"], {"text": "hello"}),
        (["text="], {"text": ""}),
        (["text=a=b"], {"text": "a=b"}),
        (["text=5"], {"text": "5"}),
        (["text=true"], {"text": "true"}),
        (['text={"a": 1}'], {"text": '{"a": 1}'}),
        (["text=日本語"], {"text": "日本語"}),
        (["count=5"], {"count": 5}),
        (["count=-5"], {"count": -5}),
        (["count=5.0"], {"count": 5}),
        (["count=123456789012345678901234567890"], {"count": 123456789012345678901234567890}),
        (["ratio=0.5"], {"ratio": 0.5}),
        (["ratio=5"], {"ratio": 5}),
        (["deep=true"], {"deep": True}),
        (["deep=false"], {"deep": False}),
        (["tags=a"], {"tags": ["a"]}),
        (["tags=a", "tags=5"], {"tags": ["a", "5"]}),
        (['tags=["a", "b"]'], {"tags": ["a", "b"]}),
        (["sizes=1", "sizes=2"], {"sizes": [1, 2]}),
        (["maybe_sizes=1"], {"maybe_sizes": [1]}),
        (['filter={"a": [1]}'], {"filter": {"a": [1]}}),
        (["maybe=null"], {"maybe": None}),
        (["maybe=5"], {"maybe": "5"}),
        (["limit=null"], {"limit": None}),
        (["limit=7"], {"limit": 7}),
        (["id=7"], {"id": 7}),
        (["id=x7"], {"id": "x7"}),
        (["to=ann"], {"to": "ann"}),
        (["to=5"], {"to": "5"}),
        (["to=ann", "to=bob"], {"to": ["ann", "bob"]}),
        (['to=["ann"]'], {"to": ["ann"]}),
        (["to=[ann"], {"to": "[ann"}),
        (["ids=7"], {"ids": "7"}),
        (["ids=7", "ids=8"], {"ids": [7, 8]}),
        (["level=high"], {"level": "high"}),
        (["level=3"], {"level": 3}),
        (["fixed=5"], {"fixed": "5"}),
        (["place=5"], {"place": "5"}),
        (["circle=5"], {"circle": 5}),
        (["nowhere=x"], {"nowhere": "x"}),
        (["anything=x"], {"anything": "x"}),
        (["anything=5"], {"anything": 5}),
        (["anything=NaN"], {"anything": "NaN"}),
        (["anything=1e999"], {"anything": "1e999"}),
        (["yes=1", "yes=a"], {"yes": [1, "a"]}),
        (["unknown=[1]"], {"unknown": [1]}),
        (["text=a", "count=1"], {"text": "a", "count": 1}),
    ],
)
def test_values_have_the_types_of_the_schema(pairs: list[str], arguments: dict[str, Any]) -> None:
    assert read_pairs(pairs, SCHEMA) == arguments
    assert repr(read_pairs(pairs, SCHEMA)) == repr(arguments)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (["hello"], "key=value"),
        (["=5"], "key=value"),
        (["count=many"], "count: integer is required, not many"),
        (["count=5.5"], "count: integer is required"),
        (["count=1e999"], "count: integer is required"),
        (["deep=yes"], "deep: boolean is required, not yes"),
        (["limit=x"], "limit: integer | null is required"),
        (["filter=[1]"], "filter: object is required"),
        (["sizes=1", "sizes=x"], "sizes: integer is required"),
        (["text=a", "text=b"], "text was given 2 times, but it is not a list"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_what_does(pairs: list[str], words: str) -> None:
    with pytest.raises(BadArguments, match=words.replace("|", r"\|")):
        read_pairs(pairs, SCHEMA)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_any_json_can_be_written_where_anything_may_stand(value: object) -> None:
    written = json.dumps(value, ensure_ascii=False)
    assert read_pairs([f"anything={written}"], SCHEMA) == {"anything": value}


@given(st.text())
def test_any_text_can_be_written_where_a_text_may_stand(value: str) -> None:
    assert read_pairs([f"text={value}"], SCHEMA) == {"text": value}


@given(VALUES, st.text(max_size=5))
def test_no_schema_whatever_makes_it_fail_in_another_way(schema: object, text: str) -> None:
    for whole in (schema, {"properties": schema}, {"properties": {"a": schema}}):
        try:
            read_pairs([f"a={text}"], whole if isinstance(whole, dict) else {})
        except BadArguments:
            continue


def test_whole_json_is_an_object_or_refused_with_where_it_comes_from() -> None:
    assert read_object('{"a": 1}', "--args") == {"a": 1}
    for text in ("[1]", "{", "", "5", b"\xff", "[" * 100_000):
        with pytest.raises(BadArguments, match="--args: "):
            read_object(text, "--args")


def test_a_json_error_can_be_translated_and_keeps_its_english_text() -> None:
    with pytest.raises(BadArguments) as refused:
        read_object("{", "--params")
    english = (
        "--params: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    assert refused.value.text("en") == english
    japanese = "二重引用符で囲んだプロパティ名が必要です: 1行目の2文字目 (先頭から1文字)"
    assert refused.value.text("ja").endswith(japanese)
