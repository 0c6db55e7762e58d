"""Activity in a browser: calls appear by themselves, can be paused, filtered and opened; keyboard alone."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.harness.patience import wait_until
from tests.harness.running_hub import CHILD
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WebBrowsers, WebHome, show


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    """A hub with a server that can be called."""
    made = WebHome(tmp_path_factory.mktemp("home"))
    made.write_servers({"c": {"command": sys.executable, "args": [CHILD]}})
    made.start()
    made.must("servers", "start", "c")
    yield made
    made.run("stop")


Call = Callable[..., None]


@pytest.fixture
def call(shared_home: WebHome) -> Call:
    """Call a tool from the command line."""

    def made(name: str, **arguments: str) -> None:
        shared_home.rpc("call_tool", name=name, arguments=arguments)

    return made


def tools(page: Page) -> list[str]:
    return page.locator("[data-rows] [data-f=tool]").all_inner_texts()


def rows(page: Page) -> Locator:
    return page.locator("[data-rows] tr")


def failed_calls(shared_home: WebHome) -> int:
    """Return the number of failed calls in the seconds that are over."""
    return sum(shared_home.rpc("get_activity", seconds=900)["failed"])


def test_a_call_appears_by_itself_and_opens_without_its_secrets(
    shared_web: WebBrowsers, call: Call, accessibility: Axe
) -> None:
    page = shared_web.page("/activity", width=1600)
    call("c__echo", text="hello", api_key="hunter2")
    row = page.locator("[data-rows] tr").first
    expect(row).to_contain_text("c__echo")
    expect(row).to_contain_text("success")
    row.get_by_role("button").press("Enter")
    panel = page.get_by_role("complementary", name="The selected call")
    expect(panel.get_by_role("heading", name="c__echo")).to_be_focused()
    expect(panel).to_contain_text("At the server")
    expect(panel).to_contain_text("hello")
    expect(panel).not_to_contain_text("hunter2")
    assert accessibility.serious(page) == []
    page.keyboard.press("Escape")
    expect(panel).to_be_hidden()
    expect(row.get_by_role("button")).to_be_focused()


def test_a_call_with_credentials_gets_a_mark(shared_web: WebBrowsers, call: Call, accessibility: Axe) -> None:
    page = shared_web.page("/activity", width=1600)
    call("c__echo", text="harmless")
    call("c__echo", text="ghp_" + "aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA1bC2")
    mark = rows(page).first.get_by_text("credentials", exact=True)
    expect(mark).to_have_attribute("title", "Arguments: github-token; Result: github-token")
    expect(rows(page).nth(1).get_by_text("credentials", exact=True)).to_be_hidden()
    rows(page).first.get_by_role("button").press("Enter")
    panel = page.get_by_role("complementary", name="The selected call")
    expect(panel).to_contain_text(
        "The result contains credentials (github-token). Tabane did not replace them."
    )
    assert accessibility.serious(page) == []


def test_charts_and_sums_follow(shared_web: WebBrowsers, call: Call, shared_home: WebHome) -> None:
    page = shared_web.page("/activity")
    expect(page.locator(".chart svg")).to_have_count(2)
    # Calls of other tests are in the sums when their second is over, and may leave the shorter period.
    page.get_by_role("button", name="15 minutes").click()
    expect(page.get_by_role("button", name="15 minutes")).to_have_attribute("aria-pressed", "true")
    before = failed_calls(shared_home)
    call("c__fail", text="no")
    wait_until(lambda: failed_calls(shared_home) > before, "the second of the call is over")
    expect(page.locator("[data-now=failed]")).to_have_text(str(failed_calls(shared_home)))


def test_charts_say_what_is_under_the_pointer(shared_web: WebBrowsers, call: Call) -> None:
    page = shared_web.page("/activity", width=1440)
    call("c__echo", text="1")
    page.get_by_role("button", name="1 minute").click()
    expect(page.get_by_text("Calls in each second")).to_be_visible()
    chart = page.locator("[data-chart=calls]")
    expect(chart.locator(".chart-bars")).to_have_count(3)
    chart.hover()
    told = page.locator("figure", has=chart).locator("[data-readout]")
    expect(told).to_have_text(re.compile(r"\d\d:\d\d:\d\d · \d+ calls, \d+ failed, \d+ refused"))


def test_look_ups_of_the_hub_are_shown_on_request(
    shared_web: WebBrowsers, shared_home: WebHome, call: Call
) -> None:
    page = shared_web.page("/activity")
    shared_home.rpc("hub_status")
    call("c__echo", text="after the look-up")
    expect(rows(page).first).to_contain_text("c__echo")
    assert "Hub status" not in tools(page)
    page.get_by_label("Also look-ups of Tabane itself").check()
    expect(page.locator("[data-rows]")).to_contain_text("Hub status")


def test_a_pause_holds_the_rows_back_until_it_ends(shared_web: WebBrowsers, call: Call) -> None:
    page = shared_web.page("/activity")
    shown = rows(page).count() + 1
    call("c__echo", text="1")
    expect(rows(page)).to_have_count(shown)
    expect(rows(page).first).to_contain_text("success")
    page.get_by_role("button", name="Pause").click()
    call("c__echo", text="2")
    expect(page.locator("[data-waiting]")).to_contain_text("1 new")
    assert len(tools(page)) == shown
    page.get_by_role("button", name="Pause").click()
    expect(rows(page)).to_have_count(shown + 1)


def test_a_filter_applies_to_calls_before_and_after_it_and_stays_in_the_address(
    shared_web: WebBrowsers, call: Call
) -> None:
    page = shared_web.page("/activity")
    call("c__echo", text="1")
    call("c__fail", text="no")
    page.locator(".choice-chip", has_text="failed").click()
    expect(page.locator("[data-rows] tr[data-outcome=ok]")).to_have_count(0)
    call("c__echo", text="2")
    call("c__fail", text="no")
    page.get_by_role("searchbox", name="Filter by tool").fill("FAIL")
    expect(page.locator("[data-rows] tr").first).to_contain_text("c__fail")
    expect(page).to_have_url(re.compile("tool=FAIL"))
    assert set(tools(page)) == {"c__fail"}
    show(page, page.url)
    assert set(tools(page)) == {"c__fail"}
    page.get_by_role("searchbox", name="Filter by tool").fill("nothing like it")
    expect(page.get_by_text("No call fits these filters")).to_be_visible()
    page.get_by_role("button", name="Remove the filters").click()
    expect(page.locator("[data-rows] tr[data-outcome=ok]").first).to_be_visible()


def test_a_phone_shows_a_call_too(shared_web: WebBrowsers, call: Call, accessibility: Axe) -> None:
    call("c__echo", text="small")
    page = shared_web.page("/activity", width=390, lang="ja", theme="dark")
    page.locator("[data-rows] [data-call]").first.click()
    expect(page.locator("[data-panel] h2")).to_be_visible()
    assert accessibility.serious(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


def test_at_most_500_rows_stay_on_the_page(
    shared_web: WebBrowsers, shared_home: WebHome, tmp_path: Path
) -> None:
    page = shared_web.page("/activity")
    requests = ",".join('{"name":"hello","arguments":{}}' for _ in range(40))
    for _ in range(14):
        shared_home.must("rpc", "execute_parallel", "--params", f'{{"requests":[{requests}]}}')
    expect(page.locator("[data-rows] tr")).to_have_count(500)
