"""Scopes of tokens as permissions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.access.oauth.oauth_access import ScopePermission, ScopeTable, parse_scope_entry
from tabane.errors import ConfigurationError
from tabane.operations.caller import CallTarget

TARGETS = {
    "get": CallTarget("github__get_issue", server="github", changes=False),
    "delete": CallTarget("github__delete_repo", server="github"),
    "posts": CallTarget("search_similar", source="posts", changes=False),
    "put": CallTarget("put_document", source="documents"),
    "stop": CallTarget("stop_upstream", source="admin"),
    "audit": CallTarget("query_audit_logs", source="admin", changes=False),
    "ping": CallTarget("search_tools", source="hub", changes=False),
}
ALL = set(TARGETS) - {"stop", "audit"}


def allowed(scopes: str, *entries: str) -> set[str]:
    """Return what a token with those scopes may call. The scopes have to allow anything."""
    grants = ScopeTable(entries).grants(scopes.split())
    assert grants, "they allow nothing"
    permission = ScopePermission(grants)
    return {name for name, target in TARGETS.items() if permission.allows(target)}


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        ("tabane:read", {"get", "posts", "ping"}),
        ("tabane:*", ALL),
        ("tabane:admin", {"stop", "audit", "ping"}),
        ("tabane:* tabane:admin", set(TARGETS)),
        ("tabane:read tabane:source:documents", {"get", "posts", "ping", "put"}),
        ("tabane:tool:github__*", {"get", "delete", "ping"}),
        ("tabane:tool:*", ALL),
        ("tabane:source:posts openid email", {"posts", "ping"}),
    ],
)
def test_scopes_of_our_own_names(scopes: str, expected: set[str]) -> None:
    assert allowed(scopes) == expected


@pytest.mark.parametrize(
    "scope",
    [
        "",
        "openid",
        "tabane",
        "tabane:",
        "Tabane:read",
        "tabane:tool:",
        "tabane:tool:@admin",
        "tabane:source:admin",
        "tabane:source:hub",
        "tabane:source:",
        "*",
        "@admin",
    ],
)
def test_other_scopes_allow_nothing(scope: str) -> None:
    assert ScopeTable().grants([scope]) == ()


def test_the_settings_replace_our_names() -> None:
    entries = ("hub.read = read-only *", "hub.github = github__* !github__delete_*", "hub.ops=@admin")
    assert allowed("hub.read", *entries) == {"get", "posts", "ping"}
    assert allowed("hub.github", *entries) == {"get", "ping"}
    assert allowed("hub.github hub.ops", *entries) == {"get", "ping", "stop", "audit"}
    table = ScopeTable(entries)
    assert table.grants(["tabane:*", "tabane:tool:*"]) == ()
    assert table.advertised == ("hub.read", "hub.github")


def test_a_denial_holds_for_its_own_scope_alone() -> None:
    entries = ("a = * !github__*", "b = github__get_*")
    assert allowed("a", *entries) == ALL - {"get", "delete"}
    assert allowed("a b", *entries) == ALL - {"delete"}


def test_a_server_is_visible_if_any_scope_may_allow_one_of_its_tools() -> None:
    permission = ScopePermission(ScopeTable().grants(["tabane:tool:github__get_*", "tabane:source:posts"]))
    assert permission.sees_server("github")
    assert not permission.sees_server("gitlab")


@pytest.mark.parametrize(
    "entry", ["", "read", "= *", "read =", "re ad = *", 'a"b = *', "a = @nowhere", "a = !"]
)
def test_an_entry_that_means_nothing_is_refused(entry: str) -> None:
    with pytest.raises(ConfigurationError, match="oauth_scopes"):
        parse_scope_entry(entry)


@given(st.lists(st.text(max_size=40) | st.text("tabne:*olsurc@_", max_size=40).map("tabane:".__add__)))
def test_no_scope_but_its_own_gives_administration(scopes: list[str]) -> None:
    permission = ScopePermission(ScopeTable().grants(set(scopes) - {"tabane:admin"}))
    for name in ("stop", "audit"):
        exact = f"tabane:tool:{TARGETS[name].name}"
        assert not permission.allows(TARGETS[name]) or exact in scopes
