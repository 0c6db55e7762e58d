"""Why a key may or may not call a tool."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.key_store import KeyRecord
from tabane.access.permissions import PermissionPatterns, PermissionRules
from tabane.access.policy_operations import PermissionReason, PolicyExplainer, explain_permission, policy_text
from tabane.access.table import ExplainPolicyParams
from tabane.operations import Caller, Face
from tabane.operations.caller import SOURCES, CallTarget

READ = CallTarget("github__get_issue", "github", changes=False)
WRITE = CallTarget("github__create_issue", "github")
SEARCH = CallTarget("search_documents", source="documents", kind="operation", changes=False)
STOP = CallTarget("stop_upstream", source="admin", kind="operation")
HELLO = CallTarget("search_tools", source="hub", kind="operation", changes=False)
TARGETS = {target.name: target for target in (READ, WRITE, SEARCH, STOP, HELLO)}
CALLER = Caller("local", Face.CLI, "1")


def key_with(patterns: PermissionPatterns, profile: str = "") -> KeyRecord:
    return KeyRecord("ab12cd34ef56", b"", "laptop", patterns, profile, "authenticated", 0.0)


def patterns(allow: str = "", deny: str = "", *, read_only: bool = False) -> PermissionPatterns:
    return PermissionPatterns(tuple(allow.split()), tuple(deny.split()), read_only)


def explained(key: KeyRecord, tool: str, state: str = "active", **profiles: PermissionPatterns) -> Any:
    async def find_key(name: str) -> tuple[KeyRecord, str]:
        return key, state

    async def find_target(caller: Caller, name: str) -> CallTarget:
        return TARGETS[name]

    explainer = PolicyExplainer(find_key, find_target, profiles.get)
    return asyncio.run(explainer.explain(CALLER, ExplainPolicyParams("laptop", tool)))


@pytest.mark.parametrize(
    ("given_patterns", "target", "reason"),
    [
        (patterns("docs__* github__*"), READ, PermissionReason(True, "allow", "github__*")),
        (patterns("*", "x__* github__create_*"), WRITE, PermissionReason(False, "deny", "github__create_*")),
        (patterns("*", "@documents"), SEARCH, PermissionReason(False, "deny", "@documents")),
        (patterns("@documents"), SEARCH, PermissionReason(True, "allow", "@documents")),
        (patterns("*", read_only=True), WRITE, PermissionReason(False, "read_only")),
        (patterns("*", "github__*", read_only=True), WRITE, PermissionReason(False, "deny", "github__*")),
        (patterns("docs__*"), READ, PermissionReason(False, "none")),
        (patterns("*"), STOP, PermissionReason(False, "none")),
        (patterns("@admin"), STOP, PermissionReason(True, "allow", "@admin")),
        (patterns("stop_upstream", "stop_upstream"), STOP, PermissionReason(False, "deny", "stop_upstream")),
        (patterns(), HELLO, PermissionReason(True, "always")),
    ],
)
def test_the_pattern_that_decides_is_named(
    given_patterns: PermissionPatterns, target: CallTarget, reason: PermissionReason
) -> None:
    assert explain_permission(given_patterns, target) == reason


NAMES = st.sampled_from(["a__x", "a__y", "b__x", "search_documents", "stop_upstream"])
PATTERNS = st.sampled_from(
    ["*", "a__*", "*__x", "a__x", "search_*", "stop_upstream", "@documents", "@admin", "@posts"]
)


@given(
    st.lists(PATTERNS, max_size=4),
    st.lists(PATTERNS, max_size=4),
    st.booleans(),
    NAMES,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", *SOURCES]),
    st.booleans(),
)
def test_an_explanation_never_differs_from_the_decision(
    allow: list[str], deny: list[str], read_only: bool, name: str, server: str, source: str, changes: bool
) -> None:
    given_patterns = PermissionPatterns(tuple(allow), tuple(deny), read_only)
    target = CallTarget(name, server, "" if server else source, changes=changes)
    reason = explain_permission(given_patterns, target)
    assert reason.allowed is PermissionRules(given_patterns).allows(target)
    assert reason.pattern in (*(allow if reason.allowed else deny), "")
    assert bool(reason.pattern) is (reason.rule in ("allow", "deny"))


def test_a_key_and_its_profile_must_both_allow() -> None:
    key = key_with(patterns("*"), profile="work")
    found = explained(key, "github__create_issue", work=patterns("*", "github__create_*"))
    assert found["allowed"] is False
    assert found["steps"] == [
        {"by": "key", "name": "laptop", "allowed": True, "rule": "allow", "pattern": "*"},
        {"by": "profile", "name": "work", "allowed": False, "rule": "deny", "pattern": "github__create_*"},
    ]
    assert policy_text(found, "en") == (
        "laptop may not call github__create_issue.\n"
        "The key laptop allows it: *\n"
        "The profile work denies it: github__create_*"
    )


def test_a_profile_that_is_gone_allows_nothing() -> None:
    found = explained(key_with(patterns("*"), profile="work"), "github__get_issue")
    assert found["allowed"] is False
    assert "The profile work does not exist" in policy_text(found, "en")


@pytest.mark.parametrize("state", ["expired", "revoked"])
def test_a_key_that_is_over_allows_nothing(state: str) -> None:
    found = explained(key_with(patterns("*")), "github__get_issue", state)
    assert found["allowed"] is False
    assert state in policy_text(found, "en")
    assert "tabane keys create" in policy_text(found, "en")


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("github__get_issue", "These would: github__get_issue, github__*"),
        ("search_documents", "These would: search_documents, @documents"),
        ("stop_upstream", "It needs stop_upstream or @admin"),
    ],
)
def test_what_would_allow_it_is_said(tool: str, words: str) -> None:
    assert words in policy_text(explained(key_with(patterns("nothing__*")), tool), "en")
