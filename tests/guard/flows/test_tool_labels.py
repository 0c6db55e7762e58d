"""Labels of tools: what decides them, and in which order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.guard.flows.tool_labels import (
    DescribedTool,
    LabelTable,
    ServerFacts,
    inferred_labels,
    labels_of_tool,
)
from tabane.servers.labels import (
    DESTRUCTIVE,
    EXTERNAL,
    LABELS_BY_NAME,
    PRIVATE,
    UNTRUSTED,
    LabelChange,
    label_change,
    label_names,
)
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

TABLE = LabelTable()
UNKNOWN = ServerFacts("mine", ("python", "server.py"))
SLACK = ServerFacts("chat", ("npx", "-y", "@modelcontextprotocol/server-slack@1.2.3"))


def names(tool: DescribedTool, server: ServerFacts = UNKNOWN) -> list[str]:
    return labels_of_tool(tool, server, TABLE).names


@pytest.mark.parametrize(("name", "description", "parameters", "expected"), CASES["guessed"])
def test_labels_follow_from_what_a_tool_says_of_itself(
    name: str, description: str, parameters: str, expected: list[str]
) -> None:
    tool = DescribedTool(name, "", description, tuple(filter(None, parameters.split(","))))
    assert names(tool) == expected


def test_an_event_is_external_only_with_guests() -> None:
    tool = DescribedTool("create_event", "", "Creates an event.", ("title", "attendees"))
    found = inferred_labels(tool)
    assert (found.names, found.if_given) == (["external"], ("attendees",))


def test_the_table_decides_about_a_server_that_it_knows() -> None:
    posting = labels_of_tool(DescribedTool("slack_post_message", "", "x"), SLACK, TABLE)
    assert posting.origins == ((EXTERNAL, "table"), (DESTRUCTIVE, "table"))
    assert names(DescribedTool("slack_get_channel_history", "", "x"), SLACK) == ["private", "untrusted"]


def test_a_server_is_known_by_its_host_too() -> None:
    server = ServerFacts("x", url="https://mcp.linear.app/sse")
    assert names(DescribedTool("list_issues"), server) == ["private", "untrusted"]
    assert TABLE.find(ServerFacts("x", url="https://mcp.linear.app.example.com/")) is None


@pytest.mark.parametrize("words", CASES["a_package_is_found_however_it_is_started"])
def test_a_package_is_found_however_it_is_started(words: tuple[str, ...]) -> None:
    known = TABLE.find(ServerFacts("x", words))
    assert known is not None
    assert known.name == "fetch"


def test_annotations_add_labels() -> None:
    tool = DescribedTool("frobnicate", destructive=True, open_world=True)
    assert names(tool) == ["external", "destructive"]
    assert names(DescribedTool("frobnicate", read_only=True, open_world=True)) == ["untrusted"]


def test_a_server_that_claims_to_be_harmless_stays_untrusted_and_external() -> None:
    tool = DescribedTool("fetch_url", "", "Fetches a URL.", ("url",), True, False, False)
    assert names(tool) == ["untrusted", "external"]
    sending = DescribedTool("slack_post_message", "", "", (), True, False, False)
    assert names(sending, SLACK) == ["external", "destructive"]


def test_a_mark_as_read_only_removes_what_was_only_guessed_to_be_destructive() -> None:
    tool = DescribedTool("delete_preview", "", "Deletes nothing, shows what would be deleted.", (), True)
    assert names(tool) == []


def test_the_user_has_the_last_word_for_a_server_and_more_so_for_a_tool() -> None:
    server = ServerFacts(
        "chat", SLACK.words, change=label_change(["private", "-external"]),
        tools=(("slack_*", label_change(["external", "-destructive"])),),
    )  # fmt: skip
    found = labels_of_tool(DescribedTool("slack_post_message"), server, TABLE)
    assert found.names == ["private", "external"]
    assert found.origin(EXTERNAL) == "settings"


def test_each_entry_of_the_table_is_usable() -> None:
    packages = [package for known in TABLE.servers for package in known.packages]
    assert len(packages) == len(set(packages))
    for known in TABLE.servers:
        assert known.packages or known.hosts, known.name
        for patterns, given_labels in known.tools.items():
            assert patterns == patterns.lower()
            assert {label.partition("?")[0] for label in given_labels} <= LABELS_BY_NAME.keys(), known.name
    for package in packages:
        assert TABLE.find(ServerFacts("x", (package,))) is not None, package


@given(st.text(max_size=60), st.text(max_size=300), st.lists(st.text(max_size=20), max_size=5))
def test_any_tool_has_labels_that_exist(name: str, description: str, parameters: list[str]) -> None:
    found = inferred_labels(DescribedTool(name, "", description, tuple(parameters)))
    assert found.bits & ~(PRIVATE | UNTRUSTED | EXTERNAL | DESTRUCTIVE) == 0
    assert found.names == label_names(found.bits)
    assert {bit for bit, _ in found.origins} == {bit for bit in LABELS_BY_NAME.values() if bit & found.bits}


SIGNED = st.sampled_from([sign + name for name in LABELS_BY_NAME for sign in ("", "-")])


@given(st.lists(SIGNED, max_size=6), st.lists(SIGNED, max_size=6))
def test_a_later_word_about_a_label_wins(first: list[str], second: list[str]) -> None:
    change = label_change(first).then(label_change(second))
    last = {name.removeprefix("-"): not name.startswith("-") for name in (*first, *second)}
    assert label_names(change.added) == [name for name in LABELS_BY_NAME if last.get(name) is True]
    assert label_names(change.removed) == [name for name in LABELS_BY_NAME if last.get(name) is False]
    assert isinstance(change, LabelChange)
