"""Home in a browser: the search as somebody types, by keyboard alone, and what changes by itself."""

from __future__ import annotations

import sys

import pytest
from playwright.sync_api import expect

from tests.harness.patience import wait_until
from tests.harness.running_hub import CHILD
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WebBrowsers

pytestmark = pytest.mark.core


def test_the_search_leads_to_a_tool_by_keyboard_alone(web: WebBrowsers, accessibility: Axe) -> None:
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    wait_until(lambda: web.home.run("tools", "call", "c__echo", "text=hi").status == 0, "the server is known")
    page = web.page("/")
    box = page.get_by_role("searchbox", name="Search everything")
    box.focus()
    page.keyboard.type("ech")
    result = page.locator("[data-result]").first
    expect(result).to_contain_text("c__echo")
    assert accessibility.serious(page) == []
    page.keyboard.press("ArrowDown")
    expect(result).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(box).to_be_focused()
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(page.get_by_role("heading", name="Servers")).to_be_visible()
    page.keyboard.type("ech")
    expect(result).to_contain_text("c__echo")
    page.keyboard.press("Enter")
    page.wait_for_url("**/tools/c__echo")
    page.go_back()
    expect(box).to_have_value("ech")
    expect(result).to_contain_text("c__echo")


def test_first_steps_go_when_a_server_is_there_and_states_change_by_themselves(web: WebBrowsers) -> None:
    page = web.page("/")
    expect(page.get_by_role("heading", name="First steps")).to_be_visible()
    expect(page.get_by_role("link", name="Connect an assistant")).to_have_attribute("href", "/assistants")
    web.home.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    expect(page.get_by_role("link", name="c", exact=True)).to_be_visible()
    web.home.must("servers", "start", "c")
    expect(page.locator("#home-servers")).to_contain_text("running")
    expect(page.get_by_role("heading", name="First steps")).to_be_hidden()
    web.home.must("servers", "stop", "c")
    expect(page.locator("#home-servers")).to_contain_text("stopped")
