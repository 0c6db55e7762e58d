"""Keys in other programs' files become secrets of Tabane, and what VS Code asks for is asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_add_secrets import environment_of, secrets
from tests.cli.test_import import Desk
from tests.harness.home import hub
from tests.harness.patience import LONG
from tests.harness.terminal import on_terminal

KEY = "sk-0123456789abcdef"
REMOTE = {"url": "https://example.com/mcp", "headers": {"Authorization": f"Bearer {KEY}"}}


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_keys_of_every_program_are_kept_and_the_servers_get_them(desk: Desk) -> None:
    desk.has("cursor", {"one": {**desk.child(), "env": {"API_KEY": KEY, "LEVEL": "debug"}}})
    desk.has("windsurf", {"two": {**desk.child("--name", "two"), "env": {"API_KEY": "k-567890"}}})
    desk.has("claude-code", {"three": REMOTE})
    done = desk.run("servers", "import", "--no-try", "--yes", cwd=desk.project).succeeded
    written = desk.read_servers()
    assert written["one"]["env"] == {"API_KEY": "${API_KEY}", "LEVEL": "debug"}
    assert written["two"]["env"] == {"API_KEY": "${API_KEY_TWO}"}
    assert written["three"]["headers"] == {"Authorization": "Bearer ${THREE_TOKEN}"}
    assert secrets(desk) == {"API_KEY": KEY, "API_KEY_TWO": "k-567890", "THREE_TOKEN": KEY}
    assert KEY not in done.out + done.err + desk.servers.read_text()
    assert "--plain" in done.err
    with hub(desk):
        assert environment_of(desk, "one")["API_KEY"] == KEY
        assert environment_of(desk, "two")["API_KEY"] == "k-567890"


def test_the_preview_shows_what_the_file_will_have(desk: Desk) -> None:
    desk.has("claude-code", {"docs": REMOTE})
    shown = desk.run("servers", "import", "--dry-run", "--json").succeeded
    (row,) = shown.json["servers"]
    assert row["definition"]["headers"] == {"Authorization": "Bearer ${DOCS_TOKEN}"}
    assert (row["disabled"], shown.json["secrets"]) == (None, ["DOCS_TOKEN"])
    assert not desk.servers.exists()
    assert secrets(desk) == {}


def test_a_second_import_recognizes_a_server_whose_key_was_kept(desk: Desk) -> None:
    desk.has("claude-code", {"docs": REMOTE})
    desk.imported()
    before = desk.servers.read_bytes()
    again = desk.imported()
    assert [part["name"] for part in again["skipped"]] == ["docs"]
    assert desk.servers.read_bytes() == before
    other = {**REMOTE, "headers": {"Authorization": "Bearer sk-another-account-0"}}
    desk.has("claude-code", {"docs": other})
    assert [server["name"] for server in desk.imported()["servers"]] == ["docs-claude-code"]


def test_with_plain_values_stay_as_they_are(desk: Desk) -> None:
    desk.has("claude-code", {"docs": REMOTE})
    done = desk.run("servers", "import", "--no-try", "--yes", "--plain", cwd=desk.project).succeeded
    assert desk.read_servers() == {"docs": REMOTE}
    assert secrets(desk) == {}
    assert KEY not in done.out + done.err


@pytest.mark.parametrize(("typed", "kept"), [("\n\n", {"DOCS_TOKEN": KEY}), ("y\nn\n", {}), ("n\n", None)])
def test_on_a_terminal_keeping_is_a_question_of_its_own(
    desk: Desk, typed: str, kept: dict[str, str] | None
) -> None:
    desk.has("claude-code", {"docs": REMOTE})
    done = desk.converse("servers", "import", "--no-try", typed=typed)
    assert done.status == 0, done.out
    assert KEY not in done.out
    assert secrets(desk) == (kept or {})
    assert desk.servers.exists() == (kept is not None)


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


def with_inputs(desk: Desk) -> None:
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


def test_each_input_is_asked_for_once_and_passwords_are_hidden(desk: Desk) -> None:
    with_inputs(desk)
    with on_terminal(desk, "servers", "import", "--no-try", "vscode") as terminal:
        for question, answer in (
            ("[Y/n]", ""),
            ("Key of the service (for local)", KEY),
            ("Region (for local)", "2"),
            ("Team (for local)", ""),
            ("account (for local)", "me@example.com"),
        ):
            terminal.answer(question, answer, hidden=answer == KEY)
        terminal.end(LONG)
    assert terminal.process.returncode == 0, terminal.out
    assert KEY not in terminal.out
    assert "acme.account" in terminal.out
    assert "2. Asia: ap" in terminal.out
    assert terminal.out.count("Key of the service (for") == 1
    written = desk.read_servers()
    assert written["local"]["env"] == {
        "ACME_KEY": "${ACME_KEY}",
        "REGION": "ap",
        "WHO": "blue/me@example.com",
    }
    assert written["remote"]["headers"] == {"Authorization": "Bearer ${ACME_KEY}"}
    assert secrets(desk) == {"ACME_KEY": KEY}
    with hub(desk):
        assert environment_of(desk, "local")["ACME_KEY"] == KEY


def test_without_a_terminal_each_missing_input_is_named_with_its_command(desk: Desk) -> None:
    with_inputs(desk)
    done = desk.run("servers", "import", "--no-try", "--yes").succeeded
    env = desk.read_servers()["local"]["env"]
    assert env == {"ACME_KEY": "${ACME_KEY}", "REGION": "eu", "WHO": "blue/${LOCAL_ACCOUNT}"}
    assert desk.read_servers()["remote"]["headers"] == {"Authorization": "Bearer ${ACME_KEY}"}
    assert "local, remote: a value is missing for Key of the service" in done.err
    for name in ("ACME_KEY", "LOCAL_ACCOUNT"):
        assert f"tabane secrets set {name}" in done.err
        assert desk.run("secrets", "set", name, stdin=f"value-of-{name}").succeeded
    with hub(desk):
        got = environment_of(desk, "local")
    assert (got["ACME_KEY"], got["WHO"]) == ("value-of-ACME_KEY", "blue/value-of-LOCAL_ACCOUNT")
    again = desk.imported()
    assert [part["name"] for part in again["skipped"]] == ["local", "remote"]


def test_an_input_without_a_terminal_never_gets_the_key_of_another_server(desk: Desk) -> None:
    desk.run("secrets", "set", "ACME_KEY", stdin="of another")
    with_inputs(desk)
    done = desk.run("servers", "import", "--no-try", "--yes").succeeded
    assert "tabane secrets set ACME_KEY_LOCAL" in done.err
    assert desk.read_servers()["local"]["env"]["ACME_KEY"] == "${ACME_KEY_LOCAL}"


def test_an_answer_that_looks_like_a_key_is_kept_and_others_are_escaped(desk: Desk) -> None:
    inputs = [{"type": "promptString", "id": "a"}, {"type": "promptString", "id": "b"}]
    server = {"command": "x", "args": ["${input:a}", "${input:b}", "${input:undeclared}"]}
    desk.has("vscode", json.dumps({"inputs": inputs, "servers": {"s": server}}))
    with on_terminal(desk, "servers", "import", "--no-try", "vscode", "--yes") as terminal:
        for question, answer in (("a (for s)", "${X}"), ("b (for s)", KEY), ("undeclared (for s)", "")):
            terminal.answer(question, answer)
        terminal.end(LONG)
    assert desk.read_servers()["s"]["args"] == ["$${X}", "${S_B}", ""]
    assert secrets(desk) == {"S_B": KEY}


def test_the_preview_names_what_will_be_asked_for(desk: Desk) -> None:
    with_inputs(desk)
    shown = desk.run("servers", "import", "--dry-run").succeeded
    assert "asks for: Key of the service, Region, Team, account" in shown.out
    rows = desk.run("servers", "import", "--dry-run", "--json").succeeded.json["servers"]
    assert [row["disabled"] for row in rows] == [None, None]
