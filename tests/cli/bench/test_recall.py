"""`tabane bench disclosure --set`: recall through a real hub, and sets that are wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.harness.home import Home

TOOLS = [
    {"id": "a", "server": "file store", "name": "write_file", "description": "Write a file."},
    {"id": "b", "server": "file store", "name": "read_file", "description": "Read a file."},
    {
        "id": "c",
        "server": "clock",
        "name": "now",
        "description": "Tell the time.",
        "params": {"zone": "a zone"},
    },
    {"id": "d", "server": "clock", "name": "now", "description": "Tell the phase of the moon."},
]
QUERIES = [
    {"query": "write a file", "gold": [{"ids": ["a"]}]},
    {"query": "phase of the moon", "gold": [{"ids": ["d"]}]},
    {"query": "tell the time", "gold": [{"ids": ["c"]}, {"ids": ["b"]}]},
    {"query": "save a document as text for later", "gold": [{"ids": ["c"]}]},
]


def written(folder: Path, value: Any) -> str:
    file = folder / "my-set.json"
    file.write_text(value if isinstance(value, str) else json.dumps(value))
    return str(file)


@pytest.mark.heavy("a benchmark in small")
def test_recall_is_the_share_of_gold_entries_that_a_search_finds_among_the_hubs_own_tools(home: Home) -> None:
    file = written(home.folder, {"tools": TOOLS, "queries": QUERIES})
    found = home.json("bench", "disclosure", "--set", file, "--model", "words")
    (figures,) = found["sets"]
    # Three queries find their first tool, the third only one of two; the last finds tools of the hub.
    assert figures["recall"]["1"] == round((1 + 1 + 0.5) / 4, 4)
    assert figures["missed"] == [QUERIES[-1]["query"]]
    assert (figures["set"], figures["tools"], figures["queries"]) == ("my-set", 4, 4)
    assert figures["tokens_per_search"] > 20
    assert (found["model"], found["tokens"]) == ("words", "bytes/4")
    assert "tasks" not in found


def test_on_a_terminal_recall_is_a_table_and_the_unit_of_tokens_is_named(home: Home) -> None:
    file = written(home.folder, {"tools": TOOLS, "queries": QUERIES[:2]})
    done = home.run_on_terminal("bench", "disclosure", "--set", file, "--model", "words").succeeded
    assert "tokens per search" in done.out
    assert "my-set" in done.out
    assert "bytes/4" in done.err


@pytest.mark.parametrize(
    ("value", "named"),
    [
        ("{", "it is not JSON"),
        ("[]", "it is not a JSON object"),
        ({"tools": TOOLS}, "Object missing required field `queries`"),
        ({"tools": [], "queries": QUERIES}, "Expected `array` of length >= 1 - at `$.tools`"),
        ({"tools": [7], "queries": QUERIES}, "Expected `object`, got `int` - at `$.tools[0]`"),
        (
            {"tools": [{"id": "a", "name": "x"}], "queries": QUERIES},
            "field `server` - at `$.tools[0]`",
        ),
        ({"tools": [TOOLS[0], TOOLS[0]], "queries": QUERIES}, "$.tools[1].id is used twice: a"),
        (
            {"tools": TOOLS, "queries": [{"query": "x", "gold": []}]},
            "Expected `array` of length >= 1",
        ),
        (
            {"tools": TOOLS, "queries": [{"query": "x", "gold": [{"ids": ["z"]}]}]},
            "$.queries[0].gold[0].ids names no tool: z",
        ),
    ],
)
def test_a_wrong_set_is_refused_with_its_file_and_place_before_a_hub_starts(
    home: Home, value: Any, named: str
) -> None:
    file = written(home.folder, value)
    done = home.run("bench", "disclosure", "--set", file)
    assert done.status == 2
    assert f"{file}: " in done.err
    assert named in done.err
    assert "Measuring" not in done.err


def test_ranks_that_cannot_be_used_are_an_error_that_says_what_is_needed(home: Home) -> None:
    file = written(home.folder, {"tools": TOOLS, "queries": QUERIES})
    done = home.run("bench", "disclosure", "--set", file, "--o200k", file)
    assert done.status == 2
    assert "tiktoken" in done.err
