"""Secrets in plain text in definitions: found, named and replaced by variables."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabane.gateway.servers.plain_secrets import plain_secrets, with_variables, without_secrets
from tabane.gateway.servers.variables import Variables, each_text, expand


@pytest.mark.parametrize(
    ("definition", "changed", "secrets"),
    [
        (
            {"env": {"API_KEY": "k-1234", "LEVEL": "debug"}},
            {"env": {"API_KEY": "${API_KEY}", "LEVEL": "debug"}},
            {"API_KEY": "k-1234"},
        ),
        (
            {"env": {"api.key": "k-1234"}},
            {"env": {"api.key": "${GIT_HUB_API_KEY}"}},
            {"GIT_HUB_API_KEY": "k-1234"},
        ),
        (
            {"headers": {"Authorization": "Bearer k-1234", "X-API-Key": "k-5678", "Accept": "x/y"}},
            {
                "headers": {
                    "Authorization": "Bearer ${GIT_HUB_TOKEN}",
                    "X-API-Key": "${GIT_HUB_API_KEY}",
                    "Accept": "x/y",
                }
            },
            {"GIT_HUB_TOKEN": "k-1234", "GIT_HUB_API_KEY": "k-5678"},
        ),
        (
            {"args": ["--token", "k-1234", "--api-key=k-5678", "-e", "MY_TOKEN=k-9012", "--verbose", "key"]},
            {
                "args": [
                    *("--token", "${GIT_HUB_TOKEN}", "--api-key=${GIT_HUB_API_KEY}"),
                    *("-e", "MY_TOKEN=${MY_TOKEN}", "--verbose", "key"),
                ]
            },
            {"GIT_HUB_TOKEN": "k-1234", "GIT_HUB_API_KEY": "k-5678", "MY_TOKEN": "k-9012"},
        ),
        (
            {"args": ["mcp-remote", "https://example.com/mcp", "--header", "Authorization: Bearer k-1234"]},
            {
                "args": [
                    *("mcp-remote", "https://example.com/mcp"),
                    *("--header", "Authorization: Bearer ${GIT_HUB_TOKEN}"),
                ]
            },
            {"GIT_HUB_TOKEN": "k-1234"},
        ),
        (
            {"args": ["postgres://me:hunter22@db/x", "ghp_0123456789abcdef"]},
            {"args": ["postgres://me:${GIT_HUB_PASSWORD}@db/x", "${GIT_HUB_KEY}"]},
            {"GIT_HUB_PASSWORD": "hunter22", "GIT_HUB_KEY": "ghp_0123456789abcdef"},
        ),
        (
            {"serverUrl": "https://me:hunter22@example.com/mcp?api_key=k-1234&page=2"},
            {"serverUrl": "https://me:${GIT_HUB_PASSWORD}@example.com/mcp?api_key=${GIT_HUB_API_KEY}&page=2"},
            {"GIT_HUB_PASSWORD": "hunter22", "GIT_HUB_API_KEY": "k-1234"},
        ),
        ({"env": {"API_KEY": "a$${b}c"}}, {"env": {"API_KEY": "${API_KEY}"}}, {"API_KEY": "a${b}c"}),
    ],
)
def test_each_place_of_a_secret_gets_a_variable(
    definition: dict[str, Any], changed: dict[str, Any], secrets: dict[str, str]
) -> None:
    found = plain_secrets("git-hub", definition)
    assert {secret.wanted: secret.value for secret in found} == secrets
    assert with_variables(definition, [(secret, secret.wanted) for secret in found]) == changed
    hidden = repr(without_secrets("git-hub", definition))
    assert not any(value in hidden for value in secrets.values())
    assert not any(value in repr(found) for value in secrets.values())


@pytest.mark.parametrize(
    "definition",
    [
        {"env": {"API_KEY": "${API_KEY}", "TOKEN": "${TOKEN:-abcdef}", "KEY": "${input:key}", "N": 5}},
        {"headers": {"Authorization": "Bearer ${TOKEN}"}},
        {"headers": ["Authorization: Bearer abcdef"], "env": "API_KEY=abcdef"},
        {"url": "https://example.com/mcp?token=${TOKEN}", "args": ["--token", "${TOKEN}"]},
        {"args": ["-y", "@acme/secret-server", "--token", "--verbose", "a.json", "http://localhost:1/x"]},
        {"url": 5, "args": "x", "description": "api_key=abcdef"},
    ],
)
def test_what_is_a_variable_or_no_secret_stays(definition: dict[str, Any]) -> None:
    assert plain_secrets("x", definition) == ()


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="$"), max_size=12)
NAMES = st.sampled_from(["API_KEY", "TOKEN", "LEVEL", "Authorization", "x"])


@given(
    st.fixed_dictionaries(
        {
            "env": st.dictionaries(NAMES, TEXT),
            "headers": st.dictionaries(NAMES, TEXT.map(lambda text: f"Bearer {text}")),
            "args": st.lists(
                TEXT | st.just("--token") | TEXT.map(lambda text: f"https://a:{text}@h/?key={text}")
            ),
        }
    )
)
def test_a_server_gets_the_same_values_with_variables_as_without(definition: dict[str, Any]) -> None:
    numbered = [(secret, f"V{at}") for at, secret in enumerate(plain_secrets("s", definition))]
    values = Variables({}, {name: secret.value for secret, name in numbered})
    changed = with_variables(definition, numbered)
    assert each_text(changed, lambda text: expand(text, values).text()) == definition
