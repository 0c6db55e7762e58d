"""Secrets in a server's definition: masked when it is shown, kept when it is edited."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.errors import BadArguments
from tabane.servers.masking import MASK, masked, masked_value, unmasked


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("sk-12345", MASK),
        ("", ""),
        ("true", MASK),
        ("${KEY}", "${KEY}"),
        ("${env:KEY}", "${env:KEY}"),
        ("Bearer ${KEY}", "Bearer ${KEY}"),
        ("Bearer sk-12345", MASK),
        ("${KEY:-}", "${KEY:-}"),
        ("${KEY:-sk-12345}", "${KEY:-***}"),
        ("postgres://me:${PASSWORD}@host", "***${PASSWORD}***"),
        ("${A}${B}", "${A}${B}"),
    ],
)
def test_a_value_of_the_environment_shows_its_variables_alone(value: str, shown: str) -> None:
    assert masked_value(value) == shown
    assert masked({"env": {"X": value}, "headers": {"X-Y": value}}) == {
        "env": {"X": shown},
        "headers": {"X-Y": shown},
    }


@pytest.mark.parametrize(
    ("definition", "shown"),
    [
        ({"command": "npx", "args": ["-y", "x", "/path"]}, {"command": "npx", "args": ["-y", "x", "/path"]}),
        ({"args": ["--token", "hunter22"]}, {"args": ["--token", MASK]}),
        ({"args": ["--token=hunter22"]}, {"args": ["--token=***"]}),
        ({"url": "https://me:pass@example.com/mcp?api_key=abc&x=1"}, {"url": "https://me:***@example.com/mcp?api_key=***&x=1"}),
        ({"url": "https://example.com/?token=${TOKEN}"}, {"url": "https://example.com/?token=${TOKEN}"}),
        ({"args": ["postgres://me:pass@db/x"]}, {"args": ["postgres://me:***@db/x"]}),
        ({"oauth": {"client_secret": "abc", "scope": "x"}}, {"oauth": {"client_secret": MASK, "scope": "x"}}),
        ({"env": {"N": 5}, "headers": ["Authorization: Bearer abc"]}, {"env": {"N": MASK}, "headers": MASK}),
        ({"enabled": False, "timeout": 5, "x": None}, {"enabled": False, "timeout": 5, "x": None}),
    ],
)  # fmt: skip
def test_a_definition_is_shown_as_it_is_written_but_for_its_secrets(
    definition: dict[str, Any], shown: dict[str, Any]
) -> None:
    assert masked(definition, ["hunter22"]) == shown


JSON = st.recursive(
    st.just("the-secret") | st.text(max_size=4) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@given(JSON)
def test_a_known_secret_is_shown_nowhere(value: object) -> None:
    assert "the-secret" not in repr(masked({"any": value, "env": value, "headers": value}, ["the-secret"]))


WRITTEN = {
    "command": "npx",
    "args": ["-y", "server", "--token", "first-secret", "--key", "second-secret"],
    "env": {"API_KEY": "sk-12345", "REGION": "${REGION}", "MODE": "fast"},
    "url": "https://me:pass1234@example.com/?token=abcdef",
}
SECRETS = ["first-secret", "second-secret"]


def test_what_comes_back_as_it_was_shown_is_what_was_written() -> None:
    assert unmasked(masked(WRITTEN, SECRETS), WRITTEN, SECRETS) == WRITTEN


@given(st.dictionaries(st.sampled_from(["env", "headers", "url", "args", "x"]), JSON))
def test_any_definition_comes_back_whole(written: dict[str, Any]) -> None:
    assert unmasked(masked(written), written) == written


def test_an_edited_definition_keeps_its_secrets_and_the_order_of_its_keys() -> None:
    edited = masked(WRITTEN, SECRETS)
    edited = {"description": "new", **dict(reversed(edited.items()))}
    edited["env"] = {"NEW": "x", "API_KEY": MASK}
    edited["args"] = ["-y", "server", "--verbose", "--key", MASK]
    found = unmasked(edited, WRITTEN, SECRETS)
    assert list(found) == ["command", "args", "env", "url", "description"]
    assert found["env"] == {"API_KEY": "sk-12345", "NEW": "x"}
    assert found["args"] == ["-y", "server", "--verbose", "--key", "second-secret"]
    assert found["url"] == WRITTEN["url"]


@pytest.mark.parametrize(
    "change",
    [
        {"env": {"RENAMED": MASK}},
        {"env": {"MODE": f"Bearer {MASK}"}},
        {"args": ["-y", "server", "--other", MASK]},
        {"args": [f"--token={MASK}"]},
        {"url": f"https://me:{MASK}@elsewhere.example/"},
    ],
)
def test_a_mask_that_stands_for_nothing_known_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(BadArguments, match=r"Enter the whole value") as refused:
        unmasked({**masked(WRITTEN, SECRETS), **change}, WRITTEN, SECRETS)
    assert refused.value.parameter in change


def test_three_asterisks_inside_a_pattern_are_no_mask() -> None:
    assert unmasked({"args": ["src/***/x"]}, WRITTEN)["args"] == ["src/***/x"]
