"""A real browser, if one is installed."""

from __future__ import annotations

import shutil

import pytest

from tests.conftest import absent

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser() -> str:
    """Return the command that starts it."""
    found = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if found is None:
        absent("chromium")
    assert found is not None
    return found
