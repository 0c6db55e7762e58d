"""Permissions: what patterns allow, hide and refuse."""

from __future__ import annotations

import fnmatch
import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from msgspec import structs

from tabane.access.permissions import (
    MOST_ANSWERS,
    MOST_PATTERNS,
    NamePattern,
    PermissionPatterns,
    PermissionRules,
    checked_patterns,
    rules_of,
    unmatched,
)
from tabane.access.profiles import Profile, ProfileDefinition, narrowed
from tabane.errors import BadArguments
from tabane.operations.caller import LOCAL, CallTarget
from tests.access.targets import (
    CLOSE_ISSUE,
    PUT_DOCUMENT,
    READ_ISSUE,
    SEARCH_POSTS,
    SEARCH_TOOLS,
    STOP,
    TIME,
    UNDECLARED,
    pattern_lists,
    rule_patterns,
    targets,
)

EVERYTHING = (READ_ISSUE, CLOSE_ISSUE, TIME, SEARCH_POSTS, PUT_DOCUMENT, STOP, UNDECLARED, SEARCH_TOOLS)


def allowed(allow: list[str], deny: list[str] | None = None, *, read_only: bool = False) -> list[str]:
    rules = rules_of(allow, deny or [], read_only=read_only)
    return [target.name for target in EVERYTHING if rules.allows(target)]


def test_a_pattern_of_a_server_allows_its_tools_and_the_means_to_find_them() -> None:
    assert allowed(["github__*"]) == ["github__get_issue", "github__close_issue", "search_tools"]


def test_a_dot_separates_server_and_tool_too() -> None:
    assert allowed(["github.get_*"]) == ["github__get_issue", "search_tools"]


def test_a_star_is_every_tool_and_source_without_administration() -> None:
    assert set(allowed(["*"])) == {target.name for target in EVERYTHING} - {"stop_upstream", "new_operation"}


def test_administration_needs_its_source_or_an_exact_name() -> None:
    assert allowed(["@admin"]) == ["stop_upstream", "new_operation", "search_tools"]
    assert allowed(["stop_upstream"]) == ["stop_upstream", "search_tools"]
    assert allowed(["stop_*"]) == ["search_tools"]


def test_sources_are_named_with_an_at_sign() -> None:
    assert allowed(["@posts", "@documents"]) == ["search_posts", "put_document", "search_tools"]


def test_what_is_denied_is_denied_however_it_is_allowed() -> None:
    assert allowed(["*", "@admin"], ["*_issue", "@posts", "stop_upstream"]) == [
        "time__now", "put_document", "new_operation", "search_tools",
    ]  # fmt: skip


def test_to_deny_everything_leaves_only_the_means_to_find_nothing() -> None:
    assert allowed(["*", "@admin"], ["*"]) == ["search_tools"]
    assert allowed(["*"], ["search_tools", "*__*"]) == ["search_posts", "put_document", "search_tools"]


def test_read_only_refuses_what_changes_anything() -> None:
    assert allowed(["*"], read_only=True) == [
        "github__get_issue",
        "time__now",
        "search_posts",
        "search_tools",
    ]


def test_a_server_without_a_prefix_can_be_denied_by_its_name() -> None:
    bare = CallTarget("read_file", "files")
    assert rules_of(["*"]).allows(bare)
    assert not rules_of(["*"], ["files__*"]).allows(bare)


def test_a_tool_of_a_shortened_name_is_matched_by_its_whole_name_and_its_server() -> None:
    tool = CallTarget("short-1adc__get", "a-long-server", others=("a-long-server__get",))
    for pattern in ("a-long-server__*", "a-long-server__get", "short-1adc__get"):
        assert rules_of([pattern]).allows(tool)
        assert not rules_of(["*"], [pattern]).allows(tool)
        assert unmatched(PermissionPatterns((pattern,)), [tool]) == []
    assert not rules_of(["a-long-server__other"]).allows(tool)


def test_a_list_is_allowed_because_its_items_are_checked() -> None:
    assert rules_of(["github__*"]).allows(CallTarget("tools/list", kind="list"))


def test_a_server_is_visible_if_anything_of_it_may_be_allowed() -> None:
    rules = rules_of(["github__get_*", "time__now", "@posts"], ["jira__*"])
    assert [rules.sees_server(name) for name in ("github", "time", "jira", "git")] == [
        True,
        True,
        False,
        False,
    ]
    assert rules_of(["*"], ["github__delete_*"]).sees_server("github")
    assert not rules_of(["*"], ["github*"]).sees_server("github")


def test_only_everything_without_exception_is_everything() -> None:
    assert rules_of(["*", "@admin"]).everything
    for narrow in (
        rules_of(["*"]),
        rules_of(["*", "@admin"], ["x"]),
        rules_of(["*", "@admin"], read_only=True),
    ):
        assert not narrow.everything


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("@post", "allow: there is no source @post. Did you mean @posts?"),
        ("@zzzzzz", "@posts, @documents, @pages, @tools, @docs, @admin"),
        ("@hub", "there is no source @hub"),
        (" ", "a pattern is empty"),
        ("a b", "contains a space"),
        ("a,b", "a comma"),
        ("a\x00b", "control character"),
        ("x" * 201, "more than 200 characters"),
    ],
)
def test_a_wrong_pattern_says_what_is_wrong(pattern: str, said: str) -> None:
    with pytest.raises(BadArguments) as raised:
        PermissionPatterns.checked([pattern])
    assert said in str(raised.value)
    assert raised.value.parameter == "allow"


def test_too_many_patterns_are_refused() -> None:
    with pytest.raises(BadArguments, match="at most 200"):
        checked_patterns((f"tool{n}" for n in range(MOST_PATTERNS + 1)), "deny")


def test_patterns_that_match_nothing_known_are_named() -> None:
    patterns = PermissionPatterns.checked(["github__*", "githup__*", "@posts", "*"], ["time__now", "tyme__*"])
    assert unmatched(patterns, EVERYTHING) == ["githup__*", "tyme__*"]


def test_answers_about_endless_names_are_forgotten() -> None:
    rules = rules_of(["*"], ["*9"])
    for number in range(MOST_ANSWERS + 10):
        assert rules.allows(CallTarget(f"files__file:///{number}", "files", kind="resource")) != (
            number % 10 == 9
        )


def test_a_pattern_of_many_stars_is_matched_in_linear_time() -> None:
    assert not NamePattern.of("*a" * 90 + "*b").matches("a" * 100_000)


def texts(letters: str, longest: int) -> list[str]:
    """Return all texts of these letters."""
    every = (itertools.product(letters, repeat=size) for size in range(longest + 1))
    return ["".join(each) for each in itertools.chain.from_iterable(every)]


NAMES = texts("ab", 5)
GLOBS = [text for text in texts("ab*", 6) if "*" in text]


def test_patterns_match_as_globs_do() -> None:
    for glob in GLOBS:
        pattern = NamePattern.of(glob)
        assert [name for name in NAMES if pattern.matches(name)] == fnmatch.filter(NAMES, glob), glob


@pytest.mark.parametrize("prefix", ["", "a", "ab", "ba"])
def test_a_pattern_is_judged_by_the_names_below_a_prefix(prefix: str) -> None:
    below = [name for name in NAMES if name.startswith(prefix)]
    for glob in GLOBS:
        pattern = NamePattern.of(glob)
        matching = [pattern.matches(name) for name in below]
        if len(glob) <= 3:
            assert pattern.may_match_below(prefix) == any(matching), glob
        if glob.index("*") == len(glob) - 1:
            assert pattern.matches_all_below(prefix) == all(matching), glob
        assert not pattern.matches_all_below(prefix) or all(matching), glob


@given(rule_patterns, targets(), pattern_lists)
def test_denying_wins(patterns: PermissionPatterns, target: CallTarget, more: list[str]) -> None:
    rules = PermissionRules(patterns)
    wider = PermissionRules(replace(patterns, allow=checked_patterns([*patterns.allow, *more], "allow")))
    narrower = PermissionRules(replace(patterns, deny=checked_patterns([*patterns.deny, *more], "deny")))
    assert rules.allows(target) <= wider.allows(target)
    assert narrower.allows(target) <= rules.allows(target)
    if target.name in narrower.patterns.deny and target.source != "hub":
        assert not narrower.allows(target)


@given(rule_patterns, targets())
def test_read_only_never_lets_a_change_through(patterns: PermissionPatterns, target: CallTarget) -> None:
    rules = PermissionRules(replace(patterns, read_only=True))
    assert not (rules.allows(target) and target.changes)


@given(rule_patterns, targets())
def test_no_star_includes_administration(patterns: PermissionPatterns, target: CallTarget) -> None:
    named = {"@admin", target.name} & set(patterns.allow)
    if target.kind == "operation" and target.source in ("", "admin") and not named:
        assert not PermissionRules(patterns).allows(target)


@given(rule_patterns, targets())
def test_what_is_allowed_of_a_server_makes_it_visible(
    patterns: PermissionPatterns, target: CallTarget
) -> None:
    rules = PermissionRules(patterns)
    if target.server and target.name.startswith(f"{target.server}__") and rules.allows(target):
        assert rules.sees_server(target.server)


@given(rule_patterns, rule_patterns, targets())
def test_a_profile_never_adds_anything(
    first: PermissionPatterns, second: PermissionPatterns, target: CallTarget
) -> None:
    one, two = (Profile(ProfileDefinition("p", patterns)) for patterns in (first, second))
    both = narrowed(narrowed(LOCAL, one), two)
    assert both.allows(target) == (one.allows(target) and two.allows(target))
    assert both.sees_server("a") <= (one.sees_server("a") and two.sees_server("a"))
    assert not both.everything or (one.everything and two.everything)


@given(rule_patterns, targets())
def test_answers_are_the_same_when_they_are_remembered(
    patterns: PermissionPatterns, target: CallTarget
) -> None:
    rules = PermissionRules(patterns)
    assert (
        rules.allows(target)
        == rules.allows(structs.replace(target))
        == PermissionRules(patterns).allows(target)
    )
