"""The tools of semche over MCP: their names, their parameters, and the JSON that its clients read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.harness.archive import with_model
from tests.harness.home import Home, hub
from tests.harness.user import Assistant, assistant

TEXT = "これは仕様書のサンプルテキストです。\n" * 30


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    found = with_model(tmp_path_factory.mktemp("semche"))
    found.environment["LANG"] = "ja_JP.UTF-8"
    with hub(found):
        yield found


@pytest.fixture
def client(home: Home) -> Iterator[Assistant]:
    with assistant(home) as found:
        yield found


def answer(client: Assistant, tool: str, /, **arguments: Any) -> Any:
    """Return the JSON text of a tool, which has to equal its structured content."""
    result = client.call(tool, **arguments)
    printed = json.loads(result["content"][0]["text"])
    assert result["structuredContent"] == printed
    assert bool(result.get("isError")) is (printed["status"] == "error")
    return printed


def test_a_first_put_names_the_dimension_of_its_vector(client: Assistant, home: Home) -> None:
    put = answer(
        client,
        "put_document",
        text="the red house",
        filepath="/docs/spec.md",
        file_type="spec",
        normalize=False,
    )
    assert (put["status"], put["message"]) == ("success", "ドキュメントを登録しました")
    details = put["details"]
    assert {key: details[key] for key in ("count", "collection", "filepath", "normalized")} == {
        "count": 1,
        "collection": "documents",
        "filepath": "/docs/spec.md",
        "normalized": False,
    }
    assert details["vector_dimension"] == 24
    assert details["persist_directory"].startswith(str(home.tabane))
    again = answer(client, "put_document", text="the blue house", filepath="/docs/spec.md", normalize=True)
    assert (again["details"]["normalized"], again["details"]["vector_dimension"]) == (True, 24)


def test_search_answers_with_texts_and_what_it_was_asked(client: Assistant) -> None:
    answer(client, "put_document", text=TEXT, filepath="/ja/spec.md", file_type="spec")
    found = answer(client, "search", query="仕様書", top_k=3, file_type="spec")
    assert (found["status"], found["count"], found["top_k"]) == ("success", len(found["results"]), 3)
    assert found["query_vector_dimension"] == 24
    row = next(row for row in found["results"] if row["id"] == "/ja/spec.md")
    assert (row["filepath"], row["file_type"], row["document"]) == ("/ja/spec.md", "spec", TEXT)
    assert isinstance(row["score"], float)
    assert {"filepath", "updated_at", "file_type"} <= row["metadata"].keys()
    without = answer(client, "search", query="仕様書", include_documents=False)
    assert {row["document"] for row in without["results"]} == {None}
    short = answer(client, "search", query="仕様書", file_type="spec", max_content_length=3)
    assert "これは" in [row["document"] for row in short["results"]]


def test_search_documents_gives_the_same_texts(client: Assistant) -> None:
    answer(client, "put_document", text=TEXT, filepath="/ja/spec.md", file_type="spec")
    result = client.call("search_documents", query="仕様書")
    assert TEXT in [row["document"] for row in result["structuredContent"]["results"]]
    assert "仕様書のサンプルテキストです" in result["content"][0]["text"]


@pytest.mark.parametrize("through", [False, True])
def test_search_is_found_by_its_name_and_stands_on_no_list(
    client: Assistant, home: Home, through: bool
) -> None:
    answer(client, "put_document", text="the red house", filepath="/docs/red.md")
    if through:
        result = client.call("call_readonly_tool", name="search", arguments={"query": "red house"})
    else:
        result = client.call("search", query="red house")
    assert "/docs/red.md" in result["content"][0]["text"]
    assert client.text("describe_tools", names=["search"]).startswith("[read-only] Search")
    assert client.ask("tools/get", name="search")["result"]["tool"]["name"] == "search"
    listed = client.text("search_tools", query="search kept documents")
    assert "search_documents(" in listed
    assert re.search(r"(?<!\w)search\(", listed) is None
    assert "search" not in client.tools()
    with assistant(home, "--mode", "full") as whole:
        names = whole.tools()
        assert "search" not in names
        assert {
            "put_document", "search_documents", "delete_document", "get_documents_by_prefix", "hello",
        } <= set(names)  # fmt: skip


def test_every_parameter_that_a_tool_requires_is_described(home: Home) -> None:
    with assistant(home, "--mode", "full") as whole:
        tools = whole.tools()
        for name, tool in tools.items():
            schema = tool["inputSchema"]
            assert set(schema.get("required", ())) <= schema["properties"].keys(), name
        options = tools["get_post"]["inputSchema"]["properties"]["post_id"]["anyOf"]
        assert {option["type"] for option in options} == {"integer", "string"}
        assert "post_id: " in whole.text("describe_tools", names=["get_post"])


def test_documents_are_got_by_the_beginnings_of_their_names(client: Assistant) -> None:
    for number in range(3):
        answer(client, "put_document", text=f"text {number}", filepath=f"p/{number}.md", file_type="note")
    found = answer(client, "get_documents_by_prefix", prefix="p/", file_type="note", top_k=2)
    assert {key: found[key] for key in ("status", "prefix", "file_type", "include_documents", "top_k")} == {
        "status": "success", "prefix": "p/", "file_type": "note", "include_documents": True, "top_k": 2,
    }  # fmt: skip
    assert found["count"] == 2
    assert [(row["id"], row["file_type"], row["document"]) for row in found["results"]] == [
        ("p/0.md", "note", "text 0"),
        ("p/1.md", "note", "text 1"),
    ]


def test_deleting_what_is_not_there_succeeds_and_says_so(client: Assistant) -> None:
    answer(client, "put_document", text="to go", filepath="/gone.md")
    assert answer(client, "delete_document", filepath="/gone.md")["deleted_count"] == 1
    absent = answer(client, "delete_document", filepath="/gone.md")
    assert (absent["status"], absent["deleted_count"]) == ("success", 0)
    assert absent["message"] == "削除対象が見つかりませんでした"


def test_hello_greets(client: Assistant) -> None:
    assert client.text("hello") == "Hello, World!"
    assert client.text("hello", name="Alice") == "Hello, Alice!"


def test_an_empty_text_is_an_embedding_error_as_the_design_has_it(client: Assistant) -> None:
    failed = answer(client, "put_document", text=" ", filepath="/x.md")
    assert failed["status"] == "error"
    assert failed["message"].startswith("埋め込み生成に失敗しました: ")
    assert failed["error_type"] == "EmbeddingError"


def test_a_configured_model_that_cannot_be_had_is_an_embedding_error(tmp_path: Path) -> None:
    home = with_model(tmp_path, model=str(tmp_path / "absent"))
    home.environment["LANG"] = "ja_JP.UTF-8"
    with hub(home), assistant(home) as client:
        failed = answer(client, "put_document", text="kept?", filepath="/x.md")
        assert (failed["status"], failed["error_type"]) == ("error", "EmbeddingError")
        assert failed["message"].startswith("埋め込み生成に失敗しました: ")
        assert answer(client, "get_documents_by_prefix", prefix="/")["count"] == 0


def test_without_a_model_documents_are_stored_and_found_by_their_words(tmp_path: Path) -> None:
    home = with_model(tmp_path, model="none")
    with hub(home), assistant(home) as client:
        details = answer(client, "put_document", text="the red house", filepath="/x.md")["details"]
        assert (details["vector_dimension"], details["embedded"]) == (None, False)
        assert details["warning"]
        found = answer(client, "search", query="red house")
        assert [row["id"] for row in found["results"]] == ["/x.md"]
        assert found["warning"]
        assert found["query_vector_dimension"] is None


REFUSED = [
    ("put_document", {}),
    ("put_document", {"filepath": "/a"}),
    ("put_document", {"text": "a"}),
    ("put_document", {"text": 3, "filepath": "/a"}),
    ("put_document", {"text": None, "filepath": "/a"}),
    ("put_document", {"text": "a", "filepath": "/a", "normalize": "yes"}),
    ("put_document", {"text": "a", "filepath": "/a", "colour": "red"}),
    ("put_documents", {"documents": "all"}),
    ("delete_document", {}),
    ("delete_document", {"filepath": ["/a"]}),
    ("search", {}),
    ("search_documents", {"query": "a", "top_k": "many"}),
    ("search_documents", {"query": "a", "top_k": 0}),
    ("get_document", {}),
    ("get_documents_by_prefix", {"prefix": 1}),
    ("list_documents", {"limit": -1}),
]


@pytest.mark.parametrize(("tool", "given"), REFUSED)
def test_parameters_that_do_not_fit_are_answered_with_json(
    client: Assistant, home: Home, tool: str, given: dict[str, Any]
) -> None:
    refused = answer(client, tool, **given)
    assert (refused["status"], refused["error_type"]) == ("error", "ValidationError")
    assert refused["message"]
    over_rpc = home.json("rpc", tool, "--params", json.dumps(given))
    assert over_rpc == answer(client, tool, **given)
