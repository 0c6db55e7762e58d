"""What is typed survives the end of a session, a reload and a restart, for the person who typed it."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.web.browser.guard import INTERRUPTED
from tests.web.browser.hub import WebBrowsers, WebHome, show, wait_for_page
from tests.web.browser.looks import checked_state

NEW = "/documents/-/new"
TEXT = "A lamp, a lens and a tower."
RESTORED = "Restored draft"
REFUSED = "status of 401"


def key_of(home: WebHome, name: str) -> str:
    return home.must("keys", "create", name, "--allow", "*").strip()


def write(page: Page) -> None:
    page.get_by_label("Name").fill("plan.md")
    page.get_by_label("Text").fill(TEXT)


def sign_in(page: Page, key: str) -> None:
    page.get_by_label("API key").fill(key)
    page.get_by_role("button", name="Sign in").click()
    page.locator("nav#sidebar").wait_for()


def drafts(page: Page) -> list[str]:
    found: list[str] = page.evaluate(
        "Object.entries(localStorage).filter(([key]) => key.startsWith('tabane.draft')).map(one => one[1])"
    )
    return found


def restored(page: Page) -> None:
    expect(page.get_by_text(RESTORED)).to_be_visible()
    expect(page.get_by_label("Text")).to_have_value(TEXT)
    expect(page.get_by_label("Name")).to_have_value("plan.md")


def test_the_end_of_a_session_leaves_the_text_in_sight_and_it_is_there_afterwards(web: WebBrowsers) -> None:
    web.permit(REFUSED)
    mine, other = key_of(web.home, "mai"), key_of(web.home, "ken")
    page = web.page(signed_in=False)
    page.goto(NEW)
    sign_in(page, mine)
    wait_for_page(page)
    write(page)
    page.context.clear_cookies()
    page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("session has ended")
    expect(page.get_by_label("Text")).to_have_value(TEXT)  # behind it
    checked_state(page)
    sign_in(page, other)
    expect(page.get_by_label("Text")).to_have_value("")  # it is none of theirs
    page.context.clear_cookies()
    page.reload()
    sign_in(page, mine)
    restored(page)


def test_a_draft_survives_a_reload_and_a_restart_until_it_is_saved(web: WebBrowsers) -> None:
    web.permit(*INTERRUPTED)
    page = web.page(NEW)
    write(page)
    page.on("dialog", lambda dialog: dialog.accept())  # the browser asks before a page with changes ends
    page.reload()
    restored(page)
    web.home.stop()
    web.home.start()
    show(page, NEW)
    restored(page)
    checked_state(page)
    page.get_by_role("button", name="Save").click()
    expect(page.locator("main")).to_contain_text("plan.md")
    page.wait_for_url("**/documents/**plan.md**")
    assert drafts(page) == []
    show(page, NEW)
    expect(page.get_by_label("Text")).to_have_value("")


def test_a_draft_is_discarded(web: WebBrowsers) -> None:
    page = web.page(NEW)
    write(page)
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    restored(page)
    page.get_by_role("button", name="Discard").click()
    expect(page.get_by_label("Text")).to_have_value("")
    assert drafts(page) == []


def test_signing_out_forgets_the_drafts(web: WebBrowsers) -> None:
    web.permit(REFUSED)
    page = web.page(NEW)
    write(page)
    page.on("dialog", lambda dialog: dialog.accept())
    show(page, "/preferences")
    assert len(drafts(page)) == 1
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("API key")).to_be_visible()
    assert drafts(page) == []


def test_a_secret_is_in_no_draft(web: WebBrowsers) -> None:
    page = web.page(NEW)
    page.evaluate(
        """() => {
          const form = document.querySelector("form[data-draft]");
          const secret = document.createElement("input");
          Object.assign(secret, { type: "password", name: "secret", value: "hunter2-hunter2" });
          form.append(secret);
          form.elements.path.value = "plan.md";
          form.elements.text.value = 'the JSON of the form: {"secret": "hunter2-hunter2"}';
          form.elements.path.dispatchEvent(new Event("input", { bubbles: true }));
        }"""
    )
    wait_until(lambda: drafts(page), "the draft is kept")
    [kept] = drafts(page)
    assert "plan.md" in kept
    assert "hunter2" not in kept
