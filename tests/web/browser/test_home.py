"""Home in a browser: the search as somebody types, by keyboard alone, and what changes by itself."""

from __future__ import annotations

import sys

import pytest
from playwright.sync_api import expect

from tests.harness.patience import wait_until
from tests.harness.running_hub import CHILD
from tests.harness.user import assistant
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, WebBrowsers, show
from tests.web.browser.looks import checked_state

pytestmark = pytest.mark.core

TWILOG = (
    '"1700000000000000001","https://x.com/alice/status/1700000000000000001",'
    '"2024-01-02 03:04:05","The lamp turns.","1"\n'
)


def test_the_search_leads_to_a_tool_by_keyboard_alone(web: WebBrowsers, accessibility: Axe) -> None:
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    wait_until(lambda: web.home.run("tools", "call", "c__echo", "text=hi").status == 0, "the server is known")
    page = web.page("/")
    box = page.get_by_role("searchbox", name="Search everything")
    box.focus()
    page.keyboard.type("ech")
    result = page.locator("[data-result]").first
    expect(result).to_contain_text("c__echo")
    checked_state(page, accessibility)
    page.keyboard.press("ArrowDown")
    expect(result).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(page.get_by_role("heading", name="Live calls")).to_be_visible()
    page.keyboard.type("ech")
    expect(result).to_contain_text("c__echo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tools/c__echo")
    page.go_back()
    expect(box).to_have_value("ech")
    expect(result).to_contain_text("c__echo")


def test_first_steps_go_when_a_server_is_there_and_states_change_by_themselves(
    web: WebBrowsers, accessibility: Axe
) -> None:
    page = web.page("/")
    expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    expect(page.get_by_role("link", name="Add a server")).to_have_attribute("href", "/servers/-/new")
    checked_state(page, accessibility, WIDTHS)
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    expect(page.get_by_role("link", name="1 server", exact=True)).to_be_visible()
    web.home.must("servers", "start", "c")
    expect(page.locator("#home-servers")).to_contain_text("running")
    show(page, "/")
    expect(page.get_by_role("heading", name="First steps")).to_have_count(0)
    web.home.must("servers", "stop", "c")
    expect(page.locator("#home-servers")).to_contain_text("stopped")


def test_what_waits_is_settled_in_place_and_calls_appear_by_themselves(
    web: WebBrowsers, accessibility: Axe
) -> None:
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    page = web.page("/", width=1440)
    with assistant(web.home, "--mode", "full") as someone:
        someone.text("c__echo", text="hi")
        calls = page.locator(".home-calls")
        expect(calls).to_contain_text("c__echo")
        expect(page.locator("#home-assistants")).to_contain_text("test")
        expect(page.get_by_role("img", name="in the last 15 minutes")).to_be_visible()
    inbox = page.locator(".home-inbox")
    expect(inbox).to_contain_text("Nothing waits for you.")
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD, "--exit", "1"]}})
    web.home.run("servers", "start", "c")
    item = inbox.locator(".home-item")
    expect(item).to_contain_text("c does not run.")
    checked_state(page, accessibility, WIDTHS)
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    start = item.get_by_role("button", name="Start")
    if start.is_visible():  # the hub may have started it again when its entry changed
        start.click()
    expect(inbox).to_contain_text("Nothing waits for you.")


def test_the_first_steps_are_done_in_the_page(web: WebBrowsers, accessibility: Axe) -> None:
    folder = web.home.folder / ".cursor"
    folder.mkdir()
    (folder / "mcp.json").write_text("{}")
    page = web.page("/")
    page.get_by_role("button", name="Connect Cursor…").click()
    dialog = page.locator("#assistants-preview")
    expect(dialog).to_contain_text("Connect Cursor?")
    checked_state(page, accessibility, WIDTHS)
    dialog.get_by_label("short descriptions").check()
    expect(dialog.locator(".diff")).to_contain_text('"light"')
    dialog.get_by_role("button", name="Connect", exact=True).click()
    expect(page.locator("#assistants-done")).to_contain_text("Connected: Cursor")
    assert "light" in (folder / "mcp.json").read_text()
    page.locator("[data-post-drop] [data-files]").set_input_files(
        {"name": "twilog.csv", "mimeType": "text/csv", "buffer": TWILOG.encode()}
    )
    page.wait_for_url("**/posts/import?job=*")
    show(page, "/")
    expect(page.locator("#home-archive")).to_contain_text("The lamp turns.")
    expect(page.get_by_role("heading", name="Import your posts")).to_be_hidden()


def test_an_address_is_read_in_the_reader(web: WebBrowsers) -> None:
    page = web.page("/")
    page.get_by_label("URL of a page").fill("http://127.0.0.1:9/")
    page.get_by_role("button", name="Read", exact=True).click()
    page.wait_for_url("**/reader?url=*")
