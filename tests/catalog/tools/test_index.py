"""Tools are found by what they do, in English and Japanese, and by their names."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from tabane.catalog.tools.index import Match, ToolIndex, ToolQuery
from tabane.catalog.tools.tool import Tool
from tests.catalog.tools.tools import corpus, tool
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

FILES = [
    tool("read_file", "Read the contents of a file.", {"path": {"type": "string"}}, tags=("local",)),
    tool("write_file", "Write text to a file.", {"path": {"type": "string"}}, tags=("local", "writes")),
    tool("delete_file", "Delete a file permanently.", {"path": {"type": "string"}}, tags=("local", "writes")),
]
SLACK = [
    tool("post_message", "Post a message to a channel.", server="slack", category="Chat"),
    tool("list_channels", "List the channels of the workspace.", server="slack", category="Chat"),
]


@pytest.fixture
def index() -> Iterator[ToolIndex]:
    index = ToolIndex(":memory:")
    index.replace("files", FILES)
    index.replace("slack", SLACK)
    yield index
    index.close()


def found(index: ToolIndex, query: str, **options: Any) -> list[str]:
    return [hit.alias for hit in index.search(ToolQuery(query, **options)).hits]


# -- relevance -----------------------------------------------------------------------------------


def test_a_tool_is_found_by_what_it_does(index: ToolIndex) -> None:
    assert found(index, "read a file")[0] == "files__read_file"
    assert found(index, "posting messages")[0] == "slack__post_message"


def test_one_word_of_many_is_enough_to_be_found(index: ToolIndex) -> None:
    assert found(index, "channels of another kind entirely")[0].startswith("slack__")


def test_a_synonym_finds_the_tool_but_the_word_itself_wins(index: ToolIndex) -> None:
    assert found(index, "erase a file")[0] == "files__delete_file"
    index.replace("more", [tool("erase_disk", "Erase a disk.", server="more")])
    assert found(index, "erase")[:2] == ["more__erase_disk", "files__delete_file"]


def test_a_japanese_query_finds_tools_described_in_english(index: ToolIndex) -> None:
    assert found(index, "ファイルを読む")[0] == "files__read_file"
    assert found(index, "メッセージを投稿したい")[0] == "slack__post_message"


def test_an_english_query_finds_tools_described_in_japanese(index: ToolIndex) -> None:
    index.replace("経費", [tool("領収書を登録", "領収書の画像から経費を登録します。", server="経費")])
    assert found(index, "register a receipt")[0] == "経費__領収書を登録"


def test_the_name_of_a_tool_finds_that_tool_first(index: ToolIndex) -> None:
    for name in ("files__write_file", "write_file", "files.write_file"):
        best = index.search(ToolQuery(name)).hits[0]
        assert (best.alias, best.score) == ("files__write_file", 1.0)


def test_parameters_and_titles_and_servers_are_searched(index: ToolIndex) -> None:
    index.replace("x", [tool("go", "Goes.", {"latitude": {"description": "In degrees."}}, title="Teleport")])
    for query in ("latitude", "degrees", "teleport"):
        assert found(index, query) == ["files__go"]
    assert set(found(index, "slack")) == {"slack__post_message", "slack__list_channels"}


def test_a_tool_is_found_by_what_a_person_says_of_it(index: ToolIndex) -> None:
    about = tool("create_item", "Create an item.", server="tracker")
    index.replace("tracker", [about, tool("list_items", "List items.", server="tracker")])
    assert "tracker__create_item" not in found(index, "バグを報告する")
    assert found(index, "storefront is broken") == []
    said = structs.replace(about, examples=("バグを報告する",), notes="The storefront is broken.")
    assert index.replace("tracker", [said, tool("list_items", "List items.", server="tracker")])
    assert found(index, "バグを報告したい")[0] == "tracker__create_item"
    assert found(index, "storefront is broken") == ["tracker__create_item"]


def test_nothing_is_found_where_nothing_matches(index: ToolIndex) -> None:
    hits = index.search(ToolQuery("xyzzy"))
    assert (hits.hits, hits.total) == ((), 0)


def test_a_query_without_words_lists_tools_by_name(index: ToolIndex) -> None:
    assert found(index, " ", limit=50) == sorted(tool.alias for tool in FILES + SLACK)


def test_total_counts_what_the_limit_leaves_out(index: ToolIndex) -> None:
    hits = index.search(ToolQuery("file", limit=1))
    assert len(hits.hits) == 1
    assert hits.total == 3


def test_equal_scores_are_in_order_of_name() -> None:
    index = ToolIndex(":memory:")
    index.replace("b", [tool("same", "Does it.", server=server) for server in ("b", "c", "a")])
    assert found(index, "same") == ["a__same", "b__same", "c__same"]


def test_scores_fall_and_stay_within_one(index: ToolIndex) -> None:
    scores = [hit.score for hit in index.search(ToolQuery("read or write a file", limit=50)).hits]
    assert scores == sorted(scores, reverse=True)
    assert all(0 < score <= 1 for score in scores)


# -- filters -------------------------------------------------------------------------------------


def test_filters_leave_what_they_name(index: ToolIndex) -> None:
    assert found(index, "file message", server="slack") == ["slack__post_message"]
    assert found(index, "file", tags=("writes",)) == ["files__write_file", "files__delete_file"]
    assert set(found(index, "file", tags=("writes", "LOCAL"))) == {tool.alias for tool in FILES}
    assert set(found(index, "message channel", category="chat")) == {tool.alias for tool in SLACK}
    assert found(index, "file", server="nobody") == []
    assert found(index, "file", tags=("write",)) == []


def test_filters_hold_for_names_too(index: ToolIndex) -> None:
    names = found(index, "e", match="partial", server="slack")
    assert names == ["slack__post_message", "slack__list_channels"]


# -- names ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("match", "query", "expected"), CASES["match_by_name"])
def test_match_by_name(index: ToolIndex, match: Match, query: str, expected: list[str]) -> None:
    assert found(index, query, match=match, limit=50) == expected


def test_titles_are_names_too(index: ToolIndex) -> None:
    index.replace("x", [tool("go", server="x", title="Teleport home")])
    assert found(index, "teleport", match="prefix") == ["x__go"]


# -- keeping up ----------------------------------------------------------------------------------


def test_a_replaced_server_has_its_new_tools_alone(index: ToolIndex) -> None:
    assert index.replace("files", FILES[:1])
    assert found(index, "delete") == []
    assert found(index, "read")[0] == "files__read_file"


def test_a_server_that_did_not_change_is_not_indexed_again(index: ToolIndex) -> None:
    assert not index.replace("files", FILES)
    assert index.replace("files", [*FILES[:2], tool("delete_file", "Delete it.")])


def test_a_changed_tag_is_a_change(index: ToolIndex) -> None:
    assert index.replace("files", [structs.replace(read, tags=("new",)) for read in FILES])
    assert len(found(index, "file", tags=("new",))) == len(FILES)


def test_a_removed_server_is_forgotten(index: ToolIndex) -> None:
    index.remove("files")
    assert index.servers() == {"slack"}
    assert found(index, "file") == []
    assert index.replace("files", FILES)


def test_an_alias_that_moves_belongs_to_the_server_told_last(index: ToolIndex) -> None:
    index.replace("other", [tool("read_file", "Read a stone tablet.")])
    assert found(index, "stone tablet") == ["files__read_file"]
    assert found(index, "read", limit=50).count("files__read_file") == 1


def test_the_index_is_kept_between_starts(tmp_path: Path) -> None:
    path = str(tmp_path / "tools.db")
    first = ToolIndex(path)
    first.replace("files", FILES)
    first.close()
    second = ToolIndex(path)
    assert not second.replace("files", FILES)
    assert found(second, "read")[0] == "files__read_file"
    second.close()


@pytest.mark.parametrize("damage", [b"", b"no database at all" * 500, None])
def test_a_damaged_index_is_made_anew(tmp_path: Path, damage: bytes | None) -> None:
    path = tmp_path / "tools.db"
    first = ToolIndex(str(path))
    first.replace("files", FILES)
    first.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x17" * (len(whole) - 4096) if damage is None else damage)
    second = ToolIndex(str(path))
    assert second.replace("files", FILES)
    assert found(second, "read")[0] == "files__read_file"
    second.close()


def test_an_index_of_another_version_is_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "tools.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE tools (something TEXT)")
        other.execute("PRAGMA user_version=999")
    index = ToolIndex(str(path))
    assert index.replace("files", FILES)
    index.close()


def test_a_change_that_fails_halfway_leaves_what_was(index: ToolIndex) -> None:
    broken = structs.replace(tool("new_tool", "New."), description=None)
    with pytest.raises(TypeError):
        index.replace("files", [tool("another", "Another."), broken])
    assert found(index, "read")[0] == "files__read_file"


ANYTHING = st.text(st.characters() | st.sampled_from("\ud83d\udc00 東京ーａ_.'\"*"), max_size=100)

# -- whatever upstreams and callers send -----------------------------------------------------------


@given(ANYTHING, st.sampled_from(["relevance", "partial", "prefix", "exact", "fuzzy"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_query_is_answered(index: ToolIndex, query: str, match: Match) -> None:
    hits = index.search(ToolQuery(query, 3, match=match))
    assert len(hits.hits) <= 3
    assert len(hits.hits) <= hits.total


@given(ANYTHING, ANYTHING.filter(bool), ANYTHING)
def test_any_tool_is_indexed_and_found_by_its_name(description: str, name: str, parameter: str) -> None:
    index = ToolIndex(":memory:")
    whatever = tool("placeholder", description, {parameter: {"description": description}})
    index.replace("files", [structs.replace(whatever, name=name)])
    assert found(index, "files__placeholder") == ["files__placeholder"]
    index.close()


def test_lone_surrogates_are_searched_around() -> None:
    index = ToolIndex(":memory:")
    cut = tool("cut", "Cut an emoji \ud83d in half.", {"half\udc00": {}}, title="Cut \ud83d")
    index.replace("files", [structs.replace(cut, name="cut\udc00emoji")])
    for query in ("half an emoji", "\ud83d emoji", "\ud83d"):
        assert found(index, query, tags=()) in (["files__cut"], [])
    assert found(index, "half an emoji") == ["files__cut"]
    assert found(index, "x", server="\ud83d", tags=("\ud83d",), category="\ud83d") == []


def test_a_huge_description_is_indexed_in_part() -> None:
    index = ToolIndex(":memory:")
    index.replace("files", [tool("huge", "word " * 200_000 + "ending"), tool("other", "Other word.")])
    assert found(index, "huge") == ["files__huge"]
    assert found(index, "ending") == []


# -- nothing fits --------------------------------------------------------------------------------


UNFIT = [
    "create pull request",
    "プルリクエストを作る",
    "merge a pull request",
    "book a flight to Tokyo",
    "turn on the lights",
    "send an invoice",
    "照明をつける",
    "add a calendar",
]


@pytest.mark.parametrize("query", UNFIT)
def test_tools_that_share_a_verb_with_a_question_are_doubtful(index: ToolIndex, query: str) -> None:
    assert index.search(ToolQuery(query)).doubtful


@pytest.mark.parametrize("query", ["create pull request", "プルリクエストを作る"])
def test_doubtful_hits_are_ranked_like_others(index: ToolIndex, query: str) -> None:
    index.replace("db", [tool("create_table", "Create a table.", server="db")])
    hits = index.search(ToolQuery(query, limit=1))
    assert hits.doubtful
    assert [hit.alias for hit in hits.hits] == ["db__create_table"]
    index.replace("hub", [tool("create_pull_request", "Open a pull request.", server="hub")])
    assert not index.search(ToolQuery(query)).doubtful
    assert found(index, query)[0] == "hub__create_pull_request"


@pytest.mark.parametrize("query", ["create", "write", "作成", "list", "show everything", "find"])
def test_a_question_of_verbs_alone_is_answered_by_what_has_them(index: ToolIndex, query: str) -> None:
    index.replace(
        "db", [tool("create_table", "Create, write, list, find or show it. 作成します。", server="db")]
    )
    assert "db__create_table" in found(index, query)


@pytest.mark.parametrize("match", ["partial", "prefix", "exact", "fuzzy"])
def test_matching_by_name_knows_no_such_judgement(index: ToolIndex, match: Match) -> None:
    assert not index.search(ToolQuery("create pull request", match=match)).doubtful
    assert found(index, "files__write_file", match=match)[0] == "files__write_file"


def test_what_people_ask_for_and_there_is_is_seldom_doubted(
    whole: tuple[ToolIndex, list[dict[str, Any]]],
) -> None:
    index, queries = whole
    doubted = [query["query"] for query in queries if index.search(ToolQuery(query["query"])).doubtful]
    assert len(doubted) <= len(queries) / 20


# -- questions about the world -------------------------------------------------------------------

WEB = [
    tool("web_search", "Search the web and return pages with snippets.", server="web"),
    tool("fetch", "Fetch a URL from the internet as Markdown.", server="web"),
]


@pytest.mark.parametrize("query", CASES["world"])
def test_a_question_about_the_world_finds_the_search_of_the_web(index: ToolIndex, query: str) -> None:
    index.replace("web", WEB)
    hits = index.search(ToolQuery(query))
    assert not hits.doubtful
    assert "web__web_search" in [hit.alias for hit in hits.hits[:2]]
    index.remove("web")
    assert index.search(ToolQuery(query)).doubtful


def test_an_address_finds_the_tool_that_reads_it(index: ToolIndex) -> None:
    index.replace("web", WEB)
    assert found(index, "summarize https://example.com/news")[0] == "web__fetch"


@pytest.mark.parametrize("query", CASES["requests"])
def test_a_request_to_do_something_is_no_question_about_the_world(index: ToolIndex, query: str) -> None:
    index.replace("web", WEB)
    assert index.search(ToolQuery(query)).doubtful


def test_a_question_that_another_tool_answers_finds_that_tool(index: ToolIndex) -> None:
    index.replace("web", WEB)
    assert found(index, "which channels are there")[0] == "slack__list_channels"
    index.replace("sky", [tool("get_forecast", "Get the weather forecast of a city.", server="sky")])
    assert found(index, "what is the weather forecast for Rome")[0] == "sky__get_forecast"


def test_the_search_of_the_web_is_explained_by_its_words(index: ToolIndex) -> None:
    index.replace("web", WEB)
    hit = index.search(ToolQuery("who won the cup", explain=True)).hits[0]
    assert "search" in {token for term in hit.terms for token in term.matched}
    assert sum(term.score for term in hit.terms) == pytest.approx(hit.score, abs=0.001)


# -- what people type ----------------------------------------------------------------------------

DESK = [
    tool("create_issue", "Create an issue in a repository.", server="desk"),
    tool("update_issue", "Update an issue: title, state, labels.", server="desk"),
    tool("delete_issue", "Delete an issue.", server="desk"),
    tool("create_pull_request", "Create a pull request.", server="desk"),
    tool("create_pull_request_review", "Create a review on a pull request.", server="desk"),
    tool("merge_pull_request", "Merge a pull request.", server="desk"),
    tool("run_query", "Run a query on the database.", server="desk"),
]


@pytest.mark.parametrize(("query", "name"), CASES["typed"])
def test_siblings_short_forms_and_misspelled_words_find_the_tool(
    index: ToolIndex, query: str, name: str
) -> None:
    index.replace("desk", DESK)
    assert found(index, query)[0] == name


def test_a_word_that_a_tool_has_is_not_corrected(index: ToolIndex) -> None:
    index.replace("more", [tool("flie", "Flie it.", server="more"), tool("file_it", "File.", server="more")])
    assert found(index, "flie") == ["more__flie"]


def test_tools_of_the_hub_come_after_those_of_servers_that_fit_as_well(index: ToolIndex) -> None:
    index.replace("", [tool("search_posts", "Search posts in the archive.", server="")])
    index.replace("forum", [tool("search_posts", "Search posts in a forum.", server="forum")])
    assert found(index, "find posts")[:2] == ["forum__search_posts", "__search_posts"]


# -- the floor -----------------------------------------------------------------------------------

# Reached when this was written: first of all .80, within five .99. Raise them when ranking gets better.
FLOOR = {1: 0.77, 3: 0.94, 5: 0.97}


def recall(index: ToolIndex, queries: list[dict[str, Any]], cut: int) -> float:
    hits = sum(
        any(alias.partition("__")[2] in query["gold"] for alias in found(index, query["query"], limit=cut))
        for query in queries
    )
    return hits / len(queries)


@pytest.fixture(scope="module")
def whole() -> tuple[ToolIndex, list[dict[str, Any]]]:
    servers, queries = corpus()
    index = ToolIndex(":memory:")
    for server, tools in servers.items():
        index.replace(server, tools)
    return index, queries


@pytest.mark.parametrize("cut", FLOOR)
def test_recall_does_not_fall_below_the_floor(
    whole: tuple[ToolIndex, list[dict[str, Any]]], cut: int
) -> None:
    assert recall(*whole, cut) >= FLOOR[cut]


def test_nearly_every_japanese_query_finds_its_tool(whole: tuple[ToolIndex, list[dict[str, Any]]]) -> None:
    index, queries = whole
    japanese = [query for query in queries if not query["query"].isascii()]
    assert len(japanese) > 30
    assert recall(index, japanese, 5) >= 0.97


def test_a_search_does_not_depend_on_the_order_of_servers() -> None:
    servers, queries = corpus()
    one, other = ToolIndex(":memory:"), ToolIndex(":memory:")
    for server in servers:
        one.replace(server, servers[server])
    for server in reversed(servers):
        other.replace(server, servers[server])
    for query in queries:
        assert one.search(ToolQuery(query["query"])) == other.search(ToolQuery(query["query"]))


def test_tools_of_one_server_do_not_matter_to_their_order() -> None:
    tools: list[Tool] = [tool for found in corpus()[0].values() for tool in found]
    one, other = ToolIndex(":memory:"), ToolIndex(":memory:")
    one.replace("all", tools)
    other.replace("all", tools[::-1])
    assert one.search(ToolQuery("show the log", 20)) == other.search(ToolQuery("show the log", 20))
