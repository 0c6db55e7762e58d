"""Keys in plain text keep working untouched, and `tabane secrets adopt` moves them on request."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_add_secrets import environment_of, secrets
from tests.harness.home import Home, hub

KEY = "sk-0123456789abcdef"


@pytest.fixture
def plain(home: Home) -> Home:
    """A home as earlier versions left it: keys in plain text, also one with comments."""
    child = json.dumps(home.child())[1:-1]
    home.write_servers(
        f"""{{
  // my servers
  "mcpServers": {{
    "one": {{{child}, "env": {{"API_KEY": "{KEY}", "LEVEL": "debug"}}}}, // in use
    "two": {{"url": "https://example.com/mcp", "headers": {{"Authorization": "Bearer k-567890"}},
      "enabled": false}},
    "three": {{{child}, "enabled": false}}
  }}
}}
"""
    )
    return home


def test_a_file_with_keys_in_plain_text_works_and_is_not_rewritten(plain: Home) -> None:
    before = plain.servers.read_bytes()
    with hub(plain):
        assert environment_of(plain, "one")["API_KEY"] == KEY
        assert plain.run("doctor").out
        assert plain.run("servers", "list").succeeded
    assert plain.servers.read_bytes() == before
    plain.run("servers", "enable", "three")
    assert f'"API_KEY": "{KEY}"' in plain.servers.read_text()
    assert secrets(plain) == {}


def test_the_doctor_names_them_and_the_command(plain: Home) -> None:
    said = plain.run("doctor", "--json")
    notes = json.dumps(said.json)
    assert "one (env.API_KEY), two (headers.Authorization)" in notes
    assert "tabane secrets adopt" in notes
    assert KEY not in said.out + said.err
    plain.run("secrets", "adopt")
    assert "tabane secrets adopt" not in plain.run("doctor", "--json").out


def test_all_keys_move_and_the_rest_of_the_file_stays(plain: Home) -> None:
    text = plain.servers.read_text()
    done = plain.run("secrets", "adopt").succeeded
    assert plain.servers.read_text() == text.replace(KEY, "${API_KEY}").replace("k-567890", "${TWO_TOKEN}")
    assert secrets(plain) == {"API_KEY": KEY, "TWO_TOKEN": "k-567890"}
    assert done.rows == [["one", "env.API_KEY", "API_KEY"], ["two", "headers.Authorization", "TWO_TOKEN"]]
    assert KEY not in done.out + done.err
    assert "mcp-servers.json.bak" in done.err
    with hub(plain):
        assert environment_of(plain, "one")["API_KEY"] == KEY


def test_only_the_named_server_moves(plain: Home) -> None:
    assert plain.run("secrets", "adopt", "two").status == 0
    assert secrets(plain) == {"TWO_TOKEN": "k-567890"}
    assert KEY in plain.servers.read_text()


def test_a_dry_run_and_a_no_change_nothing(plain: Home) -> None:
    before = plain.servers.read_bytes()
    assert plain.json("secrets", "adopt", "--dry-run")["status"] == "unchanged"
    refused = plain.converse("secrets", "adopt", typed="n\n")
    assert (refused.status, "API_KEY" in refused.out) == (0, True)
    assert (plain.servers.read_bytes(), secrets(plain)) == (before, {})


def test_nothing_is_kept_if_the_file_cannot_be_changed(home: Home) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "args": ["--token", /* mine */ "KEY"]}}}'.replace(
        "KEY", KEY
    )
    home.write_servers(text)
    failed = home.run("secrets", "adopt")
    assert failed.status == 1
    assert "${A_TOKEN}" in failed.err
    assert KEY not in failed.out + failed.err
    assert (home.servers.read_text(), secrets(home)) == (text, {})


def test_an_unknown_server_is_wrong_usage_and_a_clean_file_is_said(home: Home) -> None:
    home.write_servers({"docs": {"command": "x", "env": {"API_KEY": "${API_KEY}"}}})
    failed = home.run("secrets", "adopt", "doc")
    assert (failed.status, "docs" in failed.err) == (2, True)
    assert "no keys in plain text" in home.run("secrets", "adopt").succeeded.out
