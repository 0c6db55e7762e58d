"""An assistant is connected in a real browser, by keyboard, and its file comes back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.harness.running_hub import child
from tests.harness.user import assistant
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

pytestmark = pytest.mark.heavy("a real hub and a real browser")

KEY = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def cursor(home: WebHome) -> Path:
    path = home.folder / ".cursor" / "mcp.json"
    path.parent.mkdir()
    servers = {
        "echo": {**child("--tools", "3"), "env": {"ECHO_TOKEN": KEY}},
        "broken": child("--stderr", "no such database", "--exit", "1"),
    }
    text = json.dumps({"theme": "dark", "mcpServers": servers}, indent="\t")
    path.write_text(text.replace("\n", "\r\n"), newline="")
    return path


def entries(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())["mcpServers"]
    return found


def test_an_assistant_is_connected_and_comes_back_byte_for_byte(web: WebBrowsers, web_home: WebHome) -> None:
    path = cursor(web_home)
    before = path.read_bytes()
    page = web.page("/assistants")
    card = page.locator("#assistant-cursor")
    expect(card).to_contain_text("Not set up")
    card.get_by_role("button", name="Connect…").press("Enter")
    dialog = page.locator("#assistants-preview")
    expect(dialog).to_contain_text("Connect Cursor?")
    assert KEY not in page.content()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert path.read_bytes() == before

    card.get_by_role("button", name="Connect…").press("Enter")
    dialog.get_by_role("button", name="Connect", exact=True).press("Enter")
    expect(dialog).to_be_hidden()
    done = page.locator("#assistants-done")
    expect(done).to_contain_text("Connected: Cursor")
    expect(done).to_contain_text("a real call through its entry was answered")
    expect(done.locator("li", has_text="echo")).to_contain_text("works")
    expect(done).to_contain_text("no such database")
    checked_state(page, widths=WIDTHS)
    expect(done.locator(".copy code")).not_to_be_empty()
    expect(card).to_contain_text("Set up")
    assert list(entries(path)) == ["tabane"]
    assert KEY not in web_home.servers.read_text()
    assert set(json.loads(web_home.servers.read_text())["mcpServers"]) == {"echo", "broken"}

    card.get_by_role("button", name="Remove Tabane…").press("Enter")
    asked = page.locator("dialog[open]")
    expect(asked).to_contain_text("It will be exactly as it was before.")
    asked.get_by_role("button", name="Remove").press("Enter")
    expect(page.locator("#assistants-progress")).to_contain_text("exactly as it was before the setup")
    expect(card).to_contain_text("Not set up")
    assert path.read_bytes() == before


def test_it_is_shown_in_japanese_on_a_phone(web: WebBrowsers, web_home: WebHome, accessibility: Axe) -> None:
    cursor(web_home)
    page = web.page(lang="ja", theme="dark", width=390)
    show(page, "/assistants")
    checked_state(page, accessibility)
    page.locator("#assistant-cursor button").press("Enter")
    dialog = page.locator("#assistants-preview")
    expect(dialog).to_contain_text("Cursor を接続しますか?")
    checked_state(page, accessibility)


def test_an_assistant_is_disconnected(web: WebBrowsers, web_home: WebHome, accessibility: Axe) -> None:
    page = web.page("/assistants")
    with assistant(web_home) as someone:
        row = page.locator(".assistants-table tbody tr")
        expect(row).to_contain_text("test")
        checked_state(page, accessibility, WIDTHS)
        row.get_by_role("button", name="Disconnect").click()
        asked = page.locator("dialog[open]")
        expect(asked).to_contain_text("Disconnect test?")
        asked.get_by_role("button", name="Continue").click()
        expect(page.get_by_text("No assistant is connected at the moment.")).to_be_visible()
        assert someone.client.wait() == 0
