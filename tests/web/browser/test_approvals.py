"""Approvals in a browser: announced, shown as they are, approved, refused, and behind a passphrase."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tabane.hub.local import lock
from tests.harness.bridge import INITIALIZE, BridgeClient
from tests.harness.patience import LONG, wait_until
from tests.harness.running_hub import child
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

SETTLED = """() => new Promise((done) => setTimeout(() => done(true), 700))"""
"""Longer than the page ignores keys for a card that has just come or moved."""

PRESS_AT_ONCE = """() => {
  const watch = new MutationObserver(() => {
    if (!document.querySelector("[data-letter]")) return;
    watch.disconnect();
    const pressed = new KeyboardEvent("keydown", { key: "r", bubbles: true, cancelable: true });
    window.tookNoKey = document.body.dispatchEvent(pressed);
  });
  watch.observe(document.body, { childList: true, subtree: true });
}"""
"""Presses the key that refuses as soon as a card comes: it may not be the one that was meant."""

DECEIVING = "\u202e harmless <b>bold</b><script>alert(1)</script> \x1b[2K"


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    home = WebHome(tmp_path_factory.mktemp("home"), approval_wait="600")
    home.write_servers({"up": child(confirm="count")})
    home.start()
    wait_until(lambda: "up__count" in home.run("tools", "list").out, "the server is known")
    yield home
    home.run("stop")


class Calling:
    """A call of an assistant that cannot ask its user."""

    def __init__(self, client: BridgeClient, arguments: dict[str, Any]) -> None:
        self._client = client
        params = {"name": "up__count", "arguments": arguments}
        client.send(
            json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}).encode()
        )

    @property
    def result(self) -> Any:
        return self._client.answer(7, LONG)["result"]


@contextmanager
def calling(home: WebHome, **arguments: Any) -> Iterator[Calling]:
    client = BridgeClient(home.environment)
    try:
        client.call(0, "initialize", **{**INITIALIZE, "capabilities": {}})
        client.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        yield Calling(client, arguments)
    finally:
        client.close()


def card(page: Page) -> Any:
    return page.locator(".approval-letter")


def test_a_call_is_announced_and_approved(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/")
    badge = page.locator('a[data-nav="/approvals"]')
    with calling(shared_web.home, path="/tmp/notes") as call:
        expect(badge).to_contain_text("1 call waits")
        badge.click()
        expect(card(page)).to_contain_text("count of up will be called")
        expect(card(page).locator(".approval-field")).to_contain_text("/tmp/notes")
        page.get_by_role("button", name="Approve once").click()
        expect(page.locator("#notices")).to_contain_text("The call of up__count is approved, once.")
        assert call.result["content"][0]["text"].isdigit()
        expect(page.get_by_text("No call waits")).to_be_visible()
    expect(badge).not_to_contain_text("1")


def test_a_call_is_refused(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/approvals")
    with calling(shared_web.home, refused=True) as call:
        expect(card(page)).to_have_count(1)
        page.get_by_role("button", name="Refuse").click()
        assert "A person refused this call" in call.result["content"][0]["text"]
        expect(card(page)).to_have_count(0)


def test_what_an_assistant_wrote_is_shown_as_it_is(shared_web: WebBrowsers, accessibility: Axe) -> None:
    page = shared_web.page("/approvals")
    with calling(shared_web.home, text=DECEIVING, password="hunter2hunter2"):
        expect(card(page)).to_have_count(1)
        said = card(page).locator(".approval-fields").inner_text()
        assert "<b>bold</b><script>" in said
        assert "\u202e" not in said
        assert "hunter2hunter2" not in said
        checked_state(page, accessibility, WIDTHS)
        card(page).locator("h2 a").click()
        expect(page.locator(".approval-letter h1")).to_be_visible()
        checked_state(page, accessibility, WIDTHS)
        page.get_by_role("button", name="Refuse").click()
        expect(card(page)).to_have_count(0)


def test_keys_decide_the_first_call_and_then_the_next_but_none_while_somebody_types(
    shared_web: WebBrowsers,
) -> None:
    page = shared_web.page("/approvals")
    page.evaluate(PRESS_AT_ONCE)
    with calling(shared_web.home, number=1) as first, calling(shared_web.home, number=2) as second:
        expect(card(page)).to_have_count(2)
        decided = {card(page).nth(at).get_attribute("id"): call for at, call in enumerate((first, second))}
        assert page.evaluate("tookNoKey")
        page.wait_for_function(SETTLED)
        page.keyboard.press("a")
        expect(page.locator("#notices")).to_contain_text("The call of up__count is approved, once.")
        expect(card(page)).to_have_count(1)
        expect(card(page)).to_be_focused()
        left = card(page).get_attribute("id")
        assert left in decided
        page.wait_for_function(SETTLED)
        page.keyboard.press("r")
        expect(card(page)).to_have_count(0)
        results = sorted(str(call.result["content"][0]["text"])[:8] for call in (first, second))
        assert results[1] == "A person"
        assert results[0].isdigit()


def test_refuse_has_the_focus_where_something_speaks_against_the_call(shared_web: WebBrowsers) -> None:
    with calling(shared_web.home, text=DECEIVING) as call:
        wait_until(lambda: shared_web.home.rpc("list_approvals")["results"], "the call waits")
        page = shared_web.page("/approvals")
        expect(page.get_by_role("button", name="Refuse")).to_be_focused()
        expect(card(page).locator(".btn.primary")).to_have_text(re.compile("Refuse"))
        page.get_by_role("button", name="Approve once").click()
        expect(page.locator("dialog.dialog")).to_be_visible()
        checked_state(page)
        page.locator("dialog.dialog").get_by_role("button", name="Cancel").click()
        page.get_by_role("button", name="Refuse").press("Enter")
        assert "A person refused this call" in call.result["content"][0]["text"]


@pytest.mark.parametrize("lang", ["en", "ja"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_letter_is_accessible_and_fits_each_width(
    shared_web: WebBrowsers, accessibility: Axe, lang: Language, theme: Theme
) -> None:
    page = shared_web.page("/approvals", lang=lang, theme=theme)
    checked_state(page)  # nothing waits
    with calling(
        shared_web.home, to=f"{lang}@{theme}.example", body="海の灯台。\n" * 60, path="/" + "deep/" * 80
    ):
        expect(card(page)).to_have_count(1)
        checked_state(page, accessibility, WIDTHS)
        show(page, "/")
        expect(page.locator(".approval-brief")).to_have_count(1)
        checked_state(page, accessibility, WIDTHS)
        page.locator(".approval-brief [data-key=r]").click()
        expect(page.locator(".approval-brief")).to_have_count(0)


def test_a_page_that_is_locked_asks_for_the_passphrase_first(tmp_path: Path, browser: Browser) -> None:
    home = WebHome(tmp_path, approval_wait="600")
    home.write_servers({"up": child(confirm="count")})
    home.start()
    web = WebBrowsers(browser, home)
    try:
        wait_until(lambda: "up__count" in home.run("tools", "list").out, "the server is known")
        page = web.page("/approvals")
        home.rpc("set_passphrase", passphrase="correct horse")
        with calling(home, locked=True) as call:
            show(page, "/approvals")
            expect(page.get_by_role("button", name="Approve once")).to_be_disabled()
            field = page.get_by_label(re.compile("^Passphrase"))
            web.permit("422")
            field.fill("wrong")
            page.get_by_role("button", name="Unlock").click()
            expect(page.get_by_text("This is not the passphrase.")).to_be_visible()
            checked_state(page)
            page.get_by_label(re.compile("^Passphrase")).fill("correct horse")
            page.get_by_role("button", name="Unlock").click()
            page.get_by_role("button", name="Approve once").click()
            assert call.result["content"][0]["text"].isdigit()
    finally:
        web.close()
        home.run("stop")


def test_an_approval_of_the_page_outlives_a_killed_hub_and_is_used_once(
    tmp_path: Path, browser: Browser
) -> None:
    home = WebHome(tmp_path, approval_wait="0")
    home.write_servers({"up": child(confirm="count")})
    home.start()
    web = WebBrowsers(browser, home)
    try:
        wait_until(lambda: "up__count" in home.run("tools", "list").out, "the server is known")
        with calling(home, once=True) as call:
            assert call.result["isError"] is True  # nobody waits for an answer
        page = web.page("/approvals")
        page.get_by_role("button", name="Approve once").click()
        expect(page.get_by_text("Approved, and not used yet")).to_be_visible()
        web.permit("ERR_")
        for made in (True, False):
            killed(home)
            home.start()
            with calling(home, once=True) as call:
                result = call.result
                assert result.get("isError", False) is not made, result
        assert "tabane approve" in result["content"][0]["text"]
    finally:
        web.close()
        home.run("stop")


def killed(home: WebHome) -> None:
    """Kill the hub, and wait until it is gone."""
    holder = lock.read_holder(str(home.tabane / "hub.lock"))
    assert holder is not None
    os.kill(holder.pid, signal.SIGKILL)
    wait_until(lambda: not lock.held(str(home.tabane / "hub.lock")), "the hub is gone")
