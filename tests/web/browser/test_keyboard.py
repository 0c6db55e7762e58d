"""The page without a mouse: palette, order of focus, menus, dialogs."""

from __future__ import annotations

import sys

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.conftest import ROOT
from tests.web.browser.guard import settle
from tests.web.browser.hub import Language, WebBrowsers, WebHome
from tests.web.browser.looks import checked_state

PALETTE = "dialog#palette"
KETTLE = {"url": "/servers/kettle", "label": "Kettle", "icon": "servers", "group": "servers"}


@pytest.fixture(scope="module")
def furnished(shared_home: WebHome) -> None:
    """Two servers and a document."""
    upstream = str(ROOT / "benchmarks" / "gateway" / "upstream.py")
    for name, kind in (("memo", "files"), ("weather", "web")):
        shared_home.must("servers", "add", "--force", name, "--", sys.executable, "-S", upstream, kind)
    notes = shared_home.folder / "notes"
    notes.mkdir()
    (notes / "lighthouse-plan.md").write_text("# The plan\n\nIt has a lamp.\n")
    shared_home.must("docs", "add", str(notes), "--relative")


def test_the_palette_opens_finds_goes_and_closes(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    for key in ("/", "Control+k"):
        page.keyboard.press(key)
        expect(page.locator(PALETTE)).to_be_visible()
        expect(page.locator(f"{PALETTE} input")).to_be_focused()
        page.keyboard.press("Escape")
        expect(page.locator(PALETTE)).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("lighthouse")
    expect(page.locator(f"{PALETTE} [aria-selected=true]")).to_have_text("Search everything for lighthouse")


def test_the_palette_leads_to_a_page(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.keyboard.press("Control+k")
    page.keyboard.type("jobs")
    expect(page.locator(f"{PALETTE} [aria-selected=true]")).to_contain_text("Jobs")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{shared_web.home.url}/jobs")
    expect(page.locator("h1")).to_have_text("Jobs")
    expect(page.locator("#main")).to_be_focused()  # a screen reader begins to read there


def test_enter_never_opens_what_was_found_for_an_earlier_text(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.route("**/palette?q=kettle", lambda route: route.fulfill(json=[KETTLE]))
    page.route("**/palette?q=kettles*", lambda route: None)  # this answer never comes
    page.keyboard.press("Control+k")
    page.keyboard.type("kettle")
    expect(page.locator(f"{PALETTE} [aria-selected=true]")).to_have_text("Kettle")
    page.keyboard.type("s of today")
    expect(page.locator(f"{PALETTE} [aria-selected=true]")).to_have_text(
        "Search everything for kettles of today"
    )


def test_a_slash_in_a_field_is_a_slash(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.keyboard.press("Control+k")
    page.keyboard.type("a/b")
    expect(page.locator(f"{PALETTE} input")).to_have_value("a/b")


def test_the_first_stop_of_the_tabulator_skips_the_navigation(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()


def test_every_stop_shows_where_the_focus_is(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    unseen = []
    for _ in range(24):
        page.keyboard.press("Tab")
        style = page.evaluate(
            """() => { const it = document.activeElement, seen = getComputedStyle(it);
                return [it.outerHTML.slice(0, 100), seen.outlineStyle, seen.boxShadow]; }"""
        )
        if style[1] == "none" and style[2] == "none" and not style[0].startswith("<body"):
            unseen.append(style[0])
    assert unseen == []


def test_the_menu_of_a_phone_opens_and_closes_by_keyboard(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences", width=390, height=844)
    menu = page.get_by_role("button", name="Menu")
    menu.focus()
    page.keyboard.press("Enter")
    expect(menu).to_have_attribute("aria-expanded", "true")
    expect(page.get_by_role("link", name="Servers")).to_be_visible()
    page.keyboard.press("Escape")
    expect(menu).to_have_attribute("aria-expanded", "false")
    expect(page.get_by_role("link", name="Servers")).to_be_hidden()


def test_going_back_shows_the_page_before(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.get_by_role("link", name="Jobs").click()
    expect(page.locator("h1")).to_have_text("Jobs")
    page.go_back()
    expect(page.locator("h1")).to_have_text("Preferences")
    expect(page).to_have_url(f"{shared_web.home.url}/preferences")


def test_language_and_theme_are_chosen_and_kept(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences", theme="light")
    page.get_by_label("Dark").check()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.get_by_label("日本語").check()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    expect(page.locator("h1")).not_to_have_text("Preferences")
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "ja")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def chosen(page: Page) -> Locator:
    return page.locator(f"{PALETTE} [aria-selected=true]")


def type_into_palette(page: Page, text: str) -> None:
    page.keyboard.press("Control+k")
    page.locator(f"{PALETTE} input").fill(text)


@pytest.mark.parametrize(
    ("lang", "typed", "label"),
    [
        ("en", "設定", "Settings"),
        ("ja", "settings", "設定"),
        ("en", "dark", "Dark theme"),
        ("ja", "add server", "サーバーを追加"),
        ("en", "ショートカット", "Keyboard shortcuts"),
        ("en", "restart memo", "Restart memo"),
        ("ja", "memoを再起動", "memo を再起動"),
        ("en", "lighthouse pla", "The plan"),
        ("en", "audit days", "audit_days"),
    ],
)
def test_the_palette_understands_both_languages(
    shared_web: WebBrowsers, furnished: None, lang: Language, typed: str, label: str
) -> None:
    page = shared_web.page("/preferences", lang=lang)
    type_into_palette(page, typed)
    expect(chosen(page)).to_have_text(label)


def test_the_palette_has_no_noise(shared_web: WebBrowsers, furnished: None) -> None:
    page = shared_web.page("/preferences")
    with page.expect_response("**/palette?q=*"):
        type_into_palette(page, "設定")
    settle(page)
    labels = page.locator(f"{PALETTE} [role=option]").all_inner_texts()
    assert labels == ["Settings", "Preferences", "Search everything for 設定"]


def test_an_action_asks_acts_and_says_when_it_is_done(shared_web: WebBrowsers, furnished: None) -> None:
    page = shared_web.page("/preferences")
    type_into_palette(page, "restart memo")
    expect(chosen(page)).to_have_text("Restart memo")
    page.keyboard.press("Enter")
    expect(page.locator("#notices")).to_contain_text("memo")
    type_into_palette(page, "stop memo")
    expect(chosen(page)).to_have_text("Stop memo")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("Stop memo?")
    checked_state(page)
    page.get_by_role("button", name="Cancel").click()
    page.keyboard.press("Control+k")
    expect(page.locator(f"{PALETTE} [role=option]").first).to_have_text("Stop memo")  # chosen last


def test_j_and_k_move_through_a_list_and_enter_opens(shared_web: WebBrowsers, furnished: None) -> None:
    page = shared_web.page("/servers")
    page.locator("main a", has_text="memo").first.wait_for()
    page.keyboard.press("j")
    first = page.evaluate("document.activeElement.textContent.trim()")
    page.keyboard.press("j")
    second = page.evaluate("document.activeElement.textContent.trim()")
    assert first != second
    page.keyboard.press("k")
    assert page.evaluate("document.activeElement.textContent.trim()") == first
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_contain_text(first)


def test_a_question_mark_shows_the_keys_and_g_goes(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/preferences")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    checked_state(page)
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("d")
    expect(page.locator("h1")).to_have_text("Documents")
