"""Files without their secrets: variables are in their place, and everything else is as it was."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest

from tabane.hub.backup.secret_references import servers_without_secrets, settings_without_secrets
from tabane.servers.commented_json import read_document
from tests.harness.cases import cases_beside

CASES = cases_beside(__file__)

KEY = "sk-1234567890abcdefABCDEF"


def without(definition: dict[str, Any], *kept: str) -> Any:
    """Return a definition of the server ``github`` without its secrets."""
    text = json.dumps({"mcpServers": {"github": definition}})
    return read_document(servers_without_secrets(text, kept).text).value["mcpServers"]["github"]


@pytest.mark.parametrize(("written", "expected"), CASES["only_keys_are_replaced"])
def test_only_keys_are_replaced(written: dict[str, Any], expected: dict[str, Any]) -> None:
    assert without(written) == expected


def test_the_same_key_gets_one_variable_and_another_key_another_one() -> None:
    servers = {
        "one": {"env": {"API_KEY": "first-key"}},
        "two": {"env": {"API_KEY": "second-key"}},
        "three": {"env": {"API_KEY": "first-key"}},
    }
    found = servers_without_secrets(json.dumps({"mcpServers": servers}), ["OTHER"])
    after = read_document(found.text).value["mcpServers"]
    assert after["one"] == after["three"] == {"env": {"API_KEY": "${API_KEY}"}}
    assert after["two"] == {"env": {"API_KEY": "${TWO_API_KEY}"}}
    assert found.names == ("API_KEY", "TWO_API_KEY")


def test_the_name_of_another_secret_is_not_used() -> None:
    assert without({"env": {"API_KEY": "abcdefgh"}}, "API_KEY") == {"env": {"API_KEY": "${GITHUB_API_KEY}"}}


def test_comments_and_layout_stay_and_secrets_in_comments_do_not() -> None:
    text = f"""{{
  // my servers
  "mcpServers": {{
    "a": {{"command": "x", "env": {{"API_KEY": "abcdefgh"}}}}, // token: {KEY}
    /* was "API_KEY": "abcdefgh" */ "b": {{"command": "y"}},
  }},
}}
"""
    found = servers_without_secrets(text, ()).text
    assert "// my servers" in found
    assert '"command": "x", "env": {"API_KEY": "${API_KEY}"}' in found
    assert '"b": {"command": "y"},' in found
    assert KEY not in found
    assert "abcdefgh" not in found


def test_a_key_in_a_repeated_member_is_gone_too() -> None:
    text = '{"mcpServers": {"a": {"env": {"API_KEY": "abcdefgh"}}, "a": {"env": {"API_KEY": "abcdefgh"}}}}'
    assert "abcdefgh" not in servers_without_secrets(text, ()).text


def test_a_file_without_secrets_stays_byte_for_byte() -> None:
    text = '{ "mcpServers": { "a": {"command": "x", "args": ["--key-file", "/k"]}, }, }  // end\n'
    assert servers_without_secrets(text, ()).text == text


def test_a_setting_with_a_password_is_removed_and_named() -> None:
    text = (
        'log_level = "info"  # as always\n'
        'otel_endpoint = "https://joe:hunter22@collector/"\n'
        f"# key: {KEY}\n"
        'model_key = "${OPENAI_API_KEY}"\n'
    )
    found = settings_without_secrets(text)
    assert tomllib.loads(found.text) == {"log_level": "info", "model_key": "${OPENAI_API_KEY}"}
    assert found.removed == ("otel_endpoint",)
    assert "# as always" in found.text
    assert "hunter22" not in found.text
    assert KEY not in found.text


def test_settings_without_secrets_stay_byte_for_byte() -> None:
    text = '# mine\nresult_tokens = 5000 # tokens: many\norigins = ["http://localhost:3000"]\n'
    assert settings_without_secrets(text).text == text
