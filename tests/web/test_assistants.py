"""The page that connects assistants: what it shows, hides and refuses. Nothing is changed without a POST."""

from __future__ import annotations

import html
import json
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tabane.servers.assistants.consolidation import apply, plan_setup
from tabane.servers.assistants.installation import TabaneCommand
from tabane.servers.assistants.restoration import Backups
from tabane.servers.assistants.table import UserMachine, client_named
from tests.harness.http_hub import Answer
from tests.harness.identities import GivenAccess, GivenKeys, identities
from tests.harness.running_hub import child
from tests.web.visitor import WebVisitor, text, visitor, web_hub

HOSTILE = "<img src=x onerror=alert(1)>"
KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"
SERVERS: dict[str, Any] = {
    "issues": {**child(), "env": {"GITHUB_TOKEN": KEY, "PLAN": "confidential"}},
    HOSTILE: child("--tools", "2"),
}


def cursor(home: Path, servers: Any = None) -> Path:
    """Write a file of Cursor into a home, and return its path."""
    path = home / ".cursor" / "mcp.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"mcpServers": SERVERS if servers is None else servers}, indent=2))
    return path


async def send(person: WebVisitor, url: str, **form: str) -> Answer:
    """Send a form of the page."""
    body = urlencode(form).encode()
    return await person.ask(
        "POST", url, body, hx_request="true", content_type="application/x-www-form-urlencoded"
    )


async def signed_in(here: Any) -> WebVisitor:
    person = await visitor(here)
    assert (await person.sign_in()).status == 200
    return person


async def test_assistants_and_what_happens_to_their_servers_are_shown(tmp_path: Path) -> None:
    cursor(tmp_path)
    (tmp_path / ".config" / "zed").mkdir(parents=True)
    zed: dict[str, Any] = {"context_servers": {"from-an-extension": {"settings": {}}}}
    (tmp_path / ".config" / "zed" / "settings.json").write_text(json.dumps(zed))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text("[broken\n")
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants"))
    assert HOSTILE not in shown
    assert html.escape(HOSTILE, quote=False) in shown
    for words in ("Cursor", "Not set up", "moves into Tabane", "It gets all tools"):
        assert words in shown
    assert "it is an extension of Zed" in shown
    assert "expected valid TOML" in shown
    assert "Claude Desktop" in shown.partition("Other assistants")[2]


async def test_a_preview_has_the_changed_lines_without_secrets_and_changes_nothing(tmp_path: Path) -> None:
    path = cursor(tmp_path)
    before = path.read_bytes()
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants/-/preview?names=cursor"))
        assert here.running.hub.configuration.servers == ()
    assert "Connect Cursor?" in shown
    assert "GITHUB_TOKEN" in shown
    assert KEY not in shown
    assert "confidential" not in shown
    assert HOSTILE not in shown
    lines = html.unescape(shown)
    assert '-     "issues": {' in lines
    assert '+     "tabane": {' in lines
    assert path.read_bytes() == before


async def test_a_key_of_the_program_itself_between_two_changes_is_hidden(tmp_path: Path) -> None:
    one, two = json.dumps(child("--tools", "2")), json.dumps(child())
    written = f'{{"mcpServers":{{\n"a":{one}}},\n"primaryApiKey":"{KEY}",\n'
    written += f'"projects":{{"/p":{{"mcpServers":{{\n"own":{two}\n}}}}}}}}\n'
    (tmp_path / ".claude.json").write_text(written)
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = html.unescape(text(await person.content("/assistants/-/preview?names=claude-code")))
    assert '"primaryApiKey":"***"' in shown
    assert KEY not in shown


async def test_a_file_of_one_line_is_shown_by_its_entries(tmp_path: Path) -> None:
    path = cursor(tmp_path)
    path.write_text(
        json.dumps({"apiKey": "of-another-entry", **json.loads(path.read_text()), "x": "y" * 600})
    )
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = html.unescape(text(await person.content("/assistants/-/preview?names=cursor")))
    assert "of-another-entry" not in shown
    assert KEY not in shown
    assert "- mcpServers.issues" in shown


async def test_changes_that_are_thousands_of_lines_apart_are_shown_by_their_entries(tmp_path: Path) -> None:
    history = {"tips": dict.fromkeys(map(str, range(5_000)), 1)}  # as Claude Code keeps it beside its servers
    own = {"/p": {"mcpServers": {"own": child()}}}
    whole = {"mcpServers": {"a": child("--tools", "2")}, **history, "projects": own}
    (tmp_path / ".claude.json").write_text(json.dumps(whole, indent=2))
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = html.unescape(text(await person.content("/assistants/-/preview?names=claude-code")))
    assert "- mcpServers.a" in shown
    assert "- projects./p.mcpServers.own" in shown


FORMS = {
    ".config/opencode/opencode.json": json.dumps(
        {"mcp": {"a": {"type": "local", "command": ["npx", "--token", KEY]}}}, indent=2
    ),
    ".cursor/mcp.json": f'{{"mcpServers": {{"b": {{"command": "x",\n"env": {{"T": "\\u0067{KEY[1:]}"}}}}}}}}',
    ".config/goose/config.yaml": "extensions:\n  c:\n    type: stdio\n    cmd: x\n    envs:\n"
    "      TOK: >-\n        folded words\n        that are secret\n",
    ".codex/config.toml": f'[mcp_servers.d]\ncommand = "x"\nenv = {{ T = "\\u0067{KEY[1:]}" }}\n',
}
"""Files in which a key is written in another way than it reads."""


async def test_a_preview_hides_keys_however_they_are_written(tmp_path: Path) -> None:
    for name, written in FORMS.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True)
        path.write_text(written)
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        names = "opencode+cursor+goose+codex"
        shown = html.unescape(text(await person.content(f"/assistants/-/preview?names={names}")))
    for name in ("mcp.a", "mcpServers.b", "extensions.c", "mcp_servers.d"):
        assert name.rpartition(".")[2] in shown
    assert KEY[1:] not in shown
    assert "that are secret" not in shown


@pytest.mark.parametrize("url", ["/assistants/-/connect?names=cursor", "/assistants/-/undo?name=cursor"])
async def test_a_change_needs_both_secrets_and_the_pages_own_origin(tmp_path: Path, url: str) -> None:
    path = cursor(tmp_path)
    before = path.read_bytes()
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        assert (await person.ask("POST", url, tabane_page=None, hx_request="true")).status == 401
        assert (await person.ask("POST", url, origin="https://evil.example", hx_request="true")).status == 403
    assert path.read_bytes() == before


async def test_a_setup_of_other_files_than_were_shown_is_refused(tmp_path: Path) -> None:
    path = cursor(tmp_path)
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants/-/preview?names=cursor"))
        version = shown.partition('name="version" value="')[2].partition('"')[0]
        cursor(tmp_path, {"another": child()})
        before = path.read_bytes()
        begun = text(await send(person, "/assistants/-/connect", names="cursor", version=version))
        while "spinner" in begun:
            follow = html.unescape(begun).partition('hx-get="')[2].partition('"')[0]
            begun = text(await person.content(follow))
        assert "The files have changed since you looked at them." in begun
        assert here.running.hub.configuration.servers == ()
    assert path.read_bytes() == before


async def test_an_undo_says_what_it_will_do_and_restores_the_file(tmp_path: Path) -> None:
    path = cursor(tmp_path)
    before = path.read_bytes()
    client = client_named("cursor")
    assert client is not None
    machine = UserMachine(sys.platform, tmp_path, {"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    plan = plan_setup(machine, tmp_path, TabaneCommand(("tabane",)), {}, clients=[client])
    apply(plan.assistants[0], Backups(tmp_path))
    assert path.read_bytes() != before
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants/-/undo?name=cursor"))
        assert "It will be exactly as it was before." in shown
        assert HOSTILE not in shown
        assert path.read_bytes() != before
        done = await person.ask("POST", "/assistants/-/undo?name=cursor", hx_request="true")
        assert "exactly as it was before the setup" in text(done)
        assert path.read_bytes() == before
        again = text(await person.content("/assistants/-/undo?name=cursor"))
        assert "There is nothing to undo." in again
        assert (await person.content("/assistants/-/undo?name=nothing")).status == 404


async def test_without_an_assistant_the_page_says_what_to_do(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants"))
        if "Not set up" not in shown:  # a program on this machine's PATH would be one
            assert "No assistant was found on this computer" in shown
        assert "Any other program" in shown
        assert "No assistant is connected at the moment." in shown


async def test_who_is_connected_is_shown_with_the_calls_of_today(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"works": child()}) as here:
        person = await signed_in(here)
        client = await here.running.connect()
        await client.call("works__echo", text="hello")
        shown = text(await person.content("/assistants/-/sessions"))
    assert 'data-label="Calls today" class="num">1</td>' in shown
    assert "data-when" in shown
    assert "tests" not in shown.partition('data-label="Project"')[2].partition("title=")[0]


async def test_an_assistant_is_disconnected(tmp_path: Path) -> None:
    async with web_hub(tmp_path, {"works": child()}) as here:
        person = await signed_in(here)
        client = await here.running.connect()
        await client.call("works__echo", text="hello")
        shown = html.unescape(text(await person.content("/assistants/-/sessions")))
        url = "/assistants/-/disconnect?" + shown.partition("/assistants/-/disconnect?")[2].partition('"')[0]
        assert (await person.ask("POST", url, origin="https://evil.example")).status == 403
        assert (await person.ask("POST", url, hx_request="true")).status == 200
        assert "No assistant is connected at the moment." in text(
            await person.content("/assistants/-/sessions")
        )
        again = await person.ask("POST", url, hx_request="true")
        assert "This connection has ended already." in text(again)


async def test_the_mode_of_an_assistant_is_chosen_and_stays(tmp_path: Path) -> None:
    path = cursor(tmp_path, {})
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants/-/preview?names=cursor"))
        assert 'value="full" checked' in shown
        lines = text(await send(person, "/assistants/-/changes", names="cursor", mode="light"))
        assert '"light"' in html.unescape(lines)
        version = lines.partition('name="version" value="')[2].partition('"')[0]
        begun = text(
            await send(person, "/assistants/-/connect", names="cursor", mode="light", version=version)
        )
        while "spinner" in begun:
            follow = html.unescape(begun).partition('hx-get="')[2].partition('"')[0]
            begun = text(await person.content(follow))
        assert '"light"' in path.read_text()
        assert "Set up" in text(await person.content("/assistants/-/rows"))
        shown = text(await person.content("/assistants/-/preview?names=cursor"))
        assert 'value="light" checked' in shown
        assert "there is nothing to change" in shown


async def test_a_value_that_an_entry_asks_for_is_answered_and_its_server_moves(tmp_path: Path) -> None:
    path = tmp_path / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    entry = {**child(), "env": {"TOKEN": "${input:token}"}}
    inputs = [{"id": "token", "type": "promptString", "description": "Token", "password": True}]
    path.write_text(json.dumps({"inputs": inputs, "servers": {"issues": entry}}))
    async with web_hub(tmp_path, {}) as here:
        person = await signed_in(here)
        shown = text(await person.content("/assistants/-/preview?names=vscode"))
        field = shown.partition('name="answer-')[2].partition('"')[0]
        assert "A value is missing" in shown
        lines = text(await send(person, "/assistants/-/changes", names="vscode", **{f"answer-{field}": KEY}))
        assert "A value is missing" not in lines
        assert KEY not in lines
        assert '-     "issues"' in html.unescape(lines) or "issues" in lines
        version = lines.partition('name="version" value="')[2].partition('"')[0]
        form = {"names": "vscode", "version": version, f"answer-{field}": KEY}
        begun = text(await send(person, "/assistants/-/connect", **form))
        while "spinner" in begun:
            follow = html.unescape(begun).partition('hx-get="')[2].partition('"')[0]
            begun = text(await person.content(follow))
        assert "issues" not in json.loads(path.read_text())["servers"]
        assert KEY not in here.running.hub.settings.servers.read_text()
        (row,) = [each for each in here.running.hub.configuration.servers if each.name == "issues"]
        assert row.env["TOKEN"] == KEY


async def test_a_key_without_administration_sees_nothing_of_it(tmp_path: Path) -> None:
    cursor(tmp_path)
    access = GivenAccess("key:k", "*document*")
    known = identities(GivenKeys(k=access), restored=access)
    async with web_hub(tmp_path, {}, identities=known) as here:
        person = await visitor(here)
        assert (await person.sign_in(key="tbn_k")).status == 200
        assert (await person.content("/assistants")).status == 403
        answer = await person.ask("POST", "/assistants/-/connect?names=cursor", hx_request="true")
        assert answer.status == 403
