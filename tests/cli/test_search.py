"""`tabane search` as a user runs it: one query over the tools and Tabane's own documentation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.archive import with_model
from tests.harness.home import Home, hub
from tests.harness.patience import LONG, wait_until


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({"up": home.child()})
    with hub(home):
        assert home.run("servers", "test", "up").status == 0
        yield home


def pages(home: Home, *arguments: str) -> list[str]:
    found = home.run("search", *arguments, "--in", "docs", "--json")
    assert found.status == 0, found.err
    return [hit["key"].partition(":")[0] for hit in found.json["results"]]


@pytest.mark.parametrize(
    ("query", "page"),
    [
        ("${workspaceFolder} variables secrets", "servers.md"),
        ("restarting a server that keeps failing", "settings.md"),
        ("resource URIs that collide", "protocol.md"),
        ("サーバーを引き継ぐ", "tutorial.ja.md"),
        ("ＣＯＲＳ", "http.md"),
    ],
)
def test_the_documentation_is_found_by_words_of_either_language(home: Home, query: str, page: str) -> None:
    assert page in pages(home, query)[:3]


def test_a_phrase_and_an_exclusion_narrow_what_is_found(home: Home) -> None:
    every = pages(home, "token readable", "--limit", "50")
    assert "http.md" in every
    assert pages(home, '"readable by you alone"') == ["http.md"]
    assert "http.md" not in pages(home, "token -readable -curl -browser -http_token -loopback -MCP")


def test_words_that_were_found_are_marked_in_the_passage(home: Home) -> None:
    (hit,) = home.run("search", '"readable by you alone"', "--in", "docs", "--json").json["results"]
    marked = [hit["text"][start:end].lower() for start, end in hit["marks"]]
    assert any(mark.startswith("readable") for mark in marked), marked
    assert home.run("search", "readable token", "--in", "docs").out.count("tabane manual ") >= 1


def test_tools_and_documentation_come_in_one_ranking(home: Home) -> None:
    hits = home.run("search", "echo arguments", "--in", "tools,docs", "--json").json["results"]
    assert {hit["kind"] for hit in hits} == {"tools", "docs"}
    assert "up__echo" in [hit["key"] for hit in hits[:3]]
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    only = home.run("search", "echo", "--in", "tools", "--json").json["results"]
    assert {hit["kind"] for hit in only} == {"tools"}


def test_nothing_found_is_no_failure(home: Home) -> None:
    nothing = home.run("search", "qqqqzzzz", "--in", "posts")
    assert (nothing.status, nothing.out) == (0, "")
    assert "tabane posts import" in nothing.err


def test_what_cannot_be_searched_is_wrong_usage_that_names_what_can(home: Home) -> None:
    wrong = home.run("search", "x", "--in", "pictures,tools")
    assert wrong.status == 2
    assert "pictures is not one of posts, documents, pages, tools, docs" in wrong.err
    assert home.run("search").status == 2


@pytest.fixture
def moving(home: Home) -> Iterator[str]:
    """A document beside the tools."""
    name = "notes/moving"
    assert home.run("docs", "put", "-", "--id", name, stdin="The echo of an empty flat.").status == 0
    yield name
    assert home.run("docs", "delete", name).status == 0


@pytest.mark.heavy("real commands, a hub and servers")
def test_documents_and_pages_are_looked_among_where_they_are_named(home: Home, moving: str) -> None:
    found = home.run("search", "echo", "--in", "documents,pages", "--json").json["results"]
    assert [(hit["kind"], hit["open"]) for hit in found] == [("documents", f"tabane docs get {moving}")]
    assert "documents" in {hit["kind"] for hit in home.run("search", "echo flat", "--json").json["results"]}
    shown = home.run("search", "echo", "--in", "documents").out.splitlines()
    assert shown == [f"{moving}  tabane docs get {moving}", "  The echo of an empty flat."]


def warnings(home: Home, *arguments: str) -> str:
    """Return the warnings of a search: the last ones, or none as soon as there are none."""
    deadline = time.monotonic() + LONG
    while True:
        found = home.run("search", *arguments)
        assert found.status == 0
        assert found.err.count("Tabane's documentation") <= 1  # once, while it is true
        if not found.err or time.monotonic() > deadline:
            return found.err


def statuses(home: Home) -> set[str]:
    return {row["status"] for row in home.run("jobs", "list", "--json").json["results"]}


@pytest.mark.heavy("real commands, a hub and servers")
def test_with_all_indexed_nothing_warns_and_a_restart_embeds_nothing_again(tmp_path: Path) -> None:
    home = with_model(tmp_path)
    with hub(home):
        assert warnings(home, "cat house") == ""  # posts, documents and pages there are none
        wait_until(lambda: statuses(home) == {"done"}, "what embedded is done")
    with hub(home):
        assert warnings(home, "the cat and the house", "--in", "docs") == ""  # the model is open
        again = home.run("search", "the cat and the house", "--in", "docs", "--json")
        assert again.err == ""
        assert "warning" not in again.json
        assert any("cosine" in hit for hit in again.json["results"])
        assert home.run("jobs", "list", "--json").json["results"] == []
