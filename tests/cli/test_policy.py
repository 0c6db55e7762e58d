"""`tabane policy explain` on a real hub."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.harness.home import Home, hub


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    home = Home(tmp_path_factory.mktemp("home"))
    home.write_servers({"one": home.child()})
    with hub(home):
        assert home.run("servers", "test", "one").status == 0  # so that its tools are known
        assert home.run("keys", "create", "laptop", "--allow", "one__*", "--deny", "one__count").status == 0
        yield home


def test_a_tool_that_is_allowed_says_which_pattern_allows_it(home: Home) -> None:
    asked = home.run("policy", "explain", "laptop", "one__echo")
    assert asked.status == 0
    assert asked.out.startswith("laptop may call one__echo.\nThe key laptop allows it: one__*\n")
    assert asked.out.endswith("The flow policy lets a call of one__echo begin.\n")


def test_a_tool_that_is_denied_has_status_1(home: Home) -> None:
    asked = home.run("policy", "explain", "laptop", "one__count")
    assert asked.status == 1
    assert "The key laptop denies it: one__count" in asked.out


def test_json_has_every_step(home: Home) -> None:
    found = home.run("policy", "explain", "laptop", "search_documents", "--json").json
    assert found["allowed"] is False
    assert found["source"] == "documents"
    assert found["steps"] == [{"by": "key", "name": "laptop", "allowed": False, "rule": "none"}]


def test_a_revoked_key_allows_nothing(home: Home) -> None:
    assert home.run("keys", "create", "old", "--allow", "*").status == 0
    key = home.run("policy", "explain", "old", "one__echo", "--json").json["key"]["id"]
    assert home.run("keys", "revoke", "old").status == 0
    asked = home.run("policy", "explain", key, "one__echo")
    assert asked.status == 1
    assert "The key was revoked" in asked.out


@pytest.mark.parametrize(
    ("key", "tool", "words"), [("laptpo", "one__echo", "laptop"), ("laptop", "one__ehco", "one__echo")]
)
def test_a_name_that_does_not_exist_names_the_nearest(home: Home, key: str, tool: str, words: str) -> None:
    asked = home.run("policy", "explain", key, tool)
    assert asked.status != 0
    assert words in asked.err


def test_it_helps_with_examples(home: Home) -> None:
    helped = home.run("policy", "explain", "--help")
    assert "tabane policy explain" in helped.out.split("Examples:")[1]
