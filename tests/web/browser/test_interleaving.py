"""What a person does while an answer is on its way is not lost: each order of events is forced."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Response, expect

from tests.harness.patience import wait_until
from tests.web.browser.guard import INTERRUPTED, settle
from tests.web.browser.held import Answered, Held
from tests.web.browser.hub import PATIENCE, WebBrowsers, WebHome, show
from tests.web.browser.test_live import LOST


def known(home: WebHome) -> None:
    """Configure one server, and wait until the hub has read its tools."""
    home.write_servers({"one": home.child()})
    wait_until(lambda: home.run("tools", "call", "one__echo", "text=hi").status == 0, "the server is known")


def key_of(home: WebHome) -> str:
    """Create a key that may call everything of one server, and return the path of its page."""
    known(home)
    home.must("keys", "create", "laptop", "--allow", "one__*")
    return "/keys/" + str(home.rpc("keys_list")["results"][0]["id"])


def explained(page: Page) -> None:
    page.get_by_label("Tool or operation").fill("one__echo")
    page.get_by_role("button", name="Explain").click()


def test_what_is_asked_while_the_saved_page_is_on_its_way_is_answered(web: WebBrowsers) -> None:
    path = key_of(web.home)
    page = web.page(path)
    page.get_by_label("But not").fill("one__echo")
    held = Held(page, f"{path}$")
    page.get_by_role("button", name="Save").click()
    held.wait()
    expect(page.locator("#notices")).to_be_empty()  # it is said when the page shows it
    explained(page)
    expect(page.locator("#explanation")).to_contain_text("denies it")
    held.end()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    expect(page.locator("#explanation")).to_contain_text("denies it")
    expect(page.get_by_label("Tool or operation")).to_have_value("one__echo")


def test_an_answer_that_comes_after_the_saved_page_is_shown(web: WebBrowsers) -> None:
    path = key_of(web.home)
    page = web.page(path)
    held = Held(page, "/keys/explain")
    explained(page)
    held.wait()
    page.get_by_label("But not").fill("one__echo")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    held.end()
    expect(page.locator("#explanation")).to_contain_text("denies it")


def test_an_explanation_follows_the_key(web: WebBrowsers) -> None:
    page = web.page(key_of(web.home))
    explained(page)
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    web.home.must("keys", "update", "laptop", "--deny", "one__echo")
    expect(page.locator("#explanation")).to_contain_text("laptop may not call one__echo.")


def test_a_saved_form_shows_what_is_stored_and_not_what_was_typed(web: WebBrowsers) -> None:
    page = web.page(key_of(web.home))
    page.get_by_label("May use").fill("  one__*    @docs ")
    page.get_by_label("Expires").select_option("30d")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    expect(page.get_by_label("May use")).to_have_value("one__*\n@docs")
    expect(page.get_by_label("Expires")).to_have_value("keep")
    expect(page.get_by_role("button", name="Save")).to_be_focused()


def test_what_is_typed_into_a_form_that_is_being_saved_stays(web: WebBrowsers) -> None:
    path = key_of(web.home)
    page = web.page(path)
    page.get_by_label("May use").fill("one__*\n@docs")
    held = Held(page, f"{path}$")
    page.get_by_role("button", name="Save").click()
    held.wait()
    page.get_by_label("May use").fill("one__*\n@docs\n@posts")
    held.end()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    expect(page.get_by_label("May use")).to_have_value("one__*\n@docs\n@posts")


def test_a_page_that_is_left_after_a_form_takes_no_clicks(web: WebBrowsers) -> None:
    page = web.page(key_of(web.home))
    held = Held(page, "/keys$")
    page.get_by_role("button", name="Revoke").click()
    page.locator("dialog[open] button[value=yes]").click()
    held.wait()
    expect(page.locator("#main[inert]")).to_have_count(1)
    held.end()
    expect(page.get_by_role("heading", level=1)).to_have_text("API keys")
    expect(page.locator("#notices")).to_contain_text("laptop was revoked")
    expect(page.locator("#main[inert]")).to_have_count(0)


CLICK_AT_ONCE = """() => {
  const seen = new MutationObserver(() => {
    const field = document.querySelector("#main input[name=tool]");
    if (!field || location.pathname === "/keys/explain") return;
    seen.disconnect();
    field.value = "one__echo";
    field.form.querySelector("button").click();
  });
  seen.observe(document.getElementById("app"), { childList: true, subtree: true });
}"""
"""Someone quicker than any person: uses a form in the moment it is part of the page."""


def test_a_form_works_from_the_moment_it_is_shown(web: WebBrowsers) -> None:
    path = key_of(web.home)
    page = web.page("/keys/explain")  # which has elements with the same ids
    page.evaluate(CLICK_AT_ONCE)
    page.evaluate("path => document.dispatchEvent(new CustomEvent('tabane:go', { detail: path }))", path)
    expect(page.get_by_role("heading", level=1)).to_have_text("laptop")
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    expect(page).to_have_url(web.home.url + path)


def test_results_stay_and_parts_are_renewed_when_the_hub_is_back(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED, "Failed to fetch")
    path = key_of(web.home)
    page, home = web.page(path), web.page("/")
    explained(page)
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    expect(home.locator("#home-archive .home-wait")).to_have_count(0)
    web.home.stop()
    expect(page.get_by_text(LOST)).to_be_visible()
    expect(home.get_by_text(LOST)).to_be_visible()

    def shown_again(found: Response) -> bool:
        return found.ok and found.url == web.home.url + path

    def renewed(found: Response) -> bool:
        return found.ok and found.url == web.home.url + "/home/today"

    with page.expect_response(shown_again, timeout=PATIENCE), home.expect_response(renewed, timeout=PATIENCE):
        web.home.start()
    for each in (page, home):
        expect(each.get_by_text(LOST)).to_be_hidden(timeout=PATIENCE)
        expect(each.locator("#app[aria-busy=false]")).to_have_count(1)
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    expect(page.get_by_label("Tool or operation")).to_have_value("one__echo")
    expect(home.locator("#home-archive .home-wait")).to_have_count(0)


def test_a_sign_in_leads_to_the_page_that_was_on_its_way(web: WebBrowsers) -> None:
    """Another request learns first that the session has ended, and asks for the sign-in."""
    page = web.page(key_of(web.home))
    web.permit(r"status of 401")
    held = Held(page, "/preferences$")
    page.get_by_role("link", name=re.compile("Preferences|local")).first.click()
    held.wait()
    page.context.clear_cookies()
    explained(page)
    expect(page.get_by_role("alert")).to_contain_text("session has ended")
    held.end()
    page.get_by_label("API key").fill(web.home.must("keys", "create", "mai", "--allow", "*").strip())
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("h1")).to_have_text("Preferences")


NOTE_EVENTS = """topic => {
  window.noted = 0;
  document.body.addEventListener(topic, () => { window.noted += 1; });
}"""
"""Counts the events of a topic that reach the page."""


def noted(page: Page) -> bool:
    return bool(page.evaluate("() => window.noted"))


def test_a_change_before_the_events_of_a_page_begin_is_shown(web: WebBrowsers) -> None:
    page = web.page()
    held = Held(page, "/events$")
    show(page, "/keys")
    held.wait()
    web.home.must("keys", "create", "early", "--allow", "@docs")
    held.end()
    expect(page.locator("#keys")).to_contain_text("early")


def test_a_change_while_a_page_is_on_its_way_is_shown(web: WebBrowsers) -> None:
    page = web.page("/preferences")
    page.evaluate(NOTE_EVENTS, "keys")
    answered = Answered(page, "/keys$")
    page.get_by_role("link", name="API keys").click()
    answered.wait()
    web.home.must("keys", "create", "meanwhile", "--allow", "@docs")
    wait_until(lambda: noted(page), "the page hears of the key")
    answered.end()
    expect(page.locator("#keys")).to_contain_text("meanwhile")


PAUSE_AT_ONCE = """() => {
  const seen = new MutationObserver(() => {
    const button = document.querySelector("#main [data-pause]");
    if (!button) return;
    seen.disconnect();
    setTimeout(() => button.click());
  });
  seen.observe(document.getElementById("app"), { childList: true, subtree: true });
}"""
"""Someone who clicks as soon as the button can be seen."""


def test_a_page_is_shown_together_with_its_script(web: WebBrowsers) -> None:
    page = web.page("/preferences")
    held = Held(page, r"/js/activity\.js")
    page.evaluate(PAUSE_AT_ONCE)
    page.get_by_role("link", name="Activity").click()
    held.wait()
    settle(page)
    expect(page.locator("h1")).to_have_text("Preferences")
    held.end()
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")


def test_a_page_whose_script_did_not_come_is_loaded_again(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page("/preferences")
    page.route(re.compile(r"/js/activity\.js"), lambda route: route.abort(), times=1)
    page.get_by_role("link", name="Activity").click()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "true")


def test_enter_opens_what_was_found_for_the_whole_text(web: WebBrowsers) -> None:
    known(web.home)
    page = web.page("/")
    box = page.get_by_role("searchbox", name="Search everything")
    box.press_sequentially("e")
    expect(page.locator("[data-result]").first).to_be_visible()
    held = Held(page, r"/home/search\?q=echo$")
    box.press_sequentially("cho")
    page.keyboard.press("Enter")
    held.wait()
    expect(page).to_have_url(re.compile(r"/\?q=echo$"))
    held.end()
    expect(page.locator("h1")).to_contain_text("echo")
    page.go_back()
    expect(box).to_have_value("echo")


def test_a_filter_that_is_typed_while_the_list_is_renewed_is_applied(web: WebBrowsers) -> None:
    web.home.write_servers({name: web.home.child() for name in ("apple", "pear", "plum")})
    page = web.page("/servers")
    rows = page.locator(".servers-table tbody tr")
    expect(rows).to_have_count(3)
    held = Held(page, "/servers/-/rows")
    page.evaluate("() => document.body.dispatchEvent(new CustomEvent('servers'))")
    held.wait()
    filter_box = page.get_by_role("searchbox")
    with page.expect_event("console", lambda said: said.text == "p"):
        page.evaluate(
            """() => document.getElementById("server-rows").addEventListener("filtered", () =>
                 console.log(document.querySelector("#server-filter [name=q]").value))"""
        )
        filter_box.fill("p")
    with page.expect_event("console", lambda said: said.text == "pear"):
        filter_box.fill("pear")
    held.end()
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("pear")


def test_a_call_while_rows_are_filtered_is_listed(web: WebBrowsers) -> None:
    known(web.home)
    page = web.page("/activity")
    answered = Answered(page, "/activity/rows")
    page.locator(".choice-chip", has_text="failed").click()
    answered.wait()
    web.home.run("tools", "call", "one__fail", "text=no")
    row = page.locator("[data-rows] tr[data-outcome=failed]")
    expect(row.last).to_be_attached()
    answered.end()
    expect(page.locator("[data-rows] tr[data-outcome=ok]")).to_have_count(0)
    expect(row).to_have_count(1)


def test_a_tool_that_was_opened_stays_open_when_the_catalog_changes(web: WebBrowsers) -> None:
    known(web.home)
    page = web.page("/servers/one?view=tools")
    tool = page.locator("details.tool", has=page.get_by_text("one__echo", exact=True))
    tool.locator("summary").first.click()
    expect(tool.locator("table.parameters")).to_contain_text("text")
    with page.expect_response(re.compile("/servers/one/-/tools")):
        page.evaluate("() => document.body.dispatchEvent(new CustomEvent('catalog'))")
    settle(page)
    expect(tool.locator("table.parameters")).to_contain_text("text")
