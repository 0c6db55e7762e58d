"""A browser for all tests of a process, and hubs with the page.

The browser is the system's: Playwright drives it and installs none.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.conftest import absent
from tests.web.browser import axe
from tests.web.browser.hub import PATIENCE, WebBrowsers, WebHome

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str:
    """Return the path of the browser; skip the test if there is none."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        absent("chromium")
    assert found is not None
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The browser: one process for all tests of a file.

    Its event loop runs in this thread meanwhile, so tests of other files could not start theirs.
    """
    path = chromium()
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        # --disable-dev-shm-usage: a container gives /dev/shm 64 MB, which large pages exceed.
        started = playwright.chromium.launch(executable_path=path, args=["--disable-dev-shm-usage"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def accessibility() -> axe.Axe:
    return axe.axe()


@pytest.fixture
def web_home(tmp_path: Path) -> Iterator[WebHome]:
    """A running hub in an empty home."""
    home = WebHome(tmp_path)
    home.start()
    yield home
    home.run("stop")


@pytest.fixture
def web(browser: Browser, web_home: WebHome) -> Iterator[WebBrowsers]:
    """Browsers for that hub. The test fails if something went wrong in one of them."""
    browsers = WebBrowsers(browser, web_home)
    yield browsers
    assert browsers.close() == []


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebHome]:
    """A running hub for all tests of a module, which must not depend on each other."""
    home = WebHome(tmp_path_factory.mktemp("home"))
    home.start()
    yield home
    home.run("stop")


@pytest.fixture
def shared_web(browser: Browser, shared_browsers: Callable[[], WebBrowsers]) -> Iterator[WebBrowsers]:
    """Browsers for the hub of the module."""
    browsers = shared_browsers()
    yield browsers
    assert browsers.close() == []


@pytest.fixture(scope="module")
def shared_browsers(browser: Browser, shared_home: WebHome) -> Callable[[], WebBrowsers]:
    kept = WebBrowsers(browser, shared_home)
    return lambda: kept
