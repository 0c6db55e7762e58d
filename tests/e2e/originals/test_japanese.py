"""Errors of wrong parameters and wrong usage under a Japanese locale contain no English sentence."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.harness.home import Home, hub
from tests.harness.user import assistant

ENGLISH = re.compile(r"(?<![`'\"\w/.-])(?!(?:tabane|JSON|URL|UTF)\b)[A-Za-z]{3,}(?: [A-Za-z']{2,})+")
"""Two English words in a row: no name, no value in quotes."""

_QUOTED = re.compile(r"`[^`]*`|'[^']*'|\"[^\"]*\"")


def english(text: str) -> list[str]:
    return ENGLISH.findall(_QUOTED.sub("", text))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    found = Home(tmp_path_factory.mktemp("ja"))
    found.environment["LANG"] = "ja_JP.UTF-8"
    found.write_servers({"child": found.child()})
    with hub(found):
        yield found


WRONG: list[tuple[str, Any]] = [
    ("search_similar", {}),
    ("search_similar", {"query": 5}),
    ("search_similar", {"query": "a", "top_k": 0}),
    ("search_similar", {"query": "a", "top_k": 1.5}),
    ("search_similar", {"query": "a", "mode": "nearest"}),
    ("search_similar", {"query": "a", "querry": "b"}),
    ("search_similar", {"query": "a", "user_filter": {"includes": "alice"}}),
    ("search_similar", {"query": "a", "user_filter": {"unknown": 1}}),
    ("search_similar", {"query": "a", "weights": [1, 2]}),
    ("search_similar", {"query": "a", "date_filter": {"from": "someday"}}),
    ("search_posts_by_text", {"search_term": "a", "limit": 5000}),
    ("suggest_users", {"user_list": []}),
    ("put_document", {"text": "a"}),
    ("put_documents", {"documents": [{"text": 5, "filepath": "x"}]}),
    ("search_documents", {"query": "a", "top_k": 101}),
    ("get_document", {"filepath": "a", "length": 0}),
    ("read_url_content", {"url": "nonsense"}),
    ("read_url_content", {"url": "https://a.test/", "format": "pdf"}),
    ("search_tools", {"query": "a", "limit": 51}),
]


@pytest.mark.parametrize(("method", "params"), WRONG, ids=lambda value: str(value)[:40])
def test_wrong_parameters_are_said_in_japanese(home: Home, method: str, params: Any) -> None:
    done = home.run("rpc", method, "--params", json.dumps(params), "--json")
    message = done.json["error"]["message"] if "error" in done.json else json.dumps(
        done.json, ensure_ascii=False
    )  # fmt: skip
    assert re.search("[ぁ-んァ-ヶ一-龥]", message), message
    assert english(message) == [], message


def test_wrong_arguments_of_a_tool_of_a_server_are_said_in_japanese(home: Home) -> None:
    with assistant(home) as found:
        text = found.failure("call_tool", name="child__echo", arguments={"text": 5})
        assert re.search("[ぁ-んァ-ヶ一-龥]", text), text


@pytest.mark.parametrize(
    "line",
    [
        "nope",
        "tools search --limit x a",
        "posts search a --mode foo",
        "posts search a --top-k 500",
        "posts --nope",
        "posts show",
        "posts show a b c",
        "posts search --top-k",
        "servers add",
        "search a --in nothing",
        "mcp --nope",
    ],
)
def test_wrong_usage_is_said_in_japanese(home: Home, line: str) -> None:
    done = home.run(*line.split())
    assert done.status == 2
    # what is typed stays as it is
    said = [part.partition("。例: ")[0] for part in done.err.splitlines() if not part.startswith("使い方: ")]
    assert re.search("[ぁ-んァ-ヶ一-龥]", done.err)
    assert "Usage:" not in done.err
    assert [found for part in said for found in english(part)] == [], done.err


def test_english_stays_as_it_was(home: Home) -> None:
    done = home.run("posts", "search", "a", "--mode", "foo", environment={"LANG": "en_US.UTF-8"})
    assert "Usage: tabane posts search" in done.err
    wrong = home.run(
        "rpc", "search_similar", "--params", '{"query": "a", "top_k": 0}', "--json",
        environment={"LANG": "en_US.UTF-8"},
    )  # fmt: skip
    assert wrong.json["error"]["message"] == "top_k: Expected `int` >= 1 (allowed: 1 to 100)"
