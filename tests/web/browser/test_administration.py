"""Keys, profiles, audit log, usage, settings, health and jobs, in a browser."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state

PAGES = (
    "/keys",
    "/keys/new",
    "/keys/explain",
    "/profiles",
    "/profiles/new",
    "/audit",
    "/audit/1",
    "/audit/integrity",
    "/usage",
    "/settings",
    "/settings?section=changed",
    "/settings?q=list_wait",
    "/preferences",
    "/health",
    "/jobs",
)


@pytest.fixture(scope="module", autouse=True)
def used(shared_home: WebHome) -> None:
    """The hub has a servers file with one server, a settings file with a comment, and some calls."""
    shared_home.write_servers({"one": shared_home.child()})
    toml = shared_home.servers.with_name("tabane.toml")
    toml.write_text("# mine\nlist_wait = 5  # seconds\n")
    toml.chmod(0o600)
    wait_until(
        lambda: shared_home.run("tools", "call", "one__echo", "text=hi").status == 0, "the server is known"
    )
    shared_home.run("tools", "call", "one__refuse")


def toml_of(home: WebHome) -> Path:
    return home.servers.with_name("tabane.toml")


def pid_of(home: WebHome) -> int | None:
    """Return the process of the hub; None while none answers, as in a restart."""
    found = home.run("rpc", "hub_status", "--params", "{}")
    return int(found.json["pid"]) if found.status == 0 else None


def agree(page: Page) -> None:
    """Answer the question that a dialog asks."""
    page.locator("dialog[open] button[value=yes]").click()


@pytest.mark.parametrize("path", PAGES)
def test_each_page_is_accessible_and_fits_each_width(
    shared_web: WebBrowsers, accessibility: Axe, path: str
) -> None:
    page = shared_web.page(path)
    checked_state(page, accessibility, WIDTHS)


def test_a_key_is_created_shown_once_changed_explained_and_revoked(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/keys/new")
    page.get_by_label("Name").fill("laptop")
    page.get_by_role("button", name="Create the key").click()
    expect(page.locator(".field-error")).to_contain_text("say what the key may use")
    expect(page.get_by_label("Name")).to_have_value("laptop")
    expect(page.get_by_label("May use")).to_be_focused()
    page.get_by_label("May use").fill("one__*\n@docs")
    expect(page.locator(".allowed")).to_contain_text("What this allows now")
    expect(page.locator(".allowed li", has_text="one")).to_contain_text("tool")
    page.get_by_role("button", name="Create the key").click()
    secret = page.locator("#secret").inner_text()
    assert secret.startswith("tbn_")
    checked_state(page)
    expect(page.locator("#secret")).to_be_in_viewport()
    expect(page.locator("#use-json")).to_contain_text(f"Bearer {secret}")
    page.get_by_role("link", name="Show the key's permissions").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("laptop")
    assert secret not in page.content()
    page.get_by_label("Tool or operation").fill("one__echo")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explanation")).to_contain_text("laptop may call one__echo.")
    expect(page.locator("#explanation")).to_contain_text("one__*")
    page.get_by_label("But not").fill("one__echo")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#notices")).to_contain_text("laptop was changed")
    page.get_by_label("Tool or operation").fill("one__echo")
    page.get_by_role("button", name="Explain").click()
    expect(page.locator("#explanation")).to_contain_text("denies it")
    page.get_by_role("button", name="Revoke").click()
    agree(page)
    expect(page.get_by_role("heading", level=1)).to_have_text("API keys")
    expect(page.locator("#notices")).to_contain_text("laptop was revoked")
    expect(page.locator("#keys")).not_to_contain_text("laptop")
    page.get_by_role("link", name="With revoked").click()
    expect(page.locator("#keys")).to_contain_text("revoked")


def test_a_second_browser_sees_a_new_key(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/keys")
    shared_web.home.run("keys", "create", "seen", "--allow", "@docs")
    expect(page.locator("#keys")).to_contain_text("seen")


def test_a_profile_is_created_changed_and_removed(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/profiles/new")
    page.get_by_label("Name").fill("no good")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".field-error")).to_contain_text("not the name of a profile")
    page.get_by_label("Name").fill("work")
    page.get_by_label("Allows").fill("@nothing")
    expect(page.locator(".allowed")).to_contain_text("there is no source @nothing")
    page.get_by_label("Allows").fill("one__echo")
    expect(page.locator(".allowed")).to_contain_text("1 tool")
    page.get_by_label("Allows").fill("one__*")
    page.get_by_label("But not").fill("one__refuse")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#profile-work .allowed-list")).to_contain_text("one")
    expect(page.locator("#profile-work .denied")).to_contain_text("one__refuse")
    assert "[profiles.work]" in toml_of(shared_web.home).read_text()
    page.get_by_role("link", name="work", exact=True).click()
    page.get_by_label("Description").fill("At work")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#profile-work")).to_contain_text("At work")
    page.locator("#profile-work").get_by_role("button", name="Remove").click()
    agree(page)
    expect(page.locator("#profile-work")).to_have_count(0)


def test_the_audit_log_is_filtered_and_one_entry_opened(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit")
    page.get_by_label("Text", exact=True).fill("one__")
    expect(page.locator("#audit-results tbody tr")).not_to_have_count(0)
    expect(page).to_have_url(re.compile(r"/audit\?text=one__$"))
    page.get_by_label("Outcome", exact=True).select_option("failed")
    expect(page).to_have_url(re.compile("result=failed"))
    page.reload()
    expect(page.get_by_label("Text", exact=True)).to_have_value("one__")
    expect(page.get_by_label("Outcome", exact=True)).to_have_value("failed")
    show(page, "/audit?tool=one__echo")
    page.locator("#audit-results tbody").get_by_role("link", name="one__echo").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("one__echo")
    expect(page.locator("main .notice")).to_contain_text("called one__echo. It took")
    expect(page.locator(".audit-arguments")).to_contain_text("hi")
    expect(page.locator(".audit-arguments")).not_to_contain_text("{")
    show(page, "/audit?text=there+is+no+such+thing")
    expect(page.locator("main")).to_contain_text("No entry matches")


def test_a_facet_of_the_audit_log_is_a_filter_with_its_count(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit?server=one")
    refused = page.locator(".audit-facet a", has_text="failed")
    count = int(refused.locator(".num").inner_text())
    refused.click()
    expect(page).to_have_url(re.compile(r"/audit\?server=one&result=failed$"))
    expect(page.locator("#audit-results tbody tr")).to_have_count(count)
    expect(page.locator(".audit-facet a[aria-current]", has_text="failed")).to_be_visible()
    page.locator(".audit-chips a", has_text="failed").click()
    expect(page).to_have_url(re.compile(r"/audit\?server=one$"))


def test_the_filtered_audit_log_is_saved_as_a_file(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit?tool=one__echo")
    rows = page.locator("#audit-results tbody tr").count()
    with page.expect_download() as waited:
        page.get_by_role("button", name="Export as CSV").click()
    assert re.fullmatch(r"audit-[\d-]+\.csv", waited.value.suggested_filename)
    lines = Path(waited.value.path()).read_text(encoding="utf-8-sig").splitlines()
    assert lines[0].startswith("time,name,outcome,")
    assert [line.split(",")[1] for line in lines[1:]] == ["one__echo"] * rows
    with page.expect_download() as waited:
        page.get_by_role("button", name="Export as JSON").click()
    assert len(json.loads(Path(waited.value.path()).read_text())) == rows


def test_on_a_phone_the_audit_log_shows_the_outcome(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit?server=one&result=failed", width=390)
    expect(page.locator("#audit-results tbody .badge").first).to_be_in_viewport()
    checked_state(page)


def test_the_audit_log_is_verified(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/audit/integrity")
    page.get_by_role("button", name="Verify now").click()
    expect(page.locator("#verification")).to_contain_text("The audit log is intact")
    show(page, "/audit")
    expect(page.locator("#audit-results")).to_contain_text("Verified: no entry was changed or removed.")


def test_usage_has_a_chart_and_groups(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/usage")
    expect(page.locator("#usage-chart svg")).to_have_count(1)
    page.get_by_role("link", name="Servers", exact=True).last.click()
    expect(page.locator("main tbody").last).to_contain_text("one")
    page.get_by_role("link", name="7 days").click()
    expect(page.get_by_role("link", name="7 days")).to_have_attribute("aria-current", "true")
    expect(page.locator("main")).to_contain_text("Worth a look")


def test_a_setting_is_found_changed_and_reset(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/settings")
    page.get_by_label("Search the settings").fill("list_wait")
    expect(page.locator(".setting")).to_have_count(1)
    expect(page).to_have_url(re.compile(r"/settings\?q=list_wait$"))
    page.get_by_role("button", name="Change list_wait").click()
    expect(page.get_by_label("list_wait", exact=True)).to_be_focused()
    page.get_by_label("list_wait", exact=True).fill("100")
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".field-error")).to_contain_text("0 to 60")
    page.get_by_label("list_wait", exact=True).fill("7")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#setting-list_wait .setting-value")).to_contain_text("7")
    expect(page.locator("#setting-list_wait .setting-value")).to_contain_text("Default: 2")
    assert "list_wait = 7  # seconds" in toml_of(shared_web.home).read_text()
    expect(page.get_by_role("button", name="Change list_wait")).to_be_focused()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Use the default").click()
    expect(page.locator("#setting-list_wait .setting-value")).to_contain_text("default")
    assert "# mine" in toml_of(shared_web.home).read_text()


def test_settings_are_shown_by_section_and_searched_in_both_languages(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/settings")
    expect(page.locator(".setting")).to_have_count(7)  # of the first section only
    page.get_by_role("link", name=re.compile("^Audit log")).last.click()
    expect(page).to_have_url(re.compile(r"section=audit$"))
    expect(page.locator("#setting-audit_days")).to_be_visible()
    expect(page.locator("#setting-mode")).to_have_count(0)
    page.get_by_label("Search the settings").fill("監査ログ")
    expect(page.locator("#setting-audit_days")).to_be_visible()
    page.get_by_label("Search the settings").fill("no such words")
    expect(page.locator("#settings-results")).to_contain_text("No setting matches")
    page.get_by_label("Search the settings").fill("")
    expect(page).to_have_url(re.compile(r"/settings\?section=audit$"))
    show(page, "/settings?section=changed")
    expect(page.locator("#setting-port")).to_be_visible()
    expect(page.locator(".setting:not(.changed)")).to_have_count(0)


def test_a_link_to_a_setting_finds_it_in_its_section(shared_web: WebBrowsers) -> None:
    page = shared_web.page(width=390)
    page.goto("/settings#audit_days")
    expect(page.locator("#setting-audit_days")).to_be_in_viewport()
    page.get_by_label("Section", exact=True).select_option(label="Reader")
    expect(page.locator("#setting-reader_robots")).to_be_visible()
    expect(page.locator("#setting-audit_days")).to_have_count(0)


def test_a_setting_of_choices_has_a_box_for_each(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/settings?q=extensions")
    page.get_by_role("button", name="Change extensions").click()
    page.get_by_role("checkbox", name="skills").uncheck()
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#setting-extensions .setting-value")).to_contain_text("ui, tasks")
    expect(page.locator("#setting-extensions .setting-value code").first).not_to_contain_text("skills")
    assert shared_web.home.run("settings", "unset", "extensions").status == 0


def test_a_second_browser_sees_a_changed_setting(shared_web: WebBrowsers) -> None:
    page = shared_web.page("/settings?section=hub")
    page.get_by_role("button", name="Change grace").click()
    page.get_by_label("grace", exact=True).fill("33")
    assert shared_web.home.run("settings", "set", "stuck_after", "77").status == 0
    expect(page.locator("#setting-stuck_after .setting-value")).to_contain_text("77")
    expect(page.locator(".settings-index [aria-current] .settings-mark")).to_have_count(1)
    expect(page.get_by_label("grace", exact=True)).to_have_value("33")


def test_a_setting_of_the_next_start_offers_a_restart(web: WebBrowsers) -> None:
    page = web.page("/settings?section=logs")
    pid = web.home.rpc("hub_status")["pid"]
    page.get_by_role("button", name="Change log_files").click()
    page.get_by_label("log_files", exact=True).fill("9")
    page.get_by_role("button", name="Save").click()
    expect(page.locator("#setting-log_files")).to_contain_text("after a restart: 9")
    web.permit("503", "ERR_")  # while no hub runs
    page.get_by_role("button", name="Restart the hub").click()
    agree(page)
    wait_until(lambda: pid_of(web.home) not in (None, pid), "another hub runs")
    expect(page.locator("#setting-log_files")).not_to_contain_text("after a restart: 9")
    expect(page.locator("#setting-log_files .setting-value")).to_contain_text("9")


def test_the_check_up_fixes_what_it_finds(web: WebBrowsers) -> None:
    log = web.home.tabane / "logs" / "hub.log"
    os.chmod(log, 0o644)
    os.chmod(web.home.tabane, 0o755)
    page = web.page("/health")
    expect(page.locator("#checkup")).to_contain_text("Other users can read")
    expect(page.locator("#checkup")).to_contain_text("Other users can list")
    expect(page.locator("#checkup")).not_to_contain_text("Only you have access")
    assert "tabane doctor" not in page.locator("main").inner_text()
    page.get_by_role("button", name="Fix what is safe to fix").click()
    expect(page.locator("#checkup")).to_contain_text("Everything is in order.")
    os.chmod(log, 0o644)
    page.get_by_role("button", name="Check again").click()
    expect(page.locator("#checkup")).to_contain_text("Other users can read")
    page.get_by_role("button", name="Fix it").click()
    expect(page.locator("#checkup")).to_contain_text("Everything is in order.")
    assert log.stat().st_mode & 0o077 == 0


def test_jobs_are_listed_with_their_results(shared_web: WebBrowsers) -> None:
    shared_web.home.rpc("verify_audit_log")
    page = shared_web.page("/jobs")
    page.get_by_role("link", name="Verifying the audit log").first.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Verifying the audit log")
    expect(page.locator("#job")).to_contain_text('"intact": true')


def test_somebody_who_may_only_read_sees_no_buttons_of_administration(shared_web: WebBrowsers) -> None:
    made = shared_web.home.run("keys", "create", "reader", "--allow", "@admin", "--read-only").succeeded
    page = shared_web.page(signed_in=False)
    shared_web.permit("status of 401")
    page.goto("/keys")
    page.get_by_label("API key").fill(made.out.strip())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("API keys")
    expect(page.get_by_role("link", name="New key")).to_have_count(0)
    for path, button in (("/settings", "Change"), ("/health", "Check again"), ("/profiles", "New profile")):
        show(page, path)
        expect(page.locator("main").get_by_text(button, exact=True)).to_have_count(0)
    shared_web.permit("status of 403")
    for path in CHANGES:
        assert page.evaluate(POST, path) == 403, path
    assert "list_wait = 3" not in toml_of(shared_web.home).read_text()


def test_a_page_that_a_key_may_not_see_says_what_would_allow_it(shared_web: WebBrowsers) -> None:
    made = shared_web.home.run("keys", "create", "narrow", "--allow", "@posts").succeeded
    page = shared_web.page(signed_in=False)
    shared_web.permit("status of 401")
    shared_web.permit("status of 403")
    page.goto("/settings")
    page.get_by_label("API key").fill(made.out.strip())
    page.get_by_role("button", name="Sign in").click()
    expect(page.locator("main")).to_contain_text("narrow may not see Settings.")
    expect(page.locator("main code")).to_have_text("hub_status")
    checked_state(page)
    page.locator("main").get_by_role("link", name="Posts").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Posts")


CHANGES = (
    "/settings/list_wait", "/keys", "/keys/reader", "/keys/reader/revoke", "/profiles", "/profiles/x/remove",
    "/audit/integrity", "/health/check", "/health/fix", "/health/restart", "/jobs/abcdef/cancel",
)  # fmt: skip
"""Paths of requests that change something."""

POST = """async (path) => {
  const headers = {"Tabane-Page": localStorage.getItem("tabane.page"), "HX-Request": "true",
    "Content-Type": "application/x-www-form-urlencoded"};
  return (await fetch(path, {method: "POST", headers, body: "value=3&name=x&allow=*&new=1"})).status;
}"""
