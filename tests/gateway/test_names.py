"""Every tool has a name that every client takes, that no other tool has, and that never changes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.gateway.tools.aliases import MOST, AliasMap, alias, is_alias

PARTS = st.text(st.sampled_from("ab_-.1Z 日本") | st.characters(), max_size=70)
TOOLS = st.lists(st.tuples(PARTS, PARTS), unique=True, max_size=12)


def mapped(tools: list[tuple[str, str]], reserved: tuple[str, ...] = ()) -> AliasMap:
    aliases = AliasMap(reserved=reserved)
    for server, original in tools:
        aliases = aliases.with_names(server, server, [original])
    return aliases


def test_a_plain_name_is_used_as_it_is() -> None:
    assert alias("git", "git_status", ()) == "git__git_status"
    assert alias("", "git_status", ()) == "git_status"


@pytest.mark.parametrize(
    ("namespace", "original", "begin"),
    [
        ("github.com", "list issues", "github_com__list_issues_"),
        ("社内wiki", "検索_page", "wiki__page_"),
        ("社内", "検索", "server__tool_"),
        ("", "検索", "tool_"),
        ("1password", "get", "t_1password__get_"),
    ],
)
def test_an_odd_name_stays_readable_and_gets_a_hash(namespace: str, original: str, begin: str) -> None:
    name = alias(namespace, original, ())
    assert name.startswith(begin)
    assert len(name) == len(begin) + 6
    assert is_alias(name)


def test_a_long_name_is_cut_in_the_middle() -> None:
    name = alias("a-rather-long-server-name", "and_a_tool_whose_name_says_everything", ())
    assert len(name) == 48
    assert name.startswith("a-rather-long-server")
    assert name.endswith("name_says_everything")


def test_names_that_would_read_the_same_are_told_apart() -> None:
    pairs = [("a", "b__c"), ("a__b", "c"), ("a", "_b"), ("a_", "b"), ("a b", "c"), ("a.b", "c"), ("a_b", "c")]
    assert len(set(mapped(pairs).entries)) == len(pairs)


@pytest.mark.parametrize("order", [1, -1])
def test_whichever_comes_first_the_same_one_keeps_the_plain_name(order: int) -> None:
    aliases = mapped([("a", "_b"), ("a_", "b")][::order])
    assert aliases.alias_of("a", "a", "_b") == "a___b"
    assert str(aliases.alias_of("a_", "a_", "b")).startswith("a__b_")


def test_a_made_up_name_that_is_taken_gives_way() -> None:
    first = alias("社内", "検索", ())
    second = alias("社内", "検索", {first})
    assert second != first
    assert is_alias(second)


def test_two_servers_with_one_prefix_have_tools_of_one_name_each_with_its_own_alias() -> None:
    aliases = AliasMap().with_names("one", "", ["search"]).with_names("two", "", ["search"])
    assert aliases.alias_of("one", "", "search") == "search"
    second = aliases.alias_of("two", "", "search")
    assert second is not None
    assert second.startswith("search_")
    assert aliases.original_of(second) == ("two", "search")


def test_the_hubs_own_tools_keep_their_names() -> None:
    aliases = AliasMap(reserved=["search_tools"]).with_names("x", "", ["search_tools"])
    assert aliases.original_of("search_tools") is None
    assert aliases.alias_of("x", "", "search_tools") != "search_tools"


def test_a_name_that_became_the_hubs_own_is_given_anew() -> None:
    kept = AliasMap().with_names("x", "", ["read_url"]).entries
    aliases = AliasMap(kept, reserved=["read_url"]).with_names("x", "", ["read_url"])
    assert aliases.original_of("read_url") is None
    assert aliases.alias_of("x", "", "read_url") not in (None, "read_url")


@given(TOOLS)
def test_names_fit_every_client_and_no_two_are_the_same(tools: list[tuple[str, str]]) -> None:
    aliases = mapped(tools, reserved=("a", "a__b"))
    given = {tool: aliases.alias_of(tool[0], tool[0], tool[1]) for tool in tools}
    assert all(name is not None and is_alias(name) for name in given.values())
    assert len(set(given.values())) == len(tools)
    for tool, name in given.items():
        assert name is not None
        assert aliases.original_of(name) == tool
        assert aliases.resolve(name) == name


@given(TOOLS, st.data())
def test_names_do_not_depend_on_the_order_of_servers(
    tools: list[tuple[str, str]], data: st.DataObject
) -> None:
    spaced = [(server or "s", original) for server, original in tools]
    shuffled = data.draw(st.permutations(spaced))
    assert mapped(spaced).entries == mapped(shuffled).entries


@given(TOOLS, TOOLS)
def test_a_name_once_given_is_kept_between_starts(
    first: list[tuple[str, str]], later: list[tuple[str, str]]
) -> None:
    before = mapped(first)
    after = AliasMap(dict(before.entries))
    assert after.entries == before.entries
    for server, original in [*later, *first]:
        after = after.with_names(server, server, [original])
    for server, original in first:
        assert after.alias_of(server, server, original) == before.alias_of(server, server, original)


def test_giving_names_again_gives_the_same_map() -> None:
    aliases = AliasMap().with_names("git", "git", ["status", "log"])
    assert aliases.with_names("git", "git", ["log", "status"]) is aliases


def test_another_prefix_gives_another_name_and_the_old_one_still_leads_to_the_tool() -> None:
    aliases = AliasMap().with_names("git", "git", ["status"]).with_names("git", "vcs", ["status"])
    assert aliases.alias_of("git", "vcs", "status") == "vcs__status"
    assert aliases.original_of("git__status") == ("git", "status")


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("git__status", ("git", "status")),
        ("git.status", ("git", "status")),
        ("github.com.list issues", ("github.com", "list issues")),
        ("github.com__list issues", ("github.com", "list issues")),
        ("社内.検索", ("社内", "検索")),
        ("社内__検索", ("社内", "検索")),
        ("git.a.b", ("git", "a.b")),
        ("git.stat", None),
        ("nothing", None),
        ("", None),
    ],
)
def test_a_name_is_understood_as_people_and_models_write_it(
    asked: str, found: tuple[str, str] | None
) -> None:
    aliases = mapped([("git", "status"), ("github.com", "list issues"), ("社内", "検索"), ("git", "a.b")])
    name = aliases.resolve(asked)
    assert (aliases.original_of(name) if name else None) == found


def test_a_tool_without_prefix_is_found_under_its_server_too() -> None:
    aliases = AliasMap().with_names("git", "", ["status"])
    assert aliases.resolve("git.status") == "status"


def test_a_server_that_makes_up_names_without_end_does_not_fill_the_memory() -> None:
    aliases = AliasMap().with_names("liar", "liar", (f"t{number}" for number in range(MOST + 50)))
    assert len(aliases.entries) == MOST
    assert aliases.original_of("liar__t0") is None
