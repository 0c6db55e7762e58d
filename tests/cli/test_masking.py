"""Masking of secrets in a server's definition."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.cli.servers_file import MASK, masked, masked_value


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


@given(
    st.recursive(
        st.just("the-secret") | st.text(max_size=4) | st.integers(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    )
)
def test_a_known_secret_is_shown_nowhere(value: object) -> None:
    assert "the-secret" not in repr(masked({"any": value, "env": value, "headers": value}, ["the-secret"]))
