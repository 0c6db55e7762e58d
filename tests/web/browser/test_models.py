"""Embedding models in a browser: what is known of them, and the change to another one."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.harness.patience import wait_until
from tests.search.embedding import tiny
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, Language, WebBrowsers, show
from tests.web.browser.looks import checked_state

FITS = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


def agree(page: Page) -> None:
    page.locator("dialog[open] button[value=yes]").click()


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_the_models_are_listed_and_fit_each_width(
    shared_web: WebBrowsers, accessibility: Axe, lang: Language
) -> None:
    page = shared_web.page("/models", lang=lang)
    listed = shared_web.home.rpc("list_models")["results"]
    expect(page.locator(".model")).to_have_count(len(listed))
    row = page.locator('.model[data-model="ruri-30m"]')
    expect(row).to_contain_text("148 MB")
    expect(row).to_contain_text("Japanese" if lang == "en" else "日本語")
    expect(row).to_contain_text("not downloaded" if lang == "en" else "未ダウンロード")
    serious = [one for one in accessibility.findings(page) if one.impact in ("serious", "critical")]
    assert serious == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        wait_until(lambda: page.evaluate(FITS), f"the page is not wider than {width}")


def test_a_model_that_is_not_there_changes_nothing(web: WebBrowsers) -> None:
    page = web.page("/models")
    page.get_by_label("Name").fill(str(web.home.folder / "nothing"))
    page.locator("form", has=page.get_by_label("Name")).get_by_role("button", name="Use").click()
    expect(
        page.locator("#model-change .notice.bad, .field-error, #notices .notice.bad").first
    ).to_be_visible()
    assert web.home.rpc("list_models")["model"] == "none"


def test_another_model_is_used_and_a_second_browser_sees_it(web: WebBrowsers) -> None:
    folder = tiny.make(web.home.folder / "little")
    web.home.stop()
    del web.home.environment["TABANE_MODEL"]  # the settings file decides, not a variable
    toml = web.home.servers.with_name("tabane.toml")
    toml.write_text('model = "none"\n')
    toml.chmod(0o600)
    web.home.start()
    first, second = web.page("/models"), web.page("/models")
    expect(first.locator(".notice.warn")).to_contain_text("keywords only")
    first.get_by_label("Name").fill(str(folder))
    first.locator("form", has=first.get_by_label("Name")).get_by_role("button", name="Use").click()
    expect(first.locator("#model-change .notice.ok")).to_contain_text("Semantic search uses the model")
    for page in (first, second):
        expect(page.locator(".model", has_text="little")).to_contain_text("in use")
        expect(page.locator(".notice.warn")).to_have_count(0)
    assert re.search(r"model = .*little", toml.read_text())


def test_the_change_asks_first(web: WebBrowsers) -> None:
    page = web.page("/models")
    page.get_by_role("button", name="Use ruri-30m").click()
    expect(page.locator("dialog[open]")).to_contain_text("Use the model ruri-30m?")
    checked_state(page, widths=WIDTHS)
    page.locator("dialog[open] button[value=no]").click()
    assert [job for job in web.home.rpc("list_jobs")["results"] if job["operation"] == "use_model"] == []


def test_a_key_that_only_reads_sees_no_buttons(shared_web: WebBrowsers) -> None:
    made = shared_web.home.run("keys", "create", "looker", "--allow", "@admin", "--read-only").succeeded
    page = shared_web.page(signed_in=False)
    shared_web.permit("status of 401")
    page.goto("/models")
    page.get_by_label("API key").fill(made.out.strip())
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Models")
    expect(page.get_by_role("button", name=re.compile("^Use"))).to_have_count(0)
    show(page, "/models")
    expect(page.locator(".model").first).to_be_visible()
