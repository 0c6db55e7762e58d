"""Every tool has a name that every client takes, that no other tool has, and that never changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.catalog.tools.aliases import HOSTS, MOST, AliasMap, HostNaming, alias, is_alias, other_names
from tabane.catalog.tools.listings import ListingsFile
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

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
    ("namespace", "original", "begin"), CASES["an_odd_name_stays_readable_and_gets_a_hash"]
)
def test_an_odd_name_stays_readable_and_gets_a_hash(namespace: str, original: str, begin: str) -> None:
    name = alias(namespace, original, ())
    assert name.startswith(begin)
    assert len(name) == len(begin) + 6
    assert is_alias(name)


@pytest.mark.parametrize(("server", "original", "name"), CASES["of_an_odd_server_the_tool_is_not_changed"])
def test_of_an_odd_server_the_tool_is_not_changed(server: str, original: str, name: str) -> None:
    assert alias(server, original, ()) == name


@pytest.mark.parametrize(
    ("server", "original", "name"), CASES["of_a_long_name_the_server_is_abbreviated_and_the_tool_is_not"]
)
def test_of_a_long_name_the_server_is_abbreviated_and_the_tool_is_not(
    server: str, original: str, name: str
) -> None:
    assert alias(server, original, ()) == name


def test_a_tool_that_is_too_long_alone_is_cut_at_its_end() -> None:
    name = alias("github", "add_pull_request_review_comment_to_pending_review", ())
    assert name.startswith("github__add_pull_request_review_comment_t")
    assert len(name) == 48
    name = alias("", "add_pull_request_review_comment_to_the_pending_review", ())
    assert name.startswith("add_pull_request_review_comment_to_the_pe")
    assert len(name) == 48


@pytest.mark.parametrize("host", HOSTS, ids=lambda host: str(host.hosts))
def test_every_host_takes_the_longest_name_under_its_own_prefix(host: HostNaming) -> None:
    name = alias("server", "x" * 100, ())
    assert len(host.form.format(entry="tabane", tool=name)) <= host.limit


LONG = st.tuples(
    st.lists(
        st.sampled_from(["mcp", "server", "github", "GitHub", "hub", "x9", "東京"]), min_size=1, max_size=7
    ),
    st.lists(st.sampled_from(["get", "github", "repositories", "all"]), min_size=1, max_size=8),
)


@given(LONG)
def test_a_tool_of_which_38_characters_or_fewer_are_left_is_never_changed(
    words: tuple[list[str], list[str]],
) -> None:
    server, original = "-".join(words[0]), "_".join(words[1])
    name = alias(server, original, ())
    kept = min(len(original), 30)
    assert is_alias(name)
    assert name.partition("__")[2].startswith(original[:kept])
    if len(original) <= 38 and len(server) + len(original) > 46:
        assert name.endswith(f"__{original}") or f"__{original}_" in name


@given(st.lists(LONG, max_size=8), st.data())
def test_long_names_do_not_depend_on_the_order_of_servers(
    words: list[tuple[list[str], list[str]]], data: st.DataObject
) -> None:
    tools = list(dict.fromkeys(("-".join(server), "_".join(tool)) for server, tool in words))
    shuffled = data.draw(st.permutations(tools))
    aliases = mapped(tools)
    assert aliases.entries == mapped(shuffled).entries
    assert len(aliases.entries) == len(tools)
    assert all(map(is_alias, aliases.entries))


OLD = "mcp-github-trending__c822ea_rending_repositories"
NEW = "github-1adc__get_github_trending_repositories"
TOOL = ("mcp-github-trending", "get_github_trending_repositories")


def test_a_name_from_before_is_kept_and_the_one_of_a_new_installation_is_understood() -> None:
    stored = {OLD: (*TOOL, TOOL[0])}
    aliases = AliasMap(stored).with_names(TOOL[0], TOOL[0], [TOOL[1], "other"])
    assert aliases.alias_of(TOOL[0], TOOL[0], TOOL[1]) == OLD
    for name in (OLD, NEW, "__".join(TOOL), ".".join(TOOL)):
        assert aliases.resolve(name) == OLD


def test_the_names_in_an_older_home_stay_and_each_is_understood_in_a_new_one(tmp_path: Path) -> None:
    older = {name: (server, original, server) for name, server, original in CASES["an_older_home_has"]}
    file = ListingsFile(tmp_path / "catalogue.db")
    file.keep_aliases(older)
    kept, new = AliasMap(file.aliases()), AliasMap()
    file.close()
    for name, (server, original, namespace) in older.items():
        kept = kept.with_names(server, namespace, [original, "another"])
        new = new.with_names(server, namespace, [original])
        given = new.alias_of(server, namespace, original)
        assert given is not None
        assert kept.alias_of(server, namespace, original) == name
        assert {kept.resolve(name), kept.resolve(given)} == {name}
        assert new.resolve(name) == given
        assert given == name or name in other_names(server, namespace, original, given)
        assert given == name or given in other_names(server, namespace, original, name)


def test_a_pattern_matches_a_tool_by_each_of_its_names() -> None:
    names = {OLD, NEW, "__".join(TOOL)}
    assert {NEW, *other_names(TOOL[0], *TOOL, NEW)} == names
    assert {OLD, *other_names(TOOL[0], *TOOL, OLD)} == names
    assert other_names("git", "git", "status", "git__status") == ()


def test_a_name_without_its_server_has_no_other_names() -> None:
    assert other_names("git", "", "status!", "status_123456") == ()
    # Else it could be taken for the tool c of a server a__b.
    assert other_names("a__b", "a__b", "c", "a__b__c_123456") == ()


def test_names_that_would_read_the_same_are_told_apart() -> None:
    pairs = [("a", "b__c"), ("a__b", "c"), ("a", "_b"), ("a_", "b"), ("a b", "c"), ("a.b", "c"), ("a_b", "c")]
    assert len(set(mapped(pairs).entries)) == len(pairs)


@pytest.mark.parametrize("order", [1, -1])
def test_whichever_comes_first_the_same_one_keeps_the_plain_name(order: int) -> None:
    aliases = mapped([("a", "_b"), ("a_", "b")][::order])
    assert aliases.alias_of("a", "a", "_b") == "a___b"
    assert str(aliases.alias_of("a_", "a_", "b")).startswith("a-")


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
