"""Every page in a real browser: both languages, both themes, three widths, without and with content.

Each is checked by axe, for sideways scrolling, for text that is cut and boxes that overlap, and, as in all
tests here, for errors in the console and requests to elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.reader.site import running
from tests.web.browser import filled
from tests.web.browser.axe import Axe
from tests.web.browser.hub import WIDTHS, Language, Theme, WebBrowsers, WebHome, show
from tests.web.browser.looks import checked_state, look

PATHS = filled.PATHS

LOOKS: tuple[tuple[Language, Theme], ...] = (("en", "light"), ("ja", "dark"), ("en", "dark"), ("ja", "light"))
A_LANDING_LOOKS_AT = ("ja", "dark")


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, WebHome]]:
    """One home with something everywhere, and one with nothing."""
    full = WebHome(tmp_path_factory.mktemp("full"))
    empty = WebHome(tmp_path_factory.mktemp("empty"))
    filled.prepare(full)
    with running() as site:
        filled.allow(full, site)
        full.start()
        empty.start()
        filled.fill(full, site)
        yield {"full": full, "empty": empty}
        full.run("stop")
        empty.run("stop")


@pytest.fixture(scope="module")
def all_browsers(browser: Browser, homes: dict[str, WebHome]) -> dict[str, WebBrowsers]:
    return {name: WebBrowsers(browser, home) for name, home in homes.items()}


@pytest.fixture(params=["full", "empty"])
def visited(request: pytest.FixtureRequest, all_browsers: dict[str, WebBrowsers]) -> Iterator[WebBrowsers]:
    """Browsers of either home."""
    found = all_browsers[request.param]
    yield found
    assert found.close() == []


def checked(page: Page, path: str, accessibility: Axe | None) -> list[str]:
    """Show a page, and return what is wrong with it. Without ``accessibility``, axe does not look."""
    show(page, path)
    wrong = look(page)
    if accessibility is not None:
        wrong += accessibility.serious(page)
    width = page.viewport_size["width"] if page.viewport_size else 0
    return [f"{path} at {width}: {one}" for one in wrong]


@pytest.mark.parametrize(
    ("lang", "theme"),
    [pytest.param(*look, marks=pytest.mark.core if look == A_LANDING_LOOKS_AT else ()) for look in LOOKS],
)
@pytest.mark.parametrize("visited", ["full"], indirect=True)
def test_every_page_is_accessible_and_fits(
    visited: WebBrowsers, accessibility: Axe, lang: Language, theme: Theme
) -> None:
    problems = []
    for width in WIDTHS:
        page = visited.page(lang=lang, theme=theme, width=width, height=844)
        # What axe looks at depends on the width little, and on colors and texts much.
        looks = accessibility if width == 1024 or (lang, theme) == LOOKS[0] else None
        for path in PATHS:
            problems += checked(page, path, looks)
        assert page.locator("html").get_attribute("lang") == lang
        page.context.close()
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("visited", ["empty"], indirect=True)
def test_every_empty_page_is_accessible_and_fits(visited: WebBrowsers, accessibility: Axe) -> None:
    problems = []
    for width in (390, 1024):
        page = visited.page(lang="ja", theme="dark", width=width, height=844)
        for path in PATHS:
            problems += checked(page, path, accessibility)
        page.context.close()
    assert problems == [], "\n".join(problems)


@pytest.mark.core
def test_every_page_has_its_own_title_and_one_heading(visited: WebBrowsers) -> None:
    page = visited.page()
    titles = {}
    for path in PATHS:
        show(page, path)
        assert page.locator("h1").count() == 1, path
        titles[path] = page.title()
    assert len(set(titles.values())) == len(PATHS)


@pytest.mark.core
def test_a_page_that_does_not_exist_says_so(visited: WebBrowsers, accessibility: Axe) -> None:
    visited.permit("status of 404")
    page = visited.page()
    show(page, "/servers/nobody/nowhere")
    assert page.locator("main [role=alert], main .notice").count() == 1
    assert page.get_by_role("navigation").count() >= 1
    for path in ("/servers/nobody/nowhere", "/nothing/here"):
        show(page, path)
        checked_state(page, accessibility, WIDTHS)
