"""What a person does while an answer is on its way is not lost: each order of events is forced."""

from __future__ import annotations

import re

from playwright.sync_api import Page, Response, Route, expect

from tests.harness.patience import wait_until
from tests.web.browser.guard import INTERRUPTED, settle
from tests.web.browser.hub import PATIENCE, WebBrowsers, WebHome
from tests.web.browser.test_live import LOST


class Held:
    """Answers to requests that the test lets through one by one."""

    def __init__(self, page: Page, url: str, method: str = "GET") -> None:
        self._page, self._url, self._method = page, re.compile(url), method
        self._routes: list[Route] = []
        page.route(self._url, self._route)

    def _route(self, route: Route) -> None:
        if route.request.method == self._method:
            self._routes.append(route)
        else:
            route.fallback()

    def wait(self) -> None:
        """Wait until a request is held."""
        while not self._routes:
            settle(self._page)

    def release(self) -> None:
        """Let everything through that is held."""
        for route in self._routes:
            route.continue_()
        self._routes.clear()

    def end(self) -> None:
        """Let everything through from now on."""
        self.release()
        self._page.unroute(self._url, self._route)


def key_of(home: WebHome) -> str:
    """Create a key that may call everything of one server, and return the path of its page."""
    home.write_servers({"one": home.child()})
    wait_until(lambda: home.run("tools", "call", "one__echo", "text=hi").status == 0, "the server is known")
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
    held.release()
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
    held.release()
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
    held.release()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    expect(page.get_by_label("May use")).to_have_value("one__*\n@docs\n@posts")


def test_a_page_that_is_left_after_a_form_takes_no_clicks(web: WebBrowsers) -> None:
    page = web.page(key_of(web.home))
    held = Held(page, "/keys$")
    page.get_by_role("button", name="Revoke").click()
    page.locator("dialog[open] button[value=yes]").click()
    held.wait()
    expect(page.locator("#main[inert]")).to_have_count(1)
    held.release()
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
    expect(home.locator(".stats")).not_to_contain_text("…")
    web.home.stop()
    expect(page.get_by_text(LOST)).to_be_visible()
    expect(home.get_by_text(LOST)).to_be_visible()

    def shown_again(found: Response) -> bool:
        return found.ok and found.url == web.home.url + path

    def renewed(found: Response) -> bool:
        return found.ok and found.url == web.home.url + "/home/today"

    with (
        page.expect_response(shown_again, timeout=PATIENCE),
        home.expect_response(renewed, timeout=PATIENCE),
    ):
        web.home.start()
    for each in (page, home):
        expect(each.get_by_text(LOST)).to_be_hidden(timeout=PATIENCE)
        expect(each.locator("#app[aria-busy=false]")).to_have_count(1)
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    expect(page.get_by_label("Tool or operation")).to_have_value("one__echo")
    expect(home.locator(".stats")).not_to_contain_text("…")


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
