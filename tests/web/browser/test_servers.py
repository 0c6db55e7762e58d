"""The pages of servers in a real browser: list, one server, adding, editing, removing."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.harness.running_hub import child
from tests.web.browser.axe import Axe
from tests.web.browser.hub import PATIENCE, WIDTHS, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

pytestmark = pytest.mark.core

expect.set_options(timeout=PATIENCE)

MANY = 250


def configured() -> dict[str, Any]:
    return {
        "works": child("--tools", "60", "--stderr", "hello", description="Echoes.", tags=["demo"]),
        "waits": child("--tools", "60", tags=["live"]),
        "broken": child("--stderr", "no key", "--exit", "1"),
        "secret": child(env={"API_KEY": "sk-12345", "MODE": "${HOME}"}),
        "team/日本語": child(description="社内の検索"),
        **{f"many-{number:03}": child(enabled=False) for number in range(MANY)},
    }


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    home = WebHome(tmp_path_factory.mktemp("home"))
    home.write_servers(configured())
    home.start()
    yield home
    home.run("stop")


def written(home: WebHome) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(home.servers).read_text())["mcpServers"]
    return found


def started(home: WebHome) -> None:
    assert home.run("servers", "start", "works").succeeded


def agree(page: Page) -> None:
    """Say yes in the dialog that asks."""
    page.locator("dialog[open] button[value=yes]").click()


def test_the_list_is_filtered_paged_and_live(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/servers")
    rows = page.locator(".servers-table tbody tr")
    assert rows.count() == 100
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text(re.compile("page 2 of 3"))).to_be_visible()
    page.get_by_role("searchbox").fill("日本語")
    expect(rows).to_have_count(1)
    expect(rows.locator("a")).to_have_attribute("href", "/servers/team/%E6%97%A5%E6%9C%AC%E8%AA%9E")
    page.get_by_role("searchbox").fill("waits live")
    expect(page).to_have_url(re.compile(r"/servers\?q=waits\+live$"))
    row = page.locator("tr", has=page.get_by_role("link", name="waits", exact=True))
    expect(row).to_contain_text("starts on demand")
    assert accessibility.serious(page) == []
    # somebody else starts it
    assert shared_web.home.run("servers", "start", "waits").succeeded
    expect(row).to_contain_text("running")
    expect(row).to_contain_text("86")
    page.get_by_role("button", name="Restart waits").click()
    expect(page.locator("#notices")).to_contain_text("waits is running with 86 tools.")
    # Back keeps the filter
    row.get_by_role("link", name="waits", exact=True).click()
    expect(page.get_by_role("heading", name="waits")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("waits live")
    expect(rows).to_have_count(1)
    page.get_by_role("searchbox").fill("nothing like it")
    expect(page.get_by_text("No server fits this filter.")).to_be_visible()


def test_a_server_is_stopped_started_and_its_error_is_shown(
    shared_web: WebBrowsers, accessibility: Axe
) -> None:
    started(shared_web.home)
    page = shared_web.page("/servers/works")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("h1")).to_contain_text("stopped")
    page.get_by_role("button", name="Start").click()
    expect(page.locator("h1")).to_contain_text("running")
    show(page, "/servers/broken")
    shared_web.permit("502")
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#notices")).to_contain_text("no key")
    expect(page.locator("#server-live")).to_contain_text("no key")
    expect(page.locator("#server-tested")).to_be_empty()
    checked_state(page, accessibility, WIDTHS)


def test_tools_are_shown_with_their_parameters(shared_web: WebBrowsers, accessibility: Axe) -> None:
    started(shared_web.home)
    page = shared_web.page("/servers/works?view=tools")
    tool = page.locator("details.tool", has=page.get_by_text("works__echo", exact=True))
    tool.locator("summary").first.click()
    expect(tool.locator("table.parameters")).to_contain_text("text")
    expect(tool.locator("table.parameters")).to_contain_text("string")
    checked_state(page, accessibility, WIDTHS)
    page.get_by_role("searchbox").fill("extra_59")
    expect(page.locator("details.tool")).to_have_count(1)
    page.get_by_role("searchbox").fill("")
    expect(page.locator("details.tool")).to_have_count(50)
    page.get_by_role("button", name="Show more").press("Enter")
    expect(page.locator("details.tool")).to_have_count(86)


def test_a_log_grows_while_it_is_shown_unless_it_is_paused(shared_web: WebBrowsers) -> None:
    started(shared_web.home)
    page = shared_web.page("/servers/works?view=log")
    lines = page.locator("#log-lines")
    expect(lines).to_contain_text("hello")
    write = ("tools", "call", "works__log")
    assert shared_web.home.run(*write, "text=first").succeeded
    expect(lines).to_contain_text("first")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("[data-log-state]")).to_have_text("Paused")
    assert shared_web.home.run(*write, "text=second").succeeded
    page.get_by_role("button", name="Pause").click()
    expect(lines).to_contain_text("second")
    assert (lines.text_content() or "").count("first") == 1


def test_a_server_is_added_after_it_was_tried_and_confirmed(
    shared_web: WebBrowsers, accessibility: Axe
) -> None:
    page = shared_web.page("/servers/-/add")
    assert accessibility.serious(page) == []
    page.get_by_role("button", name="Add…").click()
    expect(page.locator("#f-name-help")).to_have_text("A server needs a name.")
    page.get_by_label("Name").fill("works")
    page.get_by_role("button", name="Add…").click()
    expect(page.locator("#f-name-help")).to_contain_text("already exists")
    expect(page.locator("#f-command-help")).to_contain_text("it has no command")
    assert accessibility.serious(page) == []
    new = child("--name", "newcomer")
    page.get_by_label("Name").fill("new")
    page.get_by_label("Command").fill(new["command"])
    page.get_by_label("Arguments").fill("\n".join([*new["args"], "--exit", "3", "--stderr", "wrong flag"]))
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#server-trial")).to_contain_text("wrong flag")
    page.get_by_label("Arguments").fill("\n".join(new["args"]))
    page.get_by_role("button", name="Test").click()
    expect(page.locator("#server-trial")).to_contain_text("newcomer works and has 26 tools")
    assert "new" not in written(shared_web.home)
    page.get_by_role("button", name="Add…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("on this computer, as your user")
    expect(dialog.locator("pre")).to_contain_text(new["command"])
    checked_state(page, accessibility, WIDTHS)
    dialog.get_by_role("button", name="Cancel").click()
    assert "new" not in written(shared_web.home)
    page.get_by_role("button", name="Add…").click()
    page.get_by_role("dialog").get_by_role("button", name="Add the server").click()
    expect(page).to_have_url(re.compile("/servers/new$"))
    assert written(shared_web.home)["new"] == new
    page.get_by_role("button", name="Remove").click()
    agree(page)
    expect(page).to_have_url(re.compile("/servers$"))
    assert "new" not in written(shared_web.home)


def test_an_edited_server_keeps_its_secrets(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/servers/secret/-/edit")
    assert "sk-12345" not in page.content()
    expect(page.get_by_label("Environment variables")).to_have_value("API_KEY=***\nMODE=${HOME}")
    page.get_by_label("Description").fill("Has a secret.")
    page.get_by_role("button", name="JSON").click()
    expect(page.get_by_label("Definition")).to_have_value(re.compile(r'"description": "Has a secret\."'))
    page.get_by_role("button", name="Form").click()
    page.get_by_role("button", name="Save…").click()  # nothing else is started: no question
    expect(page).to_have_url(re.compile("/servers/secret$"))
    found = written(shared_web.home)["secret"]
    assert found["env"] == {"API_KEY": "sk-12345", "MODE": "${HOME}"}
    assert found["description"] == "Has a secret."
    show(page, "/servers/secret/-/edit")
    page.get_by_label("Environment variables").fill("OTHER=***")
    page.get_by_role("button", name="Save…").click()
    expect(page.locator("#f-env-help")).to_contain_text("Enter the whole value")
    page.get_by_label("Environment variables").fill("API_KEY=***\nOTHER=1")
    page.get_by_role("button", name="Save…").click()
    expect(page.get_by_role("dialog")).to_contain_text("API_KEY, OTHER")
    page.get_by_role("dialog").get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/servers/secret$"))
    assert written(shared_web.home)["secret"]["env"] == {"API_KEY": "sk-12345", "OTHER": "1"}
    show(page, "/servers/secret?view=definition")
    expect(page.locator("#server-definition")).to_contain_text('"API_KEY": "***"')


def test_a_new_key_is_kept_as_a_secret_unless_the_box_is_cleared(
    shared_web: WebBrowsers, accessibility: Axe
) -> None:
    page = shared_web.page("/servers/-/add")
    new = child("--name", "keyed")
    page.get_by_label("Name").fill("keyed")
    page.get_by_label("Command").fill(new["command"])
    page.get_by_label("Arguments").fill("\n".join(new["args"]))
    page.get_by_label("Environment variables").fill("KEYED_TOKEN=sk-0123456789abcdef")
    page.get_by_role("button", name="Add…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("env.KEYED_TOKEN")
    checked_state(page, accessibility)
    dialog.get_by_role("button", name="Add the server").click()
    expect(page).to_have_url(re.compile("/servers/keyed$"))
    assert written(shared_web.home)["keyed"]["env"] == {"KEYED_TOKEN": "${KEYED_TOKEN}"}
    show(page, "/servers/keyed/-/edit")
    expect(page.get_by_label("Environment variables")).to_have_value("KEYED_TOKEN=${KEYED_TOKEN}")
    page.get_by_label("Environment variables").fill("KEYED_TOKEN=sk-fedcba9876543210")
    page.get_by_role("button", name="Save…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("checkbox").uncheck()
    dialog.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("/servers/keyed$"))
    assert written(shared_web.home)["keyed"]["env"] == {"KEYED_TOKEN": "sk-fedcba9876543210"}
    assert shared_web.home.run("servers", "remove", "keyed").succeeded
    assert shared_web.home.run("secrets", "remove", "KEYED_TOKEN").succeeded


def test_a_server_is_disabled_and_enabled(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/servers/team/%E6%97%A5%E6%9C%AC%E8%AA%9E", lang="ja")
    page.locator("[hx-post$='/-/disable']").click()
    agree(page)
    expect(page.locator("[hx-post$='/-/enable']")).to_be_visible()
    assert written(shared_web.home)["team/日本語"]["enabled"] is False
    page.locator("[hx-post$='/-/enable']").click()
    expect(page.locator("[hx-post$='/-/disable']")).to_be_visible()
    assert "enabled" not in written(shared_web.home)["team/日本語"]


def test_who_may_only_read_sees_servers_and_changes_nothing(shared_web: WebBrowsers) -> None:
    key = shared_web.home.must("keys", "create", "reader", "--allow", "@admin", "--read-only").strip()
    page = shared_web.page(signed_in=False)
    page.goto("/sign-in")
    page.locator("#key").fill(key)
    page.locator("#sign-in-form button").click()
    expect(page.locator("nav#sidebar")).to_be_visible()
    show(page, "/servers/works")
    for name in ("Restart", "Stop", "Start", "Disable", "Remove", "Test"):
        assert page.get_by_role("button", name=name).count() == 0, name
    assert page.get_by_role("link", name="Edit").count() == 0
    show(page, "/servers/-/add")
    expect(page.get_by_text("Only administrators may change servers.")).to_be_visible()
    shared_web.permit("403")
    answer = page.evaluate(
        """async () => (await fetch("/servers/works/-/stop", {method: "POST",
             headers: {"Tabane-Page": localStorage.getItem("tabane.page")}})).status"""
    )
    assert answer == 403


def test_without_servers_the_page_says_what_to_do(web: WebBrowsers) -> None:
    page = web.page("/servers")
    expect(page.get_by_text("There are no servers yet")).to_be_visible()
    checked_state(page)
    expect(page.get_by_role("link", name="Use the servers of your assistants")).to_have_attribute(
        "href", "/assistants"
    )
    page.get_by_role("link", name="Add the first server").click()
    expect(page.get_by_label("Name")).to_be_visible()
