"""Keys in other programs' files become secrets of Tabane, and what VS Code asks for is asked for."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.cli.test_add_secrets import environment_of, secrets
from tests.cli.test_import import Desk, desk  # noqa: F401
from tests.harness.home import hub
from tests.harness.terminal import on_terminal

KEY = "sk-0123456789abcdef"
REMOTE = {"url": "https://example.com/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}


@pytest.fixture
def own_desk(desk: Desk) -> Desk:  # noqa: F811
    return desk


def test_keys_of_every_program_are_kept_and_the_servers_get_them(own_desk: Desk) -> None:
    desk = own_desk
    desk.has("cursor", {"one": {**desk.child(), "env": {"API_KEY": KEY, "LEVEL": "debug"}}})
    desk.has("windsurf", {"two": {**desk.child("--name", "two"), "env": {"API_KEY": "k-567890"}}})
    desk.has("claude-code", {"three": REMOTE})
    done = desk.run("servers", "import", "--yes", cwd=desk.project).succeeded
    written = desk.read_servers()
    assert written["one"]["env"] == {"API_KEY": "${API_KEY}", "LEVEL": "debug"} or written["two"]["env"] == {
        "API_KEY": "${API_KEY}"
    }
    assert written["three"]["headers"] == {"Authorization": "Bearer ${THREE_TOKEN}"}
    assert sorted(secrets(desk).values()) == ["k-567890", KEY, KEY]
    assert KEY not in done.out + done.err + desk.servers.read_text()
    assert "--plain" in done.err
    with hub(desk):
        assert environment_of(desk, "one")["API_KEY"] == KEY
        assert environment_of(desk, "two")["API_KEY"] == "k-567890"


def test_the_preview_shows_what_the_file_will_have(own_desk: Desk) -> None:
    own_desk.has("claude-code", {"docs": REMOTE})
    shown = own_desk.run("servers", "import", "--dry-run", "--json").succeeded
    (row,) = shown.json["servers"]
    assert row["definition"]["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert (row["disabled"], shown.json["secrets"]) == (None, ["DOCS_TOKEN"])
    assert not own_desk.servers.exists()
    assert secrets(own_desk) == {}


def test_a_second_import_recognizes_a_server_whose_key_was_kept(own_desk: Desk) -> None:
    own_desk.has("claude-code", {"docs": REMOTE})
    own_desk.imported()
    before = own_desk.servers.read_bytes()
    again = own_desk.imported()
    assert [part["name"] for part in again["skipped"]] == ["docs"]
    assert own_desk.servers.read_bytes() == before
    other = {**REMOTE, "headers": {"Authorization": "Bearer sk-another-account-0"}}
    own_desk.has("claude-code", {"docs": other})
    assert [server["name"] for server in own_desk.imported()["servers"]] == ["docs-claude-code"]


def test_with_plain_values_stay_as_they_are(own_desk: Desk) -> None:
    own_desk.has("claude-code", {"docs": REMOTE})
    done = own_desk.run("servers", "import", "--yes", "--plain", cwd=own_desk.project).succeeded
    assert own_desk.read_servers() == {"docs": REMOTE}
    assert secrets(own_desk) == {}
    assert KEY not in done.out + done.err


@pytest.mark.parametrize(("typed", "kept"), [("\n\n", {"DOCS_TOKEN": KEY}), ("y\nn\n", {}), ("n\n", None)])
def test_on_a_terminal_keeping_is_a_question_of_its_own(
    own_desk: Desk, typed: str, kept: dict[str, str] | None
) -> None:
    own_desk.has("claude-code", {"docs": REMOTE})
    done = own_desk.converse("servers", "import", typed=typed)
    assert done.status == 0, done.out
    assert KEY not in done.out
    assert secrets(own_desk) == (kept or {})
    assert own_desk.servers.exists() == (kept is not None)


INPUTS = [
    {"type": "promptString", "id": "api-key", "description": "Key of the service", "password": True},
    {
        "type": "pickString",
        "id": "region",
        "description": "Region",
        "options": ["eu", {"label": "Asia", "value": "ap"}],
        "default": "eu",
    },
    {"type": "promptString", "id": "team", "description": "Team", "default": "blue"},
    {"type": "command", "id": "account", "command": "acme.account"},
]


def with_inputs(desk: Desk) -> None:  # noqa: F811
    servers: dict[str, Any] = {
        "local": {
            **desk.child(),
            "env": {
                "ACME_KEY": "${input:api-key}",
                "REGION": "${input:region}",
                "WHO": "${input:team}/${input:account}",
            },
        },
        "remote": {
            "type": "http",
            "url": "https://example.com/mcp",
            "headers": {"Authorization": "Bearer ${input:api-key}"},
        },
    }
    desk.has("vscode", json.dumps({"inputs": INPUTS, "servers": servers}))


def test_each_input_is_asked_for_once_and_passwords_are_hidden(own_desk: Desk) -> None:
    with_inputs(own_desk)
    with on_terminal(own_desk, "servers", "import", "vscode") as terminal:
        for question, answer in (
            ("[Y/n]", ""),
            ("Key of the service (for local)", KEY),
            ("Region (for local)", "2"),
            ("Team (for local)", ""),
            ("account (for local)", "me@example.com"),
        ):
            terminal.read_until(question, 120)
            os.write(terminal.fd, f"{answer}\n".encode())
        terminal.end(120)
    assert terminal.process.returncode == 0, terminal.out
    assert KEY not in terminal.out
    assert "acme.account" in terminal.out
    assert "2. Asia: ap" in terminal.out
    assert terminal.out.count("Key of the service (for") == 1
    written = own_desk.read_servers()
    assert written["local"]["env"] == {
        "ACME_KEY": "${ACME_KEY}",
        "REGION": "ap",
        "WHO": "blue/me@example.com",
    }
    assert written["remote"]["headers"] == {"Authorization": "Bearer ${ACME_KEY}"}
    assert secrets(own_desk) == {"ACME_KEY": KEY}
    with hub(own_desk):
        assert environment_of(own_desk, "local")["ACME_KEY"] == KEY


def test_without_a_terminal_each_missing_input_is_named_with_its_command(own_desk: Desk) -> None:
    with_inputs(own_desk)
    done = own_desk.run("servers", "import", "--yes").succeeded
    env = own_desk.read_servers()["local"]["env"]
    assert env == {"ACME_KEY": "${ACME_KEY}", "REGION": "eu", "WHO": "blue/${LOCAL_ACCOUNT}"}
    assert own_desk.read_servers()["remote"]["headers"] == {"Authorization": "Bearer ${ACME_KEY}"}
    assert "local, remote need a value for Key of the service" in done.err
    for name in ("ACME_KEY", "LOCAL_ACCOUNT"):
        assert f"tabane secrets set {name}" in done.err
        assert own_desk.run("secrets", "set", name, stdin=f"value-of-{name}").succeeded
    with hub(own_desk):
        got = environment_of(own_desk, "local")
    assert (got["ACME_KEY"], got["WHO"]) == ("value-of-ACME_KEY", "blue/value-of-LOCAL_ACCOUNT")
    again = own_desk.imported()
    assert [part["name"] for part in again["skipped"]] == ["local", "remote"]


def test_an_input_without_a_terminal_never_gets_the_key_of_another_server(own_desk: Desk) -> None:
    own_desk.run("secrets", "set", "ACME_KEY", stdin="of another")
    with_inputs(own_desk)
    done = own_desk.run("servers", "import", "--yes").succeeded
    assert "tabane secrets set ACME_KEY_LOCAL" in done.err
    assert own_desk.read_servers()["local"]["env"]["ACME_KEY"] == "${ACME_KEY_LOCAL}"


def test_an_answer_that_looks_like_a_key_is_kept_and_others_are_escaped(own_desk: Desk) -> None:
    inputs = [{"type": "promptString", "id": "a"}, {"type": "promptString", "id": "b"}]
    server = {"command": "x", "args": ["${input:a}", "${input:b}", "${input:undeclared}"]}
    own_desk.has("vscode", json.dumps({"inputs": inputs, "servers": {"s": server}}))
    with on_terminal(own_desk, "servers", "import", "vscode", "--yes") as terminal:
        for question, answer in (("a (for s)", "${X}"), ("b (for s)", KEY), ("undeclared (for s)", "")):
            terminal.read_until(question, 120)
            os.write(terminal.fd, f"{answer}\n".encode())
        terminal.end(120)
    assert own_desk.read_servers()["s"]["args"] == ["$${X}", "${S_B}", ""]
    assert secrets(own_desk) == {"S_B": KEY}


def test_the_preview_names_what_will_be_asked_for(own_desk: Desk) -> None:
    with_inputs(own_desk)
    shown = own_desk.run("servers", "import", "--dry-run").succeeded
    assert "asks for: Key of the service, Region, Team, account" in shown.out
    rows = own_desk.run("servers", "import", "--dry-run", "--json").succeeded.json["servers"]
    assert [row["disabled"] for row in rows] == [None, None]
