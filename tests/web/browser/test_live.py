"""Changes that arrive without a reload: from commands, other browsers and tabs, and over a restart."""

from __future__ import annotations

import os
import signal

from playwright.sync_api import Page, Request, expect

from tests.harness.patience import wait_until
from tests.web.browser.guard import INTERRUPTED, settle
from tests.web.browser.hub import PATIENCE, WebBrowsers, show

LOST = "The hub does not answer"


def heard(page: Page, requests: list[Request]) -> int:
    """Return the number of requests, after the browser has told what it has to tell."""
    settle(page)
    return len(requests)


def test_a_change_of_the_servers_file_is_seen_by_two_browsers(web: WebBrowsers) -> None:
    first, second = web.page("/servers"), web.page("/servers")
    web.home.must("servers", "add", "--force", "memo", "--", "true")
    for page in (first, second):
        expect(page.locator("main")).to_contain_text("memo")
    web.home.must("servers", "remove", "memo")
    for page in (first, second):
        expect(page.locator("main")).not_to_contain_text("memo")


def test_several_tabs_share_one_stream_and_the_next_tab_takes_over(web: WebBrowsers) -> None:
    context, _ = web.context()
    streams: list[Request] = []
    context.on(
        "request", lambda request: streams.append(request) if request.url.endswith("/events") else None
    )
    tabs = [context.new_page() for _ in range(4)]
    for tab in tabs:
        show(tab, "/servers")
    assert len(streams) == 1
    web.home.must("servers", "add", "--force", "memo", "--", "true")
    for tab in tabs:
        expect(tab.locator("main")).to_contain_text("memo")
    tabs[0].close()
    wait_until(lambda: heard(tabs[1], streams) == 2, "another tab follows")
    web.home.must("servers", "remove", "memo")
    for tab in tabs[1:]:
        expect(tab.locator("main")).not_to_contain_text("memo")


def test_a_page_says_that_the_hub_is_gone_and_goes_on_when_it_is_back(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page("/servers")
    web.home.stop()
    expect(page.get_by_text(LOST)).to_be_visible()
    web.home.must("servers", "add", "--force", "memo", "--", "true")  # while no hub runs
    web.home.start()
    expect(page.get_by_text(LOST)).to_be_hidden(timeout=PATIENCE)
    expect(page.locator("main")).to_contain_text("memo")


def test_a_hub_that_is_killed_under_the_page_is_missed_and_found_again(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page("/servers")
    os.kill(int(web.home.json("status")["pid"]), signal.SIGKILL)
    expect(page.get_by_text(LOST)).to_be_visible()
    web.home.start()
    expect(page.get_by_text(LOST)).to_be_hidden(timeout=PATIENCE)
    page.get_by_role("link", name="Preferences").or_(page.locator("a[data-nav='/preferences']")).first.click()
    expect(page.locator("h1")).to_have_text("Preferences")


def test_a_page_that_is_opened_while_the_hub_is_away_waits_for_it(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page("/preferences")
    web.home.stop()
    page.get_by_role("link", name="Servers").click()
    expect(page.get_by_text(LOST)).to_be_visible()
    web.home.start()
    expect(page.locator("h1")).to_have_text("Servers", timeout=PATIENCE)
