"""Selection of the browser, and the error if there is none."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tabane.errors import ReadError
from tabane.reader.conversion import PageConverter
from tabane.reader.fetching import PageFetcher
from tabane.reader.page import Page
from tabane.reader.rendering import BrowserChoice, PageRenderer
from tabane.reader.rendering.chromium import browser as found
from tabane.reader.sites.any_page import AnyPageAdapter
from tabane.reader.sites.site_adapter import ReadingTools
from tests.reader.rendering.conftest import Show, rendering
from tests.reader.site import Site

SHELL = '<!doctype html><title>App</title><div id="root"></div><script src="/app.js"></script>'
WORDS = " ".join(
    f"On day {n} of April it was bright and cold, and clocks struck {n + 12}." for n in range(20)
)
APP = f"document.getElementById('root').innerHTML = '<article><h1>Clocks</h1><p>{WORDS}</p></article>'"


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    for folder in list(path.parents)[:-2]:
        folder.chmod(folder.stat().st_mode | 0o055)
    return str(path)


def read(site: Site, way: AnyPageAdapter, url: str) -> Page:
    async def scenario() -> Page:
        fetching, conversion = PageFetcher(site.policy), PageConverter(os.environ)
        try:
            page = await way.read(url, ReadingTools(fetching, conversion))
        finally:
            await fetching.close()
            await conversion.close()
        assert page is not None
        return page

    return asyncio.run(scenario())


def test_a_page_that_needs_its_programs_is_rendered_and_no_other(site: Site, browser: str) -> None:
    asked: list[str] = []

    def choice() -> BrowserChoice:
        asked.append(browser)
        return BrowserChoice(browser)

    way = AnyPageAdapter(PageRenderer(site.policy, choice, os.environ))
    site.put(
        "/plain", f"<title>Plain</title><article><h1>Clocks</h1><p>{WORDS}</p></article><script>1</script>"
    )
    assert read(site, way, site.url("/plain")).way == "extracted"
    assert not asked
    site.put("/app", SHELL)
    site.put("/app.js", APP + "; fetch('http://10.0.0.1/').catch(() => 0)", "text/javascript")
    page = read(site, way, site.url("/app"))
    assert (page.way, page.title) == ("rendered", "App")
    assert WORDS.strip() in page.markdown
    assert "10.0.0.1" in str(page.warnings)
    assert set(asked) == {browser}


def test_a_page_that_cannot_be_rendered_says_why(site: Site, tmp_path: Path) -> None:
    site.put("/app", SHELL)
    broken = script(tmp_path / "browser", "echo 'it is broken' >&2; exit 3")
    way = AnyPageAdapter(PageRenderer(site.policy, lambda: BrowserChoice(broken), os.environ))
    with pytest.raises(ReadError) as raised:
        read(site, way, site.url("/app"))
    assert raised.value.cause == "javascript"
    assert "it is broken" in str(raised.value)


def test_the_browser_is_the_one_that_is_named_or_one_that_is_there(tmp_path: Path) -> None:
    mine = script(tmp_path / "google-chrome", "exit 1")
    path = {"PATH": str(tmp_path)}
    assert found(mine, {}) == mine
    assert found("", path) == mine
    assert found("google-chrome", path) == mine
    assert found(str(tmp_path / "none"), path) is None


def test_where_none_is_wanted_or_there_nothing_is_rendered(site: Site) -> None:
    assert asyncio.run(rendering(site, None).render(site.url("/"))) is None
    with pytest.raises(ReadError) as raised:
        asyncio.run(rendering(site, "/nowhere/chromium").render(site.url("/")))
    assert raised.value.cause == "way"
    assert "reader_browser" in str(raised.value)


def test_a_browser_without_a_sandbox_is_not_used(
    site: Site, show: Show, browser: str, tmp_path: Path
) -> None:
    site.put("/", "<p>Here</p>")
    bare = script(
        tmp_path / "bare",
        'case "$*" in *--no-sandbox*) exec ' + browser + ' "$@";; esac\n'
        "echo 'FATAL: No usable sandbox! If this is a Debian system' >&2; exit 1",
    )
    with pytest.raises(ReadError) as raised:
        show(site.url("/"), program=bare)
    assert raised.value.cause == "way"
    assert "no sandbox on this system" in str(raised.value)
    assert not site.asked
    assert "Here" in show(site.url("/"), program=bare, sandbox=False).body.decode()


def test_a_proxy_of_the_settings_is_not_gone_around(site: Site, show: Show) -> None:
    with pytest.raises(ReadError) as raised:
        show(site.url("/"), policy={"proxy": "http://127.0.0.1:9"})
    assert (raised.value.cause, site.asked) == ("way", [])


def test_it_costs_nothing_before_the_first_page() -> None:
    program = "import sys; import tabane.reader.rendering; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert not {"httpcore2", "tabane.reader.rendering.page_visit"} & set(loaded.stdout.split())
