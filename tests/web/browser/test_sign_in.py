"""Signing in and out in a real browser: links, keys, sessions that end."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.browser.guard import INTERRUPTED
from tests.web.browser.hub import WebBrowsers, WebHome, show, wait_for_page

pytestmark = pytest.mark.core

REFUSED = r"status of 401"
"""What Chromium writes to the console about an answer with that status."""

NAVIGATION = "nav#sidebar"


def use(page: Page, link: str) -> None:
    page.goto(link)
    wait_for_page(page)


def signed_in(page: Page) -> bool:
    return page.locator(NAVIGATION).count() == 1


def key_of(home: WebHome, *options: str) -> str:
    """Create a key and return it."""
    return home.must("keys", "create", "mai", *options).strip()


def type_key(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()


def test_a_link_signs_in_one_browser_once(web: WebBrowsers) -> None:
    link = web.home.link()
    first = web.page(signed_in=False)
    use(first, link)
    assert signed_in(first)
    assert first.url == f"{web.home.url}/"  # the code is not in the address, nor in the history
    second = web.page(signed_in=False)
    web.permit(REFUSED)
    use(second, link)
    expect(second.get_by_role("alert")).to_contain_text("used already")
    assert not signed_in(second)


def test_a_link_leads_to_the_page_that_was_asked_for(web: WebBrowsers) -> None:
    link = web.home.must("open", "/preferences", "--print").strip()
    page = web.page(signed_in=False)
    use(page, link)
    expect(page).to_have_url(f"{web.home.url}/preferences")
    expect(page.locator("h1")).to_have_text("Preferences")


def test_a_link_leads_to_no_other_site(web: WebBrowsers) -> None:
    for place in ("//evil.example/", "https://evil.example/", "/\\evil.example/", "javascript:alert(1)"):
        link = web.home.link().replace("#", f"?to={place}#")
        page = web.page(signed_in=False)
        use(page, link)
        expect(page).to_have_url(f"{web.home.url}/")


def test_a_reload_and_another_tab_stay_signed_in(web: WebBrowsers) -> None:
    page = web.page("/")
    page.reload()
    wait_for_page(page)
    assert signed_in(page)
    other = page.context.new_page()
    show(other, "/preferences")
    assert signed_in(other)


def test_a_key_signs_in_and_shows_what_it_may(web: WebBrowsers) -> None:
    key = key_of(web.home, "--allow", "@documents", "--read-only")
    page = web.page(signed_in=False)
    web.permit(REFUSED)
    page.goto("/preferences")
    type_key(page, key)
    page.locator(NAVIGATION).wait_for()
    entries = page.locator(f"{NAVIGATION} [data-nav]").evaluate_all("all => all.map(one => one.dataset.nav)")
    assert "/documents" in entries
    assert not {"/keys", "/settings", "/audit"} & set(entries)
    expect(page.locator(f"{NAVIGATION} .nav-foot")).to_contain_text("mai")


def test_a_wrong_key_is_refused_and_further_attempts_wait(web: WebBrowsers) -> None:
    page = web.page(signed_in=False)
    web.permit(REFUSED, "status of 429")
    page.goto("/preferences")
    for number in range(4):
        with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
            type_key(page, f"tbn_wrong_{number}")
        assert answered.value.status in (401, 429)
        expect(page.get_by_role("alert")).to_be_visible()
    assert not signed_in(page)
    type_key(page, key_of(web.home, "--allow", "*"))  # a valid key is not slowed down
    page.locator(NAVIGATION).wait_for()


def test_a_revoked_key_ends_the_page_that_is_open(web: WebBrowsers) -> None:
    key = key_of(web.home, "--allow", "*")
    page = web.page(signed_in=False)
    web.permit(REFUSED)
    page.goto("/preferences")
    type_key(page, key)
    page.locator(NAVIGATION).wait_for()
    web.home.must("keys", "revoke", "mai")
    expect(page.get_by_label("API key")).to_be_visible()  # without a click
    expect(page.get_by_role("alert")).to_contain_text("session has ended")
    assert not signed_in(page)


def test_signing_out_ends_the_session_in_every_tab(web: WebBrowsers) -> None:
    page = web.page(signed_in=False)
    use(page, web.home.link())
    other = page.context.new_page()
    show(other, "/preferences")
    state = page.context.storage_state()
    web.permit(REFUSED)
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_label("API key")).to_be_visible()
    page.reload()
    expect(page.get_by_label("API key")).to_be_visible()
    copy, _ = web.context(state=state)  # what the browser knew before is worth nothing now
    copied = copy.new_page()
    copied.goto("/preferences")
    expect(copied.get_by_label("API key")).to_be_visible()


def test_a_session_that_ended_elsewhere_asks_to_sign_in_and_goes_on_there(web: WebBrowsers) -> None:
    page = web.page("/keys")  # which asks for nothing after it is shown: the click is what learns of it
    web.permit(REFUSED)
    page.context.clear_cookies()
    # Not Locator.click: it waits for a page that stands still, which a loaded machine may show too late.
    page.get_by_role("link", name=re.compile("Preferences|local")).first.evaluate("link => link.click()")
    expect(page.get_by_role("alert")).to_contain_text("session has ended")
    type_key(page, key_of(web.home, "--allow", "*"))
    expect(page.locator("h1")).to_have_text("Preferences")


def test_a_session_outlives_a_restart_of_the_hub(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page("/preferences")
    web.home.stop()
    web.home.start()
    fresh = page.context.new_page()
    show(fresh, "/preferences")
    assert signed_in(fresh)


def test_a_hub_without_a_token_asks_for_nothing(web: WebBrowsers) -> None:
    web.home.stop()
    web.home.environment["TABANE_HTTP_TOKEN"] = "false"
    web.home.start()
    page = web.page(signed_in=False)
    web.permit(REFUSED)
    page.goto("/preferences")
    page.get_by_role("button", name="Continue").click()
    page.locator(NAVIGATION).wait_for()
